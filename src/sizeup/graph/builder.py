"""A mutable maker of frozen graphs."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sizeup.dtypes import DType
from sizeup.graph.check import check
from sizeup.graph.ir import Body, Constant, Graph, Op, Quant, Run, Shape, Tensor


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
