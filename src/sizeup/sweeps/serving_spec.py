"""Reads the points of language models in a spec: clusters, precisions, layouts, tokens and sequences.

A spec is of language models if it sets one of the keys `KEYS`, names a cluster as a target, or if all its
models are .json and .gguf files: a device is then a cluster of one GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sizeup.formats.names import is_language_model
from sizeup.language_models.cache import CACHE_BITS
from sizeup.language_models.clusters import Cluster, cluster
from sizeup.language_models.deployment import INPUT, MOST_SEQUENCES, MOST_TOKENS, OUTPUT
from sizeup.language_models.engines import server_engine
from sizeup.language_models.modules import WEIGHT_PRECISIONS
from sizeup.sweeps.points import DEFAULT_LAYOUT, Point, ServingPoint
from sizeup.sweeps.schema import STORED
from sizeup.targets.cluster_names import is_cluster
from sizeup.targets.table import Table
from sizeup.units import quoted

KEYS = ("weights", "kv", "layouts", "input", "output", "concurrency")
POINT_KEYS = ("weights", "kv", "layout", "input", "output", "concurrency")
_OTHERS = {
    "precisions": "weights and kv",
    "precision": "weights and kv",
    "batch": "concurrency",
    "shapes": "input and output",
    "bind": "input and output",
}


class Clusters(dict[str, Cluster]):
    """Clusters by the name of a target."""

    def add(self, table: Table, text: str, folder: Path) -> str:
        """The name of the target of a text, whose cluster is added."""
        machines, engine = cluster(text, folder)
        name = f"{machines.name}/{server_engine(engine, machines.device).name}"
        if self.setdefault(name, machines) != machines:
            raise table.error(f"two different clusters are named {quoted(machines.name)}; rename one")
        return name


def is_of_language_models(
    table: Table, targets: Sequence[str], folder: Path, models: Sequence[str] = ()
) -> bool:
    """Whether a table sets a key of language models, one of its targets is a cluster, or all models are."""
    if models and targets and all(map(is_language_model, models)):
        return True
    return any(key in table.values for key in (*KEYS, *POINT_KEYS)) or any(
        is_cluster(text, folder) for text in targets
    )


def serving_grid(table: Table, targets: Sequence[str], folder: Path, clusters: Clusters) -> Iterator[Point]:
    """Every combination of cluster, precisions, layout, tokens and concurrent sequences."""
    _refuse_others(table)
    if not targets:
        key = next(key for key in KEYS if key in table.values)
        raise table.error(f'{key} without targets; name them as targets = ["8xh100/vllm"]')
    names = [clusters.add(table, text, folder) for text in targets]
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


def serving_point(table: Table, folder: Path, clusters: Clusters) -> Point:
    """The point of a table of `[[points]]`."""
    for key in POINT_KEYS:
        if isinstance(table.values.get(key), list):
            raise table.error(f"{key} is a list; a point has one")
    layout = {} if "layout" not in table.values else {"layouts": table.text("layout")}
    values = {key: value for key, value in table.values.items() if key not in ("target", "layout")} | layout
    grid = Table(values, table.file, table.location, table.sources)
    return next(serving_grid(grid, (table.text("target"),), folder, clusters))


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
