"""Which tensors are live while each operator runs, in time linear in operators and tensors."""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sizeup.graph import Graph
from sizeup.memory.liveness import Buffers, Column, is_scratch, size_is_known

MOST_LISTED = 16
"""Live tensors that are listed per operator: all of them would be quadratic in the length of a graph."""

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class LiveTensor(NamedTuple):
    """A tensor in memory, with the bytes of its buffer and the operator that produces it."""

    name: str
    bytes: int
    op: int | None  # None: an input of the model, or scratch that the file declares


class Live:
    """What is live while each operator runs, as columns: a graph may have 100,000 operators."""

    def __init__(self, graph: Graph, buffers: Buffers) -> None:
        self._graph, self._buffers, self._inputs = graph, buffers, frozenset(graph.inputs)
        known = (_is_known(graph, each) for each in buffers.tensors)
        is_known = np.fromiter(known, np.bool_, len(buffers))
        self._start, self._listed = _largest(buffers, is_known & (buffers.size > 0))
        self.count: Column = buffers.summed(((buffers.size > 0) | ~is_known).astype(np.int64))
        """Live tensors, those of unknown size included; a view counts with the tensor that it shows."""
        self.is_known: Flags = buffers.summed((~is_known).astype(np.int64)) == 0
        """False if the size of a live tensor depends on data."""

    def largest(self, step: int) -> tuple[LiveTensor, ...]:
        """The live tensors of known size, largest first, at most MOST_LISTED."""
        listed = self._listed[self._start[step] : self._start[step + 1]]
        return tuple(live_tensor(self._graph, self._buffers, each, self._inputs) for each in listed)


def live_tensor(graph: Graph, buffers: Buffers, buffer: int, inputs: AbstractSet[int]) -> LiveTensor:
    """A buffer by the name of the first tensor in it; a kernel's workspace by that of its operator."""
    members, size, first = buffers.tensors[buffer], int(buffers.size[buffer]), int(buffers.first[buffer])
    if not members:
        return LiveTensor(f"workspace of {graph.ops[first].name}", size, first)
    tensor = graph.tensors[members[0]]
    is_given = members[0] in inputs or is_scratch(tensor)
    return LiveTensor(tensor.name, size, None if is_given else first)


def _is_known(graph: Graph, tensors: tuple[int, ...]) -> bool:
    return all(size_is_known(graph.tensors[identity]) for identity in tensors)


def _largest(buffers: Buffers, is_listed: Flags) -> tuple[array[int], array[int]]:
    """The largest live buffers of all operators one after the other, and where those of each begin.

    Those listed now are kept in order, the others in a heap, from which the next largest moves up when one
    of the former is freed.
    """
    # Views of the columns: as lists they would take five times the memory.
    size = buffers.size.data
    first = buffers.first.data
    last = buffers.last.data
    opened = iter(np.argsort(buffers.first, kind="stable"))
    following = next(opened, None)
    shown: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    start, listed = array("q", [0]), array("q")
    for step in range(buffers.steps):
        while following is not None and first[following] <= step:
            if is_listed[following]:
                insort(shown, (-size[following], int(following)))
            if len(shown) > MOST_LISTED:
                heappush(waiting, shown.pop())
            following = next(opened, None)
        listed.extend(buffer for _, buffer in shown)
        start.append(len(listed))
        shown = [each for each in shown if last[each[1]] > step]
        while waiting and len(shown) < MOST_LISTED:
            each = heappop(waiting)
            if last[each[1]] > step:
                shown.append(each)
    return start, listed
