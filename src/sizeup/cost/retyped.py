"""The cost of a graph that differs from a counted one in number types alone: no rule is asked again."""

from __future__ import annotations

from dataclasses import replace

from sizeup.cost.columns import Accesses, Cost, access_columns
from sizeup.cost.counting import count
from sizeup.cost.parameters import parameter_columns
from sizeup.graph import Graph, differ_in_types_alone, without_collection


def recount(cost: Cost, graph: Graph) -> Cost:
    """What `count` gives for a graph, by way of a cost where that has the same operators on the same shapes.

    Rules know shapes and attributes but no number types, so that what they counted stays; which bytes that
    is, and which parameters are shared, is found out anew.
    """
    if not differ_in_types_alone(cost.graph, graph):
        return count(graph)
    with without_collection():
        params, parameters, stored_bytes = parameter_columns(graph)
        return replace(
            cost,
            graph=graph,
            params=params,
            reads=_retyped(cost.reads, cost.graph, graph),
            writes=_retyped(cost.writes, cost.graph, graph),
            parameters=parameters,
            stored_bytes=stored_bytes,
        )


def _retyped(accesses: Accesses, counted: Graph, graph: Graph) -> Accesses:
    """The same accesses, to the tensors that stand in the other graph; those of bodies stay."""
    now = {id(one): other for one, other in zip(counted.tensors, graph.tensors, strict=True)}
    tensors = [now.get(id(each), each) for each in accesses.tensors]
    return access_columns(accesses.first, accesses.elements, accesses.times, tensors)
