"""Counts the cost of a graph, one row per op, and updates a cost after a change of dtypes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sizeup.cost.columns import LARGEST, Access, AccessColumns, Accesses, Column, Cost, access_columns
from sizeup.cost.rows import op_cost
from sizeup.errors import InvalidGraph
from sizeup.graph import ABSENT, Graph, Op, Tensor, differ_only_in_dtypes, is_precomputed, without_gc

# More elements, at 64 bits each, take more bytes than a column can hold.
_MAX_ELEMENTS = LARGEST // 8


def count(graph: Graph) -> Cost:
    """Count the cost of every op of a graph by the cost rule of its op kind."""
    with without_gc():
        return _count(graph)


def _count(graph: Graph) -> Cost:
    macs, elementwise, known = array("q"), array("q"), array("b")
    reads, writes = AccessColumns(), AccessColumns()
    reasons: dict[int, str] = {}
    for index, op in enumerate(graph.ops):
        row = op_cost(graph, op)
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


def count_with_dtypes(cost: Cost, graph: Graph) -> Cost:
    """Returns `count(graph)`, reusing `cost` if both graphs differ in dtypes only.

    Cost rules depend on shapes and attributes, not on dtypes, so their counts are reused. Bytes and shared
    parameters are computed again.
    """
    if not differ_only_in_dtypes(cost.graph, graph):
        return count(graph)
    with without_gc():
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
    """The same accesses with the tensors of the other graph; tensors of bodies are unchanged."""
    new = {id(one): other for one, other in zip(counted.tensors, graph.tensors, strict=True)}
    tensors = [new.get(id(tensor), tensor) for tensor in accesses.tensors]
    return access_columns(accesses.first, accesses.elements, accesses.times, tensors)


def _parameter_columns(graph: Graph) -> tuple[Column, Accesses, int]:
    """Returns the parameters per op (of first use), all parameters once, and their stored bytes."""
    owners, parameters = _Owners(), AccessColumns()
    parameters.add(_parameters(graph))
    params = np.array([owners.parameters_of(graph, op) for op in graph.ops], np.int64)
    accesses = parameters.freeze()
    return params, accesses, _stored_bytes(parameters.tensors, accesses.bytes_at())


class _Owners:
    """Assigns every parameter to the first op that computes with it.

    An op that only prepares a parameter before the first inference (such as unpacking half-precision weights)
    passes it on to the op that reads the result.
    """

    def __init__(self) -> None:
        self.owned: set[int] = set()  # by the id of the Constant, which shared weights have in common
        # Parameters behind a derived tensor, by graph and tensor. The first reader pops the count.
        self.prepared: dict[tuple[int, int], list[int]] = {}

    def parameters_of(self, graph: Graph, op: Op) -> int:
        """Number of parameters first used by this op."""
        count = 0
        tensors = graph.tensors
        for identity in op.inputs:
            if identity == ABSENT:
                continue
            data = tensors[identity].data
            if data is None:
                continue
            if data.role == "parameter" and id(data) not in self.owned:
                self.owned.add(id(data))
                count += tensors[identity].weights or 0  # never None: `_element_count` raises first
            prepared = self.prepared.get((id(graph), identity))
            count += prepared.pop() if prepared else 0
        for body in op.bodies:
            for inner in body.graph.ops:
                count += self.parameters_of(body.graph, inner)
        if is_precomputed(graph, op):
            prepared = [count]
            self.prepared.update({(id(graph), identity): prepared for identity in op.outputs})
            return 0
        return count


def _stored_bytes(tensors: Iterable[Tensor], dense: Column) -> int:
    stored = (None if tensor.data is None else tensor.data.stored_bytes for tensor in tensors)
    return sum(full if size is None else size for size, full in zip(stored, dense.tolist(), strict=True))


def _parameters(graph: Graph) -> list[Access]:
    """Every parameter once, including unused ones and those of bodies."""
    parameters: dict[int, Tensor] = {}
    stack = [graph]
    while stack:
        current = stack.pop()
        for tensor in current.tensors:
            if tensor.is_parameter:
                parameters.setdefault(id(tensor.data), tensor)
        stack.extend(body.graph for op in current.ops for body in op.bodies)
    sizes = [_element_count(graph, tensor) for tensor in parameters.values()]
    if sum(sizes) > LARGEST:
        raise InvalidGraph(f"{graph.name or 'graph'}: {sum(sizes):,} parameters do not fit 64 bits")
    return [(size, 1, tensor) for size, tensor in zip(sizes, parameters.values(), strict=True)]


def _element_count(graph: Graph, tensor: Tensor) -> int:
    """The elements of a parameter; raises InvalidGraph if unknown or too large."""
    label = f"{graph.name or 'graph'}: parameter {tensor.name!r}"
    elements = tensor.weights
    if elements is None:
        raise InvalidGraph(f"{label} has no known shape, so the parameters cannot be counted")
    if elements > _MAX_ELEMENTS:
        raise InvalidGraph(f"{label} of shape {tensor.shape} does not fit 64 bits")
    return elements
