"""Where one operator's numbers come from: its rule, run on numbers that remember their names."""

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
from sizeup.graph import ABSENT, Op, Tensor, name_of
from sizeup.ops import Call, OpRule, rule_of
from sizeup.ops.rule import Formula
from sizeup.ops.trace import Traced, traced_call
from sizeup.results.result import Result
from sizeup.results.rollup import module_at, module_path
from sizeup.results.table import View, view_of
from sizeup.units import brief

if TYPE_CHECKING:
    from sizeup.results.report import Report

_NO_RULE = (
    "none: register one with @sizeup.op_rule({kind!r}, {format}=({source!r},)) in a Python file,"
    " and give it as --rules FILE"
)
_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Explanation(Result):
    """Labelled lines on one operator, or the rows of the operators that a name stands for."""

    title: str
    indices: tuple[int, ...]
    lines: tuple[tuple[str, str], ...] = ()
    view: View | None = None

    def __str__(self) -> str:
        return self._text()


def explain(report: Report, wanted: int | str) -> Explanation:
    """Explain the operator of that index or name; of a module, a kind or a pattern list its operators."""
    indices = tuple(select(report, wanted))
    if len(indices) == 1:
        index = indices[0]
        op = report.graph.ops[index]
        title = f"operator {index} of {len(report.ops):,}: {op.kind}"
        return Explanation(title, indices, tuple(_lines(report, index)))
    title = f"{wanted}: {len(indices):,} operators"
    return Explanation(title, indices, view=view_of(report, indices))


def select(report: Report, wanted: int | str) -> list[int]:
    """The operators that an index, a name, a tensor, a module, a kind or a pattern stands for."""
    ops = report.graph.ops
    text = str(wanted)
    if text.isdecimal():
        if int(text) >= len(ops):
            raise SizeupError(f"{report.name} has no operator {text}; it has {len(ops):,}, counted from 0")
        return [int(text)]
    for matches in (_named, _makes, _within, _is_kind, _reads, _like):
        found = [index for index, op in enumerate(ops) if matches(report, op, text)]
        if found:
            return found
    raise SizeupError(f"{report.name} has no operator, tensor or module {text!r}{_nearest(report, text)}")


def _named(report: Report, op: Op, text: str) -> bool:
    return op.name == text


def _makes(report: Report, op: Op, text: str) -> bool:
    return any(report.graph.tensors[i].name == text for i in op.outputs)


def _reads(report: Report, op: Op, text: str) -> bool:
    return any(i != ABSENT and report.graph.tensors[i].name == text for i in op.inputs)


def _within(report: Report, op: Op, text: str) -> bool:
    path = module_path(text)
    return bool(path) and module_path(op.scope)[: len(path)] == path


def _is_kind(report: Report, op: Op, text: str) -> bool:
    return text in (op.kind, op.source)


def _like(report: Report, op: Op, text: str) -> bool:
    scopes = (module_at(op.scope, depth) for depth in range(1, len(module_path(op.scope)) + 1))
    return any(fnmatch.fnmatchcase(name, text) for name in (name_of(report.graph, op), *scopes))


def _nearest(report: Report, text: str) -> str:
    ops = report.graph.ops
    names = dict.fromkeys(name_of(report.graph, op) for op in ops)
    for op in ops:
        names |= dict.fromkeys(module_at(op.scope, d) for d in range(1, len(module_path(op.scope)) + 1))
        names[op.kind] = None
    near = difflib.get_close_matches(text, list(names), _NEAREST, cutoff=0.4)
    return f"; nearest: {', '.join(near)}" if near else ""


def _lines(report: Report, index: int) -> Iterator[tuple[str, str]]:
    graph, row = report.graph, report.ops[index]
    op, rule = graph.ops[index], rule_of(row.kind)
    if row.scope:
        yield "module", row.scope
    if row.name and row.name != row.scope:
        yield "name", row.name
    if row.source:
        yield "source", f"{row.source} ({graph.format})" if graph.format else row.source
    for place, identity in zip(_places(op.inputs, "input"), op.inputs, strict=True):
        yield place, "not given" if identity == ABSENT else _tensor(graph.tensors[identity])
    for place, identity in zip(_places(op.outputs, "output"), op.outputs, strict=True):
        yield place, _tensor(graph.tensors[identity])
    if op.attrs:
        yield "attributes", ", ".join(f"{name} {_attribute(value)}" for name, value in op.attrs.items())
    yield "rule", rule.summary or "(without a sentence)" if rule else _advice(op, graph.format)
    yield from _counts(report, index, op, rule)
    yield from _traffic(report, index, op)
    if row.intensity:
        yield "intensity", f"{row.intensity:,.2f} FLOPs for each byte moved"
    if row.reason is not None:
        yield "not known", row.reason
    reasons = differences(op.kind, rule.family if rule else None, bool(row.macs))
    asked = () if report.convention is None else (report.convention.sentence(index),)
    for reason in (*asked, *reasons):
        yield "elsewhere", reason


