"""Closed forms of a model for people: totals, where they hold, and every operator's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sizeup import dtypes
from sizeup.closed_forms.cost import CostForms, FreeCost
from sizeup.dtypes import DType
from sizeup.graph import Shape, name_of
from sizeup.results.result import Result
from sizeup.symbolic import Guard, Number, form_text, least_sizes, sizes_text, substitute, sum_of

if TYPE_CHECKING:
    from sizeup.closed_forms.formulas import LatencyForms
    from sizeup.closed_forms.latency import FreeEstimate


@dataclass(frozen=True, slots=True)
class OpForms:
    """One operator: its formulas, and the shape of what it makes."""

    index: int
    name: str
    kind: str
    macs: str
    elementwise: str
    output: str


@dataclass(frozen=True, slots=True)
class ClosedForms(Result):
    """Formulas of a model's free dimensions; every one of them is Python too."""

    title: str
    names: tuple[str, ...]
    totals: tuple[tuple[str, str], ...]
    holds: tuple[tuple[str, str], ...]
    ops: tuple[OpForms, ...]
    latency: LatencyForms | None = None  # on the target that was asked for
    latency_holds: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self._text()


def closed_forms(
    cost: FreeCost, precision: DType | None = None, estimate: FreeEstimate | None = None
) -> ClosedForms:
    """The closed forms around the example that the model was read with, those of the time too if asked."""
    forms, graph = cost.forms[0], cost.graph
    names = " and ".join([", ".join(graph.names[:-1]), graph.names[-1]] if graph.names[1:] else graph.names)
    title = f"{graph.name} ({graph.format}) with {names} free"
    totals = tuple((label, form_text(number)) for label, number in _totals(forms, precision))
    holds = tuple(_where(cost, forms))
    found = ClosedForms(title, graph.names, totals, holds, tuple(_ops(forms)))
    return found if estimate is None else _with_latency(found, estimate)


def _with_latency(found: ClosedForms, estimate: FreeEstimate) -> ClosedForms:
    from sizeup.closed_forms.formulas import is_same_at_one, latency_forms

    latency = latency_forms(estimate)
    if latency is None:
        reason = "no formula tells what runs as one kernel: every point is estimated by itself"
        return replace(found, latency_holds=(("point by point", reason),))
    forms = estimate.cost.forms[0]
    holds = list(found.holds)
    if forms.specialization.reason is None:
        origins = {**forms.origins, **latency.origins}
        holds = list(_conditions(found.names, origins, lambda name: is_same_at_one(estimate, name)))
    holds += [("holds where", each) for each in _seconds(latency)]
    return replace(found, latency=latency, latency_holds=tuple(holds))


def _seconds(latency: LatencyForms) -> Iterator[str]:
    """From which seconds on formulas hold, or below which."""
    if latency.least_seconds:
        least = f"seconds >= {latency.least_seconds:.4g}: below, starting kernels takes longer"
        yield least + (
            ", and another basis tells" if latency.basis == "calibrated" else ", and only the least is known"
        )
    if math.isfinite(latency.most_seconds):
        most = f"seconds < {latency.most_seconds:.4g}"
        yield f"{most}: there starting kernels takes longer, and only the least is known"


def _totals(forms: CostForms, precision: DType | None) -> Iterator[tuple[str, Number]]:
    yield "MACs", sum_of(forms.macs)
    yield "elementwise", sum_of(forms.elementwise)
    yield "parameters", forms.params
    at = "" if precision is None else f" at {dtypes.precision_name(precision)}"
    yield f"weight bytes{at}", forms.example.bytes_at(precision).weights
    yield f"read bytes{at}", forms.bytes("reads", precision)
    yield f"written bytes{at}", forms.bytes("writes", precision)


def _where(cost: FreeCost, forms: CostForms) -> Iterator[tuple[str, str]]:
    """From which sizes on the forms hold, and who asked for what else."""
    names = cost.graph.names
    if forms.specialization.reason is not None:
        yield "holds at", sizes_text(forms.specialization.example)
        yield "point by point", f"other sizes need a reading of their own: {forms.specialization.reason}"
        return
    yield from _conditions(names, forms.origins, lambda name: _also_at_one(cost, forms, name))
    if not forms.known.all():
        unknown = len(forms.known) - int(forms.known.sum())
        yield "not counted", f"{unknown:,} of {len(forms.known):,} operators"


def _conditions(
    names: tuple[str, ...], origins: Mapping[Guard, str], is_same_at_one: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    least, others = least_sizes(origins, names)
    fixed = {name for each in others if each.relation == "==" for name in each.names()}
    for name in names:
        if name not in fixed:
            low = 1 if least[name][0] == 2 and is_same_at_one(name) else least[name][0]
            yield "holds from", f"{name} {low}"
    for condition in others:
        label = "specialised" if condition.relation == "==" else "holds where"
        yield label, f"{condition}: asked by {origins[condition]}"


def _also_at_one(cost: FreeCost, forms: CostForms, name: str) -> bool:
    """Whether the totals are the same formulas at a size of 1, where many models are read apart."""
    point = {**forms.specialization.example, name: 1}
    cost.at(**point)
    other = next(each for each in cost.forms if each.specialization.covers(point))
    pairs = [
        (sum_of(forms.macs), sum_of(other.macs)),
        (sum_of(forms.elementwise), sum_of(other.elementwise)),
        (forms.bytes("reads"), other.bytes("reads")),
        (forms.bytes("writes"), other.bytes("writes")),
    ]
    differences = (substitute(a, {name: 1}) - substitute(b, {name: 1}) for a, b in pairs)
    return all(isinstance(each, int) and each == 0 for each in differences)


def _ops(forms: CostForms) -> Iterator[OpForms]:
    graph = forms.graph
    for index, op in enumerate(graph.ops):
        shape = graph.tensors[op.outputs[0]].shape if op.outputs else None
        macs, elementwise = (form_text(each[index]) for each in (forms.macs, forms.elementwise))
        yield OpForms(index, op.scope or name_of(graph, op), op.kind, macs, elementwise, _shape(shape))


def _shape(shape: Shape | None) -> str:
    return "?" if shape is None else f"({', '.join(map(form_text, shape))})"
