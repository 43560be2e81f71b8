"""The cost of one op by the cost rule of its op kind, including its bodies."""

from __future__ import annotations

from itertools import chain
from numbers import Integral
from operator import mul
from typing import Any

from sizeup.cost.columns import LARGEST, Access
from sizeup.dtypes import DTYPES
from sizeup.errors import RuleError
from sizeup.graph import ABSENT, Body, Graph, Op, SymbolicSize, Tensor, is_precomputed
from sizeup.ops import Call, OpRule, UnknownShape, call_of, cost_rule_of

_HANDLE = DTYPES["resource"]
_MAX_BITS = 64  # of an element, to bound the bytes that a row moves


class OpCost:
    """The cost of one op including its bodies; `reason` is why it is unknown, None if known."""

    __slots__ = ("elementwise", "macs", "reads", "reason", "writes")

    def __init__(self, reason: str | None = None) -> None:
        self.macs = 0
        self.elementwise = 0
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        self.reason = reason

    def add(self, other: OpCost, times: int = 1) -> None:
        """Add the cost of another row, multiplied by `times`."""
        self.macs += times * other.macs
        self.elementwise += times * other.elementwise
        self.reads += [(elements, times * count, tensor) for elements, count, tensor in other.reads]
        self.writes += [(elements, times * count, tensor) for elements, count, tensor in other.writes]
        self.reason = self.reason or other.reason

    @property
    def problem(self) -> str | None:
        """Why its counts are invalid; None if they are valid.

        Counts that depend on symbolic dimensions are checked when these are bound.
        """
        if self._is_valid:
            return None
        counts: list[Any] = [self.macs, self.elementwise]
        for elements, times, _ in chain(self.reads, self.writes):
            counts += (elements, times)
        types = set(map(type, counts))
        if types != {int}:
            if any(issubclass(type_, SymbolicSize) for type_ in types):
                return None
            for value in counts:
                if not isinstance(value, Integral):
                    return f"its count is {value!r}, not an integer"
            counts = list(map(int, counts))
        if min(counts) < 0:
            return f"its count is negative ({min(counts):,})"
        moved = sum(map(mul, counts[2::2], counts[3::2]))
        return "its count does not fit 64 bits" if max(*counts, _MAX_BITS * moved) > LARGEST else None

    @property
    def _is_valid(self) -> bool:
        """Whether all counts are plain integers that fit, as in almost all rows."""
        moved = 0
        for count in (self.macs, self.elementwise):
            if type(count) is not int or not 0 <= count <= LARGEST:
                return False
        for accesses in (self.reads, self.writes):
            for elements, times, _ in accesses:
                if type(elements) is not int or type(times) is not int:
                    return False
                if not 0 <= elements <= LARGEST or not 0 <= times <= LARGEST:
                    return False
                moved += elements * times
        return _MAX_BITS * moved <= LARGEST


def op_cost(graph: Graph, op: Op) -> OpCost:
    """The cost of one op; an unknown row with a reason if its counts are invalid."""
    row = _row_of(graph, op)
    problem = row.problem
    if problem is None:
        return row
    rule = cost_rule_of(op.kind)
    if rule is not None and rule.family == "own":
        raise RuleError(f"the cost rule of {_label(op)} failed: {problem}")
    return OpCost(problem)


def _label(op: Op) -> str:
    return f"{op.kind} (operator {op.name or op.source})"


def _row_of(graph: Graph, op: Op) -> OpCost:
    rule = cost_rule_of(op.kind)
    invalid: str | None = op.attrs.get("invalid")
    if rule is None or invalid is not None:
        row = OpCost(invalid or f"no cost rule for {op.source or op.kind}")
        _add_plain_traffic(row, graph, op)
        return row
    if op.bodies:
        return _row_of_bodies(op)
    if rule.family == "control":
        return OpCost("its body was not loaded")
    try:
        return _row_by_rule(rule, graph, op)
    except UnknownShape:
        return OpCost("a required shape depends on data")
    except Exception as error:
        if rule.family != "own":  # the model breaks the definition of its operator
            return OpCost(f"its cost rule failed: {type(error).__name__}: {error}")
        raise RuleError(f"the cost rule of {_label(op)} failed: {type(error).__name__}: {error}") from error


def _row_by_rule(rule: OpRule, graph: Graph, op: Op) -> OpCost:
    row = OpCost()
    if is_precomputed(graph, op):
        return row
    call = call_of(graph, op)
    row.macs = rule.count_macs(call)
    if rule.elementwise is not None:
        row.elementwise = rule.elementwise(call)
    if op.attrs.get("activation"):
        row.elementwise += call.output.elements
    if rule.reads is None and rule.writes is None and rule.updates is None:
        _add_plain_traffic(row, graph, op)
    else:
        _add_traffic_by_rule(row, rule, call, graph, op)
    for accesses in (row.reads, row.writes):
        for _, _, tensor in accesses:
            if not tensor.dtype.bits:
                row.reason = "it reads or writes strings, whose size depends on data"
    return row


def _add_traffic_by_rule(row: OpCost, rule: OpRule, call: Call, graph: Graph, op: Op) -> None:
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
    """The tensor that is read or written; for a variable handle, the tensor of the variable's value."""
    tensor = graph.tensors[identity]
    values = [*op.outputs, *op.inputs[1:]]
    return graph.tensors[values[0]] if tensor.dtype is _HANDLE and values else tensor


def _add_plain_traffic(row: OpCost, graph: Graph, op: Op) -> None:
    """Every distinct input read once in full, every output written once."""
    tensors = graph.tensors
    for identities, accesses in ((dict.fromkeys(op.inputs), row.reads), (op.outputs, row.writes)):
        for identity in identities:
            if identity == ABSENT:
                continue
            elements = tensors[identity].elements
            if elements is None:
                row.reason = row.reason or "a required shape depends on data"
            else:
                accesses.append((elements, 1, tensors[identity]))


def _row_of_bodies(op: Op) -> OpCost:
    if op.kind == "call_once":
        return OpCost()
    rows = [_row_of_graph(body) for body in op.bodies]
    if op.kind != "if":
        total = OpCost()
        for row in rows:
            total.add(row)
        return total
    costliest = max(rows, key=lambda row: (row.macs, row.elementwise))
    for row in rows:
        costliest.reason = costliest.reason or row.reason
        if (row.macs, row.elementwise) != (costliest.macs, costliest.elementwise):
            costliest.reason = costliest.reason or "the branch depends on data; the costliest one is counted"
    return costliest


def _row_of_graph(body: Body) -> OpCost:
    rows = [op_cost(body.graph, op) for op in body.graph.ops]
    once = rows[0] if rows else OpCost()
    for row in rows[1:]:
        once.add(row)
    if body.runs is None:
        once.reason = once.reason or "the trip count depends on data; one iteration is counted"
        return once
    if body.runs == 1:
        return once
    row = OpCost()
    row.add(once, body.runs)
    return row
