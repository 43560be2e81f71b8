"""Small graphs and random problems for everything that plans memory."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sizeup.dtypes import dtype
from sizeup.graph import Graph, GraphBuilder, RecordedRun, Shape
from sizeup.memory import Buffers
from sizeup.memory.schedule_problem import ScheduleProblem

BYTE = dtype("int8")


def branches() -> Graph:
    """Two branches that grow to 1000 B and shrink to 10 B, in an order that holds both at their widest."""
    builder = GraphBuilder("branches")
    x = builder.input("x", (100,), BYTE)
    a, b = (builder.tensor(name, (1000,), BYTE) for name in ("a", "b"))
    a2, b2, out = (builder.tensor(name, (10,), BYTE) for name in ("a2", "b2", "out"))
    builder.op("repeat", [x], [a])
    builder.op("repeat", [x], [b])
    builder.op("max", [a], [a2])
    builder.op("max", [b], [b2])
    builder.op("add", [a2, b2], [out])
    builder.outputs.append(out)
    return builder.freeze()


def one_op(
    kind: str,
    source: str,
    result: Shape,
    shapes: dict[str, Shape],
    number: str = "float32",
    layouts: dict[int, str] | None = None,
    threads: int = 1,
    simd_lanes: int = 16,
    **attrs: Any,
) -> Graph:
    """One op as torch ran it on inputs of these shapes, of one dtype except a tensor named "mask"."""
    builder = GraphBuilder("one", "torch")
    inputs = [
        builder.input(name, shape, dtype("bool" if name == "mask" else number))
        for name, shape in shapes.items()
    ]
    y = builder.tensor("y", result, dtype(number))
    builder.op(kind, inputs, [y], attrs, source=source, name=kind)
    builder.outputs.append(y)
    storages = tuple(range(len(inputs) + 1))
    builder.run = RecordedRun(storages, (), threads=threads, simd_lanes=simd_lanes, layouts=layouts or {})
    return builder.freeze()


@st.composite
def random_problem(draw: st.DrawFn, most_ops: int) -> ScheduleProblem:
    """Operators with one or two outputs that read any earlier ones, one of them an input of the graph."""
    count = draw(st.integers(1, most_ops))
    sizes, outputs, inputs = [draw(st.integers(0, 50))], [], []
    for _ in range(count):
        readable = range(len(sizes))
        inputs.append(tuple(sorted(draw(st.sets(st.sampled_from(readable), max_size=3)))))
        number = draw(st.integers(1, 2))
        outputs.append(tuple(range(len(sizes), len(sizes) + number)))
        sizes += [draw(st.integers(0, 50)) for _ in range(number)]
    # An input that is never read is not part of the problem.
    if not any(0 in each for each in inputs):
        inputs[0] = (0,)
    is_output = tuple(draw(st.booleans()) if buffer else False for buffer in range(len(sizes)))
    return ScheduleProblem(tuple(sizes), tuple(outputs), tuple(inputs), is_output, initial=(0,))


def buffers_of(spans: list[tuple[int, int, int]]) -> Buffers:
    """Buffers of (size, first, last)."""
    size, first, last = np.ascontiguousarray(np.array(spans, np.int64).reshape(-1, 3).T)
    each = tuple(range(len(spans)))
    steps = int(last.max()) + 1 if len(spans) else 0
    return Buffers(size, first, last, tuple((i,) for i in each), each, steps)


def packing_instance(shared: Path, name: str) -> tuple[Buffers, int]:
    """One of the hard shared instances, and a capacity that it is known to fit."""
    capacity = 1_048_576
    with (shared / "planner" / "packing" / f"{name}.{capacity}.csv").open(newline="") as file:
        rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]
    return buffers_of([(row["size"], row["lower"], row["upper"] - 1) for row in rows]), capacity
