"""Closed forms of a model as text: totals, their validity, and the forms of every op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sizeup import dtypes
from sizeup.closed_forms.cost import CostForms, SymbolicCost
from sizeup.dtypes import DType
from sizeup.errors import NoLatency
from sizeup.graph import Shape, name_of
from sizeup.results.result import Result
from sizeup.symbolic import Guard, Number, form_text, least_sizes, sizes_text, substitute, sum_of
from sizeup.units import plural

if TYPE_CHECKING:
    from sizeup.closed_forms.latency import SymbolicEstimate
    from sizeup.closed_forms.text import LatencyForms


@dataclass(frozen=True, slots=True)
class OpForms:
    """The closed forms of one op, and the shape of its output."""

    index: int
    name: str
    op_kind: str
    macs: str
    elementwise: str
    output: str


@dataclass(frozen=True, slots=True)
class ClosedForms(Result):
    """Closed forms in a model's symbolic dimensions; each one is also a Python expression."""

    title: str
    names: tuple[str, ...]
    totals: tuple[tuple[str, str], ...]
    validity: tuple[tuple[str, str], ...]
    ops: tuple[OpForms, ...]
    latency: LatencyForms | None = None  # on the requested target
    latency_validity: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self._text()


def closed_forms(
    cost: SymbolicCost, precision: DType | None = None, estimate: SymbolicEstimate | None = None
) -> ClosedForms:
    """Returns the closed forms at the example sizes of the model, with those of the latency if given."""
    forms, graph = cost.forms[0], cost.graph
    names = " and ".join([", ".join(graph.names[:-1]), graph.names[-1]] if graph.names[1:] else graph.names)
    title = f"{graph.name} ({graph.format}) with symbolic {names}"
    totals = tuple((label, form_text(number)) for label, number in _totals(forms, precision))
    holds = tuple(_validity(cost, forms))
    result = ClosedForms(title, graph.names, totals, holds, tuple(_ops(forms)))
    return result if estimate is None else _with_latency(result, estimate)


def _with_latency(result: ClosedForms, estimate: SymbolicEstimate) -> ClosedForms:
    from sizeup.closed_forms.text import is_same_at_one, latency_forms

    try:
        latency = latency_forms(estimate)
    except NoLatency as error:
        return replace(result, latency_validity=(("no latency", str(error)),))
    if latency is None:
        part = "the basis instructions" if estimate.options is None else "kernel fusion"
        reason = f"{part} has no closed form; each point is estimated separately"
        return replace(result, latency_validity=(("point by point", reason),))
    forms = estimate.cost.forms[0]
    holds = list(result.validity)
    if forms.specialization.reason is None:
        origins = {**forms.origins, **latency.origins}
        holds = list(_guards(result.names, origins, lambda name: is_same_at_one(estimate, name)))
    if latency.is_limited:
        limit = f"the data sheet of {latency.target.name} allows it; otherwise another basis applies"
        holds.append(("valid if", limit))
    return replace(result, latency=latency, latency_validity=tuple(holds))


def _totals(forms: CostForms, precision: DType | None) -> Iterator[tuple[str, Number]]:
    yield "MACs", sum_of(forms.macs)
    yield "elementwise", sum_of(forms.elementwise)
    yield "parameters", forms.params
    at = "" if precision is None else f" at {dtypes.precision_name(precision)}"
    yield f"weight bytes{at}", forms.example.bytes_at(precision).weights
    yield f"read bytes{at}", forms.bytes("reads", precision)
    yield f"written bytes{at}", forms.bytes("writes", precision)


def _validity(cost: SymbolicCost, forms: CostForms) -> Iterator[tuple[str, str]]:
    """Yields the sizes for which the closed forms are valid, and the guards with their origins."""
    names = cost.graph.names
    if forms.specialization.reason is not None:
        yield "valid at", sizes_text(forms.specialization.example)
        yield "point by point", f"other sizes are loaded separately: {forms.specialization.reason}"
        return
    yield from _guards(names, forms.origins, lambda name: _is_same_at_one(cost, forms, name))
    if not forms.known.all():
        unknown = len(forms.known) - int(forms.known.sum())
        yield "not counted", f"{unknown:,} of {plural(len(forms.known), 'operator')}"


def _guards(
    names: tuple[str, ...], origins: Mapping[Guard, str], is_same_at_one: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    least, others = least_sizes(origins, names)
    fixed = {name for guard in others if guard.relation == "==" for name in guard.names()}
    for name in names:
        if name not in fixed:
            low = 1 if least[name][0] == 2 and is_same_at_one(name) else least[name][0]
            yield "valid for", f"{name} >= {low}"
    for guard in others:
        label = "specialized" if guard.relation == "==" else "valid if"
        yield label, f"{guard}: required by {origins[guard]}"


def _is_same_at_one(cost: SymbolicCost, forms: CostForms, name: str) -> bool:
    """Whether the totals have the same closed forms at size 1, which many models treat specially."""
    point = {**forms.specialization.example, name: 1}
    cost.at(**point)
    other = next(candidate for candidate in cost.forms if candidate.specialization.covers(point))
    pairs = [
        (sum_of(forms.macs), sum_of(other.macs)),
        (sum_of(forms.elementwise), sum_of(other.elementwise)),
        (forms.bytes("reads"), other.bytes("reads")),
        (forms.bytes("writes"), other.bytes("writes")),
    ]
    differences = (substitute(a, {name: 1}) - substitute(b, {name: 1}) for a, b in pairs)
    return all(isinstance(number, int) and number == 0 for number in differences)


def _ops(forms: CostForms) -> Iterator[OpForms]:
    graph = forms.graph
    for index, op in enumerate(graph.ops):
        shape = graph.tensors[op.outputs[0]].shape if op.outputs else None
        macs, elementwise = (form_text(column[index]) for column in (forms.macs, forms.elementwise))
        yield OpForms(index, op.scope or name_of(graph, op), op.kind, macs, elementwise, _shape(shape))


def _shape(shape: Shape | None) -> str:
    return "?" if shape is None else f"({', '.join(map(form_text, shape))})"
