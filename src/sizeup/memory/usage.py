"""What a run holds in memory, operator by operator, and which tensors set the peak."""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Run
from sizeup.memory.kernels import unmodelled, workspaces
from sizeup.memory.liveness import Buffers, Column, is_scratch, lifetimes, size_is_known, tensor_bytes
from sizeup.ops import rule_of

MOST_LISTED = 16
"""Live tensors that are listed per operator: all of them would be quadratic in the length of a graph."""

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class LiveTensor(NamedTuple):
    """A tensor in memory, with the bytes of its buffer and the operator that produces it."""

    name: str
    bytes: int
    op: int | None  # None: an input of the model, or scratch that the file declares


@dataclass(frozen=True, slots=True)
class Shares:
    """The live bytes of every operator in four parts, which add up to them."""

    inputs: Column  # what it reads
    outputs: Column  # what it makes, where that is not what it reads under another name
    others: Column  # what waits for a later operator
    workspaces: Column  # what its kernel takes beside all that


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory beside the weights, in the order in which the graph runs."""

    buffers: Buffers
    live_bytes: Column  # while each operator runs
    peak_bytes: int
    peak_op: int | None  # the first operator at which the peak is reached
    held: tuple[LiveTensor, ...]  # then, largest first
    unknown: int  # tensors whose size only data decides, and which are missing from all of this
    unmodelled: tuple[str, ...] = ()  # operators by name that take more inside: the peak is at least as high

    @property
    def missing(self) -> str:
        """Why the peak is not known; empty where it is."""
        if not self.unknown:
            return ""
        if self.unknown == 1:
            return "the size of 1 tensor depends on data"
        return f"the sizes of {self.unknown:,} tensors depend on data"


def usage(graph: Graph, *, precision: DType | None = None, as_run: bool = False) -> Usage:
    """Live bytes of every operator, views sharing the bytes that they show.

    With `as_run`, a graph that was recorded from a run holds what that run held, for as long as it did.
    """
    beyond: tuple[str, ...] = ()
    if as_run and graph.run is not None:
        buffers = _lifetimes_as_run(graph, graph.run, precision)
        beyond = unmodelled(graph, graph.run)
    else:
        buffers = lifetimes(graph, precision=precision)
    live = buffers.live_bytes()
    peak_op = int(live.argmax()) if len(live) else None
    at_peak = buffers.live_at(peak_op or 0)  # without operators, the inputs are live all the same
    peak = sum(int(buffers.size[each]) for each in at_peak)
    inputs = frozenset(graph.inputs)
    held = tuple(_live_tensor(graph, buffers, each, inputs) for each in at_peak)
    unknown = sum(tensor.data is None and not size_is_known(tensor) for tensor in graph.tensors)
    return Usage(buffers, live, peak, peak_op, held, unknown, beyond)


def shares(graph: Graph, buffers: Buffers) -> Shares:
    """What of the memory in use each operator reads and makes; the buffers are those of the graph's order."""
    inputs, outputs, workspaces = (np.zeros(buffers.steps, np.int64) for _ in range(3))
    place, size = buffers.of_tensor, buffers.size.tolist()
    for step, op in enumerate(graph.ops):
        read = {place[identity] for identity in op.inputs if identity != ABSENT} - {-1}
        made = {place[identity] for identity in op.outputs} - read - {-1}
        inputs[step] = sum(size[buffer] for buffer in read)
        outputs[step] = sum(size[buffer] for buffer in made)
    for buffer, tensors in enumerate(buffers.tensors):
        if not tensors:
            workspaces[buffers.first[buffer] : buffers.last[buffer] + 1] += size[buffer]
    return Shares(inputs, outputs, buffers.live_bytes() - inputs - outputs - workspaces, workspaces)


def _lifetimes_as_run(graph: Graph, run: Run, precision: DType | None = None) -> Buffers:
    """One buffer a storage, from the operator that made it to the last one that it was there for.

    What a kernel takes for itself is a buffer without tensors, there for one operator.
    """
    tensors = _by_storage(graph, run)
    first, last = _spans(graph, run)
    views = {identity for op in graph.ops if _is_view(op.kind) for identity in op.outputs}
    rows: list[tuple[int, int, int, tuple[int, ...]]] = []
    of_tensor = [-1] * len(graph.tensors)
    for storage, members in tensors.items():
        # A view may show more numbers than there are (expanded): what it shows has the size.
        whole = [identity for identity in members if identity not in views] or members
        size = max(tensor_bytes(graph.tensors[identity], precision) for identity in whole)
        for identity in members:
            of_tensor[identity] = len(rows)
        rows.append((size, first[storage], last[storage], tuple(members)))
    taken = workspaces(graph, run, precision)
    rows += [(size, step, step, ()) for step, size in enumerate(taken) if size]
    sizes, firsts, lasts = (np.array([row[place] for row in rows], np.int64) for place in range(3))
    return Buffers(sizes, firsts, lasts, tuple(row[3] for row in rows), tuple(of_tensor), len(graph.ops))


def _by_storage(graph: Graph, run: Run) -> dict[int, list[int]]:
    """The tensors of every storage; one that holds a constant is no memory of the run."""
    members: dict[int, list[int]] = {}
    for identity, storage in enumerate(run.storage):
        if storage >= 0:
            members.setdefault(storage, []).append(identity)
    tensors = graph.tensors
    return {
        storage: found
        for storage, found in members.items()
        if all(tensors[identity].data is None for identity in found)
    }


def _spans(graph: Graph, run: Run) -> tuple[dict[int, int], dict[int, int]]:
    """The first and the last operator of every storage; what was given and what is returned stays."""
    end = max(len(graph.ops) - 1, 0)
    first: dict[int, int] = {run.storage[identity]: 0 for identity in graph.inputs}
    last: dict[int, int] = {}
    for step, op in enumerate(graph.ops):
        for identity in (*op.inputs, *op.outputs):
            if identity != ABSENT:
                first.setdefault(run.storage[identity], step)
                last[run.storage[identity]] = step
    if run.freed:
        last = {storage: max(step, run.freed[storage]) for storage, step in last.items() if storage >= 0}
    # The caller holds what it gave, and will hold what it gets.
    last |= {run.storage[identity]: end for identity in (*graph.inputs, *graph.outputs)}
    return first, last


def _is_view(kind: str) -> bool:
    rule = rule_of(kind)
    return rule is not None and rule.views


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
        return tuple(_live_tensor(self._graph, self._buffers, each, self._inputs) for each in listed)


def _live_tensor(graph: Graph, buffers: Buffers, buffer: int, inputs: AbstractSet[int]) -> LiveTensor:
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
