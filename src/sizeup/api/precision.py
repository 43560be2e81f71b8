"""Number types: which fit, which to choose, and what they cost in accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sizeup import dtypes
from sizeup.api.models import Source, load
from sizeup.api.reports import target_of
from sizeup.errors import SizeupError
from sizeup.formats import Inputs
from sizeup.formats.torch import runnable_source
from sizeup.graph import Graph, Shape

if TYPE_CHECKING:
    from sizeup.precision import SensitivityTable
    from sizeup.precision.choose import Budgets
    from sizeup.precision.tradeoff import Point
    from sizeup.report.chosen import Chosen
    from sizeup.report.fitting import Fitting
    from sizeup.report.front import Front
    from sizeup.report.tradeoff import Tradeoff
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
    flash: int | str | None = None,
    arena: int | str | None = None,
    latency: float | str | None = None,
    energy: float | str | None = None,
    target: str | Target | None = None,
    trusted: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Chosen:
    """The precision of every layer that loses least and keeps to budgets, of which any may be left out.

    A budget is a text ("256 KiB", "20 ms", "3 mJ"), or bytes, seconds, joules. With data (and labels) every
    layer is run at every precision, then the best choices as a whole, in PyTorch or ONNX Runtime, as
    `sensitivity` does; or losses are given as {layer: {precision: loss}}; without both the noise of rounded
    weights stands for them. A target gives latency and energy, and only types that its runtime has kernels
    for are offered. Raises NoChoice where nothing keeps to all budgets, and NotTrusted for data and a .pt2
    file that is not `trusted`: loading one to run it can run any code that it holds.
    """
    from sizeup.precision import choose as choosing
    from sizeup.precision.noise import assumed_losses
    from sizeup.precision.options import options_of
    from sizeup.report.chosen import Chosen, measured_basis

    if data is not None:
        source = runnable_source(source, trusted=trusted)
    asked = _budgets(flash, arena, latency, energy)
    kinds = [dtypes.precision(each) for each in precisions]
    named = target_of(target)
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    options = options_of(graph, kinds, named)
    if data is not None:
        from sizeup.precision import bench
        from sizeup.precision.refine import choose_by_measuring, losses_by_layer

        with bench(source, data, labels, calibration=calibration, kwargs=kwargs, cache=cache) as made:
            refined = choose_by_measuring(made, options, asked, kinds, progress=progress)
        losses, found = losses_by_layer(refined.table, refined.judged), refined.choice
        basis = measured_basis(refined)
    else:
        refined, basis = None, "from the losses that were given"
        if losses is None:
            losses, basis = (
                assumed_losses(graph, kinds),
                "assumed from the rounding of weights alone, not measured",
            )
        found = choosing.choose(options, options.losses(losses), asked)
    found = choosing.with_gains(options, options.losses(losses), asked, found)
    widest = choosing.figures_of(options, {})
    by_layer = options.by_layer(losses, found.chosen)
    return Chosen(options, found, asked, widest, by_layer, basis, refined)


def front(
    source: Source,
    axes: tuple[str, str] = ("loss", "flash"),
    inputs: Inputs = None,
    *,
    points: int = 20,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    losses: Mapping[str, Mapping[str, float]] | None = None,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    target: str | Target | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Front:
    """The best choices of precisions between the least of one quantity and the least of another.

    Axes are any two of loss, flash, arena, latency and energy; losses are those of `choose`. Each of up to
    `points` choices has the least of one for what it takes of the other.
    """
    from sizeup.precision import choose as choosing
    from sizeup.precision.noise import assumed_losses
    from sizeup.precision.options import options_of
    from sizeup.report.front import Front

    kinds = [dtypes.precision(each) for each in precisions]
    options = options_of(load(source, inputs=inputs, kwargs=kwargs, bind=bind), kinds, target_of(target))
    basis = "from the losses that were given"
    if losses is None:
        losses = assumed_losses(options.graph, kinds)
        basis = "assumed from the rounding of weights alone, not measured"
    loss = options.losses(losses)
    found = choosing.front_of(options, loss, axes, points, progress)
    total = [sum(options.by_layer(losses, each.chosen).values()) for each in found]
    return Front(options, (axes[0], axes[1]), tuple(found), tuple(total), basis)


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
    from sizeup import precision

    return precision.sensitivity(
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
) -> Fitting:
    """Which precisions of every layer fit a threshold ("512 KiB", or bytes).

    The measure is `tensors` (the larger of what a layer reads and what it makes), `sum` (both), `working set`
    (all that is in memory while it runs), or `peak` (of the whole network with that layer alone changed).
    """
    from sizeup.precision.sizes import sizes
    from sizeup.report.fitting import Fitting
    from sizeup.targets import quantities

    most = whole(quantities.asked(threshold, quantities.SIZE))
    kinds = tuple(dtypes.precision(each) for each in dict.fromkeys(precisions))
    if most is None or not kinds:
        raise SizeupError("a threshold is a number of bytes, and at least one precision is to fit it")
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    return Fitting(graph, most, measure, kinds, sizes(graph, most, precisions=kinds, measure=measure))


def tradeoff(
    source: Source,
    inputs: Inputs = None,
    *,
    bind: Mapping[str, int] | None = None,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    batches: Sequence[int] = (),
    sizes: Sequence[int] = (),
    target: str | Target | None = None,
    flash: int | str | None = None,
    arena: int | str | None = None,
    latency: float | str | None = None,
    energy: float | str | None = None,
    accuracy: Mapping[str, float] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Tradeoff:
    """What a model takes at every precision, batch and input size, and which of them keep to budgets.

    Budgets are those of `choose`; accuracy is {precision: share}, where it was measured. Sizes change height
    and width of the first input, or its length; files whose shapes are fixed take none.
    """
    from sizeup.precision.tradeoff import points
    from sizeup.report.tradeoff import Tradeoff

    budgets = _budgets(flash, arena, latency, energy)
    kinds = [dtypes.precision(each) for each in dict.fromkeys(precisions)]
    if not kinds:
        raise SizeupError("no precision is named to compare")
    named = target_of(target)

    usual = load(source, inputs=inputs, bind=bind)

    def load_at(shape: Shape | None) -> Graph:
        if shape is None:
            return usual
        named = usual.format in ("onnx", "tflite")
        first = usual.tensors[usual.inputs[0]].name
        given: Any = {**(inputs if isinstance(inputs, Mapping) else {}), first: shape} if named else (shape,)
        return load(source, inputs=given, bind=bind)

    made = points(load_at, kinds, batches, sizes, named, budgets, accuracy or {})
    total = len(kinds) * max(len(batches), 1) * max(len(sizes), 1)
    found = tuple(_shown(made, total, progress))
    return Tradeoff(usual.name or "model", None if named is None else named.name, budgets, found)


def _shown(
    made: Iterable[Point], total: int, progress: Callable[[int, int, str], None] | None
) -> Iterator[Point]:
    """Points as they are made, each told of."""
    for done, point in enumerate(made, 1):
        if progress is not None:
            places = {"batch": point.batch, "size": point.size}
            at = ", ".join(f"{what} {number}" for what, number in places.items() if number is not None)
            progress(done, total, f"{point.precision}{f' at {at}' if at else ''}")
        yield point


def _budgets(
    flash: int | str | None, arena: int | str | None, latency: float | str | None, energy: float | str | None
) -> Budgets:
    from sizeup.precision.choose import Budgets
    from sizeup.targets import quantities

    return Budgets(
        whole(quantities.asked(flash, quantities.SIZE)),
        whole(quantities.asked(arena, quantities.SIZE)),
        quantities.asked(latency, quantities.TIME),
        quantities.asked(energy, quantities.ENERGY),
    )


def whole(amount: float | None) -> int | None:
    """An amount of what comes in whole numbers."""
    return None if amount is None else int(amount)
