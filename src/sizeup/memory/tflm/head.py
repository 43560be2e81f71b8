"""The head: tensors of all subgraphs and scratch of kernels, placed by TFLite Micro's greedy planner."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizeup.graph import ABSENT, Graph
from sizeup.memory.liveness import Buffers
from sizeup.memory.tflm.layout import ALIGNMENT, PYTHON_PACKAGE, round_up
from sizeup.memory.tflm.program import CALLERS, planned_bytes, subgraphs, variable_bytes
from sizeup.memory.tflm.tail import demand

_BEFORE_THE_RUN = (0, 0)  # the span of what no operator knows


class Owner(NamedTuple):
    """Whose a buffer is: a tensor's of a subgraph, or scratch of an operator; the other one is -1."""

    subgraph: int  # 0 is the main graph
    tensor: int
    operator: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What the interpreter's planner is asked to place, in the order in which it is asked.

    `buffers` counts time in ticks (see `Spans`), knows the tensors of the main graph, and has sizes
    rounded up to 16 bytes; `asked` are the sizes before that.
    """

    buffers: Buffers
    owners: tuple[Owner, ...]
    asked: tuple[int, ...]


@dataclass(slots=True)
class Spans:
    """First and last tick of every tensor and every operator, one table a subgraph.

    Tick 0 is before the run, the main graph begins at tick 1, its first operator runs at tick 2. What a
    called subgraph does lies within its caller's span, so that all subgraphs share one plan.
    """

    tensors: list[dict[int, list[int]]]
    operators: list[list[list[int]]]
    ticks: int = 1

    def begin(self, subgraph: int, identity: int) -> None:
        """Note that a tensor is made now; of a subgraph that is called again the first time counts."""
        self.tensors[subgraph].setdefault(identity, [self.ticks, self.ticks])

    def use(self, subgraph: int, identity: int) -> None:
        """Note that a tensor is in use now."""
        self.tensors[subgraph].setdefault(identity, [0, 0])[1] = self.ticks


class _Request(NamedTuple):
    owner: Owner
    size: int
    first: int
    last: int


def planned(graph: Graph, variables: Collection[tuple[int, int]] = ()) -> Planned:
    """The buffers of the head: first tensors of the main graph, then of those that it calls, then scratch.

    `variables` are variable tensors that an offline plan moves from the tail into the head, as pairs of
    subgraph and tensor.
    """
    graphs = subgraphs(graph)
    found = spans(graphs)
    requests = [*_tensors(graphs, found, variables), *_scratch(graphs, found)]
    of_tensor = [-1] * len(graph.tensors)
    for number, request in enumerate(requests):
        if request.owner.subgraph == 0 and request.owner.tensor >= 0:
            of_tensor[request.owner.tensor] = number
    owners = tuple(request.owner for request in requests)
    buffers = Buffers(
        np.array([round_up(request.size, ALIGNMENT) for request in requests], np.int64),
        np.array([request.first for request in requests], np.int64),
        np.array([request.last for request in requests], np.int64),
        tuple((owner.tensor,) if owner.subgraph == 0 and owner.tensor >= 0 else () for owner in owners),
        tuple(of_tensor),
        found.ticks + 1,
    )
    return Planned(buffers, owners, tuple(request.size for request in requests))


def _tensors(
    graphs: Sequence[Graph], found: Spans, variables: Collection[tuple[int, int]]
) -> Iterator[_Request]:
    for number, graph in enumerate(graphs):
        sizes = planned_bytes(graph)
        for identity, size in variable_bytes(graph).items():
            if (number, identity) in variables:
                sizes[identity] = size
        for identity in sorted(sizes):
            first, last = found.tensors[number].get(identity, _BEFORE_THE_RUN)
            yield _Request(Owner(number, identity, -1), sizes[identity], first, last)


def _scratch(graphs: Sequence[Graph], found: Spans) -> Iterator[_Request]:
    for number, graph in enumerate(graphs):
        for index, op in enumerate(graph.ops):
            first, last = found.operators[number][index]
            for size in demand(graph, op, PYTHON_PACKAGE).scratch:
                yield _Request(Owner(number, -1, index), size, first, last)


def spans(graphs: Sequence[Graph]) -> Spans:
    """The spans of a model's subgraphs, the main one first."""
    places = {id(graph): place for place, graph in enumerate(graphs)}
    found = Spans([{} for _ in graphs], [[[0, 0] for _ in graph.ops] for graph in graphs])
    _run(graphs[0], places, found)
    return found


