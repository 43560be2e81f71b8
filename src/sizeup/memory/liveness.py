"""Liveness: assigns tensors to buffers, and to each buffer its first and last step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import InvalidGraph
from sizeup.graph import ABSENT, Graph, Op, Tensor, without_gc
from sizeup.ops import cost_rule_of

Column: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_MAX_BYTES = 1 << 62  # sums of sizes must fit into 64 bits


@dataclass(frozen=True, slots=True)
class Buffers:
    """The buffers of an inference, excluding constants: one entry per buffer.

    Buffer b is live from the start of step first[b] to the end of step last[b]. Graph inputs and scratch
    tensors are live from the first step, graph outputs until the last.
    """

    size: Column  # bytes
    first: Column
    last: Column
    tensors: tuple[tuple[int, ...], ...]  # tensors in each buffer, in sequence or as aliases
    buffer_of_tensor: tuple[int, ...]  # buffer of each tensor of the graph; -1 for constants
    steps: int  # number of ops

    def __len__(self) -> int:
        return len(self.size)

    def live_bytes(self) -> Column:
        """Live bytes per step, including the inputs and outputs of its op."""
        return self.live_sum(self.size)

    def live_sum(self, amounts: Column) -> Column:
        """Per step, the sum of the amounts of the live buffers."""
        change = np.zeros(max(self.steps, 1) + 1, np.int64)
        np.add.at(change, self.first, amounts)
        np.subtract.at(change, self.last + 1, amounts)
        return np.cumsum(change)[: self.steps]

    def live_at(self, step: int) -> list[int]:
        """The buffers live at a step, largest first."""
        live = np.flatnonzero((self.first <= step) & (self.last >= step))
        return sorted(live.tolist(), key=lambda buffer: -int(self.size[buffer]))


def size_is_known(tensor: Tensor) -> bool:
    """Whether the bytes of a tensor are known: its shape does not depend on data, its dtype has a size."""
    return tensor.shape is not None and (tensor.dtype.bits > 0 or tensor.elements == 0)


def tensor_bytes(tensor: Tensor, precision: DType | None = None) -> int:
    """Bytes of a tensor at its dtype, or at a precision if that applies to the tensor."""
    elements = tensor.elements
    if elements is None:
        return 0
    bits = precision.bits if precision is not None and tensor.follows_precision else tensor.dtype.bits
    return (elements * bits + 7) // 8


@without_gc()
def buffer_liveness(
    graph: Graph,
    schedule: Sequence[int] | None = None,
    *,
    aliases: bool = True,
    in_place: bool = False,
    precision: DType | None = None,
) -> Buffers:
    """The buffers of a graph in file order, or in another schedule.

    With `aliases`, aliasing ops share the buffer of their input. With `in_place`, ops that can run in place
    write over an input of equal size that is not used afterwards.
    """
    ops = [graph.ops[index] for index in (schedule if schedule is not None else range(len(graph.ops)))]
    last_use = _last_uses(graph, ops)
    assignment = _BufferAssignment(graph, last_use, precision)
    for identity in initial_tensors(graph):
        assignment.assign(identity, 0)
    for step, op in enumerate(ops):
        shared = assignment.shared_input(op, step, views=aliases, overwrites=in_place)
        for position, identity in enumerate(op.outputs):
            if graph.tensors[identity].data is None:
                assignment.assign(
                    identity, step, shared if position == 0 or (aliases and _is_view(op)) else None
                )
    return assignment.freeze(len(ops))


def _is_view(op: Op) -> bool:
    rule = cost_rule_of(op.kind)
    return rule is not None and rule.views


def is_scratch(tensor: Tensor) -> bool:
    """Whether it is scratch memory: an op input without producer or content."""
    return tensor.data is not None and tensor.data.role == "scratch"


def initial_tensors(graph: Graph) -> tuple[int, ...]:
    """The tensors that are live before the first op: graph inputs and scratch."""
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


class _BufferAssignment:
    """Assigns buffers to tensors in the order of their producers."""

    def __init__(self, graph: Graph, last_use: dict[int, int], precision: DType | None) -> None:
        self.graph = graph
        self.last_use = last_use
        self.precision = precision
        self.of_tensor = [-1] * len(graph.tensors)
        self.size: list[int] = []
        self.first: list[int] = []
        self.last: list[int] = []
        self.tensors: list[list[int]] = []

    def assign(self, identity: int, step: int, shared: int | None = None) -> None:
        """Assign a tensor to a new buffer or to an existing one."""
        tensor = self.graph.tensors[identity]
        if self.of_tensor[identity] >= 0 or (tensor.data is not None and not is_scratch(tensor)):
            return
        end = max(self.last_use.get(identity, step), step)
        size = tensor_bytes(tensor, self.precision)
        if shared is None:
            self.of_tensor[identity] = len(self.size)
            self.size.append(size)
            self.first.append(step)
            self.last.append(end)
            self.tensors.append([identity])
            return
        self.of_tensor[identity] = shared
        self.size[shared] = max(self.size[shared], size)
        self.last[shared] = max(self.last[shared], end)
        self.tensors[shared].append(identity)

    def shared_input(self, op: Op, step: int, *, views: bool, overwrites: bool) -> int | None:
        """The input buffer that the op's output can share, or None."""
        rule = cost_rule_of(op.kind)
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
        if sum(self.size) >= _MAX_BYTES:
            raise InvalidGraph(
                f"its tensors need {sum(self.size):,} B in total; at most {_MAX_BYTES:,} B are supported"
            )
        return Buffers(
            np.array(self.size, np.int64),
            np.array(self.first, np.int64),
            np.array(self.last, np.int64),
            tuple(tuple(tensors) for tensors in self.tensors),
            tuple(self.of_tensor),
            steps,
        )
