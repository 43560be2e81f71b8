"""Closed forms held against fresh loads: the same graph, tensor by tensor, and the same counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import sizeup
from sizeup.closed_forms.cost import SymbolicCost
from sizeup.dtypes import precision
from sizeup.graph import Graph
from sizeup.symbolic import SymbolicGraph

Load = Callable[[Mapping[str, int]], Graph]


def assert_same_graph(bound: Graph, fresh: Graph) -> None:
    """Tensors, operators with their attributes, and what was seen of the run."""
    assert [(each.name, each.shape, each.dtype) for each in bound.tensors] == [
        (each.name, each.shape, each.dtype) for each in fresh.tensors
    ]
    assert [_told(op) for op in bound.ops] == [_told(op) for op in fresh.ops]
    assert (bound.inputs, bound.outputs, bound.recorded_run) == (
        fresh.inputs,
        fresh.outputs,
        fresh.recorded_run,
    )


def _told(op: Any) -> tuple[Any, ...]:
    bodies = [(body.name, body.runs, [_told(inner) for inner in body.graph.ops]) for body in op.bodies]
    return op.kind, op.source, op.inputs, op.outputs, dict(op.attrs), op.scope, bodies


def assert_equal_to_fresh_loads(
    free: SymbolicGraph, load: Load, points: Iterable[Mapping[str, int]]
) -> SymbolicCost:
    """At every point the graph and all counts are those of a fresh load; at all points at once, too."""
    cost, rows = sizeup.count(free), []
    points = list(points)
    for point in points:
        fresh = load(point)
        assert_same_graph(free.at(**point), fresh)
        counted = sizeup.count(fresh)
        narrow = counted.bytes_at(precision("int4"))
        plain = counted.bytes_at()
        expected = (
            counted.total_macs,
            counted.total_elementwise,
            counted.total_params,
            int(plain.read.sum()),
            int(plain.written.sum()),
            int(narrow.read.sum()),
            int(narrow.written.sum()),
            bool(counted.known.all()),
        )
        assert _counts(cost, point) == expected, point
        rows.append(expected)
    columns = {name: np.array([point[name] for point in points]) for name in free.names}
    for found, wanted in zip(_counts(cost, columns), zip(*rows, strict=True), strict=True):
        assert found.tolist() == list(wanted)
    return cost


def _counts(cost: SymbolicCost, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    found = cost.at(**sizes)
    return (
        found.macs,
        found.elementwise_ops,
        found.params,
        found.read_bytes(),
        found.written_bytes(),
        found.read_bytes("int4"),
        found.written_bytes("int4"),
        found.is_known,
    )
