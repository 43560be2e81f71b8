"""Building frozen graphs, and the invariants that every graph meets."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sizeup.dtypes import DType
from sizeup.errors import InvalidGraph
from sizeup.graph.ir import ABSENT, Body, Constant, Graph, Op, Quant, Run, Shape, Tensor
from sizeup.units import quoted

_MOST_BITS = 8 << 56


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause Python's collector: what is built here is all kept, and looking through it only costs time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class GraphBuilder:
    """Collects tensors and operators, hands out tensor ids, and freezes the result."""

    def __init__(self, name: str = "", format: str = "") -> None:
        self.name = name
        self.format = format
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.notes: list[str] = []
        self.run: Run | None = None

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
        """Add a tensor that is an input of the graph and return its id."""
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
        """Add an operator at the end of the schedule and return its index."""
        made = Op(kind, tuple(inputs), tuple(outputs), attrs or {}, source, name, scope, bodies)
        self.ops.append(made)
        return len(self.ops) - 1

    def note(self, text: str) -> None:
        """Record an assumption that the reader of a report should see; repeated ones count once."""
        if text not in self.notes:
            self.notes.append(text)

    def freeze(self) -> Graph:
        """The finished graph, its invariants checked."""
        graph = Graph(
            tuple(self.tensors),
            tuple(self.ops),
            tuple(self.inputs),
            tuple(self.outputs),
            self.name,
            self.format,
            tuple(self.notes),
            run=self.run,
        )
        check(graph)
        return graph


def check(graph: Graph) -> None:
    """Raise InvalidGraph unless every id exists, every value is made once, before it is used, no
    dimension or trip count is negative, and every tensor would fit some machine."""
    _check_shapes(graph)
    made = _given(graph)
    for index, op in enumerate(graph.ops):
        _check_op(graph, index, op, made)
    for identity in graph.outputs:
        if identity not in made:
            raise InvalidGraph(f"{_where(graph)}: output tensor {identity} is never made")
    _check_run(graph)


def _check_shapes(graph: Graph) -> None:
    """Sizes that depend on symbolic dimensions are not checked."""
    for tensor in graph.tensors:
        bits = tensor.dtype.bits
        for size in tensor.shape or ():
            if type(size) is int:
                if size < 0:
                    raise _wrong_shape(graph, tensor, "has a negative dimension")
                bits = min(bits * size, _MOST_BITS + 1)  # the product of a hostile shape takes minutes
        if bits > _MOST_BITS:
            raise _wrong_shape(graph, tensor, "takes more than 64 PiB, which fits no machine")


def _wrong_shape(graph: Graph, tensor: Tensor, problem: str) -> InvalidGraph:
    return InvalidGraph(
        f"{_where(graph)}: tensor {tensor.name!r} {problem}: {quoted(list(tensor.shape or ()))}"
    )


def _given(graph: Graph) -> set[int]:
    count = len(graph.tensors)
    for identity in (*graph.inputs, *graph.outputs):
        if not 0 <= identity < count:
            raise InvalidGraph(f"{_where(graph)}: no tensor has the id {identity}")
    given = set(graph.inputs)
    for identity, tensor in enumerate(graph.tensors):
        if tensor.data is not None and tensor.data.role != "derived":
            given.add(identity)
    return given


def _check_op(graph: Graph, index: int, op: Op, made: set[int]) -> None:
    count = len(graph.tensors)
    for body in op.bodies:
        if type(body.runs) is int and body.runs < 0:
            raise InvalidGraph(f"{_where(graph, index, op)} runs {body.name!r} {body.runs:,} times")
    for identity in op.inputs:
        if identity == ABSENT:
            continue
        if not 0 <= identity < count:
            raise InvalidGraph(f"{_where(graph, index, op)} reads tensor {identity}, which does not exist")
        if identity not in made:
            name = graph.tensors[identity].name
            raise InvalidGraph(f"{_where(graph, index, op)} reads {name!r} before anything makes it")
    for identity in op.outputs:
        if not 0 <= identity < count:
            raise InvalidGraph(f"{_where(graph, index, op)} writes tensor {identity}, which does not exist")
        if identity in made:
            name = graph.tensors[identity].name
            raise InvalidGraph(f"{_where(graph, index, op)} makes {name!r} a second time")
        made.add(identity)


def _check_run(graph: Graph) -> None:
    if graph.run is None:
        return
    storages = max(graph.run.storage, default=-1) + 1
    if len(graph.run.storage) != len(graph.tensors) or len(graph.run.freed) not in (0, storages):
        raise InvalidGraph(f"{_where(graph)}: the run that is told of is not one of these tensors")


def _where(graph: Graph, index: int | None = None, op: Op | None = None) -> str:
    name = graph.name or "graph"
    return name if op is None else f"{name}: operator {index} ({op.source or op.kind})"
