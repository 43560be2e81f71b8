"""The provenance of one op's numbers: its cost rule, run on numbers that record their formula."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.conventions.convention import differences
from sizeup.cost import count
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Op, Tensor, is_precomputed, name_of
from sizeup.ops import Call, OpRule, cost_rule_of
from sizeup.ops.cost_rule import Formula
from sizeup.ops.traced_formulas import TracedInt, traced_call
from sizeup.results.result import Result
from sizeup.results.rollup import module_at, module_path
from sizeup.results.rows import op_label
from sizeup.results.table import Table, table_of_ops
from sizeup.units import shorten

if TYPE_CHECKING:
    from sizeup.results.report import Report

_NO_COST_RULE = (
    "none; register one with @sizeup.op_rule({kind!r}, {format}=({source!r},)) in a Python file"
    " and pass it with --rules FILE"
)
_MAX_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Explanation(Result):
    """Labeled lines on one op, or the rows of all ops that match a name."""

    title: str
    indices: tuple[int, ...]
    lines: tuple[tuple[str, str], ...] = ()
    table: Table | None = None

    def __str__(self) -> str:
        return self._text()


def explain(report: Report, query: int | str) -> Explanation:
    """Explains the op of that index or name; for a module, an op kind or a pattern, lists its ops."""
    indices = tuple(select(report, query))
    if len(indices) == 1:
        index = indices[0]
        op = report.graph.ops[index]
        title = f"operator {index} of {len(report.ops):,}: {op_label(report.graph, op)}"
        return Explanation(title, indices, tuple(_lines(report, index)))
    title = f"{query}: {len(indices):,} operators"
    return Explanation(title, indices, table=table_of_ops(report, indices))


def select(report: Report, query: int | str) -> list[int]:
    """Returns the ops that match an index, a name, a tensor, a module, an op kind or a pattern."""
    ops = report.graph.ops
    text = str(query)
    if text.isdecimal():
        if int(text) >= len(ops):
            raise SizeupError(f"{report.name}: operator {text} is out of range (0 to {len(ops) - 1:,})")
        return [int(text)]
    for matches in (_has_name, _writes, _within, _is_kind, _reads, _matches):
        indices = [index for index, op in enumerate(ops) if matches(report, op, text)]
        if indices:
            return indices
    raise SizeupError(f"{report.name}: no operator, tensor or module {text!r}{_nearest(report, text)}")


def _has_name(report: Report, op: Op, text: str) -> bool:
    return op.name == text


def _writes(report: Report, op: Op, text: str) -> bool:
    return any(report.graph.tensors[i].name == text for i in op.outputs)


def _reads(report: Report, op: Op, text: str) -> bool:
    return any(i != ABSENT and report.graph.tensors[i].name == text for i in op.inputs)


def _within(report: Report, op: Op, text: str) -> bool:
    path = module_path(text)
    return bool(path) and module_path(op.scope)[: len(path)] == path


def _is_kind(report: Report, op: Op, text: str) -> bool:
    return text in (op.kind, op.source)


def _matches(report: Report, op: Op, text: str) -> bool:
    scopes = (module_at(op.scope, depth) for depth in range(1, len(module_path(op.scope)) + 1))
    return any(fnmatch.fnmatchcase(name, text) for name in (name_of(report.graph, op), *scopes))


def _nearest(report: Report, text: str) -> str:
    ops = report.graph.ops
    names = dict.fromkeys(name_of(report.graph, op) for op in ops)
    for op in ops:
        names |= dict.fromkeys(module_at(op.scope, d) for d in range(1, len(module_path(op.scope)) + 1))
        names[op.kind] = None
    near = difflib.get_close_matches(text, list(names), _MAX_NEAREST, cutoff=0.4)
    return f"; nearest: {', '.join(near)}" if near else ""


def _lines(report: Report, index: int) -> Iterator[tuple[str, str]]:
    graph, row = report.graph, report.ops[index]
    op, rule = graph.ops[index], cost_rule_of(row.op_kind)
    if row.scope:
        yield "module", row.scope
    if row.name and row.name != row.scope:
        yield "name", row.name
    if row.source:
        yield "source", f"{row.source} ({graph.format})" if graph.format else row.source
    for label, identity in zip(_labels(op.inputs, "input"), op.inputs, strict=True):
        yield label, "absent" if identity == ABSENT else _tensor(graph.tensors[identity])
    for label, identity in zip(_labels(op.outputs, "output"), op.outputs, strict=True):
        yield label, _tensor(graph.tensors[identity])
    if op.attrs:
        yield "attributes", ", ".join(f"{name} {_attribute(value)}" for name, value in op.attrs.items())
    yield "cost rule", rule.summary or "(no description)" if rule else _advice(op, graph.format)
    yield from _counts(report, index, op, rule)
    yield from _traffic(report, index, op)
    if row.intensity:
        yield "intensity", f"{row.intensity:,.2f} FLOPs per byte moved"
    if row.reason is not None:
        yield "not known", row.reason
    reasons = differences(op.kind, rule.family if rule else None, bool(row.macs), graph.format)
    requested = () if report.convention is None else (report.convention.sentence(index),)
    for reason in (*requested, *reasons):
        yield "other tools", reason


def _labels(identities: Sequence[int], side: str) -> list[str]:
    """Returns the labels of an op's inputs or outputs, as in formulas; a single output has no number."""
    is_single = side == "output" and len(identities) == 1
    return [side if is_single else f"{side} {index}" for index in range(len(identities))]


