"""Seconds of every operator at each number type, from which a page adds up a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sizeup.cost import Cost, recount
from sizeup.dtypes import PRECISIONS, DType, precision_name
from sizeup.errors import TargetError
from sizeup.graph import Graph
from sizeup.latency import Basis, Estimate, estimate, executed, rates_from, typed
from sizeup.precision import Layer, assign
from sizeup.render.html.columns import short
from sizeup.results.rows import NO_TARGET
from sizeup.targets import Target, current

if TYPE_CHECKING:
    from sizeup.results.report import Report


def seconds_by_type(report: Report, found: Sequence[Layer], offered: Sequence[DType]) -> dict[str, Any]:
    """Estimates of the model as it is and at each type, all on one basis; or why there are none."""
    latency = report.latency
    if latency is None or latency.target is None:
        return {"unavailable": NO_TARGET if latency is not None else report.no_latency}
    if latency.basis == "coefficients":
        return {"unavailable": "a table of coefficients knows no types of single layers"}
    graphs = {each: assign(report.graph, {layer.op: each for layer in found}) for each in offered}
    costs = {each: recount(report.cost, graph) for each, graph in graphs.items()}
    try:
        return _on_one_basis(report, latency.target, costs)
    except TargetError as error:
        return {"unavailable": str(error)}


def _on_one_basis(report: Report, target: Target, costs: dict[DType, Cost]) -> dict[str, Any]:
    """Measurements where they cover every type, else the data sheet: two bases cannot be compared."""
    assert report.latency is not None
    basis: Basis | None = None if report.latency.basis == "calibrated" else "roofline"
    fuses = target.runtime.fuses or ()
    # The kernels of a graph are the same on every basis, and what merges into them at every type.
    ran = last = executed(report.cost, None, fuses, like=report.latency.executed)
    runs = {kind: (last := executed(cost, None, fuses, like=last)) for kind, cost in costs.items()}

    def estimated(on: Basis | None) -> tuple[Estimate, dict[DType, Estimate]]:
        each = {kind: estimate(cost, target, basis=on, executed=runs[kind]) for kind, cost in costs.items()}
        return estimate(report.cost, target, basis=on, executed=ran), each

    own, estimates = estimated(basis)
    if {own.basis, *(each.basis for each in estimates.values())} != {own.basis}:
        own, estimates = estimated("roofline")
    base = executed(report.cost, report.precision, fuses, like=ran)
    return {
        "basis": own.basis,
        "target": target.name,
        "merges": "quantise" in (target.runtime.fuses or ()),
        "run": own.run_seconds,
        "base": _whole(estimate(report.cost, target, report.precision, basis=own.basis, executed=base)),
        "own": _column(own, report.graph, report.graph),
        "types": {
            precision_name(kind): _column(found, costs[kind].graph, report.graph)
            for kind, found in estimates.items()
        },
        "conversion": _conversion(own, target),
    }


def _column(found: Estimate, graph: Graph, original: Graph) -> dict[str, Any]:
    """The seconds of the original's operators in an estimate, of the whole, and its range as multiples."""
    place = {op.outputs[0]: index for index, op in enumerate(original.ops) if op.outputs}
    seconds = [0.0] * len(original.ops)
    for op, taken in zip(graph.ops, found.by_op()[0].tolist(), strict=True):
        index = place.get(op.outputs[0]) if op.outputs else None
        if index is not None:
            seconds[index] += taken
    return {"ops": [short(each) for each in seconds], **_whole(found)}


def _whole(found: Estimate) -> dict[str, Any]:
    return {
        "whole": found.seconds,
        "low": None if found.low is None or not found.seconds else found.low / found.seconds,
        "high": None if found.high is None or not found.seconds else found.high / found.seconds,
    }


def _conversion(found: Estimate, target: Target) -> dict[str, Any]:
    """What a conversion from each type takes: seconds a byte, at a launch, and a byte beyond the cache."""
    if found.fit is None:
        reach = current().reach(target)
        times = 1.0 if reach is None or found.low is None else reach.times
        bandwidth, launch = target.device.bandwidth, target.overhead_seconds or 0.0
        return {"*": {"byte": times / bandwidth if bandwidth else 0.0, "launch": times * launch}}
    rates = rates_from(found.fit.rates)
    return {
        precision_name(kind): {
            "byte": rates.of(typed("quantize", kind)).byte,
            "launch": rates.of(typed("quantize", kind)).launch,
            "cache": rates.cache,
            "far": rates.far,
        }
        for kind in PRECISIONS.values()
    }
