"""What every operator costs, as columns: counts once, then bytes at any precision by multiplication."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import BIAS, DTYPES, DType
from sizeup.errors import RuleError
from sizeup.graph import ABSENT, Body, Graph, Op, Tensor, without_collection
from sizeup.ops import Call, OpRule, UnknownShape, call_of, rule_of

Column: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# One row beyond this would not fit its column: Python counts on, numpy does not.
_LARGEST = 2**62
_HANDLE = DTYPES["resource"]


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """Tensors read or written, one entry each; those of operator i are first[i]:first[i + 1]."""

    first: Column
    elements: Column
    times: Column  # how often in a pass: more than once in the body of a loop
    eights: Column  # whole groups of eight elements moved in a pass
    odd: Column  # the entries with elements beside whole groups
    bits: Column
    priced: Flags  # follows a change of precision (indices, masks and shapes do not)
    weight: Flags  # is a parameter, a buffer or a constant
    bias: Flags  # a small parameter that stays at 32 bits beside quantised weights
    tensors: tuple[Tensor, ...]

    def bytes_at(self, precision: DType | None = None) -> Column:
        """Bytes of every access, at the graph's own number types or at one precision."""
        if precision is None:
            bits = self.bits
        else:
            bits = np.where(self.priced, np.int64(precision.bits), self.bits)
            if precision.is_quantised:
                np.putmask(bits, self.bias, BIAS.bits)
        # Eight numbers take exactly `bits` bytes: whole eights first, so that no number is counted in bits.
        # Few columns, because a fresh one of a large graph costs more than the arithmetic on it.
        moved = self.eights * bits
        if len(self.odd):
            odd = self.odd
            moved[odd] += (((self.elements[odd] & 7) * bits[odd] + 7) >> 3) * self.times[odd]
        return moved

    def by_op(self, quantities: Column) -> Column:
        """Sums of a column of these accesses, one number an operator."""
        running = np.zeros(len(quantities) + 1, np.int64)
        np.cumsum(quantities, out=running[1:])
        return np.diff(running[self.first])


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """Bytes at one precision: per operator what is read and written, and what all weights take."""

    read: Column
    written: Column
    weights: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cost:
    """Columns, one row an operator of the graph; an unknown row holds only what is certain, and says so
    in `known`."""

    graph: Graph
    macs: Column
    elementwise: Column
    params: Column  # parameters first used by this operator: shared ones count once
    known: Flags
    reasons: Mapping[int, str]  # why a row is not known
    reads: Accesses
    writes: Accesses
    parameters: Accesses  # every parameter of the model once, in one group
    stored_bytes: int  # of all parameters as the model keeps them: sparse or packed ones take less

    def __repr__(self) -> str:
        known = int(self.known.sum())
        return f"<Cost of {self.graph!r}: {self.total_macs:,} MACs, {known:,} of {len(self.known):,} known>"

    @property
    def total_macs(self) -> int:
        """Multiply-accumulates of one pass."""
        return total(self.macs)

    @property
    def total_elementwise(self) -> int:
        """Elementwise operations of one pass."""
        return total(self.elementwise)

    @property
    def total_params(self) -> int:
        """Parameters of the model, shared ones once, unused ones too."""
        return total(self.parameters.elements)

    def bytes_at(self, precision: DType | None = None) -> Bytes:
        """The bytes moved and stored at the graph's own number types, or at one precision."""
        return Bytes(
            self.reads.by_op(self.reads.bytes_at(precision)),
            self.writes.by_op(self.writes.bytes_at(precision)),
            self.stored_bytes if precision is None else total(self.parameters.bytes_at(precision)),
        )


def total(column: Column) -> int:
    """The exact sum of a column, as a Python int."""
    if len(column) and int(np.abs(column).max()) > (2**62) // len(column):
        return sum(column.tolist())
    return int(column.sum())


_Access: TypeAlias = tuple[int, int, Tensor]  # elements moved, how often, and of which tensor


