"""Reads the points of language models in a spec: clusters, precisions, layouts, tokens and sequences.

A device is a cluster of one GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sizeup.serving.memory.deployment import INPUT, MOST_SEQUENCES, MOST_TOKENS, OUTPUT
from sizeup.serving.memory.engines import engine_of, server_engine
from sizeup.serving.models.cache import CACHE_BITS
from sizeup.serving.models.modules import WEIGHT_PRECISIONS
from sizeup.serving.steps.rates import calibrations
from sizeup.sweeps.points import Point, ServingPoint
from sizeup.sweeps.schema import STORED
from sizeup.targets import current_catalog
from sizeup.targets.clusters import Cluster, cluster
from sizeup.targets.table import Table
from sizeup.units import quoted

DEFAULT_LAYOUT = "default"
_KEYS = ("weights", "kv", "layouts", "input", "output", "concurrency")
_POINT_KEYS = ("weights", "kv", "layout", "input", "output", "concurrency")
_OTHERS = {
    "precisions": "weights and kv",
    "precision": "weights and kv",
    "batch": "concurrency",
    "shapes": "input and output",
    "bind": "input and output",
}


def serving_grid(
    table: Table, targets: Sequence[str], folder: Path, clusters: dict[str, Cluster]
) -> Iterator[Point]:
    """Every combination of cluster, precisions, layout, tokens and concurrent sequences."""
    _refuse_others(table)
    if not targets:
        key = next(key for key in _KEYS if key in table.values)
        raise table.error(f'{key} without targets; name them as targets = ["8xh100/vllm"]')
    names = [_added(clusters, table, text, folder) for text in targets]
    axes = (
        _integers(table, "input", INPUT, MOST_TOKENS),
        _integers(table, "output", OUTPUT, MOST_TOKENS),
        _integers(table, "concurrency", 1, MOST_SEQUENCES),
        _precisions(table, "kv"),
        _texts(table, "layouts", DEFAULT_LAYOUT),
    )
    weights = _precisions(table, "weights")
    for serving in itertools.product(*axes):
        for precision in weights:
            yield from (Point(name, precision, serving=ServingPoint(*serving)) for name in names)


def serving_point(table: Table, folder: Path, clusters: dict[str, Cluster]) -> Point:
    """The point of a table of `[[points]]`."""
    for key in _POINT_KEYS:
        if isinstance(table.values.get(key), list):
            raise table.error(f"{key} is a list; a point has one")
    layout = {} if "layout" not in table.values else {"layouts": table.text("layout")}
    values = {key: value for key, value in table.values.items() if key not in ("target", "layout")} | layout
    grid = Table(values, table.file, table.location, table.sources)
    return next(serving_grid(grid, (table.text("target"),), folder, clusters))


def cluster_parts(target: str, cluster: Cluster) -> tuple[str, ...]:
    """Texts of a cluster, the serving engine of a target and what times are based on, for a digest.

    They do not depend on file paths.
    """
    engine = engine_of(target.rpartition("/")[2])
    plain = replace(cluster, device=replace(cluster.device, file=""))
    measured = f"{cluster.device.name}/{engine.name}"
    anchors = [repr(anchor) for anchor in current_catalog().anchors() if anchor.target == measured]
    return repr(plain), repr(engine), repr(calibrations().get(engine.name)), *anchors


def _added(clusters: dict[str, Cluster], table: Table, text: str, folder: Path) -> str:
    """The name of the target of a text, whose cluster is added."""
    machines, engine = cluster(text, folder)
    name = f"{machines.name}/{server_engine(engine, machines.device).name}"
    if clusters.setdefault(name, machines) != machines:
        raise table.error(f"two different clusters are named {quoted(machines.name)}; rename one")
    return name


def _refuse_others(table: Table) -> None:
    for key, other in _OTHERS.items():
        if key in table.values:
            raise table.error(f"{key} does not apply to language models on clusters; set {other}")


def _texts(table: Table, key: str, default: str) -> tuple[str, ...]:
    if isinstance(table.values.get(key), str):
        return (table.text(key),)
    return table.texts(key) or (default,)


def _precisions(table: Table, key: str) -> tuple[str, ...]:
    texts = _texts(table, key, STORED)
    known = (STORED, *(CACHE_BITS if key == "kv" else WEIGHT_PRECISIONS))
    for text in texts:
        if text not in known:
            raise table.error(f"{key}: precision {quoted(text)} is unknown; use one of {', '.join(known)}")
    return texts


def _integers(table: Table, key: str, default: int, most: int) -> list[int]:
    """An integer or a list of them."""
    value: Any = table.values.get(key, default)
    numbers = value if isinstance(value, list) else [value]
    if not numbers or not all(_is_count(number, most) for number in numbers):
        raise table.error(f"{key} is {quoted(value)}, not an integer from 1 to {most:,} or a list of them")
    return numbers


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
