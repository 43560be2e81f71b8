"""Mixed precision: assignments under budgets, Pareto fronts, sensitivity, and which precisions fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup import dtypes
from sizeup.api.analyze import target_of
from sizeup.api.models import Source, load, refuse_report
from sizeup.errors import SizeupError
from sizeup.formats import Inputs
from sizeup.formats.torch import runnable_source
from sizeup.graph import Graph

if TYPE_CHECKING:
    from sizeup.mixed_precision import SensitivityTable
    from sizeup.mixed_precision.choose import Search
    from sizeup.mixed_precision.figures import Budgets
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront
    from sizeup.targets import Target


def choose(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    losses: Mapping[str, Mapping[str, float]] | None = None,
    data: Any = None,
    labels: Any = None,
    calibration: Any = None,
    cache: Any = None,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    weights: int | str | None = None,
    activations: int | str | None = None,
    latency: float | str | None = None,
    energy: float | str | None = None,
    target: str | Target | None = None,
    sensitivity: str | None = None,
    gap: float = 0.0,
    time_limit: float = 20.0,
    trusted: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> PrecisionAssignment:
    """Find the mixed-precision assignment with the lowest loss within the budgets.

    A budget is a text ("256 KiB", "20 ms", "3 mJ"), or bytes, seconds, joules; None means no budget. With
    `data` (and `labels`) the sensitivity of every layer at every precision is measured in PyTorch or ONNX
    Runtime, then that of the best assignments; or `losses` are {layer: {precision: loss}}. Without both, the
    loss is the rounding error of the weights, or with sensitivity="analytic" the error expected for their
    shapes. Latency and energy need a `target`, which also restricts precisions to those its runtime has
    kernels for. The search ends once the loss is proven within `gap` (a share) of the optimum, or after
    `time_limit` seconds with the best assignment and the gap proven so far. Raises NoAssignment if none meets
    all budgets, and NotTrusted for `data` with a .pt2 file without `trusted`: running it can execute any code
    it contains.
    """
    from sizeup.mixed_precision import choose as solver
    from sizeup.mixed_precision.figures import estimate_of, figures_of
    from sizeup.mixed_precision.options import options_of
    from sizeup.results.precision import PrecisionAssignment, measured_basis

    search = _search(gap, time_limit, progress)
    if data is not None:
        refuse_report(source, "measuring sensitivity")
        source = runnable_source(source, trusted=trusted)
    budgets = budgets_of(weights, activations, latency, energy)
    candidates = [dtypes.precision(name) for name in precisions]
    resolved = target_of(target)
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    options = options_of(graph, candidates, resolved)
    if data is not None:
        from sizeup.mixed_precision import bench
        from sizeup.mixed_precision.refine import find_measured_assignment, losses_by_layer

        with bench(source, data, labels, calibration=calibration, kwargs=kwargs, cache=cache) as test_bench:
            refined = find_measured_assignment(test_bench, options, budgets, candidates, search=search)
        losses, choice = losses_by_layer(refined.table, refined.loss_measure), refined.assignment
        basis = measured_basis(refined)
    else:
        refined = None
        losses, basis = _losses(graph, candidates, losses, sensitivity)
        choice = solver.find_assignment(options, options.losses(losses), budgets, search)
    choice = solver.with_gains(options, options.losses(losses), budgets, choice, search)
    widest = figures_of(options, {})
    by_layer = options.by_layer(losses, choice.dtypes)
    outcome = None if resolved is None else estimate_of(options, choice.dtypes)
    estimate, reason = (None, outcome) if isinstance(outcome, str) else (outcome, "")
    return PrecisionAssignment(options, choice, budgets, widest, by_layer, basis, refined, estimate, reason)


def front(
    source: Source,
    axes: tuple[str, str] = ("loss", "weights"),
    inputs: Inputs = None,
    *,
    points: int = 20,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    losses: Mapping[str, Mapping[str, float]] | None = None,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    weights: int | str | None = None,
    activations: int | str | None = None,
    latency: float | str | None = None,
    energy: float | str | None = None,
    target: str | Target | None = None,
    sensitivity: str | None = None,
    gap: float = 0.0,
    time_limit: float = 20.0,
    progress: Callable[[int, int, str], None] | None = None,
) -> PrecisionFront:
    """The Pareto front of mixed-precision assignments over two quantities.

    `axes` are two of loss, weights, activations, latency and energy; losses and budgets are those of
    `choose`. Each of up to `points` assignments is searched for as in `choose`, with its own `time_limit`.
    """
    from sizeup.mixed_precision import choose as solver
    from sizeup.mixed_precision.figures import estimate_of
    from sizeup.mixed_precision.options import options_of
    from sizeup.results.precision import PrecisionFront

    if points < 2:
        raise SizeupError(f"points is {points}; a front needs at least 2")
    candidates = [dtypes.precision(name) for name in precisions]
    options = options_of(load(source, inputs=inputs, kwargs=kwargs, bind=bind), candidates, target_of(target))
    losses, basis = _losses(options.graph, candidates, losses, sensitivity)
    loss = options.losses(losses)
    budgets = budgets_of(weights, activations, latency, energy)
    search = _search(gap, time_limit, progress)
    choices = solver.pareto_front(options, loss, axes, points, search, budgets)
    total = [sum(options.by_layer(losses, choice.dtypes).values()) for choice in choices]
    outcome = estimate_of(options, choices[0].dtypes) if choices and options.target else ""
    estimate = None if isinstance(outcome, str) else outcome
    return PrecisionFront(options, (axes[0], axes[1]), tuple(choices), tuple(total), basis, budgets, estimate)


_SENSITIVITIES = ("weights", "analytic")


def _losses(
    graph: Graph,
    candidates: Sequence[dtypes.DType],
    losses: Mapping[str, Mapping[str, float]] | None,
    sensitivity: str | None,
) -> tuple[Mapping[str, Mapping[str, float]], str]:
    """The loss of every layer at every precision, and its basis."""
    from sizeup.mixed_precision.losses import analytic_losses, weight_rounding_losses

    if sensitivity not in (None, *_SENSITIVITIES):
        raise SizeupError(f"unknown sensitivity {sensitivity!r}; known: {', '.join(_SENSITIVITIES)}")
    if losses is not None:
        return losses, "from the given losses"
    if sensitivity == "analytic":
        return analytic_losses(graph, candidates), "analytic, from the shapes of the weights, not measured"
    return weight_rounding_losses(graph, candidates), "from the rounding error of the weights, not measured"


def _search(gap: float, time_limit: float, progress: Callable[[int, int, str], None] | None) -> Search:
    from sizeup.mixed_precision.choose import Search

    if not 0 <= gap < 1:
        raise SizeupError(f"gap is {gap:g}; it must be a share from 0 to below 1")
    if not time_limit > 0:
        raise SizeupError(f"time limit is {time_limit:g}; it must be a positive number of seconds")
    return Search(gap, time_limit, progress)


def sensitivity(
    source: Source,
    data: Any,
    labels: Any = None,
    *,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    calibration: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    cache: Any = None,
    trusted: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> SensitivityTable:
    """Measure the sensitivity: quantize one layer at a time to each precision and compare the outputs.

    A PyTorch module runs in PyTorch, an ONNX model in ONNX Runtime. `data` is one array of samples per input,
    or an .npz file (`x`, and `y` for labels). Results are cached, so that a second call resumes; `cache` is
    the folder, False disables it. A .pt2 file has to be `trusted`: running it can execute any code it
    contains.
    """
    from sizeup import mixed_precision

    refuse_report(source, "measuring sensitivity")
    return mixed_precision.sensitivity(
        runnable_source(source, trusted=trusted),
        data,
        labels,
        precisions=precisions,
        calibration=calibration,
        kwargs=kwargs,
        cache=cache,
        progress=progress,
    )


def fits(
    source: Source,
    threshold: int | str,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    measure: str = "tensors",
    target: str | Target | None = None,
) -> PrecisionFits:
    """The precisions at which each layer fits a threshold ("512 KiB", or bytes).

    `measure` is `tensors` (the larger of a layer's inputs and outputs), `sum` (both), `working set` (all
    tensors live while it runs), or `peak` (peak activation memory of the model if only this layer is
    changed). With a `target`, only precisions that its runtime has kernels for are listed.
    """
    from sizeup.checks.limits import parse_limit
    from sizeup.mixed_precision.sizes import offered_dtypes, sizes
    from sizeup.results.precision import PrecisionFits
    from sizeup.targets import quantities

    limit = as_int(parse_limit(threshold, quantities.SIZE, "--fits"))
    resolved = target_of(target)
    candidates = tuple(dict.fromkeys(map(dtypes.precision, precisions)))
    if limit is None or not candidates:
        raise SizeupError("give a threshold in bytes, e.g. 512KiB, and at least one precision")
    candidates = tuple(offered_dtypes(candidates, resolved))
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    layer_sizes = sizes(graph, limit, precisions=candidates, measure=measure)
    return PrecisionFits(graph, limit, measure, candidates, layer_sizes)


def budgets_of(
    weights: int | str | None,
    activations: int | str | None,
    latency: float | str | None,
    energy: float | str | None,
) -> Budgets:
    """Budgets from texts ("256 KiB", "20 ms", "3 mJ"), or from bytes, seconds and joules."""
    from sizeup.checks.limits import parse_limit
    from sizeup.mixed_precision.figures import Budgets
    from sizeup.targets import quantities

    return Budgets(
        as_int(parse_limit(weights, quantities.SIZE, "--weights")),
        as_int(parse_limit(activations, quantities.SIZE, "--activations")),
        parse_limit(latency, quantities.TIME, "--latency"),
        parse_limit(energy, quantities.ENERGY, "--energy"),
    )


def as_int(amount: float | None) -> int | None:
    """An amount as an integer; None stays None."""
    return None if amount is None else int(amount)