class _AccessColumns:
    def __init__(self) -> None:
        self.first = array("q", [0])
        self.elements = array("q")
        self.times = array("q")
        self.tensors: list[Tensor] = []

    def add(self, accesses: list[_Access]) -> None:
        """Append one operator's accesses and close its group."""
        for elements, times, tensor in accesses:
            self.elements.append(elements)
            self.times.append(times)
            self.tensors.append(tensor)
        self.first.append(len(self.tensors))

    def freeze(self) -> Accesses:
        first, elements, times = (
            np.array(each, np.int64) for each in (self.first, self.elements, self.times)
        )
        return access_columns(first, elements, times, self.tensors)


def access_columns(first: Column, elements: Column, times: Column, tensors: list[Tensor]) -> Accesses:
    """Accesses to these tensors, with all that prices them."""
    priced = np.array([each.follows_precision for each in tensors], np.bool_)
    small = np.array([each.is_parameter and len(each.shape or ()) <= 1 for each in tensors], np.bool_)
    return Accesses(
        first,
        elements,
        times,
        (elements >> 3) * times,
        np.flatnonzero(elements & 7),
        np.array([each.dtype.bits for each in tensors], np.int64),
        priced,
        np.array([each.data is not None for each in tensors], np.bool_),
        priced & small,
        tuple(tensors),
    )


class _Row:
    """The cost of one operator, its bodies included; `reason` says why it is not known."""

    __slots__ = ("elementwise", "macs", "reads", "reason", "writes")

    def __init__(self, reason: str | None = None) -> None:
        self.macs = 0
        self.elementwise = 0
        self.reads: list[_Access] = []
        self.writes: list[_Access] = []
        self.reason = reason

    def add(self, other: _Row, times: int = 1) -> None:
        self.macs += times * other.macs
        self.elementwise += times * other.elementwise
        self.reads += [(elements, times * each, tensor) for elements, each, tensor in other.reads]
        self.writes += [(elements, times * each, tensor) for elements, each, tensor in other.writes]
        self.reason = self.reason or other.reason

    @property
    def fits(self) -> bool:
        """Whether its numbers, in bits at most, fit the columns."""
        moved = max((64 * n * times for n, times, _ in (*self.reads, *self.writes)), default=0)
        return max(self.macs, self.elementwise, moved) <= _LARGEST


def count(graph: Graph) -> Cost:
    """Count every operator of a graph by the rule of its kind."""
    with without_collection():
        return _count(graph)


def _count(graph: Graph) -> Cost:
    macs, elementwise, known = array("q"), array("q"), array("b")
    reads, writes = _AccessColumns(), _AccessColumns()
    reasons: dict[int, str] = {}
    for index, op in enumerate(graph.ops):
        row = row_of(graph, op)
        if not row.fits:
            row = _Row("its count does not fit 64 bits")
        macs.append(row.macs)
        elementwise.append(row.elementwise)
        known.append(row.reason is None)
        reads.add(row.reads)
        writes.add(row.writes)
        if row.reason is not None:
            reasons[index] = row.reason
    params, parameters, stored_bytes = parameter_columns(graph)
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


def parameter_columns(graph: Graph) -> tuple[Column, Accesses, int]:
    """Parameters by the operator that takes each first, every one of them once, and the bytes that they
    are kept in."""
    owners, parameters = _Owners(), _AccessColumns()
    params = np.array([owners.parameters_of(graph, op) for op in graph.ops], np.int64)
    parameters.add(_parameters(graph))
    every = parameters.freeze()
    return params, every, _stored_bytes(parameters.tensors, every.bytes_at())


def row_of(graph: Graph, op: Op) -> _Row:
    """The cost of one operator by the rule of its kind."""
    rule = rule_of(op.kind)
    if rule is None:
        row = _Row(f"no rule for {op.source or op.kind}")
        _add_plain_traffic(row, graph, op)
        return row
    if op.bodies:
        return _row_of_bodies(op)
    if rule.family == "control":
        return _Row("the graph that it runs was not read")
    try:
        return _row_by_rule(rule, graph, op)
    except UnknownShape:
        return _Row("a shape that it needs depends on data")
    except Exception as error:
        if rule.family != "own":  # a model that breaks what its operator's definition promises
            return _Row(f"its rule failed on it: {type(error).__name__}: {error}")
        where = f"{op.kind} (operator {op.name or op.source})"
        raise RuleError(f"the rule of {where} failed: {type(error).__name__}: {error}") from error


