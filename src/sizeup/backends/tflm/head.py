"""The arena head: tensors of all subgraphs and kernel scratch, placed by TFLite Micro's greedy planner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizeup.backends.tflm.layout import ALIGNMENT, PYTHON_PACKAGE, Build, round_up
from sizeup.backends.tflm.subgraphs import CALLERS, planned_bytes, subgraphs, variable_bytes
from sizeup.backends.tflm.tail import kernel_requests
from sizeup.graph import ABSENT, Graph
from sizeup.memory.address_space import AddressSpace
from sizeup.memory.liveness import Buffers

_BEFORE_INFERENCE = (0, 0)  # liveness of what does not run, or of tensors that no operator uses


class Owner(NamedTuple):
    """The owner of a buffer: a tensor of a subgraph, or an operator (scratch); the other field is -1."""

    subgraph: int  # 0 is the main graph
    tensor: int
    operator: int


@dataclass(frozen=True, slots=True)
class HeadBuffers:
    """The buffers for the interpreter's planner, in the order in which they are added.

    `buffers` counts time in ticks (see `Liveness`), maps only tensors of the main graph, and has sizes
    rounded up to 16 bytes. `requested` are the sizes before rounding.
    """

    buffers: Buffers
    owners: tuple[Owner, ...]
    requested: tuple[int, ...]


@dataclass(slots=True)
class Liveness:
    """Liveness: first and last tick of every tensor and operator, one table per subgraph.

    Tick 0 is before the inference, the main graph starts at tick 1, its first operator runs at tick 2. The
    ticks of a called subgraph are within those of its caller, so that all subgraphs share one plan. A tensor
    of a subgraph is live from the first run to the last use in the last run.
    """

    tensors: list[dict[int, list[int]]]
    operators: list[list[tuple[int, int]]]
    ticks: int


class _Request(NamedTuple):
    owner: Owner
    size: int
    first: int
    last: int


def head_buffers(
    graph: Graph, variables: Collection[tuple[int, int]] = (), build: Build = PYTHON_PACKAGE
) -> HeadBuffers:
    """The buffers of the head: tensors of the main graph, tensors of the other subgraphs, then scratch.

    `variables` are the variable tensors, as (subgraph, tensor), that an offline plan moves from the tail to
    the head.
    """
    graphs = subgraphs(graph)
    liveness = liveness_of(graphs)
    requests = [*_tensors(graphs, liveness, variables), *_scratch(graphs, liveness, build)]
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
        liveness.ticks + 1,
    )
    return HeadBuffers(buffers, owners, tuple(request.size for request in requests))


def _tensors(
    graphs: Sequence[Graph], liveness: Liveness, variables: Collection[tuple[int, int]]
) -> Iterator[_Request]:
    for number, graph in enumerate(graphs):
        sizes = planned_bytes(graph)
        for identity, size in variable_bytes(graph).items():
            if (number, identity) in variables:
                sizes[identity] = size
        for identity in sorted(sizes):
            first, last = liveness.tensors[number].get(identity, _BEFORE_INFERENCE)
            yield _Request(Owner(number, identity, -1), sizes[identity], first, last)


def _scratch(graphs: Sequence[Graph], liveness: Liveness, build: Build) -> Iterator[_Request]:
    for number, graph in enumerate(graphs):
        for index, op in enumerate(graph.ops):
            first, last = liveness.operators[number][index]
            for size in kernel_requests(graph, op, build).scratch:
                yield _Request(Owner(number, -1, index), size, first, last)


def liveness_of(graphs: Sequence[Graph]) -> Liveness:
    """The liveness of all tensors and operators of a model; the main graph comes first.

    Every subgraph is looked at once, however often it runs.
    """
    numbers = {id(graph): number for number, graph in enumerate(graphs)}
    runs: dict[int, _Run] = {}
    _time(graphs[0], numbers, runs)
    first, last = {0: 1}, {0: 1}
    for number in reversed(runs):  # callers before what they call
        for called, start in runs[number].calls:
            first[called] = min(first.get(called, first[number] + start), first[number] + start)
            last[called] = max(last.get(called, 0), last[number] + start)
    tensors: list[dict[int, list[int]]] = [{} for _ in graphs]
    operators = [[_BEFORE_INFERENCE] * len(graph.ops) for graph in graphs]
    for number, run in runs.items():
        tensors[number] = _live(graphs[number], run, first[number], last[number])
        operators[number] = [(last[number] + begin, last[number] + end) for begin, end in run.operators]
    return Liveness(tensors, operators, 1 + runs[0].ticks)


class _Run(NamedTuple):
    """A run of a subgraph, in ticks from its start."""

    operators: list[tuple[int, int]]  # begin and end
    calls: list[tuple[int, int]]  # the number of the subgraph, and its start
    ticks: int


def _time(graph: Graph, numbers: dict[int, int], runs: dict[int, _Run]) -> _Run:
    """The run of a subgraph, which is added after those that it calls."""
    number = numbers[id(graph)]
    if number not in runs:
        operators, calls, now = [], [], 0
        for op in graph.ops:
            now += 1
            begin = now
            for body in op.bodies if op.source in CALLERS else ():
                now += 1
                calls.append((numbers[id(body.graph)], now))
                now += _time(body.graph, numbers, runs).ticks
            operators.append((begin, now))
        runs[number] = _Run(operators, calls, now)
    return runs[number]


def _live(graph: Graph, run: _Run, first: int, last: int) -> dict[int, list[int]]:
    """First and last tick of every tensor that is used in runs that start between those ticks."""
    ticks = {identity: [first, first] for identity in graph.inputs}
    for op, (begin, end) in zip(graph.ops, run.operators, strict=True):
        for identity in op.outputs:
            ticks.setdefault(identity, [first + begin, first + begin])
        for identity in (*op.inputs, *op.outputs):
            if identity != ABSENT:
                ticks.setdefault(identity, [*_BEFORE_INFERENCE])[1] = last + end
    for identity in graph.outputs:
        ticks.setdefault(identity, [*_BEFORE_INFERENCE])[1] = last + run.ticks
    return ticks


ONLINE = -1
"""The offset of a buffer that the interpreter plans at run time."""


def place_greedily(
    sizes: Sequence[int], firsts: Sequence[int], lasts: Sequence[int], offline: Sequence[int] | None = None
) -> list[int]:
    """The offset of every buffer, as the greedy planner of the interpreter assigns it.

    `offline` offsets are kept, even if they overlap. Of buffers with equal size, the one added last is placed
    first, because the interpreter fills its list from the end before it sorts. Raises LimitReached if that
    takes too many steps (see `address_space`).
    """
    offsets = list(offline) if offline is not None else [ONLINE] * len(sizes)
    space = AddressSpace(firsts, lasts)
    online = []
    for buffer, offset in enumerate(offsets):
        if offset == ONLINE:
            online.append(buffer)
        else:
            space.add(firsts[buffer], lasts[buffer], offset, offset + sizes[buffer])
    for buffer in sorted(online, key=lambda index: (-sizes[index], -index)):
        first, last, size = firsts[buffer], lasts[buffer], sizes[buffer]
        offsets[buffer] = offset = space.lowest_gap(first, last, size)
        space.add(first, last, offset, offset + size)
    return offsets
