"""What a model costs, and how long it takes on a target."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from sizeup import cost, dtypes
from sizeup.api.models import Source, count, load
from sizeup.cost import Cost
from sizeup.errors import Incomplete, SizeupError, TargetError
from sizeup.formats import Free, Inputs
from sizeup.render.vocabulary import uncounted_entries
from sizeup.results.explanation import Explanation
from sizeup.results.explanation import explain as _explain
from sizeup.results.report import Report, report_of
from sizeup.symbolic import FreeGraph

if TYPE_CHECKING:
    from sizeup.closed_forms.cost import FreeCost
    from sizeup.closed_forms.latency import FreeEstimate
    from sizeup.latency import Basis, Estimate
    from sizeup.mixed_precision.mixing import Wish
    from sizeup.results.closed_forms import ClosedForms
    from sizeup.targets import Target

# A .toml or .json file, or its content: {"conv": {"int8": 28.0}}.
Coefficients: TypeAlias = str | os.PathLike[str] | Mapping[str, Mapping[str, float]] | None


def analyze(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    target: str | Target | None = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
    convention: str | None = None,
    strict: bool = False,
) -> Report:
    """Size up a model; `precision` prices its bytes at another number type, `strict` refuses unknowns.

    A precision may differ by layer: a mapping such as {"features.*": "int8", "classifier": "fp32"}, or a
    .json file with one. With a target such as "rpi5/ort" the report has a latency too, as `estimate` gives
    it, or says why not. A `convention` (fvcore, thop, ptflops, ptflops-aten, torchinfo, dnn-analyzer,
    tensorscope) puts beside our counts what that tool says of the same model.
    """
    from sizeup import conventions
    from sizeup.mixed_precision.mixing import as_wished

    check_precision(precision)
    other = None if convention is None else conventions.convention(convention)
    named = target_of(target)
    graph, asked = as_wished(load(source, inputs=inputs, kwargs=kwargs, bind=bind), precision)
    counted = cost.count(graph)
    latency: Estimate | str | None = None
    if named is not None or basis is not None or coefficients is not None:
        try:
            latency = _estimated(counted, named, asked, basis, coefficients)
        except TargetError as error:
            latency = str(error)
    compared = None if other is None else other.counted(counted)
    file, sha256 = _file(source)
    report = report_of(
        graph,
        counted,
        asked,
        sha256=sha256,
        latency=latency,
        convention=compared,
        source=file,
        target=named,
    )
    if strict:
        _demand_complete(report)
    return report


@overload
def estimate(
    source: FreeGraph | FreeCost,
    target: str | Target | None = None,
    inputs: None = None,
    *,
    kwargs: None = None,
    bind: None = None,
    precision: Wish = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
) -> FreeEstimate: ...
@overload
def estimate(
    source: Source,
    target: str | Target | None = None,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
) -> Estimate: ...
def estimate(
    source: Source,
    target: str | Target | None = None,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
) -> Estimate | FreeEstimate:
    """How long a model takes on a target, with the range that nine of ten measurements fall into.

    The basis is `calibrated` where the target was measured, else `roofline`, from its data sheet; or
    `coefficients`, a table of milliseconds for two million MACs (a file, or plain data). Raises TargetError
    where nothing is known that an estimate could rest on. Of a graph with free dimensions, `.at(...)` of what
    comes back gives the times at any points.
    """
    from sizeup.mixed_precision.mixing import as_wished, is_mapping

    check_precision(precision)
    named = target_of(target)
    if _is_free(source) and not bind:
        return _free_estimate(source, named, precision, basis, coefficients)
    if isinstance(source, Cost) and not is_mapping(precision):
        asked = None if precision is None else dtypes.precision(str(precision))
        return _estimated(source, named, asked, basis, coefficients)
    read = source.graph if isinstance(source, Cost) else load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    graph, asked = as_wished(read, precision)
    return _estimated(cost.count(graph), named, asked, basis, coefficients)


@overload
def explain(
    source: Source,
    op: int | str,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
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
    precision: Wish = None,
    convention: str | None = None,
    free: Free | None = None,
    target: str | Target | None = None,
    basis: Basis | None = None,
) -> ClosedForms: ...
def explain(
    source: Source,
    op: int | str | None = None,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    convention: str | None = None,
    free: Free | None = None,
    target: str | Target | None = None,
    basis: Basis | None = None,
) -> Explanation | ClosedForms:
    """Say where the numbers of one operator come from; a module, a kind or a pattern lists its operators.

    With a convention it also says what that tool counts for the operator, and why. Without an operator, and
    with free dimensions, it gives the formulas of the whole model: closed forms of those dimensions; with a
    target those of the time too.
    """
    if op is None:
        return _closed_forms(source, inputs, kwargs, bind, precision, free, target, basis)
    if target is not None:
        raise SizeupError(
            "a target goes with formulas in free dimensions; of one operator, analyze tells the time"
        )
    report = source if isinstance(source, Report) else None
    if report is None:
        report = analyze(
            source, inputs=inputs, kwargs=kwargs, bind=bind, precision=precision, convention=convention
        )
    elif convention is not None:
        from sizeup import conventions

        counted = conventions.convention(convention).counted(report.cost)
        report = replace(report, convention=counted)
    return _explain(report, op)


def _free_estimate(
    source: FreeGraph | FreeCost,
    target: Target | None,
    precision: Wish,
    basis: Basis | None,
    coefficients: Coefficients,
) -> FreeEstimate:
    from sizeup.closed_forms.latency import FreeEstimate, LatencyOptions
    from sizeup.mixed_precision.mixing import is_mapping

    def estimated(counted: Cost) -> Estimate:
        return estimate(counted, target, precision=precision, basis=basis, coefficients=coefficients)

    asked = None
    if target is not None and basis != "coefficients" and coefficients is None and not is_mapping(precision):
        asked = LatencyOptions(target, None if precision is None else dtypes.precision(str(precision)), basis)
    return FreeEstimate(count(source) if isinstance(source, FreeGraph) else source, estimated, asked)


def _closed_forms(
    source: Source,
    inputs: Inputs,
    kwargs: Mapping[str, Any] | None,
    bind: Mapping[str, int] | None,
    precision: Wish,
    free: Free | None,
    target: str | Target | None,
    basis: Basis | None,
) -> ClosedForms:
    from sizeup.mixed_precision.mixing import is_mapping
    from sizeup.results.closed_forms import closed_forms

    check_precision(precision)
    if is_mapping(precision):
        raise SizeupError("closed forms are given at one precision, not layer by layer")
    asked, named = None if precision is None else dtypes.precision(str(precision)), target_of(target)
    if not _is_free(source):
        if not free:
            raise SizeupError("name an operator to explain, or free dimensions for formulas")
        source = load(source, inputs=inputs, kwargs=kwargs, bind=bind, free=free)
    counted = count(source) if isinstance(source, FreeGraph) else source
    timed = None if named is None else _free_estimate(counted, named, precision, basis, None)
    return closed_forms(counted, asked, timed)


def _is_free(source: Source) -> bool:
    """Whether it is a graph with free dimensions, or the cost of one."""
    return isinstance(source, FreeGraph) or isinstance(getattr(source, "graph", None), FreeGraph)


def check_precision(wish: Wish) -> None:
    """Refuse a precision that does not exist before the model is read."""
    from sizeup.mixed_precision.mixing import is_mapping

    if wish is not None and not is_mapping(wish):
        dtypes.precision(str(wish))


def target_of(target: str | Target | None) -> Target | None:
    """The target that is meant, or none."""
    from sizeup import targets

    return targets.target(target) if isinstance(target, str) else target


def _estimated(
    counted: Cost,
    target: Target | None,
    asked: dtypes.DType | None,
    basis: Basis | None,
    coefficients: Coefficients,
) -> Estimate:
    from sizeup import latency

    table = None
    if isinstance(coefficients, str | os.PathLike):
        table = latency.read_table(Path(coefficients))
    elif coefficients is not None:
        table = latency.table_from(coefficients)
    return latency.estimate(counted, target, asked, basis=basis, table=table)


def _demand_complete(report: Report) -> None:
    if report.unknown:
        listed = "; ".join(f"{each.count:,} x {each.kind} ({each.reason})" for each in report.unknown)
        raise Incomplete(
            f"{report.name}: {len(report.ops) - report.known_ops:,} of {len(report.ops):,} operators"
            f" are not counted: {listed}"
        )
    if report.graph.entries:
        raise Incomplete(f"{report.name}: {uncounted_entries(report.graph.entries)}")


def _file(source: Source) -> tuple[Path | None, str | None]:
    """The file that a model is read from, and its digest; None for anything else."""
    if not isinstance(source, str | os.PathLike) or not Path(source).is_file():
        return None, None
    from sizeup.results.file_nodes import digest

    path = Path(source).absolute()
    return path, digest(path)
