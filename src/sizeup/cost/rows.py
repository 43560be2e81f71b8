"""The cost of one operator by the rule of its kind, the graphs that it runs included."""

from __future__ import annotations

from itertools import chain
from numbers import Integral
from operator import mul
from typing import Any

from sizeup.cost.columns import LARGEST, Access
from sizeup.dtypes import DTYPES
from sizeup.errors import RuleError
from sizeup.graph import ABSENT, Body, Graph, Op, SymbolicSize, Tensor
from sizeup.ops import Call, OpRule, UnknownShape, call_of, rule_of

_HANDLE = DTYPES["resource"]
_WIDEST = 64  # bits of a number, as a bound on the bytes that a row moves


class Row:
    """The cost of one operator, its bodies included; `reason` says why it is not known."""

    __slots__ = ("elementwise", "macs", "reads", "reason", "writes")

    def __init__(self, reason: str | None = None) -> None:
        self.macs = 0
        self.elementwise = 0
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        self.reason = reason

    def add(self, other: Row, times: int = 1) -> None:
        """Add the cost of another row, so many times over."""
        self.macs += times * other.macs
        self.elementwise += times * other.elementwise
        self.reads += [(elements, times * each, tensor) for elements, each, tensor in other.reads]
        self.writes += [(elements, times * each, tensor) for elements, each, tensor in other.writes]
        self.reason = self.reason or other.reason

    @property
    def problem(self) -> str | None:
        """Why its numbers cannot be a row of a cost; None if they can.

        Counts that depend on symbolic dimensions are checked once these are bound.
        """
        counts: list[Any] = [self.macs, self.elementwise]
        for elements, times, _ in chain(self.reads, self.writes):
            counts += (elements, times)
        types = set(map(type, counts))
        if types != {int}:
            if any(issubclass(each, SymbolicSize) for each in types):
                return None
            for each in counts:
                if not isinstance(each, Integral):
                    return f"its count is {each!r}, not a whole number"
            counts = list(map(int, counts))
        if min(counts) < 0:
            return f"its count is negative ({min(counts):,})"
        moved = sum(map(mul, counts[2::2], counts[3::2]))
        return "its count does not fit 64 bits" if max(*counts, _WIDEST * moved) > LARGEST else None


def row_of(graph: Graph, op: Op) -> Row:
    """The cost of one operator; unknown, with the reason, if its numbers cannot be right."""
    row = _row_of(graph, op)
    problem = row.problem
    if problem is None:
        return row
    rule = rule_of(op.kind)
    if rule is not None and rule.family == "own":
        raise RuleError(f"the rule of {_where(op)} failed: {problem}")
    return Row(problem)


def _where(op: Op) -> str:
    return f"{op.kind} (operator {op.name or op.source})"


def _row_of(graph: Graph, op: Op) -> Row:
    rule = rule_of(op.kind)
    invalid: str | None = op.attrs.get("invalid")
    if rule is None or invalid is not None:
        row = Row(invalid or f"no rule for {op.source or op.kind}")
        _add_plain_traffic(row, graph, op)
        return row
    if op.bodies:
        return _row_of_bodies(op)
    if rule.family == "control":
        return Row("the graph that it runs was not read")
    try:
        return _row_by_rule(rule, graph, op)
    except UnknownShape:
        return Row("a shape that it needs depends on data")
    except Exception as error:
        if rule.family != "own":  # a model that breaks what its operator's definition promises
            return Row(f"its rule failed on it: {type(error).__name__}: {error}")
        raise RuleError(f"the rule of {_where(op)} failed: {type(error).__name__}: {error}") from error


def _row_by_rule(rule: OpRule, graph: Graph, op: Op) -> Row:
    tensors = graph.tensors
    row = Row()
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


def _add_traffic_by_rule(row: Row, rule: OpRule, call: Call, graph: Graph, op: Op) -> None:
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


def _add_plain_traffic(row: Row, graph: Graph, op: Op) -> None:
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


def _row_of_bodies(op: Op) -> Row:
    if op.kind == "call_once":
        return Row()
    rows = [_row_of_graph(body) for body in op.bodies]
    if op.kind != "if":
        together = Row()
        for each in rows:
            together.add(each)
        return together
    costliest = max(rows, key=lambda each: (each.macs, each.elementwise))
    for each in rows:
        costliest.reason = costliest.reason or each.reason
        if (each.macs, each.elementwise) != (costliest.macs, costliest.elementwise):
            costliest.reason = costliest.reason or "data decides which branch runs; the costliest is shown"
    return costliest


def _row_of_graph(body: Body) -> Row:
    once = Row()
    for op in body.graph.ops:
        once.add(row_of(body.graph, op))
    if body.runs is None:
        once.reason = once.reason or "data decides how often its body runs; one run is shown"
        return once
    row = Row()
    row.add(once, body.runs)
    return row
