"""When tensors are in use, on the interpreter's clock: it ticks for every operator and every call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sizeup.graph import ABSENT, Graph
from sizeup.memory.tflm.program import CALLERS

BEFORE_THE_RUN = (0, 0)
"""The span of what no operator knows."""


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
