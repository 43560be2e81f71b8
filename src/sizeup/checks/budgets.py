"""Budget files (budgets.toml): limits per model pattern.

`models` may name package.module:factory, which is imported when the model is checked, so trust a
budget file like code.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sizeup.checks.baselines import DEFAULT
from sizeup.checks.budget_values import (
    bindings_at,
    flag_at,
    new_policy_at,
    refuse_unknown_keys,
    table_at,
    text_at,
)
from sizeup.checks.evaluate import GROWING, NewPolicy
from sizeup.checks.limits import LAYER_MEASURES, parse_amount, parse_share
from sizeup.checks.measures import MEASURES
from sizeup.errors import BudgetError
from sizeup.files import is_file, read_problem, read_settings
from sizeup.formats.names import is_code, looks_like_code
from sizeup.mixed_precision.precision_map import is_precision_map
from sizeup.patterns import LONGEST, Finder, Matcher, is_wild
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
    "new",
    "layers",
)
_DEVICE_FILE = re.compile(r".*?\.toml(?=$|[:/])")
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
    new: NewPolicy = "ask"

    @property
    def device_file(self) -> tuple[str, str]:
        """The device file in the target, or '', and the rest of the target."""
        match = _DEVICE_FILE.match(self.target or "")
        return (match[0], (self.target or "")[match.end() :]) if match else ("", self.target or "")

    @property
    def files(self) -> tuple[str, ...]:
        """The settings files that the budget names."""
        is_map = self.precision is not None and is_precision_map(self.precision)
        names = (self.baseline, self.precision if is_map else "", self.device_file[0])
        return tuple(name for name in names if name)


@dataclass(frozen=True)
class Budgets:
    """A budget file; `name` is that of messages, and `settings_folder` has the files that it names."""

    path: Path  # in the work tree, whose models are checked
    budgets: tuple[Budget, ...]
    name: str = ""
    settings_folder: Path | None = None  # None: the folder of the file

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", str(self.path))

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
        return replace(self, budgets=tuple(budgets))

    def settings(self) -> list[str]:
        """The names of the files that budgets name: baselines, precision maps and device files."""
        names = (name for budget in self.budgets for name in budget.files)
        return list(dict.fromkeys(names))

    def setting(self, name: str) -> Path:
        """The path of a file that a budget names; raises BudgetError if links lead out of the folder."""
        folder = self.settings_folder or self.folder
        path = folder / name
        if _is_outside(name) or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            raise BudgetError(f"{self.name}: {name!r} leads outside the folder of the budget file")
        return path

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
            raise BudgetError(f"{self.name}: no budget matches {model}; patterns: {_listed(self._patterns)}")
        return [self.budgets[number] for number in numbers]

    def has_budget(self, model: str) -> bool:
        """Whether a pattern matches a model."""
        return bool(self._budget_matches(model))

    def key_of(self, model: str) -> str:
        """The path of a model relative to the folder, with slashes; names such as timm:NAME are unchanged."""
        if is_code(model):
            return model
        return _lexical(model, self.folder)

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
        names = _names(model, self.folder)
        plain = [name for name in dict.fromkeys((model, *names)) if name in self._numbers]
        wild = [pattern for pattern in self._wild if pattern not in plain and self._matches(pattern, names)]
        return [(pattern, number) for pattern in (*plain, *wild) for number in self._numbers[pattern]]

    def links(self) -> list[Path]:
        """All symbolic links that match a pattern, including broken ones."""
        links: dict[Path, None] = {}
        for pattern in filter(_is_path, self._patterns):
            paths = (*sorted(self._glob(pattern)), self.folder / pattern)
            links.update((path, None) for path in paths if path.is_symlink())
        return list(links)

    def names_path(self, path: Path) -> bool:
        """Whether a pattern matches the path of a file, which need not exist."""
        name = _lexical(str(path), self.folder)
        return name in self._numbers or any(self._is_match(name, pattern) for pattern in self._wild)

    def _matches(self, pattern: str, names: tuple[str, str]) -> bool:
        path, name = names
        matches_path = path != "" and self._is_match(path, pattern)
        return matches_path or ("/" not in pattern and self._is_match(name, pattern))

    def _is_match(self, name: str, pattern: str) -> bool:
        try:
            return self._matcher.matches(name, pattern)
        except ValueError as error:
            raise BudgetError(f"{self.name}: patterns: {error}") from None

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher()

    def _matching_models(self, pattern: str) -> list[str]:
        if not _is_path(pattern):
            return [pattern]
        return [str(path) for path in sorted(self._glob(pattern)) if is_file(path)]

    def _glob(self, pattern: str) -> list[Path]:
        try:
            return [self.folder / path for path in self._finder.paths(pattern)]
        except (ValueError, OSError) as error:
            raise BudgetError(f"{self.name}: {pattern!r} is not a valid file pattern: {error}") from None

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.folder)

    def _no_match(self, pattern: str, has_hint: bool) -> BudgetError:
        similar = difflib.get_close_matches(pattern, self._files, _MOST_NEAR, 0.4) if has_hint else []
        hint = f"; nearest: {', '.join(similar)}" if similar else ""
        return BudgetError(f"{self.name}: no file matches {pattern!r} in {self.folder}{hint}")

    @cached_property
    def _files(self) -> list[str]:
        files = []
        for number, path in enumerate(self.folder.rglob("*")):
            if number >= _MOST_FILES:
                break
            if path.suffix.lower() in (".tflite", ".onnx", ".pt2"):
                files.append(path.relative_to(self.folder).as_posix())
        return files


def _names(model: str, home: Path) -> tuple[str, str]:
    """The path of a model relative to a folder ('' if it is elsewhere), and its file name."""
    try:
        name = _lexical(model, home)
    except (ValueError, OSError):
        name = ".."
    return "" if name.split("/")[0] == ".." else name, Path(model).name


def _lexical(model: str, folder: Path) -> str:
    """The path of a model relative to a folder, with slashes.

    Links on the way do not change it, since a change could add one; they are resolved for a path elsewhere.
    """
    name = os.path.relpath(model, folder)
    if Path(name).parts[:1] == (os.pardir,):
        path = Path(model)
        name = os.path.relpath(path.parent.resolve() / path.name, folder.resolve())
    return Path(name).as_posix()


def _is_path(pattern: str) -> bool:
    """Whether a pattern is one of files, not a name such as torchvision:NAME or package.module:factory."""
    return not looks_like_code(pattern) or is_wild(pattern)


def read_budgets(path: Path, label: str = "") -> Budgets:
    """Read a budget file; raises BudgetError if it is invalid, with a suggestion for misspelled keys.

    `label` is its name in messages, if not the path.
    """
    label = label or str(path)
    try:
        text = read_settings(path)
    except OSError as error:
        raise BudgetError(f"{label}: {read_problem(error)}") from error
    except ValueError as error:
        raise BudgetError(f"{label}: not a TOML file: {error}") from error
    return parse_budgets(text, path, label)


def parse_budgets(text: str, path: Path, label: str = "") -> Budgets:
    """The budgets in the text of a file; raises as `read_budgets`."""
    label = label or str(path)
    try:
        content = parse_toml(text)
    except ValueError as error:
        raise BudgetError(f"{label}: not a TOML file: {error}") from error
    refuse_unknown_keys(content, ("budget",), label)
    tables = content.get("budget")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise BudgetError(f'{label}: no budgets; add [[budget]] with models = "*.tflite" and limits')
    budgets = tuple(_budget(table, number, label) for number, table in enumerate(tables))
    patterns = [pattern for budget in budgets for pattern in (*budget.models, *budget.layers)]
    if sum(map(is_wild, patterns)) > _MOST_WILD:
        raise BudgetError(f"{label}: more than {_MOST_WILD:,} patterns with wildcards")
    return Budgets(path, budgets, label)


def _budget(table: dict[str, Any], number: int, file: str) -> Budget:
    models = _models(table.get("models"), f"{file}: budget {number + 1}")
    title = table.get("name") or models[0]
    name = title if isinstance(title, str) else quoted(title)
    location = f"{file}: budget {name!r}"
    refuse_unknown_keys(table, (*_SETTINGS, *MEASURES), location)
    limits = {
        key: parse_amount(table[key], MEASURES[key].unit, f"{location}: {key}")
        for key in MEASURES
        if key in table
    }
    growth = {
        key: parse_share(value, f"{location}: growth of {key}")
        for key, value in table_at(table, "growth", location, GROWING).items()
    }
    layers = {
        pattern: {
            key: parse_amount(value, LAYER_MEASURES[key], f"{location}: layers {pattern!r}: {key}")
            for key, value in table_at(limit, None, f"{location}: layers {pattern!r}", LAYER_MEASURES).items()
        }
        for pattern, limit in table_at(table, "layers", location, None).items()
    }
    budget = Budget(
        name,
        models,
        limits,
        growth,
        layers,
        text_at(table, "baseline", location) or (DEFAULT if growth else ""),
        text_at(table, "target", location),
        text_at(table, "precision", location),
        bindings_at(table, location),
        flag_at(table, "expected", location),
        flag_at(table, "strict", location),
        new_policy_at(table, location),
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
    return "\0" in path or Path(path).is_absolute() or ".." in Path(path).parts


def _listed(names: Sequence[str]) -> str:
    first = ", ".join(repr(name) for name in names[:_MOST_NEAR])
    return first + (f" and {len(names) - _MOST_NEAR:,} more" if len(names) > _MOST_NEAR else "")
