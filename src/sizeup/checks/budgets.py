"""budgets.toml: what a team allows its models, read once and judged strictly.

Its `models` may name package.module:factory, which is imported when the model is checked: treat a file from
elsewhere like code.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from sizeup.checks.baselines import DEFAULT
from sizeup.checks.judging import GROWING
from sizeup.checks.limits import LAYER_MEASURES, amount_in, share_in
from sizeup.checks.measures import MEASURES
from sizeup.errors import BudgetError
from sizeup.formats.names import is_code, means_code
from sizeup.units import quoted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SETTINGS = (
    "models",
    "name",
    "target",
    "precision",
    "bind",
    "expected",
    "strict",
    "baseline",
    "growth",
    "layers",
)
_WILD = "*?["
_MOST_NEAR = 3
_MOST_SEEN = 20_000  # files that a suggestion looks among
_MOST_HINTS = 10  # patterns that get a suggestion: each is compared with all of these files


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of the models that a pattern names; paths are relative to the folder of the file."""

    name: str
    models: tuple[str, ...]
    limits: Mapping[str, float]
    growth: Mapping[str, float]
    layers: Mapping[str, Mapping[str, float]]
    baseline: str = ""
    target: str | None = None
    precision: str | None = None
    bind: Mapping[str, int] = field(default_factory=dict)
    expected: bool = False
    strict: bool = False


@dataclass(frozen=True)
class Budgets:
    """A file of budgets."""

    path: Path
    budgets: tuple[Budget, ...]

    @property
    def folder(self) -> Path:
        """Where the file is: its patterns begin there."""
        return self.path.parent

    def with_flags(self, *, expected: bool, strict: bool) -> Budgets:
        """The same file with these flags set in every budget; False leaves them as they are."""
        budgets = (
            replace(each, expected=each.expected or expected, strict=each.strict or strict)
            for each in self.budgets
        )
        return Budgets(self.path, tuple(budgets))

    def models(self) -> tuple[list[str], dict[str, BudgetError]]:
        """Every model that a pattern names, in the order of the file; an error per pattern without any."""
        models: dict[str, None] = {}
        errors: dict[str, BudgetError] = {}
        for pattern in self._patterns:
            named = self._named(pattern)
            models.update(dict.fromkeys(named))
            if not named:
                errors[pattern] = self._no_match(pattern, has_hint=len(errors) < _MOST_HINTS)
        return list(models), errors

    def unmatched(self, models: Sequence[str]) -> dict[str, BudgetError]:
        """An error per pattern that names neither a file nor one of these models."""
        matched = {pattern for model in models for pattern, _ in self._naming(model)}
        errors: dict[str, BudgetError] = {}
        for pattern in self._patterns:
            if pattern not in matched and not self._named(pattern):
                errors[pattern] = self._no_match(pattern, has_hint=len(errors) < _MOST_HINTS)
        return errors

    def of(self, model: str) -> list[Budget]:
        """The budgets of a model; raises BudgetError if there are none."""
        numbers = sorted({number for _, number in self._naming(model)})
        if not numbers:
            raise BudgetError(f"{self.path}: no budget names {model}; there are {_listed(self._patterns)}")
        return [self.budgets[number] for number in numbers]

    def names(self, model: str) -> bool:
        """Whether a pattern names a model."""
        return bool(self._naming(model))

    def key_of(self, model: str) -> str:
        """The path of a model from the folder of the file, with slashes; a name such as timm:NAME as is."""
        if is_code(model):
            return model
        return Path(os.path.relpath(_resolved(model), self._home)).as_posix()

    @cached_property
    def _home(self) -> Path:
        return self.folder.resolve()

    @cached_property
    def _patterns(self) -> list[str]:
        return list(dict.fromkeys(pattern for budget in self.budgets for pattern in budget.models))

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """The budgets of every pattern."""
        numbers: dict[str, list[int]] = {}
        for number, budget in enumerate(self.budgets):
            for pattern in budget.models:
                numbers.setdefault(pattern, []).append(number)
        return numbers

    @cached_property
    def _wild(self) -> list[str]:
        return [pattern for pattern in self._patterns if any(letter in pattern for letter in _WILD)]

    def _naming(self, model: str) -> list[tuple[str, int]]:
        """Every pattern that names a model, with its budgets; a plain name is looked up, not compared."""
        names = _names(model, self._home)
        plain = [each for each in dict.fromkeys((model, *names)) if each in self._numbers]
        wild = [each for each in self._wild if each not in plain and _matches(each, names)]
        return [(pattern, number) for pattern in (*plain, *wild) for number in self._numbers[pattern]]

    def links(self) -> list[Path]:
        """Every symbolic link that a pattern names, also one whose target is missing."""
        links: dict[Path, None] = {}
        for pattern in filter(_is_path, self._patterns):
            found = (*sorted(self._glob(pattern)), self.folder / pattern)
            links.update((each, None) for each in found if each.is_symlink())
        return list(links)

    def _named(self, pattern: str) -> list[str]:
        if not _is_path(pattern):
            return [pattern]
        return [str(each) for each in sorted(self._glob(pattern)) if each.is_file()]

    def _glob(self, pattern: str) -> list[Path]:
        try:
            return list(self.folder.glob(pattern))
        except (ValueError, NotImplementedError, OSError) as error:
            raise BudgetError(f"{self.path}: {pattern!r} is no pattern of files: {error}") from None

    def _no_match(self, pattern: str, has_hint: bool) -> BudgetError:
        near = difflib.get_close_matches(pattern, self._files, _MOST_NEAR, 0.4) if has_hint else []
        hint = f"; nearest: {', '.join(near)}" if near else ""
        return BudgetError(f"{self.path}: no file matches {pattern!r} in {self.folder}{hint}")

    @cached_property
    def _files(self) -> list[str]:
        found = []
        for number, path in enumerate(self.folder.rglob("*")):
            if number >= _MOST_SEEN:
                break
            if path.suffix.lower() in (".tflite", ".onnx", ".pt2"):
                found.append(path.relative_to(self.folder).as_posix())
        return found


