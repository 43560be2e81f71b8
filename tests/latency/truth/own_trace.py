"""The kernels of timm's models by sizeup: one row per distinct kernel, for eager and compiled PyTorch."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latency.truth.tables import Table
from sizeup import targets
from sizeup.cost import count
from sizeup.latency import Work, execution_of, from_columns
from sizeup.latency.work import Floats

if TYPE_CHECKING:
    from sizeup.graph import Graph

PATH = Path(
    os.environ.get("SIZEUP_TIMM_TRACE", Path(__file__).resolve().parents[3] / "build" / "timm_trace.parquet")
)
"""Where `benchmarks/trace_timm.py` leaves the kernels of all models."""
WAYS = {"eager": "torch-eager", "inductor": "torch-inductor"}
NUMBERS = ("macs", "read", "written", "weights", "length", "columns", "rows")
COLUMNS = ("model", "img", "way", "cls", *NUMBERS, "count")
WIDTH = 4  # bytes of a number in the trace
PRODUCTS = frozenset(
    ["conv_stem", "conv", "conv_1x1", "conv_grouped", "depthwise_3", "depthwise_5", "depthwise_7", "linear"]
)


def rows_of(graph: Graph) -> Iterator[tuple[Any, ...]]:
    """Runtime, class, columns and count of each distinct kernel of a graph at its own dtypes."""
    cost = count(graph)
    for way, runtime in WAYS.items():
        work = execution_of(cost, None, targets.runtime(runtime).fusions or ()).work
        numbers = [getattr(work, each).tolist() for each in NUMBERS]
        counts: Counter[tuple[Any, ...]] = Counter()
        for kind, *row, times in zip(work.class_index.tolist(), *numbers, work.count.tolist(), strict=True):
            if times:
                counts[(work.names[kind], *row)] += times
        yield from ((way, *row, times) for row, times in counts.items())


def graphs(model: str, sizes: Iterable[int]) -> Iterator[tuple[int, Graph]]:
    """A model, built once and without weights, recorded at each image size."""
    from sizeup.formats.torch.eager import record
    from sizeup.formats.torch.sources import build

    built = build(f"timm:{model}", {})
    for size in sizes:
        yield size, record(built.module, ((1, 3, size, size),), name=model, mode=built.mode)


class Traced(NamedTuple):
    """Traced models as work, and the index of each (model, image size) in it."""

    work: Work
    place: dict[tuple[str, int], int]
    matrix_weights: Floats  # of products alone: what re-parameterization changes


def as_work(table: Table, way: str, width: float) -> Traced:
    """The kernels of one runtime, at a number of bytes per element."""
    table = table.where(table.words("way") == way)
    place: dict[tuple[str, int], int] = {}
    keys = zip(table.words("model").tolist(), table.numbers("img").astype(int).tolist(), strict=True)
    network = np.array([place.setdefault(key, len(place)) for key in keys], np.int64)
    classes = table.words("cls").tolist()
    numbers = {each: table.numbers(each) for each in NUMBERS}
    held = np.array([each in PRODUCTS for each in classes]) * numbers["weights"] * table.numbers("count")
    for each in ("read", "written", "weights"):
        numbers[each] = numbers[each] * width / WIDTH
    work = from_columns(classes, len(place), network, **numbers, count=table.numbers("count"))
    return Traced(work, place, np.asarray(np.bincount(network, held / WIDTH, len(place)), np.float64))
