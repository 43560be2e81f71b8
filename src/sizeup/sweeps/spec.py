"""What a sweep is asked to do, as a TOML file says it.

Its `models` and `generate` may name Python code, which is imported: treat a spec from elsewhere like code.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup import dtypes
from sizeup.errors import SizeupError, TargetError
from sizeup.sweeps.points import Point, PointSet, questions, shapes_text
from sizeup.sweeps.schema import STORED
from sizeup.sweeps.worker import Limits
from sizeup.targets import current, devices, quantities
from sizeup.targets.table import Table
from sizeup.units import quoted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_GRID = ("targets", "precisions", "batch", "shapes", "bind")
_KEYS = ("models", "generate", "exclude", *_GRID, "points", "limits")
_POINT_KEYS = ("target", "precision", "batch", "shapes", "bind")
_LIMIT_KEYS = ("seconds", "memory", "tries")
_MOST = 2**31
WILD = "*?["


@dataclass(frozen=True)
class Spec:
    """Models as they are named, the questions about each, and limits; names are relative to `folder`."""

    models: tuple[str, ...]
    generate: tuple[str, ...]
    exclude: tuple[str, ...]
    asked: PointSet
    limits: Limits
    folder: Path


def read_spec(source: str | os.PathLike[str] | Mapping[str, Any]) -> Spec:
    """The sweep that a file describes, or plain data of the same form; SizeupError says what is wrong."""
    if isinstance(source, Mapping):
        content, file, folder = dict(source), "the sweep", Path.cwd()
    else:
        path = Path(source)
        content, file, folder = _parsed(path), str(path), path.absolute().parent
    try:
        return _spec(Table(content, file, "top level", {}), folder)
    except TargetError as error:  # what reads tables was made for targets
        raise SizeupError(str(error) if file in str(error) else f"{file}: {error}") from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SizeupError(f"{path}: cannot be read: {error.strerror}; give a TOML file") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested too deeply
        raise SizeupError(f"{path}: not a TOML file: {error}") from None


def _spec(table: Table, folder: Path) -> Spec:
    table.only(_KEYS)
    models, generate = _texts(table, "models"), _texts(table, "generate")
    if not models and not generate:
        raise table.fail('no models; name them as models = ["folder/*.onnx", "timm:resnet50"]')
    points = [*_grid(table), *(_point(each) for each in table.tables("points"))]
    if not points:
        raise table.fail('no targets; name them as targets = ["rpi5/ort", "stm32f746"]')
    return Spec(models, generate, table.texts("exclude"), questions(points), _limits(table), folder)


def _texts(table: Table, name: str) -> tuple[str, ...]:
    """A list of texts, or one alone."""
    return (table.text(name),) if isinstance(table.values.get(name), str) else table.texts(name)


def _grid(table: Table) -> Iterator[Point]:
    """Every target at every precision, batch and shapes."""
    names = [name for text in _texts(table, "targets") for name in _targets(table, text)]
    stray = [each for each in _GRID[1:] if each in table.values]
    if not names and stray:
        raise table.fail(f'{stray[0]} without targets; name them as targets = ["rpi5/ort"]')
    precisions = [_precision(table, text) for text in _texts(table, "precisions")] or [STORED]
    bind = _bind(table)
    for shapes in _all_shapes(table):
        for batch in _batches(table):
            for precision in precisions:
                for target in names:
                    yield Point(target, precision, batch, shapes, bind)


def _point(table: Table) -> Point:
    table.only(_POINT_KEYS)
    return Point(
        current().target(table.text("target")).name,
        _precision(table, table.text("precision", STORED)),
        table.whole("batch", 1, _MOST),
        _shapes(table.table("shapes")),
        _bind(table),
    )


def _targets(table: Table, text: str) -> list[str]:
    """The target of that name; a pattern such as stm32* stands for devices, each with its usual runtime."""
    if not any(sign in text for sign in WILD):
        return [current().target(text).name]
    pattern, _, runtime = text.partition("/")
    found = [each for each in devices() if fnmatch.fnmatchcase(each.name, pattern.casefold())]
    if runtime:
        found = [each for each in found if runtime in each.runtimes]
    if not found:
        raise table.fail(f"targets: no device matches {text!r}; sizeup devices lists all")
    return [current().target(f"{each.name}/{runtime}" if runtime else each.name).name for each in found]


def _precision(table: Table, text: str) -> str:
    if text == STORED:
        return text
    try:
        return dtypes.precision_name(dtypes.precision(text))
    except SizeupError as error:
        raise table.fail(f"{error}, and {STORED} for the model's own") from None


def _batches(table: Table) -> list[int | None]:
    found = table.values.get("batch", [None])
    found = found if isinstance(found, list) else [found]
    if "batch" in table.values and not (found and all(_is_size(each) for each in found)):
        raise table.fail(f"batch is {quoted(table.values['batch'])}, not a list of whole numbers from 1 on")
    return found


def _all_shapes(table: Table) -> list[str]:
    if "shapes" not in table.values:
        return [""]
    if isinstance(table.values["shapes"], dict):
        return [_shapes(table.table("shapes"))]
    found = [_shapes(each) for each in table.tables("shapes")]
    if not found:
        raise table.fail("shapes is an empty list; {} stands for the model's own shapes")
    return found


def _shapes(table: Table | None) -> str:
    """Sizes of dimensions by name, or whole shapes of inputs by name."""
    if table is None:
        return ""
    for name, value in table.values.items():
        sizes = value.split("x") if isinstance(value, str) else value
        listed = sizes if isinstance(sizes, list) else [sizes]
        numbers = [int(each) if isinstance(each, str) and each.isdecimal() else each for each in listed]
        if not numbers or not all(_is_size(each) for each in numbers):
            raise table.fail(
                f"{name} is {quoted(value)}, neither a size such as 128 nor a shape such as 1x3x224x224"
            )
    return shapes_text(table.values)


def _bind(table: Table) -> str:
    """Sizes of symbolic dimensions by name."""
    inner = table.table("bind")
    if inner is None:
        return ""
    for name, value in inner.values.items():
        if not name or not _is_size(value):
            raise inner.fail(f"{name!r} is {value!r}, not a size such as 128")
    if "batch" in inner.values and "batch" in table.values:
        raise table.fail("batch is given twice, in batch and in bind; remove one of them")
    return shapes_text(inner.values)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < _MOST


def _limits(table: Table) -> Limits:
    inner = table.table("limits")
    if inner is None:
        return Limits()
    inner.only(_LIMIT_KEYS)
    usual = Limits()
    memory = inner.quantity("memory", quantities.SIZE)
    return Limits(
        inner.number("seconds", 0.1, 10**6) if "seconds" in inner.values else usual.seconds,
        usual.memory_bytes if memory is None else int(memory),
        inner.whole("tries", 1, 100) or usual.tries,
    )