def matches(pattern: str, model: str, folder: Path) -> bool:
    """Whether a pattern names a model: by its path from the folder, or without a slash by its file's name."""
    return pattern == model or _matches(pattern, _names(model, folder.resolve()))


def _names(model: str, home: Path) -> tuple[str, str]:
    """The path of a model from a folder, '' if it is elsewhere, and its file's name."""
    try:
        return _resolved(model).relative_to(home).as_posix(), Path(model).name
    except (ValueError, OSError):
        return "", Path(model).name


def _resolved(model: str) -> Path:
    """The path through which a model is named: links of folders are followed, the file itself may be one."""
    path = Path(model)
    return path.parent.resolve() / path.name


def _matches(pattern: str, names: tuple[str, str]) -> bool:
    path, name = names
    is_named_by_path = path != "" and _fits(path, pattern)
    return is_named_by_path or ("/" not in pattern and _fits(name, pattern))


def _fits(name: str, pattern: str) -> bool:
    """As a shell does: a star stops at a slash, two stars do not."""
    parts = name.split("/")
    reached = {0}  # so many parts of the name are matched by what was looked at of the pattern
    for wanted in pattern.split("/"):
        if wanted == "**":
            reached = set(range(min(reached, default=len(parts) + 1), len(parts) + 1))
        else:
            reached = {n + 1 for n in reached if n < len(parts) and fnmatchcase(parts[n], wanted)}
    return len(parts) in reached


def _is_path(pattern: str) -> bool:
    """Whether files are meant: torchvision:NAME and package.module:factory are models by name."""
    return not means_code(pattern) or any(letter in pattern for letter in _WILD)


