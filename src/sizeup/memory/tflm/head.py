"""The arena head: tensors of all subgraphs and kernel scratch, placed by TFLite Micro's greedy planner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizeup.graph import ABSENT, Graph
from sizeup.memory.address_space import AddressSpace
from sizeup.memory.liveness import Buffers
from sizeup.memory.tflm.layout import ALIGNMENT, PYTHON_PACKAGE, Build, round_up
from sizeup.memory.tflm.subgraphs import CALLERS, planned_bytes, subgraphs, variable_bytes
from sizeup.memory.tflm.tail import kernel_requests

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
    ticks of a called subgraph are within those of its caller, so that all subgraphs share one plan.
    """

    tensors: list[dict[int, list[int]]]
    operators: list[list[tuple[int, int]]]
    ticks: int = 1

    def begin(self, subgraph: int, identity: int) -> None:
        """Start the liveness of a tensor; only the first call of a subgraph counts."""
        self.tensors[subgraph].setdefault(identity, [self.ticks, self.ticks])

    def use(self, subgraph: int, identity: int) -> None:
        """Extend the liveness of a tensor to the current tick."""
        self.tensors[subgraph].setdefault(identity, [*_BEFORE_INFERENCE])[1] = self.ticks


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
    """The liveness of all tensors and operators of a model; the main graph comes first."""
    numbers = {id(graph): number for number, graph in enumerate(graphs)}
    liveness = Liveness([{} for _ in graphs], [[_BEFORE_INFERENCE] * len(graph.ops) for graph in graphs])
    _run(graphs[0], numbers, liveness)
    return liveness


def _run(graph: Graph, numbers: dict[int, int], liveness: Liveness) -> None:
    number = numbers[id(graph)]
    for identity in graph.inputs:
        liveness.begin(number, identity)
    for index, op in enumerate(graph.ops):
        liveness.ticks += 1
        begin = liveness.ticks
        for identity in op.outputs:
            liveness.begin(number, identity)
        if op.source in CALLERS:
            for body in op.bodies:
                liveness.ticks += 1
                _run(body.graph, numbers, liveness)
        for identity in (*op.inputs, *op.outputs):
            if identity != ABSENT:
                liveness.use(number, identity)
        liveness.operators[number][index] = begin, liveness.ticks
    for identity in graph.outputs:
        liveness.use(number, identity)


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
