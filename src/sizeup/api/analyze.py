"""Reports on models, latency estimates and explanations."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from sizeup import cost, dtypes
from sizeup.api.keywords import with_keyword_hints
from sizeup.api.models import Source, check_report_options, count, counted, load, load_at_precision
from sizeup.api.npu import file_of, npu_fit
from sizeup.cost import Cost
from sizeup.errors import Incomplete, NoLatency, SizeupError, TargetError
from sizeup.files import is_file
from sizeup.formats import FreeSpec, Inputs, is_symbolic
from sizeup.render.vocabulary import uncounted_entries
from sizeup.results.report import Report, report_of
from sizeup.units import plural

if TYPE_CHECKING:
    from sizeup.backends.compiled import NpuFit
    from sizeup.closed_forms.cost import SymbolicCost
    from sizeup.closed_forms.latency import SymbolicEstimate
    from sizeup.latency import Basis, Estimate
    from sizeup.mixed_precision.precision_map import PrecisionSpec
    from sizeup.results.closed_forms import ClosedForms
    from sizeup.results.explanation import Explanation
    from sizeup.symbolic import SymbolicGraph
    from sizeup.targets import Target

# A .toml or .json file, or its content: {"conv": {"int8": 28.0}}.
Coefficients: TypeAlias = str | os.PathLike[str] | Mapping[str, Mapping[str, float]] | None


@with_keyword_hints
def analyze(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    precision: PrecisionSpec = None,
    target: str | Target | None = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
    convention: str | None = None,
    strict: bool = False,
) -> Report:
    """Report the cost of a model; raises Incomplete with `strict` if part of it is not counted.

    `precision` is the precision to assume: a name, a precision map such as {"features.*": "int8",
    "classifier": "fp32"}, or a JSON file with one. With a target such as "rpi5/ort" the report has the
    latency of `estimate`, or the reason why there is none; a `basis` that the target does not have raises
    TargetError. With a `convention` (fvcore, thop, ptflops, ptflops-aten, torchinfo, dnn-analyzer,
    tensorscope) the report also has the counts of that tool. With `train`, a PyTorch module is recorded in
    training mode.

    `source` may be a report: its model is not loaded again, and its precision and target apply unless others
    are given.
    """
    from sizeup import conventions

    check_precision(precision)
    other = None if convention is None else conventions.convention(convention)
    resolved = _target_of(target, source)
    graph, dtype, loaded = load_at_precision(source, inputs, kwargs, bind, precision, train=train)
    graph_cost = counted(source, graph)
    original = None if loaded is graph else cost.count(loaded)
    npu = npu_fit(source, graph, graph_cost, dtype, original, resolved)
    latency: Estimate | str | None = None
    if resolved is not None or basis is not None or coefficients is not None:
        try:
            latency = _estimate(graph_cost, resolved, dtype, basis, coefficients, npu)
        except TargetError as error:
            if basis is not None and not isinstance(error, NoLatency):
                raise
            latency = str(error)
    other_counts = None if other is None else other.counted(graph_cost)
    file, sha256 = file_of(source)
    report = report_of(
        graph,
        graph_cost,
        dtype,
        sha256=sha256,
        latency=latency,
        convention=other_counts,
        source=file,
        target=resolved,
        original_cost=original,
        npu=npu,
    )
    if strict:
        _require_complete(report)
    return report


@overload
def estimate(
    source: SymbolicGraph | SymbolicCost,
    target: str | Target | None = None,
    inputs: None = None,
    *,
    kwargs: None = None,
    bind: None = None,
    train: bool = False,
    precision: PrecisionSpec = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
) -> SymbolicEstimate: ...
@overload
def estimate(
    source: Source,
    target: str | Target | None = None,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    precision: PrecisionSpec = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
) -> Estimate: ...
@with_keyword_hints
def estimate(
    source: Source,
    target: str | Target | None = None,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    precision: PrecisionSpec = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
) -> Estimate | SymbolicEstimate:
    """Estimate the latency of a model on a target, with a 90 % prediction interval.

    `basis` is `calibrated` (default if the target was measured), `roofline` (from its data sheet), or
    `coefficients`, a table of milliseconds per two million MACs (a file or a mapping). Raises TargetError if
    there is no data for an estimate. If the model does not fit the target, the estimate has `is_applicable`
    False and starts its notes with that. For a graph with symbolic dimensions, call `.at(...)` of the result.
    `source` may be a report, as in `analyze`.
    """
    from sizeup.mixed_precision.precision_map import apply_precision, is_precision_map

    check_precision(precision)
    resolved = _target_of(target, source)
    if _is_free(source) and not bind:
        return _free_estimate(source, resolved, precision, basis, coefficients)
    if isinstance(source, Cost) and not is_precision_map(precision):
        dtype = None if precision is None else dtypes.precision(precision)
        return _estimate(source, resolved, dtype, basis, coefficients)
    if isinstance(source, Cost):
        graph, dtype = apply_precision(source.graph, precision)
        return _estimate(cost.count(graph), resolved, dtype, basis, coefficients)
    graph, dtype, loaded = load_at_precision(source, inputs, kwargs, bind, precision, train=train)
    graph_cost = counted(source, graph)
    original = None if loaded is graph else cost.count(loaded)
    npu = npu_fit(source, graph, graph_cost, dtype, original, resolved)
    estimate = _estimate(graph_cost, resolved, dtype, basis, coefficients, npu)
    if resolved is None:
        return estimate
    from sizeup.checks import Needs, fit_memory
    from sizeup.checks.applicability import with_applicability

    file, _ = file_of(source)
    size = file.stat().st_size if file is not None and is_file(file) else None
    needs = Needs(graph, graph_cost, dtype, size, original)
    return with_applicability(estimate, fit_memory(needs, resolved, npu=npu))


@overload
def explain(
    source: Source,
    op: int | str,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    precision: PrecisionSpec = None,
    convention: str | None = None,
    free: None = None,
) -> Explanation: ...
@overload
def explain(
    source: Source,
    op: None = None,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    precision: PrecisionSpec = None,
    convention: str | None = None,
    free: FreeSpec | None = None,
    target: str | Target | None = None,
    basis: Basis | None = None,
) -> ClosedForms: ...
@with_keyword_hints
def explain(
    source: Source,
    op: int | str | None = None,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    precision: PrecisionSpec = None,
    convention: str | None = None,
    free: FreeSpec | None = None,
    target: str | Target | None = None,
    basis: Basis | None = None,
) -> Explanation | ClosedForms:
    """Explain how the numbers of an operator are computed; a module, op kind or pattern lists its operators.

    With a `convention`, also explains the counts of that tool. Without `op`, returns the closed forms of the
    model's cost in the symbolic dimensions `free`, with a `target` also of its latency.
    """
    if op is None:
        if not _is_free(source):
            if not free:
                raise SizeupError(
                    "give an operator to explain, or symbolic dimensions (free) for closed forms"
                )
            source = load(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train, free=free)
        return _closed_forms(source, precision, target, basis)
    if target is not None:
        raise SizeupError(
            "explain takes a target only with symbolic dimensions; for latency per operator use analyze"
        )
    from sizeup.results.explanation import explain as explained

    if not isinstance(source, Report) or precision is not None:
        report = analyze(
            source,
            inputs=inputs,
            kwargs=kwargs,
            bind=bind,
            train=train,
            precision=precision,
            convention=convention,
        )
        return explained(report, op)
    check_report_options(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train or None)
    if convention is None:
        return explained(source, op)
    from sizeup import conventions

    other_counts = conventions.convention(convention).counted(source.cost)
    return explained(replace(source, convention=other_counts), op)


def _free_estimate(
    source: SymbolicGraph | SymbolicCost,
    target: Target | None,
    precision: PrecisionSpec,
    basis: Basis | None,
    coefficients: Coefficients,
) -> SymbolicEstimate:
    from sizeup.closed_forms.latency import LatencyOptions, SymbolicEstimate
    from sizeup.mixed_precision.precision_map import is_precision_map

    def estimate_cost(point_cost: Cost) -> Estimate:
        return estimate(point_cost, target, precision=precision, basis=basis, coefficients=coefficients)

    free_cost = _symbolic_cost(source)
    options = None
    if (
        target is not None
        and basis != "coefficients"
        and coefficients is None
        and not is_precision_map(precision)
        and not _counts_instructions(free_cost, target, basis, estimate_cost)
    ):
        dtype = None if precision is None else dtypes.precision(precision)
        options = LatencyOptions(target, dtype, basis)
    return SymbolicEstimate(free_cost, estimate_cost, options)


def _counts_instructions(
    free_cost: SymbolicCost, target: Target, basis: Basis | None, estimate_cost: Callable[[Cost], Estimate]
) -> bool:
    """Whether the basis is `instructions`, which has no closed forms; raises TargetError if it must be."""
    from sizeup.backends import backend_of

    if basis != "instructions" and (basis is not None or not backend_of(target).counts_instructions):
        return False
    try:
        return estimate_cost(free_cost.cost_at(**free_cost.graph.example)).basis == "instructions"
    except NoLatency:
        return False


def _closed_forms(
    source: SymbolicGraph | SymbolicCost,
    precision: PrecisionSpec,
    target: str | Target | None,
    basis: Basis | None,
) -> ClosedForms:
    from sizeup.mixed_precision.precision_map import is_precision_map
    from sizeup.results.closed_forms import closed_forms

    check_precision(precision)
    if is_precision_map(precision):
        raise SizeupError("closed forms need a single precision, e.g. int8, not a precision map")
    dtype, resolved = None if precision is None else dtypes.precision(precision), target_of(target)
    free_cost = _symbolic_cost(source)
    latency = None if resolved is None else _free_estimate(free_cost, resolved, precision, basis, None)
    return closed_forms(free_cost, dtype, latency)


def _is_free(source: Source) -> bool:
    """Whether a source is a graph with symbolic dimensions, or the cost of one."""
    return is_symbolic(source) or is_symbolic(getattr(source, "graph", None))


def _symbolic_cost(source: SymbolicGraph | SymbolicCost) -> SymbolicCost:
    from sizeup.symbolic import SymbolicGraph

    return count(source) if isinstance(source, SymbolicGraph) else source


def check_precision(precision: PrecisionSpec) -> None:
    """Raises SizeupError for an unknown precision; called before a model is loaded."""
    if precision is None:
        return
    from sizeup.mixed_precision.precision_map import is_precision_map

    if not is_precision_map(precision):
        dtypes.precision(precision)


def target_of(target: str | Target | None) -> Target | None:
    """The target of that name or device file; targets and None are returned unchanged."""
    from sizeup.targets.device_file import target_or_file

    return target_or_file(target) if isinstance(target, str) else target


def named_target(name: str | None) -> Target | None:
    """A target by its name alone: a budget file cannot bring its own device file."""
    from sizeup import targets

    return None if name is None else targets.target(name)


def _target_of(target: str | Target | None, source: Source) -> Target | None:
    """The target of that name; without one that of a report."""
    return source.target if target is None and isinstance(source, Report) else target_of(target)


def _estimate(
    graph_cost: Cost,
    target: Target | None,
    dtype: dtypes.DType | None,
    basis: Basis | None,
    coefficients: Coefficients,
    npu: NpuFit | None = None,
) -> Estimate:
    from sizeup import latency

    if npu is not None and target is not None and basis in (None, "vela") and coefficients is None:
        from sizeup.backends.vela.compiled import npu_estimate

        return npu_estimate(graph_cost, target, npu)
    table = None
    if isinstance(coefficients, str | os.PathLike):
        table = latency.read_table(Path(coefficients))
    elif coefficients is not None:
        table = latency.table_from(coefficients)
    return latency.estimate(graph_cost, target, dtype, basis=basis, table=table)


def _require_complete(report: Report) -> None:
    if report.unknown_ops:
        listed = "; ".join(
            f"{group.count:,} x {group.op_kind} ({group.reason})" for group in report.unknown_ops
        )
        count, total = len(report.ops) - report.known_ops, plural(len(report.ops), "operator")
        verb = "is" if count == 1 else "are"
        raise Incomplete(f"{report.name}: {count:,} of {total} {verb} not counted: {listed}")
    if report.graph.uncounted_signatures:
        raise Incomplete(f"{report.name}: {uncounted_entries(report.graph.uncounted_signatures)}")
