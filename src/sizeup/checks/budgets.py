"""Budget files (budgets.toml): limits per model pattern.

`models` may name package.module:factory, which is imported when the model is checked, so trust a
budget file like code.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sizeup.checks.baselines import DEFAULT
from sizeup.checks.evaluate import GROWING
from sizeup.checks.limits import LAYER_MEASURES, parse_amount, parse_share
from sizeup.checks.measures import MEASURES
from sizeup.errors import BudgetError
from sizeup.files import read_problem, read_settings
from sizeup.formats.names import is_code, looks_like_code
from sizeup.patterns import LONGEST, Finder, is_wild
from sizeup.patterns import matches as glob_matches
from sizeup.settings import parse_toml
from sizeup.units import quoted

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
_MOST_NEAR = 3
_MOST_FILES = 20_000  # files considered for suggestions
_MOST_WILD = 1_000  # patterns: each is compared with all files, or all layers of a model
_MOST_HINTS = 10  # patterns that get a suggestion


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of the models that its patterns match; paths are relative to the folder of the file."""

    name: str
    models: tuple[str, ...]
    limits: Mapping[str, float]
    growth: Mapping[str, float]
    layers: Mapping[str, Mapping[str, float]]
    baseline: str
    target: str | None
    precision: str | None
    bind: Mapping[str, int]
    expected: bool
    strict: bool


@dataclass(frozen=True)
class Budgets:
    """A budget file."""

    path: Path
    budgets: tuple[Budget, ...]

    @property
    def folder(self) -> Path:
        """The folder of the file, which patterns are relative to."""
        return self.path.parent

    def with_flags(self, *, expected: bool, strict: bool) -> Budgets:
        """A copy with these flags set in every budget; False leaves them unchanged."""
        budgets = (
            replace(budget, expected=budget.expected or expected, strict=budget.strict or strict)
            for budget in self.budgets
        )
        return Budgets(self.path, tuple(budgets))

    def models(self) -> tuple[list[str], dict[str, BudgetError]]:
        """The models that match a pattern, in file order, and an error per pattern without match."""
        models: dict[str, None] = {}
        errors: dict[str, BudgetError] = {}
        for pattern in self._patterns:
            matches = self._matching_models(pattern)
            models.update(dict.fromkeys(matches))
            if not matches:
                errors[pattern] = self._no_match(pattern, has_hint=len(errors) < _MOST_HINTS)
        return list(models), errors

    def unmatched(self, models: Sequence[str]) -> dict[str, BudgetError]:
        """An error per pattern that matches neither a file nor one of these models."""
        matched = {pattern for model in models for pattern, _ in self._budget_matches(model)}
        errors: dict[str, BudgetError] = {}
        for pattern in self._patterns:
            if pattern not in matched and not self._matching_models(pattern):
                errors[pattern] = self._no_match(pattern, has_hint=len(errors) < _MOST_HINTS)
        return errors

    def budgets_for(self, model: str) -> list[Budget]:
        """The budgets of a model; raises BudgetError if there are none."""
        numbers = sorted({number for _, number in self._budget_matches(model)})
        if not numbers:
            raise BudgetError(f"{self.path}: no budget matches {model}; patterns: {_listed(self._patterns)}")
        return [self.budgets[number] for number in numbers]

    def has_budget(self, model: str) -> bool:
        """Whether a pattern matches a model."""
        return bool(self._budget_matches(model))

    def key_of(self, model: str) -> str:
        """The path of a model relative to the folder, with slashes; names such as timm:NAME are unchanged."""
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
        """The indices of budgets by pattern."""
        numbers: dict[str, list[int]] = {}
        for number, budget in enumerate(self.budgets):
            for pattern in budget.models:
                numbers.setdefault(pattern, []).append(number)
        return numbers

    @cached_property
    def _wild(self) -> list[str]:
        return [pattern for pattern in self._patterns if is_wild(pattern)]

    def _budget_matches(self, model: str) -> list[tuple[str, int]]:
        """The patterns that match a model, with the indices of their budgets."""
        names = _names(model, self._home)
        plain = [name for name in dict.fromkeys((model, *names)) if name in self._numbers]
        wild = [pattern for pattern in self._wild if pattern not in plain and _matches(pattern, names)]
        return [(pattern, number) for pattern in (*plain, *wild) for number in self._numbers[pattern]]

    def links(self) -> list[Path]:
        """All symbolic links that match a pattern, including broken ones."""
        links: dict[Path, None] = {}
        for pattern in filter(_is_path, self._patterns):
            paths = (*sorted(self._glob(pattern)), self.folder / pattern)
            links.update((path, None) for path in paths if path.is_symlink())
        return list(links)

    def _matching_models(self, pattern: str) -> list[str]:
        if not _is_path(pattern):
            return [pattern]
        return [str(path) for path in sorted(self._glob(pattern)) if path.is_file()]

    def _glob(self, pattern: str) -> list[Path]:
        try:
            return [self.folder / path for path in self._finder.paths(pattern)]
        except (ValueError, OSError) as error:
            raise BudgetError(f"{self.path}: {pattern!r} is not a valid file pattern: {error}") from None

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.folder)

    def _no_match(self, pattern: str, has_hint: bool) -> BudgetError:
        similar = difflib.get_close_matches(pattern, self._files, _MOST_NEAR, 0.4) if has_hint else []
        hint = f"; nearest: {', '.join(similar)}" if similar else ""
        return BudgetError(f"{self.path}: no file matches {pattern!r} in {self.folder}{hint}")

    @cached_property
    def _files(self) -> list[str]:
        files = []
        for number, path in enumerate(self.folder.rglob("*")):
            if number >= _MOST_FILES:
                break
            if path.suffix.lower() in (".tflite", ".onnx", ".pt2"):
                files.append(path.relative_to(self.folder).as_posix())
        return files