def _row_by_rule(rule: OpRule, graph: Graph, op: Op) -> _Row:
    tensors = graph.tensors
    row = _Row()
    outputs = [tensors[i] for i in op.outputs]
    if outputs and all(each.data is not None for each in outputs):
        return row  # made from constants alone, before the first run
    call = call_of(graph, op)
    if rule.macs is not None:
        row.macs = rule.macs(call)
    if rule.elementwise is not None:
        row.elementwise = rule.elementwise(call)
    if op.attrs.get("activation"):
        row.elementwise += call.output.elements
    if rule.reads is None and rule.writes is None and rule.updates is None:
        _add_plain_traffic(row, graph, op)
    else:
        _add_traffic_by_rule(row, rule, call, graph, op)
    if any(not tensor.dtype.bits for _, _, tensor in (*row.reads, *row.writes)):
        row.reason = "it moves strings, whose size depends on data"
    return row


def _add_traffic_by_rule(row: _Row, rule: OpRule, call: Call, graph: Graph, op: Op) -> None:
    reads = rule.reads(call) if rule.reads else [0 if v is None else v.elements for v in call.inputs]
    writes = rule.writes(call) if rule.writes else [v.elements for v in call.outputs]
    updates = rule.updates(call) if rule.updates else [0] * len(op.inputs)
    for identity, read, updated in zip(op.inputs, reads, updates, strict=True):
        if identity != ABSENT and (read or updated):
            tensor = _content(graph, op, identity)
            row.reads += [(read, 1, tensor)] * bool(read)
            row.writes += [(updated, 1, tensor)] * bool(updated)
    row.writes += [(n, 1, graph.tensors[i]) for i, n in zip(op.outputs, writes, strict=True) if n]


def _content(graph: Graph, op: Op, identity: int) -> Tensor:
    """The tensor whose numbers move; behind a variable's handle, that of the value read or written."""
    tensor = graph.tensors[identity]
    values = [*op.outputs, *op.inputs[1:]]
    return graph.tensors[values[0]] if tensor.dtype is _HANDLE and values else tensor


def _add_plain_traffic(row: _Row, graph: Graph, op: Op) -> None:
    """Every distinct input read once in full, every output written once."""
    tensors = graph.tensors
    for identities, accesses in ((dict.fromkeys(op.inputs), row.reads), (op.outputs, row.writes)):
        for identity in identities:
            if identity == ABSENT:
                continue
            elements = tensors[identity].elements
            if elements is None:
                row.reason = row.reason or "a shape that it needs depends on data"
            else:
                accesses.append((elements, 1, tensors[identity]))


def _row_of_bodies(op: Op) -> _Row:
    if op.kind == "call_once":
        return _Row()
    rows = [_row_of_graph(body) for body in op.bodies]
    if op.kind != "if":
        together = _Row()
        for each in rows:
            together.add(each)
        return together
    costliest = max(rows, key=lambda each: (each.macs, each.elementwise))
    for each in rows:
        costliest.reason = costliest.reason or each.reason
        if (each.macs, each.elementwise) != (costliest.macs, costliest.elementwise):
            costliest.reason = costliest.reason or "data decides which branch runs; the costliest is shown"
    return costliest


def _row_of_graph(body: Body) -> _Row:
    once = _Row()
    for op in body.graph.ops:
        once.add(row_of(body.graph, op))
    if body.runs is None:
        once.reason = once.reason or "data decides how often its body runs; one run is shown"
        return once
    row = _Row()
    row.add(once, body.runs)
    return row


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
                found += tensor.elements or 0
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


def _parameters(graph: Graph) -> list[_Access]:
    """Every parameter once, used or not, those of bodies included."""
    found: dict[int, Tensor] = {}
    stack = [graph]
    while stack:
        each = stack.pop()
        for tensor in each.tensors:
            if tensor.is_parameter:
                found.setdefault(id(tensor.data), tensor)
        stack.extend(body.graph for op in each.ops for body in op.bodies)
    return [(tensor.elements or 0, 1, tensor) for tensor in found.values()]
