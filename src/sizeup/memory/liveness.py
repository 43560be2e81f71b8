"""When each piece of memory is in use: tensors become buffers, buffers get a first and a last operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import InvalidGraph
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.ops import rule_of

Column: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_MOST_BYTES = 1 << 62  # sums of sizes are columns of 64 bits


@dataclass(frozen=True, slots=True)
class Buffers:
    """Memory that a run needs beside its constants, one entry a buffer.

    Buffer b holds something from the start of operator first[b] to the end of operator last[b]. What
    enters the graph is there from the first operator, and so is scratch that operators read; what leaves it
    stays to the last.
    """

    size: Column  # bytes
    first: Column
    last: Column
    tensors: tuple[tuple[int, ...], ...]  # that live in it, one after the other or as views
    of_tensor: tuple[int, ...]  # the buffer of every tensor of the graph; -1 for constants
    steps: int  # operators of the graph

    def __len__(self) -> int:
        return len(self.size)

    def live_bytes(self) -> Column:
        """Bytes in use while each operator runs, its own inputs and outputs included."""
        return self.summed(self.size)

    def summed(self, amounts: Column) -> Column:
        """Amounts by buffer added up over those live while each operator runs."""
        change = np.zeros(max(self.steps, 1) + 1, np.int64)
        np.add.at(change, self.first, amounts)
        np.subtract.at(change, self.last + 1, amounts)
        return np.cumsum(change)[: self.steps]

    def live_at(self, step: int) -> list[int]:
        """The buffers in use while an operator runs, largest first."""
        found = np.flatnonzero((self.first <= step) & (self.last >= step))
        return sorted(found.tolist(), key=lambda buffer: -int(self.size[buffer]))


def size_is_known(tensor: Tensor) -> bool:
    """Whether a tensor has a size: not where its shape depends on data, nor where one element has none."""
    return tensor.shape is not None and (tensor.dtype.bits > 0 or tensor.elements == 0)


def tensor_bytes(tensor: Tensor, precision: DType | None = None) -> int:
    """Bytes of one tensor at its own number type, or at a precision where that applies to it."""
    if tensor.elements is None:
        return 0
    bits = precision.bits if precision is not None and tensor.follows_precision else tensor.dtype.bits
    return (tensor.elements * bits + 7) // 8


def lifetimes(
    graph: Graph,
    order: Sequence[int] | None = None,
    *,
    views: bool = True,
    overwrites: bool = False,
    precision: DType | None = None,
) -> Buffers:
    """Buffers of a graph run in its own order, or in another one.

    `views` lets an operator that only renames bytes share its input's buffer; `overwrites` lets an
    operator write over an input of the same size that nobody needs afterwards.
    """
    ops = [graph.ops[index] for index in (order if order is not None else range(len(graph.ops)))]
    last_use = _last_uses(graph, ops)
    maker = _Sharing(graph, last_use, precision)
    for identity in given_tensors(graph):
        maker.open(identity, 0)
    for step, op in enumerate(ops):
        shared = maker.shared_input(op, step, views=views, overwrites=overwrites)
        for place, identity in enumerate(op.outputs):
            if graph.tensors[identity].data is None:
                maker.open(identity, step, shared if place == 0 or (views and _is_view(op)) else None)
    return maker.freeze(len(ops))


def _is_view(op: Op) -> bool:
    rule = rule_of(op.kind)
    return rule is not None and rule.views


def is_scratch(tensor: Tensor) -> bool:
    """Whether operators read it though nobody makes or fills it: memory that they ask for in this way."""
    return tensor.data is not None and tensor.data.role == "scratch"


def given_tensors(graph: Graph) -> tuple[int, ...]:
    """What takes memory before the first operator: what enters the graph, and scratch."""
    scratch = (identity for identity, tensor in enumerate(graph.tensors) if is_scratch(tensor))
    return tuple(dict.fromkeys((*graph.inputs, *scratch)))


def _last_uses(graph: Graph, ops: Sequence[Op]) -> dict[int, int]:
    last: dict[int, int] = {}
    for step, op in enumerate(ops):
        for identity in (*op.outputs, *op.inputs):
            last[identity] = step
    for identity in graph.outputs:
        last[identity] = len(ops) - 1
    return last


class _Sharing:
    """Hands out buffers to tensors in the order in which they are made."""

    def __init__(self, graph: Graph, last_use: dict[int, int], precision: DType | None) -> None:
        self.graph = graph
        self.last_use = last_use
        self.precision = precision
        self.of_tensor = [-1] * len(graph.tensors)
        self.size: list[int] = []
        self.first: list[int] = []
        self.last: list[int] = []
        self.tensors: list[list[int]] = []

    def open(self, identity: int, step: int, shared: int | None = None) -> None:
        """Give a tensor a buffer of its own, or a place in one that exists."""
        tensor = self.graph.tensors[identity]
        if self.of_tensor[identity] >= 0 or (tensor.data is not None and not is_scratch(tensor)):
            return
        end = max(self.last_use.get(identity, step), step)
        size = tensor_bytes(tensor, self.precision)
        if shared is None:
            shared = len(self.size)
            self.size.append(0)
            self.first.append(step)
            self.last.append(end)
            self.tensors.append([])
        self.of_tensor[identity] = shared
        self.size[shared] = max(self.size[shared], size)
        self.last[shared] = max(self.last[shared], end)
        self.tensors[shared].append(identity)

    def shared_input(self, op: Op, step: int, *, views: bool, overwrites: bool) -> int | None:
        """The buffer of an input in which this operator's output may live."""
        rule = rule_of(op.kind)
        if rule is None or not op.outputs:
            return None
        if rule.views and views:
            source = op.inputs[0] if op.inputs else ABSENT
            return self._buffer(source)
        if rule.overwrites and overwrites:
            size = tensor_bytes(self.graph.tensors[op.outputs[0]], self.precision)
            for identity in op.inputs:
                buffer = self._buffer(identity)
                if buffer is not None and self.last[buffer] == step and self.size[buffer] == size:
                    return buffer
        return None

    def _buffer(self, identity: int) -> int | None:
        if identity == ABSENT or self.of_tensor[identity] < 0:
            return None
        return self.of_tensor[identity]

    def freeze(self, steps: int) -> Buffers:
        """The finished columns."""
        if sum(self.size) >= _MOST_BYTES:
            raise InvalidGraph(f"its tensors take {sum(self.size):,} B together, which fits no machine")
        return Buffers(
            np.array(self.size, np.int64),
            np.array(self.first, np.int64),
            np.array(self.last, np.int64),
            tuple(tuple(each) for each in self.tensors),
            tuple(self.of_tensor),
            steps,
        )
