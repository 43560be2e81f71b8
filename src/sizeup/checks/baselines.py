"""Baselines: the last accepted amounts, in one file with one line per model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sizeup.checks.evaluate import GROWING
from sizeup.errors import BudgetError
from sizeup.files import exists, is_file, read_problem, read_settings
from sizeup.settings import parse_json

DEFAULT = "baselines.json"
"""Name of the baselines file next to budgets.toml if a budget sets no other."""
FORMAT = "sizeup baselines"
VERSION = 1
_LEAST, _MOST = 1e-30, 1e30  # valid amounts, in any unit


class Key(NamedTuple):
    """Identifies a line of the file: model, target, precision and sizes. Lines are sorted by key."""

    model: str  # path relative to the folder of the budget file, with slashes
    target: str = ""
    precision: str = ""
    bind: tuple[tuple[str, int], ...] = ()


class Line(NamedTuple):
    """The amounts of a line; `digest` is that of model and settings if an amount has no definite value."""

    amounts: Mapping[str, float]
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Baselines:
    """A baselines file; empty if it does not exist yet."""

    path: Path
    lines: Mapping[Key, Line] = field(default_factory=dict)


class KeyChange(NamedTuple):
    """The amounts of a line before and after an update."""

    key: Key
    before: Mapping[str, float]
    after: Mapping[str, float]


class Update(NamedTuple):
    """A baselines file that was written, and the changes to its lines."""

    path: Path
    added: int
    removed: int
    changes: tuple[KeyChange, ...]


def read_baselines(path: Path, command: str, *, is_replaced: bool = False) -> Baselines:
    """Read a baselines file; raises BudgetError with the command that writes a new one.

    If the file is replaced afterwards (`is_replaced`), a report of sizeup analyze counts as empty.
    """
    try:
        if exists(path) and not is_file(path):  # a pipe would never end
            raise BudgetError(f"{path}: not a regular file; delete it, then: {command}")
        content = parse_json(read_settings(path))
    except FileNotFoundError:
        return Baselines(path)
    except OSError as error:
        raise BudgetError(f"{path}: {read_problem(error)}") from error
    except ValueError as error:
        raise BudgetError(f"{path}: not a JSON file: {error}; delete it, then: {command}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        if isinstance(content, dict) and {"schema_version", "totals"} <= content.keys():
            if is_replaced:
                return Baselines(path)
            raise BudgetError(
                f"{path}: a report of sizeup analyze, not a baselines file; to replace it: {command}"
            )
        raise BudgetError(f"{path}: not a baselines file; delete it, then: {command}")
    if content.get("version") != VERSION:
        raise BudgetError(f"{path}: unknown version {content.get('version')!r}; update sizeup")
    return Baselines(path, dict(_lines(content.get("models"), path)))


def updated(
    before: Baselines, measured: Mapping[Key, Line], exists: Callable[[str], bool]
) -> tuple[Baselines, Update]:
    """Baselines with new amounts; lines of other models are kept if their file exists."""
    models = {key.model for key in measured}
    others = {
        key: line for key, line in before.lines.items() if key.model not in models and exists(key.model)
    }
    after = {**others, **measured}
    added = len(after.keys() - before.lines.keys())
    removed = len(before.lines.keys() - after.keys())
    changes = tuple(
        KeyChange(key, before.lines[key].amounts, after[key].amounts)
        for key in sorted(measured)
        if key in before.lines and before.lines[key] != after[key]
    )
    return Baselines(before.path, after), Update(before.path, added, removed, changes)


def file_text(baselines: Baselines) -> str:
    """The text of the file: sorted, one line per model and target, for readable diffs."""
    lines = ",\n".join(json.dumps(_line(*item)) for item in sorted(baselines.lines.items()))
    return f'{{"format": {json.dumps(FORMAT)}, "version": {VERSION}, "models": [\n{lines}\n]}}\n'


def check_text(baselines: Baselines, path: Path) -> None:
    """Raises BudgetError if a new file does not have these amounts."""
    if read_baselines(path, "").lines != baselines.lines:
        raise BudgetError(f"{path}: its amounts are not those that were measured")


def _line(key: Key, line: Line) -> dict[str, Any]:
    settings = {"target": key.target, "precision": key.precision, "bind": dict(key.bind)}
    known = {name: line.amounts[name] for name in GROWING if name in line.amounts}
    settings = {name: value for name, value in settings.items() if value}
    return {"model": key.model, **settings, **known, **({"digest": line.digest} if line.digest else {})}


def _lines(entries: Any, path: Path) -> Iterator[tuple[Key, Line]]:
    if not isinstance(entries, list):
        raise BudgetError(f"{path}: 'models' is not a list")
    seen: set[Key] = set()
    for number, entry in enumerate(entries, 1):
        location = f"{path}: entry {number} of models"
        key, line = _entry(entry, location)
        if key in seen:
            raise BudgetError(f"{location} repeats {key.model!r}; remove one of the two lines")
        seen.add(key)
        yield key, line


def _entry(entry: Any, location: str) -> tuple[Key, Line]:
    if not isinstance(entry, dict) or not isinstance(entry.get("model"), str):
        raise BudgetError(f"{location} has no 'model'")
    bind = entry.get("bind", {})
    target, precision = entry.get("target", ""), entry.get("precision", "")
    are_texts = isinstance(target, str) and isinstance(precision, str)
    if not are_texts or not isinstance(bind, dict) or any(type(size) is not int for size in bind.values()):
        raise BudgetError(f"{location}: target and precision must be strings, bind a table of sizes")
    amounts = {name: value for name, value in entry.items() if name in GROWING}
    for name, value in amounts.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # Python's JSON parser accepts infinities, and integers beyond the range of floats.
        if not is_number or not (value == 0 or _LEAST <= value <= _MOST):
            raise BudgetError(f"{location}: {name} is {str(value)[:40]}, not a valid amount")
    digest = entry.get("digest", "")
    if not isinstance(digest, str):
        raise BudgetError(f"{location}: digest must be a string")
    return Key(entry["model"], target, precision, tuple(sorted(bind.items()))), Line(amounts, digest)