def matches(pattern: str, model: str, folder: Path) -> bool:
    """Whether a pattern matches a model: its relative path, or for a pattern without slash its file name."""
    return pattern == model or _matches(pattern, _names(model, folder.resolve()))


def _names(model: str, home: Path) -> tuple[str, str]:
    """The path of a model relative to a folder ('' if it is elsewhere), and its file name."""
    try:
        return _resolved(model).relative_to(home).as_posix(), Path(model).name
    except (ValueError, OSError):
        return "", Path(model).name


def _resolved(model: str) -> Path:
    """The absolute path of a model: links of folders are resolved, a link of the file itself is not."""
    path = Path(model)
    return path.parent.resolve() / path.name


def _matches(pattern: str, names: tuple[str, str]) -> bool:
    path, name = names
    matches_path = path != "" and glob_matches(path, pattern)
    return matches_path or ("/" not in pattern and glob_matches(name, pattern))


def _is_path(pattern: str) -> bool:
    """Whether a pattern is one of files, not a name such as torchvision:NAME or package.module:factory."""
    return not looks_like_code(pattern) or is_wild(pattern)


def read_budgets(path: Path) -> Budgets:
    """Read a budget file; raises BudgetError if it is invalid, with a suggestion for misspelled keys."""
    try:
        text = read_settings(path)
    except OSError as error:
        raise BudgetError(f"{path}: {read_problem(error)}") from error
    except ValueError as error:
        raise BudgetError(f"{path}: not a TOML file: {error}") from error
    return parse_budgets(text, path)


def parse_budgets(text: str, path: Path) -> Budgets:
    """The budgets in the text of a file; raises as `read_budgets`."""
    try:
        content = parse_toml(text)
    except ValueError as error:
        raise BudgetError(f"{path}: not a TOML file: {error}") from error
    _refuse_unknown_keys(content, ("budget",), f"{path}")
    tables = content.get("budget")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise BudgetError(f'{path}: no budgets; add [[budget]] with models = "*.tflite" and limits')
    budgets = tuple(_budget(table, number, path) for number, table in enumerate(tables))
    patterns = [pattern for budget in budgets for pattern in (*budget.models, *budget.layers)]
    if sum(map(is_wild, patterns)) > _MOST_WILD:
        raise BudgetError(f"{path}: more than {_MOST_WILD:,} patterns with wildcards")
    return Budgets(path, budgets)