def _tensor(tensor: Tensor) -> str:
    role = f" {tensor.data.role}" if tensor.data is not None else ""
    scheme = f", {tensor.data.scheme}" if tensor.data is not None and tensor.data.scheme else ""
    return f"{shorten(tensor.name)} {units.shape(tensor.shape)} {tensor.dtype}{role}{scheme}".strip()


def _attribute(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_attribute, value))})"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _advice(op: Op, format_: str) -> str:
    return _NO_COST_RULE.format(kind=op.kind, format=format_ or "torch", source=op.source or op.kind)


def _counts(report: Report, index: int, op: Op, rule: OpRule | None) -> Iterator[tuple[str, str]]:
    row = report.ops[index]
    call = traced_call(report.graph, op)
    unknown = "unknown"
    if op.bodies:
        yield from _bodies(op)
    if row.known and is_precomputed(report.graph, op):
        yield "counted", "0 per inference: computed from constants before the first one"
    elif row.macs is None:
        yield "MACs", unknown
    else:
        formula: Formula | None = rule.count_macs if rule and rule.macs and not op.bodies else None
        yield "MACs", _formula(formula, call, row.macs) if row.macs else "0: no matrix products"
        if row.macs:
            yield "FLOPs", f"2 x MACs = {2 * row.macs:,}"
    if row.elementwise_ops is None:
        yield "elementwise", unknown
    elif row.elementwise_ops:
        formula = _with_activation(rule, op) if rule and not op.bodies else None
        yield "elementwise", _formula(formula, call, row.elementwise_ops)
    if any(i != ABSENT and report.graph.tensors[i].is_parameter for i in op.inputs):
        shared = "" if row.params else ": counted at their first use"
        yield "parameters", f"{row.params:,}{shared}"


def _with_activation(rule: OpRule, op: Op) -> Formula | None:
    """Returns the elementwise formula, including a fused activation."""
    own = rule.elementwise
    if not op.attrs.get("activation"):
        return own
    return lambda call: (own(call) if own else 0) + call.output.elements


def _formula(formula: Formula | None, call: Call, value: int) -> str:
    """Returns the formula with its numbers if tracing the cost rule gives the same result, else the value."""
    if formula is None:
        return f"{value:,}"
    try:
        traced = formula(call)
    # A user's cost rule may fail on traced numbers: show the count without a formula.
    except Exception:
        return f"{value:,}"
    if not isinstance(traced, TracedInt) or traced != value:
        return f"{value:,}"
    return f"{traced.text} = {value:,}" if traced.symbol else traced.text


def _bodies(op: Op) -> Iterator[tuple[str, str]]:
    for body in op.bodies:
        cost = count(body.graph)
        runs = "a data-dependent number of times" if body.runs is None else f"{body.runs:,} x"
        ops = units.plural(len(body.graph.ops), "op")
        yield "body", f"{body.name}: {ops}, {cost.total_macs:,} MACs per run, {runs}"


def _traffic(report: Report, index: int, op: Op) -> Iterator[tuple[str, str]]:
    cost, tensors = report.cost, report.graph.tensors
    inputs = _labeled_tensors(tensors, op.inputs, "input")
    handle = next((label for label, tensor in inputs if tensor.dtype.name == "resource"), None)
    read = {id(tensor): label for label, tensor in reversed(inputs)}
    # A write to an input goes to the variable behind its handle.
    written = {id(tensor): handle or label for label, tensor in inputs}
    written |= {id(tensor): label for label, tensor in _labeled_tensors(tensors, op.outputs, "output")}
    for direction, accesses, labels in (("read", cost.reads, read), ("written", cost.writes, written)):
        first, last = accesses.first[index : index + 2].tolist()
        sizes = accesses.bytes_at(report.precision)[first:last].tolist()
        for access, size in zip(range(first, last), sizes, strict=True):
            tensor = accesses.tensors[access]
            elements, times = int(accesses.elements[access]), int(accesses.times[access])
            # A tensor of a body has no label, only a name.
            yield direction, _access(labels.get(id(tensor), tensor.name), tensor, elements, times, size)
        if first == last:
            yield direction, "nothing" if cost.known[index] else "unknown"


def _labeled_tensors(
    tensors: Sequence[Tensor], identities: Sequence[int], side: str
) -> list[tuple[str, Tensor]]:
    labels = zip(_labels(identities, side), identities, strict=True)
    return [(label, tensors[identity]) for label, identity in labels if identity != ABSENT]


def _access(name: str, tensor: Tensor, elements: int, times: int, size: int) -> str:
    total = tensor.elements
    part = f" of {total:,}" if total is not None and total > elements else ""
    repeats = f", {times:,} times" if times != 1 else ""
    return f"{name}: {elements:,}{part} elements{repeats}, {size:,} B".removeprefix(": ")
