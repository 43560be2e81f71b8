"""What every operator costs, as columns: counts once, then bytes at any precision by multiplication."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import RuleError
from sizeup.graph import ABSENT, Body, Graph, Op, Tensor
from sizeup.ops import OpRule, UnknownShape, call_of, rule_of

Column: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# Precisions of at most this width hold quantised integers, beside which biases stay at 32 bits.
_QUANTISED_BITS = 8
_BIAS_BITS = 32


@dataclass(frozen=True, slots=True)
class Accesses:
    """Tensors read or written, one entry each; those of operator i are first[i]:first[i + 1]."""

    first: Column
    elements: Column
    bits: Column
    priced: Flags  # follows a change of precision (indices, masks and shapes do not)
    weight: Flags  # is a parameter, a buffer or a constant
    bias: Flags  # a small parameter that stays at 32 bits beside quantised weights

    def bytes_at(self, precision: DType | None = None) -> Column:
        """Bytes of every access, at the graph's own number types or at one precision."""
        if precision is None:
            bits = self.bits
        else:
            quantised = precision.family == "int" and precision.bits <= _QUANTISED_BITS
            bits = np.where(self.priced, np.int64(precision.bits), self.bits)
            if quantised:
                bits = np.where(self.bias, np.int64(_BIAS_BITS), bits)
        return (self.elements * bits + 7) >> 3

    def by_op(self, quantities: Column) -> Column:
        """Sums of a column of these accesses, one number an operator."""
        running = np.zeros(len(quantities) + 1, np.int64)
        np.cumsum(quantities, out=running[1:])
        return running[self.first[1:]] - running[self.first[:-1]]


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes at one precision: per operator what is read and written, and what all weights take."""

    read: Column
    written: Column
    weights: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Columns, one row an operator of the graph; unknown rows are zero and say so in `known`."""

    graph: Graph
    macs: Column
    elementwise: Column
    params: Column  # parameters first used by this operator: shared ones count once
    known: Flags
    reasons: Mapping[int, str]  # why a row is not known
    reads: Accesses
    writes: Accesses
    parameters: Accesses  # every parameter of the model once, in one group

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
            total(self.parameters.bytes_at(precision)),
        )


def total(column: Column) -> int:
    """The exact sum of a column, as a Python int."""
    if len(column) and int(np.abs(column).max()) > (2**62) // len(column):
        return sum(column.tolist())
    return int(column.sum())


_Access: TypeAlias = tuple[int, Tensor]  # elements moved, and of which tensor


class _AccessColumns:
    def __init__(self) -> None:
        self.first = array("q", [0])
        self.elements = array("q")
        self.bits = array("q")
        self.priced = array("b")
        self.weight = array("b")
        self.bias = array("b")

    def add(self, accesses: list[_Access]) -> None:
        """Append one operator's accesses and close its group."""
        for elements, tensor in accesses:
            self.elements.append(elements)
            self.bits.append(tensor.dtype.bits)
            self.priced.append(tensor.dtype.family == "float" or tensor.quant is not None)
            self.weight.append(tensor.data is not None)
            self.bias.append(tensor.is_parameter and len(tensor.shape or ()) <= 1)
        self.first.append(len(self.elements))

    def freeze(self) -> Accesses:
        return Accesses(
            np.array(self.first, np.int64),
            np.array(self.elements, np.int64),
            np.array(self.bits, np.int64),
            np.array(self.priced, np.bool_),
            np.array(self.weight, np.bool_),
            np.array(self.bias, np.bool_),
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
        self.reads += [(times * elements, tensor) for elements, tensor in other.reads]
        self.writes += [(times * elements, tensor) for elements, tensor in other.writes]
        self.reason = self.reason or other.reason


def count(graph: Graph) -> Cost:
    """Count every operator of a graph by the rule of its kind."""
    macs, elementwise, params, known = array("q"), array("q"), array("q"), array("b")
    reads, writes, parameters = _AccessColumns(), _AccessColumns(), _AccessColumns()
    reasons: dict[int, str] = {}
    owned: set[int] = set()
    for index, op in enumerate(graph.ops):
        row = _row(graph, op)
        macs.append(row.macs)
        elementwise.append(row.elementwise)
        params.append(_first_use(graph, op, owned))
        known.append(row.reason is None)
        reads.add(row.reads)
        writes.add(row.writes)
        if row.reason is not None:
            reasons[index] = row.reason
    parameters.add(_parameters(graph))
    return Cost(
        graph,
        np.array(macs, np.int64),
        np.array(elementwise, np.int64),
        np.array(params, np.int64),
        np.array(known, np.bool_),
        reasons,
        reads.freeze(),
        writes.freeze(),
        parameters.freeze(),
    )


def _row(graph: Graph, op: Op) -> _Row:
    rule = rule_of(op.kind)
    if rule is None:
        row = _Row(f"no rule for {op.source or op.kind}")
        _add_plain_traffic(row, graph, op)
        return row
    if op.bodies:
        return _row_of_bodies(op)
    try:
        return _row_by_rule(rule, graph, op)
    except UnknownShape:
        return _Row("a shape that it needs depends on data")
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
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
    if rule.reads is None and rule.writes is None:
        _add_plain_traffic(row, graph, op)
    else:
        reads = rule.reads(call) if rule.reads else [0 if v is None else v.elements for v in call.inputs]
        writes = rule.writes(call) if rule.writes else [v.elements for v in call.outputs]
        row.reads = [(n, tensors[i]) for i, n in zip(op.inputs, reads, strict=True) if i != ABSENT and n]
        row.writes = [(n, each) for each, n in zip(outputs, writes, strict=True) if n]
    if any(not tensor.dtype.bits for _, tensor in (*row.reads, *row.writes)):
        row.reason = "it moves strings, whose size depends on data"
    return row


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
                accesses.append((elements, tensors[identity]))


def _row_of_bodies(op: Op) -> _Row:
    if op.kind == "call_once":
        return _Row()
    rows = [_row_of_graph(body) for body in op.bodies]
    if op.kind != "if":
        together = _Row()
        for each in rows:
            together.add(each)
        return together
    costliest = max(rows, key=lambda each: each.macs)
    if costliest.reason is None and any(each.macs != costliest.macs for each in rows):
        costliest.reason = "data decides which branch runs; the costliest is shown"
    return costliest


def _row_of_graph(body: Body) -> _Row:
    once = _Row()
    for op in body.graph.ops:
        once.add(_row(body.graph, op))
    if body.runs is None:
        once.reason = once.reason or "data decides how often its body runs; one run is shown"
        return once
    row = _Row()
    row.add(once, body.runs)
    return row


def _first_use(graph: Graph, op: Op, owned: set[int]) -> int:
    """Parameters that no earlier operator used; `owned` remembers them by their constant's identity."""
    found = 0
    for identity in op.inputs:
        tensor = graph.tensors[identity] if identity != ABSENT else None
        if tensor is not None and tensor.is_parameter and id(tensor.data) not in owned:
            owned.add(id(tensor.data))
            found += tensor.elements or 0
    for body in op.bodies:
        found += sum(_first_use(body.graph, inner, owned) for inner in body.graph.ops)
    return found


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
    return [(tensor.elements or 0, tensor) for tensor in found.values()]
