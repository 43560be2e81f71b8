"""The basis that latencies at several precisions share, and the latency of a network on it."""

from __future__ import annotations

from collections.abc import Sequence

from sizeup.cost import Cost, count
from sizeup.dtypes import DType, precision_name
from sizeup.errors import NoLatency, TargetError
from sizeup.graph import Graph
from sizeup.latency import Basis, Estimate, estimate
from sizeup.latency.backend import latency_backend
from sizeup.latency.execution import Execution
from sizeup.targets import Target, current_catalog


def common_basis(graph: Graph, precisions: Sequence[DType], target: Target | None) -> Basis | None:
    """Returns the basis of all latencies, as bases are not comparable.

    None (calibrated) if all dtypes were measured; `instructions` if the latency of the model as stored is
    estimated by them; else roofline.
    """
    if target is None:
        return None
    calibration = current_catalog().calibration(target)
    if calibration is not None and all(
        precision_name(dtype) in calibration.precisions for dtype in precisions
    ):
        return None
    return "instructions" if calibration is None and _counts_instructions(graph, target) else "roofline"


def _counts_instructions(graph: Graph, target: Target) -> bool:
    if not latency_backend(target).counts_instructions or graph.format != "tflite":
        return False
    try:
        return estimate(count(graph), target).basis == "instructions"
    except TargetError:
        return False


def latency_at(
    network: Graph, stored: Graph, target: Target, basis: Basis | None, precision: DType | None = None
) -> Estimate | str:
    """Returns the latency of a network, or why it is unknown.

    By instructions it is unknown if a kernel has no formula that has one in the model as `stored`: the sum of
    the others would be far too short, and the data sheet is another basis.
    """
    cost = count(network)
    try:
        latency = estimate(cost, target, precision, basis=basis)
    except NoLatency as error:
        return str(error)
    except TargetError as error:
        if basis != "instructions":
            raise
        return str(error)
    if basis != "instructions":
        return latency
    missing = _without_formula(cost, target, precision, latency.executed)
    original = count(stored)
    missing -= _without_formula(original, target, None, estimate(original, target).executed)
    if not missing:
        return latency
    names = ", ".join(sorted(name or "conversions" for name in missing))
    suffix = "" if precision is None else f" at {precision_name(precision)}"
    return f"the instructions of {names}{suffix} are not known on {target.name}"


def _without_formula(cost: Cost, target: Target, precision: DType | None, executed: Execution) -> set[str]:
    counted = latency_backend(target).counted(cost, precision, executed)
    return set() if counted is None else set(counted.unknown)