def read_budgets(path: Path) -> Budgets:
    """Read a file of budgets; raises BudgetError for whatever is wrong with it, and says what was meant."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BudgetError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BudgetError(f"{path}: not a TOML file: {error}") from error
    _only(content, ("budget",), f"{path}")
    tables = content.get("budget")
    if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        raise BudgetError(f'{path}: budgets are tables: [[budget]] with models = "*.tflite" and limits')
    return Budgets(path, tuple(_budget(each, number, path) for number, each in enumerate(tables)))


def _budget(table: dict[str, Any], number: int, path: Path) -> Budget:
    models = _models(table.get("models"), f"{path}: budget {number + 1}")
    given = table.get("name") or models[0]
    name = given if isinstance(given, str) else quoted(given)
    where = f"{path}: budget {name!r}"
    _only(table, (*_SETTINGS, *MEASURES), where)
    limits = {
        key: amount_in(table[key], MEASURES[key].unit, f"{where}: {key}") for key in MEASURES if key in table
    }
    growth = {
        key: share_in(value, f"{where}: growth of {key}")
        for key, value in _table(table, "growth", where, GROWING).items()
    }
    layers = {
        pattern: {
            key: amount_in(value, LAYER_MEASURES[key], f"{where}: layers {pattern!r}: {key}")
            for key, value in _table(each, None, f"{where}: layers {pattern!r}", LAYER_MEASURES).items()
        }
        for pattern, each in _table(table, "layers", where, None).items()
    }
    budget = Budget(
        name,
        models,
        limits,
        growth,
        layers,
        _text(table, "baseline", where) or (DEFAULT if growth else ""),
        _text(table, "target", where),
        _text(table, "precision", where),
        _bindings(table, where),
        _flag(table, "expected", where),
        _flag(table, "strict", where),
    )
    _demand_sense(budget, where)
    return budget


def _demand_sense(budget: Budget, where: str) -> None:
    """What is said must limit something, and must have what it needs for that."""
    if not (budget.limits or budget.growth or budget.layers or budget.target):
        raise BudgetError(
            f"{where}: it limits nothing; there are {', '.join(MEASURES)}, growth, layers, target"
        )
    if budget.baseline and not budget.growth:
        raise BudgetError(f'{where}: a baseline needs growth limits: growth = {{ macs = "5%" }}')
    if "{" in budget.baseline:
        raise BudgetError(f'{where}: one file has the baselines of all models: baseline = "{DEFAULT}"')
    if _leaves(budget.baseline):
        raise BudgetError(f"{where}: the baseline {budget.baseline!r} leaves the folder of the file")
    lacking = [key for key in budget.limits if MEASURES[key].needs_target and budget.target is None]
    lacking += [
        "layers: latency" for each in budget.layers.values() if "latency" in each and not budget.target
    ]
    if lacking:
        raise BudgetError(f'{where}: {lacking[0]} needs a target, such as target = "stm32f746/tflm"')


def _models(given: Any, where: str) -> tuple[str, ...]:
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise BudgetError(f'{where}: models is missing: models = "*.tflite", or a list of such patterns')
    for each in found:
        if _leaves(each):
            raise BudgetError(f"{where}: {each!r} leaves the folder of the file; put the file further up")
        if not Path(each).parts:
            raise BudgetError(f'{where}: {each!r} is a folder; name its files: models = "*.tflite"')
    return tuple(found)


def _leaves(path: str) -> bool:
    return Path(path).is_absolute() or ".." in Path(path).parts


def _table(
    table: Mapping[str, Any], key: str | None, where: str, known: Iterable[str] | None
) -> dict[str, Any]:
    found = table if key is None else table.get(key, {})
    if not isinstance(found, dict):
        raise BudgetError(f"{where}: {key or 'it'} is {quoted(found)}, not a table such as {{ macs = ... }}")
    if known is not None:
        _only(found, tuple(known), where if key is None else f"{where}: {key}")
    return found


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    found = table.get(key)
    if found is not None and (not isinstance(found, str) or not found):
        raise BudgetError(f"{where}: {key} is {quoted(found)}, not a text")
    return found


def _flag(table: Mapping[str, Any], key: str, where: str) -> bool:
    found = table.get(key, False)
    if not isinstance(found, bool):
        raise BudgetError(f"{where}: {key} is {quoted(found)}, not true or false")
    return found


def _bindings(table: Mapping[str, Any], where: str) -> dict[str, int]:
    found = _table(table, "bind", where, None)
    for name, size in found.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise BudgetError(f"{where}: bind: {name} is {quoted(size)}, not a size such as 1")
    return found


def _only(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise BudgetError(f"{where}: there is no {key!r}{hint}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(each) for each in names[:_MOST_NEAR])
    return shown + (f" and {len(names) - _MOST_NEAR:,} more" if len(names) > _MOST_NEAR else "")
