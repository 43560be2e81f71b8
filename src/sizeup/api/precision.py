"""Number types: which fit, which to choose, and what they cost in accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup import dtypes
from sizeup.api.analyze import target_of
from sizeup.api.models import Source, load
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
    """The precision of every layer that loses least and keeps to budgets, of which any may be left out.

    A budget is a text ("256 KiB", "20 ms", "3 mJ"), or bytes, seconds, joules. With data (and labels) every
    layer is run at every precision, then the best choices as a whole, in PyTorch or ONNX Runtime, as
    `sensitivity` does; or losses are given as {layer: {precision: loss}}; without both the noise of rounded
    weights stands for them, or with sensitivity="analytic" what is expected of weights of their shape. A
    target gives latency and energy, and only types that its runtime has kernels for are offered. The search
    ends once a gap (a share of the loss) is proven, or after `time_limit` seconds with the best choice found
    and the gap that was proven until then. Raises NoChoice if nothing keeps all budgets, and NotTrusted for
    data and a .pt2 file that is not `trusted`: loading one to run it can run any code that it holds.
    """
    from sizeup.mixed_precision import choose as choosing
    from sizeup.mixed_precision.figures import estimate_of, figures_of
    from sizeup.mixed_precision.options import options_of
    from sizeup.results.precision import PrecisionAssignment, measured_basis

    search = _search(gap, time_limit, progress)
    if data is not None:
        source = runnable_source(source, trusted=trusted)
    asked = budgets_of(weights, activations, latency, energy)
    kinds = [dtypes.precision(each) for each in precisions]
    named = target_of(target)
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    options = options_of(graph, kinds, named)
    if data is not None:
        from sizeup.mixed_precision import bench
        from sizeup.mixed_precision.refine import choose_by_measuring, losses_by_layer

        with bench(source, data, labels, calibration=calibration, kwargs=kwargs, cache=cache) as made:
            refined = choose_by_measuring(made, options, asked, kinds, search=search)
        losses, found = losses_by_layer(refined.table, refined.judged), refined.choice
        basis = measured_basis(refined)
    else:
        refined = None
        losses, basis = _losses(graph, kinds, losses, sensitivity)
        found = choosing.choose(options, options.losses(losses), asked, search)
    found = choosing.with_gains(options, options.losses(losses), asked, found, search)
    widest = figures_of(options, {})
    by_layer = options.by_layer(losses, found.chosen)
    timed = None if named is None else estimate_of(options, found.chosen)
    return PrecisionAssignment(options, found, asked, widest, by_layer, basis, refined, timed)


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
    """The best choices of precisions between the least of one quantity and the least of another.

    Axes are any two of loss, weights, activations, latency and energy; losses and budgets are those of
    `choose`. Each
    of up to `points` choices has the least of one for what it takes of the other; each is searched for as
    `choose` does, with its own `time_limit`.
    """
    from sizeup.mixed_precision import choose as choosing
    from sizeup.mixed_precision.options import options_of
    from sizeup.results.precision import PrecisionFront

    if points < 2:
        raise SizeupError(f"a front has at least 2 points, not {points}")
    kinds = [dtypes.precision(each) for each in precisions]
    options = options_of(load(source, inputs=inputs, kwargs=kwargs, bind=bind), kinds, target_of(target))
    losses, basis = _losses(options.graph, kinds, losses, sensitivity)
    loss = options.losses(losses)
    budgets = budgets_of(weights, activations, latency, energy)
    search = _search(gap, time_limit, progress)
    found = choosing.front_of(options, loss, axes, points, search, budgets)
    total = [sum(options.by_layer(losses, each.chosen).values()) for each in found]
    return PrecisionFront(options, (axes[0], axes[1]), tuple(found), tuple(total), basis)


_SENSITIVITIES = ("weights", "analytic")


def _losses(
    graph: Graph,
    kinds: Sequence[dtypes.DType],
    losses: Mapping[str, Mapping[str, float]] | None,
    sensitivity: str | None,
) -> tuple[Mapping[str, Mapping[str, float]], str]:
    """What every layer loses at every precision, and where that is from."""
    from sizeup.mixed_precision.losses import analytic_losses, assumed_losses

    if sensitivity not in (None, *_SENSITIVITIES):
        raise SizeupError(f"no sensitivity {sensitivity!r}; there are {', '.join(_SENSITIVITIES)}")
    if losses is not None:
        return losses, "from the losses that were given"
    if sensitivity == "analytic":
        return analytic_losses(graph, kinds), "analytic, expected of weights of this shape; not measured"
    return assumed_losses(graph, kinds), "assumed from the rounding of weights alone, not measured"


def _search(gap: float, time_limit: float, progress: Callable[[int, int, str], None] | None) -> Search:
    from sizeup.mixed_precision.choose import Search

    if not 0 <= gap < 1:
        raise SizeupError(f"a gap is a share from 0 to below 1, not {gap:g}")
    if not time_limit > 0:
        raise SizeupError(f"a time limit is a positive number of seconds, not {time_limit:g}")
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
    """Round one layer at a time to each precision, and measure what that does to the outputs.

    A PyTorch module runs in PyTorch, an ONNX model in ONNX Runtime. Data are arrays of samples, one for each
    input, or an .npz file (`x`, and `y` for labels). Results are kept, so that a second call goes on where
    the first one ended; `cache` names the folder, False none. A .pt2 file has to be `trusted`, because
    loading one to run it can run any code that it holds.
    """
    from sizeup import mixed_precision

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
) -> PrecisionFits:
    """Which precisions of every layer fit a threshold ("512 KiB", or bytes).

    The measure is `tensors` (the larger of what a layer reads and what it makes), `sum` (both), `working set`
    (all that is in memory while it runs), or `peak` (of the whole network with that layer alone changed).
    """
    from sizeup.mixed_precision.sizes import sizes
    from sizeup.results.precision import PrecisionFits
    from sizeup.targets import quantities

    most = whole(quantities.asked(threshold, quantities.SIZE))
    kinds = tuple(dtypes.precision(each) for each in dict.fromkeys(precisions))
    if most is None or not kinds:
        raise SizeupError("a threshold is a number of bytes, and at least one precision is to fit it")
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    return PrecisionFits(graph, most, measure, kinds, sizes(graph, most, precisions=kinds, measure=measure))


def budgets_of(
    weights: int | str | None,
    activations: int | str | None,
    latency: float | str | None,
    energy: float | str | None,
) -> Budgets:
    """Budgets from texts ("256 KiB", "20 ms", "3 mJ"), or from bytes, seconds and joules."""
    from sizeup.mixed_precision.figures import Budgets
    from sizeup.targets import quantities

    return Budgets(
        whole(quantities.asked(weights, quantities.SIZE)),
        whole(quantities.asked(activations, quantities.SIZE)),
        quantities.asked(latency, quantities.TIME),
        quantities.asked(energy, quantities.ENERGY),
    )


def whole(amount: float | None) -> int | None:
    """An amount of what comes in whole numbers."""
    return None if amount is None else int(amount)