def _run(graph: Graph, places: dict[int, int], found: Spans) -> None:
    place = places[id(graph)]
    for identity in graph.inputs:
        found.begin(place, identity)
    for index, op in enumerate(graph.ops):
        found.ticks += 1
        begin = found.ticks
        for identity in op.outputs:
            found.begin(place, identity)
        if op.source in CALLERS:
            for body in op.bodies:
                found.ticks += 1
                _run(body.graph, places, found)
        for identity in (*op.inputs, *op.outputs):
            if identity != ABSENT:
                found.use(place, identity)
        found.operators[place][index] = [begin, found.ticks]
    for identity in graph.outputs:
        found.use(place, identity)


ONLINE = -1
"""The offset of a buffer that the interpreter is to place itself."""


def place(
    sizes: Sequence[int], firsts: Sequence[int], lasts: Sequence[int], offline: Sequence[int] | None = None
) -> list[int]:
    """The offset of every buffer, in use from its first to its last step.

    Offsets given `offline` are taken as they are, also where they overlap. Of equally large buffers the
    one added last is placed first, because the interpreter fills its list from the end before it sorts.
    The work grows with the pairs of buffers that are in use at once.
    """
    offsets = list(offline) if offline is not None else [ONLINE] * len(sizes)
    placed = _Placed(max(lasts, default=0) + 1)
    online = []
    for buffer, offset in enumerate(offsets):
        if offset == ONLINE:
            online.append(buffer)
        else:
            placed.add(firsts[buffer], lasts[buffer], offset, offset + sizes[buffer])
    for buffer in sorted(online, key=lambda each: (-sizes[each], -each)):
        first, last = firsts[buffer], lasts[buffer]
        offset = _lowest_gap(placed.during(first, last), sizes[buffer])
        offsets[buffer] = offset
        placed.add(first, last, offset, offset + sizes[buffer])
    return offsets


def _lowest_gap(taken: list[tuple[int, int]], size: int) -> int:
    candidate = 0
    for start, end in sorted(taken):
        if start - candidate >= size:
            break
        candidate = max(candidate, end)
    return candidate


class _Placed:
    """Address ranges by the time in which they are taken.

    What is taken at some time during a span was taken at its beginning or begins within it. The former is
    looked up in a binary tree over time, in which a range hangs at the few nodes that make up its time.
    """

    def __init__(self, steps: int) -> None:
        self._leaves = 1 << max(steps - 1, 0).bit_length()
        self._tree: list[list[tuple[int, int]]] = [[] for _ in range(2 * self._leaves)]
        self._beginnings: list[tuple[int, int, int]] = []  # (first step, start, end), sorted

    def add(self, first: int, last: int, start: int, end: int) -> None:
        """Take an address range from the first to the last step."""
        insort(self._beginnings, (first, start, end))
        low, high = first + self._leaves, last + self._leaves + 1
        while low < high:
            if low & 1:
                self._tree[low].append((start, end))
                low += 1
            if high & 1:
                high -= 1
                self._tree[high].append((start, end))
            low, high = low >> 1, high >> 1

    def during(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges that are taken at any time from the first to the last step."""
        found = []
        node = first + self._leaves
        while node:
            found += self._tree[node]
            node >>= 1
        begin = bisect_left(self._beginnings, (first + 1, -1, -1))
        end = bisect_left(self._beginnings, (last + 1, -1, -1))
        found += [(start, stop) for _, start, stop in self._beginnings[begin:end]]
        return found
