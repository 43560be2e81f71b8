"""Builds frozen graphs and checks the invariants of every graph."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sizeup.dtypes import DType
from sizeup.errors import InvalidGraph
from sizeup.graph.ir import ABSENT, Body, Constant, Graph, Op, Quant, RecordedRun, Shape, Tensor
from sizeup.units import quoted

_MAX_BITS = 8 << 56


@contextmanager
def without_gc() -> Iterator[None]:
    """Pause Python's garbage collector while many long-lived objects are allocated."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class GraphBuilder:
    """Collects tensors and ops, assigns tensor ids, and freezes the result."""

    def __init__(self, name: str = "", format: str = "") -> None:
        self.name = name
        self.format = format
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.notes: list[str] = []
        self.run: RecordedRun | None = None

    def tensor(
        self,
        name: str,
        shape: Shape | None,
        dtype: DType,
        data: Constant | None = None,
        quant: Quant | None = None,
    ) -> int:
        """Add a tensor and return its id."""
        self.tensors.append(Tensor(name, shape, dtype, data, quant))
        return len(self.tensors) - 1

    def input(self, name: str, shape: Shape | None, dtype: DType) -> int:
        """Add a graph input and return its tensor id."""
        self.inputs.append(self.tensor(name, shape, dtype))
        return self.inputs[-1]

    def op(
        self,
        kind: str,
        inputs: Iterable[int],
        outputs: Iterable[int],
        attrs: Mapping[str, Any] | None = None,
        *,
        source: str = "",
        name: str = "",
        scope: str = "",
        bodies: tuple[Body, ...] = (),
    ) -> int:
        """Append an op to the schedule and return its index."""
        self.ops.append(Op(kind, tuple(inputs), tuple(outputs), attrs or {}, source, name, scope, bodies))
        return len(self.ops) - 1

    def note(self, text: str) -> None:
        """Record an assumption to show in reports; duplicates are dropped."""
        if text not in self.notes:
            self.notes.append(text)

    def freeze(self) -> Graph:
        """Return the finished graph after checking its invariants."""
        graph = Graph(
            tuple(self.tensors),
            tuple(self.ops),
            tuple(self.inputs),
            tuple(self.outputs),
            self.name,
            self.format,
            tuple(self.notes),
            recorded_run=self.run,
        )
        check(graph)
        return graph


def check(graph: Graph) -> None:
    """Raise InvalidGraph if the graph breaks an invariant.

    Every id exists. Every tensor is produced once, before it is read. No dimension or trip count is negative.
    No tensor exceeds 64 PiB.
    """
    _check_shapes(graph)
    available = _initially_available(graph)
    for index, op in enumerate(graph.ops):
        _check_op(graph, index, op, available)
    for identity in graph.outputs:
        if identity not in available:
            raise InvalidGraph(f"{_location(graph)}: no operator produces output tensor {identity}")
    _check_run(graph)


def _check_shapes(graph: Graph) -> None:
    """Sizes that depend on symbolic dimensions are not checked."""
    for tensor in graph.tensors:
        bits = tensor.dtype.bits
        for size in tensor.shape or ():
            if type(size) is int:
                if size < 0:
                    raise _shape_error(graph, tensor, "has a negative dimension")
                bits *= size
                if bits > _MAX_BITS:  # capped: the product of a hostile shape takes minutes
                    bits = _MAX_BITS + 1
        if bits > _MAX_BITS:
            raise _shape_error(graph, tensor, "takes more than 64 PiB")


def _shape_error(graph: Graph, tensor: Tensor, problem: str) -> InvalidGraph:
    return InvalidGraph(
        f"{_location(graph)}: tensor {tensor.name!r} {problem}: {quoted(list(tensor.shape or ()))}"
    )


def _initially_available(graph: Graph) -> set[int]:
    """Returns the ids of inputs and stored constants; raises if an input or output id does not exist."""
    count = len(graph.tensors)
    for identity in (*graph.inputs, *graph.outputs):
        if not 0 <= identity < count:
            raise InvalidGraph(f"{_location(graph)}: no tensor has the id {identity}")
    available = set(graph.inputs)
    for identity, tensor in enumerate(graph.tensors):
        if tensor.data is not None and tensor.data.role != "derived":
            available.add(identity)
    return available


def _check_op(graph: Graph, index: int, op: Op, available: set[int]) -> None:
    count = len(graph.tensors)
    for body in op.bodies:
        if type(body.runs) is int and body.runs < 0:
            raise InvalidGraph(f"{_location(graph, index, op)} runs {body.name!r} {body.runs:,} times")
    for identity in op.inputs:
        if identity == ABSENT:
            continue
        if not 0 <= identity < count:
            raise InvalidGraph(f"{_location(graph, index, op)} reads tensor {identity}, which does not exist")
        if identity not in available:
            name = graph.tensors[identity].name
            raise InvalidGraph(f"{_location(graph, index, op)} reads {name!r} before it is produced")
    for identity in op.outputs:
        if not 0 <= identity < count:
            raise InvalidGraph(
                f"{_location(graph, index, op)} writes tensor {identity}, which does not exist"
            )
        if identity in available:
            name = graph.tensors[identity].name
            raise InvalidGraph(f"{_location(graph, index, op)} produces {name!r}, which already exists")
        available.add(identity)


def _check_run(graph: Graph) -> None:
    if graph.recorded_run is None:
        return
    storages = max(graph.recorded_run.storage, default=-1) + 1
    if len(graph.recorded_run.storage) != len(graph.tensors) or len(graph.recorded_run.freed_after) not in (
        0,
        storages,
    ):
        raise InvalidGraph(f"{_location(graph)}: the recorded run does not match the graph's tensors")


def _location(graph: Graph, index: int | None = None, op: Op | None = None) -> str:
    name = graph.name or "graph"
    return name if op is None else f"{name}: operator {index} ({op.source or op.kind})"