def _places(identities: Sequence[int], side: str) -> list[str]:
    """What the tensors of one side are called, here and in formulas; a lone output has no number."""
    alone = side == "output" and len(identities) == 1
    return [side if alone else f"{side} {place}" for place in range(len(identities))]


def _tensor(tensor: Tensor) -> str:
    role = f" {tensor.data.role}" if tensor.data is not None else ""
    return f"{brief(tensor.name)} {units.shape(tensor.shape)} {tensor.dtype}{role}".strip()


def _attribute(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_attribute, value))})"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _advice(op: Op, format_: str) -> str:
    return _NO_RULE.format(kind=op.kind, format=format_ or "torch", source=op.source or op.kind)


def _counts(report: Report, index: int, op: Op, rule: OpRule | None) -> Iterator[tuple[str, str]]:
    row = report.ops[index]
    call = traced_call(report.graph, op)
    unknown = "unknown"
    if op.bodies:
        yield from _bodies(op)
    if row.known and _is_precomputed(report, op):
        yield "counted", "0 in a run: it is made from constants alone, before the first one"
    elif row.macs is None:
        yield "MACs", unknown
    else:
        formula = rule.macs if rule and not op.bodies else None
        yield "MACs", _formula(formula, call, row.macs) if row.macs else "0: it multiplies no matrices"
        if row.macs:
            yield "FLOPs", f"2 x MACs = {2 * row.macs:,}"
    if row.elementwise_ops is None:
        yield "elementwise", unknown
    elif row.elementwise_ops:
        formula = _with_activation(rule, op) if rule and not op.bodies else None
        yield "elementwise", _formula(formula, call, row.elementwise_ops)
    if any(i != ABSENT and report.graph.tensors[i].is_parameter for i in op.inputs):
        shared = "" if row.params else ": they are counted where they are first used"
        yield "parameters", f"{row.params:,}{shared}"


def _is_precomputed(report: Report, op: Op) -> bool:
    return bool(op.outputs) and all(report.graph.tensors[i].data is not None for i in op.outputs)


def _with_activation(rule: OpRule, op: Op) -> Formula | None:
    """The elementwise formula, and the fused activation that every rule may carry on top."""
    own = rule.elementwise
    if not op.attrs.get("activation"):
        return own
    return lambda call: (own(call) if own else 0) + call.output.elements


def _formula(formula: Formula | None, call: Call, value: int) -> str:
    """The formula with its numbers, where the rule's own steps could be followed to the same result."""
    if formula is None:
        return f"{value:,}"
    try:
        traced = formula(call)
    # A rule of a user may do anything with its numbers: the count stands without the trail.
    except Exception:
        return f"{value:,}"
    if not isinstance(traced, Traced) or traced != value:
        return f"{value:,}"
    return f"{traced.text} = {value:,}" if traced.symbol else traced.text


def _bodies(op: Op) -> Iterator[tuple[str, str]]:
    for body in op.bodies:
        cost = count(body.graph)
        runs = "as often as data decides" if body.runs is None else f"{body.runs:,} x"
        yield "body", f"{body.name}: {len(body.graph.ops)} ops, {cost.total_macs:,} MACs a run, {runs}"


def _traffic(report: Report, index: int, op: Op) -> Iterator[tuple[str, str]]:
    cost, tensors = report.cost, report.graph.tensors
    given = _named_places(tensors, op.inputs, "input")
    handle = next((place for place, each in given if each.dtype.name == "resource"), None)
    read = {id(each): place for place, each in reversed(given)}
    # What is written into an input is a variable, behind its handle.
    written = {id(each): handle or place for place, each in given}
    written |= {id(each): place for place, each in _named_places(tensors, op.outputs, "output")}
    for label, accesses, places in (("read", cost.reads, read), ("written", cost.writes, written)):
        first, last = accesses.first[index : index + 2].tolist()
        sizes = accesses.bytes_at(report.precision)[first:last].tolist()
        for access, size in zip(range(first, last), sizes, strict=True):
            tensor = accesses.tensors[access]
            elements, times = int(accesses.elements[access]), int(accesses.times[access])
            # A body's tensors have no place here, but a name.
            yield label, _access(places.get(id(tensor), tensor.name), tensor, elements, times, size)
        if first == last:
            yield label, "nothing" if cost.known[index] else "unknown"


def _named_places(
    tensors: Sequence[Tensor], identities: Sequence[int], side: str
) -> list[tuple[str, Tensor]]:
    places = zip(_places(identities, side), identities, strict=True)
    return [(place, tensors[identity]) for place, identity in places if identity != ABSENT]


def _access(name: str, tensor: Tensor, elements: int, times: int, size: int) -> str:
    whole = tensor.elements
    part = f" of {whole:,}" if whole is not None and whole > elements else ""
    often = f", {times:,} times" if times != 1 else ""
    return f"{name}: {elements:,}{part} numbers{often} in {size:,} B".removeprefix(": ")
