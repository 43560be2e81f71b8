"""The head: tensors of all subgraphs and scratch of kernels, planned together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizeup.graph import Graph
from sizeup.memory.liveness import Buffers
from sizeup.memory.tflm.layout import ALIGNMENT, PYTHON_PACKAGE, round_up
from sizeup.memory.tflm.program import planned_bytes, subgraphs, variable_bytes
from sizeup.memory.tflm.scopes import BEFORE_THE_RUN, Spans, spans
from sizeup.memory.tflm.tail import demand


class Owner(NamedTuple):
    """Whose a buffer is: a tensor's of a subgraph, or scratch of an operator; the other one is -1."""

    subgraph: int  # 0 is the main graph
    tensor: int
    operator: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What the interpreter's planner is asked to place, in the order in which it is asked.

    `buffers` counts time in ticks (see `scopes.Spans`), knows the tensors of the main graph, and has sizes
    rounded up to 16 bytes; `asked` are the sizes before that.
    """

    buffers: Buffers
    owners: tuple[Owner, ...]
    asked: tuple[int, ...]


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
            first, last = found.tensors[number].get(identity, BEFORE_THE_RUN)
            yield _Request(Owner(number, identity, -1), sizes[identity], first, last)


def _scratch(graphs: Sequence[Graph], found: Spans) -> Iterator[_Request]:
    for number, graph in enumerate(graphs):
        for index, op in enumerate(graph.ops):
            first, last = found.operators[number][index]
            for size in demand(graph, op, PYTHON_PACKAGE).scratch:
                yield _Request(Owner(number, -1, index), size, first, last)
