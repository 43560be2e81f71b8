"""Counting a graph: a row per op, joined into columns; and again after a change of dtypes alone."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sizeup.cost.columns import LARGEST, Access, AccessColumns, Accesses, Column, Cost, access_columns
from sizeup.cost.rows import row_of
from sizeup.errors import InvalidGraph
from sizeup.graph import ABSENT, Graph, Op, Tensor, differ_in_types_alone, without_collection

# More elements than this take more bytes, at 64 bits each, than a column can hold.
_MOST_ELEMENTS = LARGEST // 8


def count(graph: Graph) -> Cost:
    """Count every operator of a graph by the rule of its kind."""
    with without_collection():
        return _count(graph)


def _count(graph: Graph) -> Cost:
    macs, elementwise, known = array("q"), array("q"), array("b")
    reads, writes = AccessColumns(), AccessColumns()
    reasons: dict[int, str] = {}
    for index, op in enumerate(graph.ops):
        row = row_of(graph, op)
        macs.append(row.macs)
        elementwise.append(row.elementwise)
        known.append(row.reason is None)
        reads.add(row.reads)
        writes.add(row.writes)
        if row.reason is not None:
            reasons[index] = row.reason
    params, parameters, stored_bytes = _parameter_columns(graph)
    return Cost(
        graph,
        np.array(macs, np.int64),
        np.array(elementwise, np.int64),
        params,
        np.array(known, np.bool_),
        reasons,
        reads.freeze(),
        writes.freeze(),
        parameters,
        stored_bytes,
    )


def recount(cost: Cost, graph: Graph) -> Cost:
    """What `count` gives for a graph, by way of a cost where that has the same operators on the same shapes.

    Rules know shapes and attributes but no number types, so that what they counted stays; which bytes that
    is, and which parameters are shared, is found out anew.
    """
    if not differ_in_types_alone(cost.graph, graph):
        return count(graph)
    with without_collection():
        params, parameters, stored_bytes = _parameter_columns(graph)
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


def _parameter_columns(graph: Graph) -> tuple[Column, Accesses, int]:
    """Parameters by the operator that takes each first, every one of them once, and the bytes that they
    are kept in."""
    owners, parameters = _Owners(), AccessColumns()
    parameters.add(_parameters(graph))
    params = np.array([owners.parameters_of(graph, op) for op in graph.ops], np.int64)
    every = parameters.freeze()
    return params, every, _stored_bytes(parameters.tensors, every.bytes_at())


class _Owners:
    """Gives every parameter to the first operator that computes with it.

    What only prepares a parameter before the first run (weights unpacked from half precision) passes
    it on to whoever takes the result.
    """

    def __init__(self) -> None:
        self.owned: set[int] = set()  # by the identity of the constant, which shared weights share
        self.prepared: dict[tuple[int, int], list[int]] = {}  # parameters behind a derived tensor, once

    def parameters_of(self, graph: Graph, op: Op) -> int:
        """Parameters that no earlier operator took."""
        found = 0
        for identity in op.inputs:
            if identity == ABSENT:
                continue
            tensor = graph.tensors[identity]
            if tensor.is_parameter and id(tensor.data) not in self.owned:
                self.owned.add(id(tensor.data))
                found += tensor.elements or 0  # known, or the count has failed before
            behind = self.prepared.get((id(graph), identity))
            found += behind.pop() if behind else 0
        for body in op.bodies:
            found += sum(self.parameters_of(body.graph, inner) for inner in body.graph.ops)
        if op.outputs and all(graph.tensors[identity].data is not None for identity in op.outputs):
            behind = [found]
            self.prepared.update({(id(graph), identity): behind for identity in op.outputs})
            return 0
        return found


def _stored_bytes(tensors: Iterable[Tensor], dense: Column) -> int:
    stored = (None if each.data is None else each.data.stored_bytes for each in tensors)
    return sum(full if kept is None else kept for kept, full in zip(stored, dense.tolist(), strict=True))


def _parameters(graph: Graph) -> list[Access]:
    """Every parameter once, used or not, those of bodies included."""
    found: dict[int, Tensor] = {}
    stack = [graph]
    while stack:
        each = stack.pop()
        for tensor in each.tensors:
            if tensor.is_parameter:
                found.setdefault(id(tensor.data), tensor)
        stack.extend(body.graph for op in each.ops for body in op.bodies)
    sizes = [_countable(graph, tensor) for tensor in found.values()]
    if sum(sizes) > LARGEST:
        raise InvalidGraph(f"{graph.name or 'graph'}: {sum(sizes):,} parameters do not fit 64 bits")
    return [(size, 1, tensor) for size, tensor in zip(sizes, found.values(), strict=True)]


def _countable(graph: Graph, tensor: Tensor) -> int:
    """The elements of a parameter; one of unknown size would make every total of parameters wrong."""
    where = f"{graph.name or 'graph'}: parameter {tensor.name!r}"
    elements = tensor.elements
    if elements is None:
        raise InvalidGraph(f"{where} has no known shape, so the parameters cannot be counted")
    if elements > _MOST_ELEMENTS:
        raise InvalidGraph(f"{where} of the shape {tensor.shape} does not fit 64 bits")
    return elements