def _budget(table: dict[str, Any], number: int, path: Path) -> Budget:
    models = _models(table.get("models"), f"{path}: budget {number + 1}")
    title = table.get("name") or models[0]
    name = title if isinstance(title, str) else quoted(title)
    location = f"{path}: budget {name!r}"
    _refuse_unknown_keys(table, (*_SETTINGS, *MEASURES), location)
    limits = {
        key: parse_amount(table[key], MEASURES[key].unit, f"{location}: {key}")
        for key in MEASURES
        if key in table
    }
    growth = {
        key: parse_share(value, f"{location}: growth of {key}")
        for key, value in _table(table, "growth", location, GROWING).items()
    }
    layers = {
        pattern: {
            key: parse_amount(value, LAYER_MEASURES[key], f"{location}: layers {pattern!r}: {key}")
            for key, value in _table(limit, None, f"{location}: layers {pattern!r}", LAYER_MEASURES).items()
        }
        for pattern, limit in _table(table, "layers", location, None).items()
    }
    budget = Budget(
        name,
        models,
        limits,
        growth,
        layers,
        _text(table, "baseline", location) or (DEFAULT if growth else ""),
        _text(table, "target", location),
        _text(table, "precision", location),
        _bindings(table, location),
        _flag(table, "expected", location),
        _flag(table, "strict", location),
    )
    _validate(budget, location)
    return budget


def _validate(budget: Budget, location: str) -> None:
    """Raises BudgetError if a budget limits nothing or lacks a setting that its limits need."""
    if not (budget.limits or budget.growth or budget.layers or budget.target):
        raise BudgetError(f"{location}: no limit; set one of {', '.join(MEASURES)}, growth, layers, target")
    if budget.baseline and not budget.growth:
        raise BudgetError(f'{location}: a baseline needs growth limits: growth = {{ macs = "5%" }}')
    if "{" in budget.baseline:
        raise BudgetError(
            f'{location}: baseline is one file for all models, without placeholders: baseline = "{DEFAULT}"'
        )
    if _is_outside(budget.baseline):
        raise BudgetError(
            f"{location}: the baseline {budget.baseline!r} is outside the folder of the budget file"
        )
    without_target = [key for key in budget.limits if MEASURES[key].needs_target and budget.target is None]
    without_target += [
        "layers: latency" for limits in budget.layers.values() if "latency" in limits and not budget.target
    ]
    if without_target:
        raise BudgetError(
            f'{location}: {without_target[0]} needs a target, such as target = "stm32f746/tflm"'
        )


def _models(value: Any, location: str) -> tuple[str, ...]:
    patterns = [value] if isinstance(value, str) else value
    is_list = isinstance(patterns, list) and bool(patterns)
    if not is_list or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise BudgetError(f'{location}: models is missing: models = "*.tflite", or a list of such patterns')
    for pattern in patterns:
        if len(pattern) > LONGEST:
            raise BudgetError(f"{location}: a pattern of more than {LONGEST:,} characters")
        if _is_outside(pattern):
            raise BudgetError(
                f"{location}: {pattern!r} is outside the folder of the budget file; move that file further up"
            )
        if not Path(pattern).parts:
            raise BudgetError(f'{location}: {pattern!r} is a folder; name its files: models = "*.tflite"')
    return tuple(patterns)


def _is_outside(path: str) -> bool:
    return Path(path).is_absolute() or ".." in Path(path).parts


def _table(
    table: Mapping[str, Any], key: str | None, location: str, known: Iterable[str] | None
) -> dict[str, Any]:
    value = table if key is None else table.get(key, {})
    if not isinstance(value, dict):
        raise BudgetError(
            f"{location}: {key or 'it'} is {quoted(value)}, not a table such as {{ macs = ... }}"
        )
    if known is not None:
        _refuse_unknown_keys(value, tuple(known), location if key is None else f"{location}: {key}")
    return value


def _text(table: Mapping[str, Any], key: str, location: str) -> str | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise BudgetError(f"{location}: {key} is {quoted(value)}, not a text")
    return value


def _flag(table: Mapping[str, Any], key: str, location: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise BudgetError(f"{location}: {key} is {quoted(value)}, not true or false")
    return value


def _bindings(table: Mapping[str, Any], location: str) -> dict[str, int]:
    sizes = _table(table, "bind", location, None)
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise BudgetError(f"{location}: bind: {name} is {quoted(size)}, not a size such as 1")
    return sizes


def _refuse_unknown_keys(table: Mapping[str, Any], known: Sequence[str], location: str) -> None:
    for key in table:
        if key not in known:
            similar = difflib.get_close_matches(key, known, 1, 0.5)
            hint = f"; did you mean {similar[0]!r}?" if similar else f"; known: {', '.join(known)}"
            raise BudgetError(f"{location}: unknown key {key!r}{hint}")


def _listed(names: Sequence[str]) -> str:
    first = ", ".join(repr(name) for name in names[:_MOST_NEAR])
    return first + (f" and {len(names) - _MOST_NEAR:,} more" if len(names) > _MOST_NEAR else "")
