"""Reads the spec of a sweep, a TOML file.

`models` and `generate` may name Python code, which is imported: treat a spec from others like code.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup import dtypes
from sizeup.errors import SizeupError, TargetError
from sizeup.files import read_problem, read_settings
from sizeup.formats.names import is_language_model
from sizeup.patterns import is_wild
from sizeup.settings import parse_toml
from sizeup.sweeps.models import language_models
from sizeup.sweeps.points import Point, PointSet, point_set_of, shapes_text
from sizeup.sweeps.schema import STORED
from sizeup.sweeps.worker import Limits
from sizeup.targets import boards, current_catalog, devices, quantities
from sizeup.targets.cluster_names import is_cluster
from sizeup.targets.clusters import Cluster
from sizeup.targets.table import Table
from sizeup.units import quoted

_GRID = ("targets", "precisions", "batch", "shapes", "bind")
# Of language models.
_SERVED = ("weights", "kv", "layouts", "input", "output", "concurrency")
_SERVED_POINT = ("weights", "kv", "layout", "input", "output", "concurrency")
_KEYS = ("models", "generate", "exclude", *_GRID, *_SERVED, "points", "limits")
_POINT_KEYS = ("target", "precision", "batch", "shapes", "bind", *_SERVED_POINT)
_LIMIT_KEYS = ("seconds", "memory", "tries")
_MOST = 2**31


@dataclass(frozen=True)
class Spec:
    """The model entries, points and limits of a sweep; paths are relative to `folder`."""

    models: tuple[str, ...]
    generate: tuple[str, ...]
    exclude: tuple[str, ...]
    point_set: PointSet
    limits: Limits
    folder: Path


def read_spec(source: str | os.PathLike[str] | Mapping[str, Any]) -> Spec:
    """Read a spec from a file or from a mapping of the same form; raises SizeupError if it is invalid."""
    if isinstance(source, Mapping):
        content, file, folder = dict(source), "the sweep", Path.cwd()
    else:
        path = Path(source)
        content, file, folder = _parsed(path), str(path), path.absolute().parent
    try:
        return _spec(Table(content, file, "top level", {}), folder)
    except TargetError as error:  # raised by Table
        raise SizeupError(str(error) if file in str(error) else f"{file}: {error}") from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_settings(path))
    except OSError as error:
        raise SizeupError(f"{path}: {read_problem(error)}; give a TOML file") from None
    except ValueError as error:
        raise SizeupError(f"{path}: not a TOML file: {error}") from None


def _spec(table: Table, folder: Path) -> Spec:
    table.check_keys(_KEYS)
    models, generate = _texts(table, "models"), _texts(table, "generate")
    if not models and not generate:
        raise table.error('no models; name them as models = ["folder/*.onnx", "timm:resnet50"]')
    clusters: dict[str, Cluster] = {}
    points = [*_grid(table, folder, clusters, models)]
    points += [_point(entry, folder, clusters, models) for entry in table.tables("points")]
    if not points:
        raise table.error('no targets; name them as targets = ["rpi5/ort", "stm32f746"]')
    point_set = point_set_of(points, clusters)
    return Spec(models, generate, table.texts("exclude"), point_set, _limits(table), folder)


def _texts(table: Table, name: str) -> tuple[str, ...]:
    """A list of texts; a single text counts as a list."""
    return (table.text(name),) if isinstance(table.values.get(name), str) else table.texts(name)


def _grid(
    table: Table, folder: Path, clusters: dict[str, Cluster], models: tuple[str, ...]
) -> Iterator[Point]:
    """Every combination of target, precision, batch and shapes, or of how a language model is served."""
    texts = _texts(table, "targets")
    if _is_of_language_models(table, texts, folder, models):
        yield from language_models().serving_grid(table, texts, folder, clusters)
        return
    names = [name for text in texts for name in _targets(table, text)]
    stray = [key for key in _GRID[1:] if key in table.values]
    if not names and stray:
        raise table.error(f'{stray[0]} without targets; name them as targets = ["rpi5/ort"]')
    precisions = [_precision(table, text) for text in _texts(table, "precisions")] or [STORED]
    bind = _bind(table)
    for shapes in _all_shapes(table):
        for batch in _batches(table):
            for precision in precisions:
                for target in names:
                    yield Point(target, precision, batch, shapes, bind)


def _point(table: Table, folder: Path, clusters: dict[str, Cluster], models: tuple[str, ...]) -> Point:
    table.check_keys(_POINT_KEYS)
    if _is_of_language_models(table, (table.text("target"),), folder, models):
        point: Point = language_models().serving_point(table, folder, clusters)
        return point
    return Point(
        current_catalog().target(table.text("target")).name,
        _precision(table, table.text("precision", STORED)),
        table.integer("batch", 1, _MOST),
        _shapes(table.table("shapes")),
        _bind(table),
    )


def _is_of_language_models(
    table: Table, targets: Sequence[str], folder: Path, models: Sequence[str] = ()
) -> bool:
    """Whether a table sets a key of language models, one of its targets is a cluster, or all models are."""
    if models and targets and all(map(is_language_model, models)):
        return True
    return any(key in table.values for key in (*_SERVED, *_SERVED_POINT)) or any(
        is_cluster(text, folder) for text in targets
    )


def _targets(table: Table, text: str) -> list[str]:
    """The targets that a name or a pattern such as stm32* matches, with their default runtime."""
    catalog = current_catalog()
    if not is_wild(text):
        return [catalog.target(text).name]
    pattern, _, runtime = text.partition("/")
    runtimes = {device.name: device.runtimes for device in devices()}
    runtimes |= {board.name: catalog.device(board.device).runtimes for board in boards()}
    matches = [name for name in runtimes if fnmatch.fnmatchcase(name, pattern.casefold())]
    if runtime:
        matches = [name for name in matches if runtime in runtimes[name]]
    if not matches:
        raise table.error(f"targets: no device or board matches {text!r}; list them with sizeup devices")
    return [catalog.target(f"{name}/{runtime}" if runtime else name).name for name in matches]


def _precision(table: Table, text: str) -> str:
    if text == STORED:
        return text
    try:
        return dtypes.precision_name(dtypes.precision(text))
    except SizeupError as error:
        raise table.error(f"{error}, or {STORED} for the model's own dtypes") from None


def _batches(table: Table) -> list[int | None]:
    batches = table.values.get("batch", [None])
    batches = batches if isinstance(batches, list) else [batches]
    if "batch" in table.values and not (batches and all(_is_size(size) for size in batches)):
        raise table.error(f"batch is {quoted(table.values['batch'])}, not a list of integers >= 1")
    return batches


def _all_shapes(table: Table) -> list[str]:
    if "shapes" not in table.values:
        return [""]
    if isinstance(table.values["shapes"], dict):
        return [_shapes(table.table("shapes"))]
    shapes = [_shapes(entry) for entry in table.tables("shapes")]
    if not shapes:
        raise table.error("shapes is an empty list; write {} for the model's own shapes")
    return shapes


def _shapes(table: Table | None) -> str:
    """Sizes of dimensions or shapes of inputs, by name, as JSON."""
    if table is None:
        return ""
    for name, value in table.values.items():
        sizes = value.split("x") if isinstance(value, str) else value
        listed = sizes if isinstance(sizes, list) else [sizes]
        numbers = [int(size) if isinstance(size, str) and size.isdecimal() else size for size in listed]
        if not numbers or not all(_is_size(size) for size in numbers):
            raise table.error(
                f"{name} is {quoted(value)}, neither a size such as 128 nor a shape such as 1x3x224x224"
            )
    return shapes_text(table.values)


def _bind(table: Table) -> str:
    """Sizes of symbolic dimensions by name, as JSON."""
    inner = table.table("bind")
    if inner is None:
        return ""
    for name, value in inner.values.items():
        if not name or not _is_size(value):
            raise inner.error(f"{name!r} is {value!r}, not a size such as 128")
    if "batch" in inner.values and "batch" in table.values:
        raise table.error("batch is given twice, in batch and in bind; remove one of them")
    return shapes_text(inner.values)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < _MOST


def _limits(table: Table) -> Limits:
    inner = table.table("limits")
    if inner is None:
        return Limits()
    inner.check_keys(_LIMIT_KEYS)
    usual = Limits()
    memory = inner.quantity("memory", quantities.SIZE)
    return Limits(
        inner.number("seconds", 0.1, 10**6) if "seconds" in inner.values else usual.seconds,
        usual.memory_bytes if memory is None else int(memory),
        inner.integer("tries", 1, 100) or usual.tries,
    )
