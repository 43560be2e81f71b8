"""The public verbs: each takes a model, however it is given, and returns frozen data."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sizeup import cost, dtypes, formats
from sizeup.cost import Cost
from sizeup.errors import Incomplete, RuleError, SizeupError, TargetError
from sizeup.formats import Inputs
from sizeup.graph import Graph, Shape
from sizeup.precision import Wish, as_wished, is_mapping
from sizeup.report import Report, report_of
from sizeup.report.explain import Explanation
from sizeup.report.explain import explain as _explain
from sizeup.report.plan import Plan

if TYPE_CHECKING:
    from sizeup.calibration import Calibrated
    from sizeup.latency import Basis, Estimate
    from sizeup.memory import Progress
    from sizeup.precision import SensitivityTable
    from sizeup.precision.choose import Budgets
    from sizeup.report.chosen import Chosen
    from sizeup.report.fitting import Fitting
    from sizeup.report.measured import Measured
    from sizeup.report.tradeoff import Tradeoff
    from sizeup.rewrite import Optimized
    from sizeup.targets import Target
    from sizeup.targets.quantities import Quantity

# A path, a name such as timm:NAME, a PyTorch module or program, an ONNX model, bytes, or a graph.
Source: TypeAlias = Any
# A .toml or .json file, or its content: {"conv": {"int8": 28.0}}.
Coefficients: TypeAlias = str | os.PathLike[str] | Mapping[str, Mapping[str, float]] | None

_CHUNK = 1 << 20


def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Read a model and return its graph; inputs are tensors or shapes, `bind` sizes free dimensions."""
    return formats.load(source, inputs=inputs, kwargs=kwargs, bind=bind)


def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Cost:
    """Count a model's operators: columns of MACs, elementwise operations, parameters and elements moved."""
    return cost.count(load(source, inputs=inputs, kwargs=kwargs, bind=bind))


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
    strict: bool = False,
) -> Report:
    """Size up a model; `precision` prices its bytes at another number type, `strict` refuses unknowns.

    A precision may differ by layer: a mapping such as {"features.*": "int8", "classifier": "fp32"}, or a
    .json file with one. With a target such as "rpi5/ort" the report has a latency too, as `estimate` gives
    it, or says why not.
    """
    _check_precision(precision)
    named = _target(target)
    graph, asked = as_wished(load(source, inputs=inputs, kwargs=kwargs, bind=bind), precision)
    counted = cost.count(graph)
    latency: Estimate | str | None = None
    if named is not None or basis is not None or coefficients is not None:
        try:
            latency = _estimated(counted, named, asked, basis, coefficients)
        except TargetError as error:
            latency = str(error)
    report = report_of(graph, counted, asked, sha256=_sha256(source), latency=latency)
    if strict:
        _demand_complete(report)
    return report


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
) -> Estimate:
    """How long a model takes on a target, with the range that nine of ten measurements fall into.

    The basis is `calibrated` where the target was measured, else `roofline`, from its data sheet; or
    `coefficients`, a table of milliseconds for two million MACs (a file, or plain data). Raises TargetError
    where nothing is known that an estimate could rest on.
    """
    _check_precision(precision)
    named = _target(target)
    if isinstance(source, Cost) and not is_mapping(precision):
        asked = None if precision is None else dtypes.precision(str(precision))
        return _estimated(source, named, asked, basis, coefficients)
    read = source.graph if isinstance(source, Cost) else load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    graph, asked = as_wished(read, precision)
    return _estimated(cost.count(graph), named, asked, basis, coefficients)


def _check_precision(wish: Wish) -> None:
    """Refuse a precision that does not exist before the model is read."""
    if wish is not None and not is_mapping(wish):
        dtypes.precision(str(wish))


def _target(target: str | Target | None) -> Target | None:
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


def explain(
    source: Source,
    op: int | str,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
) -> Explanation:
    """Say where the numbers of one operator come from; a module, a kind or a pattern lists its operators."""
    report = source if isinstance(source, Report) else None
    if report is None:
        report = analyze(source, inputs=inputs, kwargs=kwargs, bind=bind, precision=precision)
    return _explain(report, op)


def plan(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    reorder: bool = True,
    alignment: int = 1,
    time_limit: float = 10.0,
    progress: Progress | None = None,
) -> Plan:
    """Find the order and the places of tensors that need the least memory, and how low any plan can go.

    Without `reorder` operators keep their order; every offset is a multiple of `alignment`. Each search ends
    after `time_limit` seconds. Raises Incomplete where the size of a tensor depends on data.
    """
    from sizeup import memory

    if not 1 <= alignment <= 1 << 30:
        raise SizeupError(f"an alignment of {alignment} makes no sense; 1 leaves every byte free to be used")
    _check_precision(precision)
    given = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    graph, asked = as_wished(given, precision)
    placement = memory.best_placement(
        graph,
        reorder=reorder,
        alignment=alignment,
        precision=asked,
        time_limit=time_limit,
        progress=progress,
    )
    shipped = memory.as_shipped(graph) if precision is None else None
    return Plan(graph, placement, asked, alignment, shipped)


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
    progress: Callable[[int, int, str], None] | None = None,
) -> Chosen:
    """The precision of every layer that loses least and keeps to budgets, of which any may be left out.

    A budget is a text ("256 KiB", "20 ms", "3 mJ"), or bytes, seconds, joules. With data (and labels) every
    layer is run at every precision, then the best choices as a whole, in PyTorch or ONNX Runtime, as
    `sensitivity` does; or losses are given as {layer: {precision: loss}}; without both the noise of rounded
    weights stands for them. A target gives latency and energy, and only types that its runtime has kernels
    for are offered. Raises NoChoice where nothing keeps to all budgets.
    """
    from sizeup.precision import choose as choosing
    from sizeup.precision.noise import assumed_losses
    from sizeup.precision.options import options_of
    from sizeup.report.chosen import Chosen, measured_basis

    asked = _budgets(flash, arena, latency, energy)
    kinds = [dtypes.precision(each) for each in precisions]
    named = _target(target)
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


def sensitivity(
    source: Source,
    data: Any,
    labels: Any = None,
    *,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    calibration: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    cache: Any = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> SensitivityTable:
    """Round one layer at a time to each precision, and measure what that does to the outputs.

    A PyTorch module runs in PyTorch, an ONNX model in ONNX Runtime. Data are arrays of samples, one for each
    input, or an .npz file (`x`, and `y` for labels). Results are kept, so that a second call goes on where
    the first one ended; `cache` names the folder, False none.
    """
    from sizeup import precision

    return precision.sensitivity(
        source,
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

    most = _whole(_amount(threshold, quantities.SIZE))
    if most is None or most < 0:
        raise SizeupError("a threshold is a number of bytes")
    kinds = tuple(dtypes.precision(each) for each in precisions)
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
) -> Tradeoff:
    """What a model takes at every precision, batch and input size, and which of them keep to budgets.

    Budgets are those of `choose`; accuracy is {precision: share}, where it was measured. Sizes change height
    and width of the first input, or its length; files whose shapes are fixed take none.
    """
    from sizeup.precision.tradeoff import points
    from sizeup.report.tradeoff import Tradeoff

    budgets = _budgets(flash, arena, latency, energy)
    kinds = [dtypes.precision(each) for each in precisions]
    named = _target(target)

    def load_at(shape: Shape | None) -> Graph:
        return load(source, inputs=inputs if shape is None else (shape,), bind=bind)

    found = tuple(points(load_at, kinds, batches, sizes, named, budgets, accuracy or {}))
    name = load_at(None).name or "model"
    return Tradeoff(name, None if named is None else named.name, budgets, found)


def _budgets(
    flash: int | str | None, arena: int | str | None, latency: float | str | None, energy: float | str | None
) -> Budgets:
    from sizeup.precision.choose import Budgets
    from sizeup.targets import quantities

    return Budgets(
        _whole(_amount(flash, quantities.SIZE)),
        _whole(_amount(arena, quantities.SIZE)),
        _amount(latency, quantities.TIME),
        _amount(energy, quantities.ENERGY),
    )


def _amount(given: float | str | None, quantity: Quantity) -> float | None:
    from sizeup.targets import quantities

    if not isinstance(given, str):
        return given
    try:
        return quantities.parse(given, quantity)
    except ValueError as error:
        raise SizeupError(str(error)) from None


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def optimize(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    reorder: bool = True,
    plan: bool = True,
    cluster: int | None = None,
    pack: bool = False,
    overlap: bool = False,
    verify: bool = True,
    time_limit: float = 10.0,
    bind: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> Optimized:
    """Write a .tflite or .onnx file that needs less, proven in a real runtime; the original if nothing helps.

    `reorder` runs operators in the order with the least peak, `plan` stores places of tensors that TFLite
    Micro follows, `cluster` leaves at most so many values in each weight, `pack` stores such weights as
    code-books that TFLite Micro decodes. `overlap` lets the plan put outputs over inputs that die, which
    holds for TFLite Micro's reference kernels only, not for CMSIS-NN or other optimised ones. Each search
    ends after `time_limit` seconds.
    """
    from sizeup import rewrite

    wishes = rewrite.Wishes(reorder, plan, cluster, pack, verify, time_limit, progress, overlap)
    return rewrite.optimize(Path(source), Path(out), wishes, bind)


def measure(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    runtime: str | None = None,
    device: str | None = None,
    threads: int = 1,
    seconds: float = 3.0,
    profile: bool = True,
    progress: Callable[[int, float], None] | None = None,
) -> Measured:
    """Run a model on this machine, in a process of its own, and say how long it takes.

    The runtime is `ort`, `litert`, `litert-xnnpack`, `tflm` or `torch-eager`; by default the usual one of
    the format. Random inputs, random weights where code is named without any. `profile` asks the runtime for
    the times of its kernels. `device` says what this machine is, so that shares of its rates can be told.
    Raises RunFailed where it does not run the model.
    """
    from sizeup import runtimes, targets
    from sizeup.report.measured import Measured

    here = None if device is None else targets.device(device)
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    effort = runtimes.Effort(seconds=seconds, profiled_runs=runtimes.Effort().profiled_runs * profile)
    given = runtimes.Given(source, inputs, kwargs, bind)
    timing = runtimes.time_source(given, graph, runtime, threads, effort, progress)
    target = None if here is None else targets.Target(here, targets.runtime(timing.runtime))
    return Measured(graph.name or "model", graph.format, timing, cost.count(graph), target)


def calibrate(
    runtime: str = "ort",
    *,
    device: str | None = None,
    csv: str | os.PathLike[str] | None = None,
    profile: str | os.PathLike[str] | None = None,
    model: Source = None,
    bind: Mapping[str, int] | None = None,
    threads: int = 1,
    seconds: float = 0.4,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Calibrated:
    """Fit a target to times and keep it in a file, so that estimates for `device/runtime` rest on them.

    Small networks are run here, each for so many `seconds`; or `csv` names a table of models and latencies,
    or `profile` a profile of `model`. Without `device` it is `this-machine`, without `out` the file is in the
    user's folder of targets. Raises SizeupError where there are too few times to learn from.
    """
    from sizeup import calibration

    paths = [None if each is None else Path(each) for each in (csv, profile, out)]
    order = calibration.Order(runtime, device, paths[0], paths[1], model, bind, threads, seconds, paths[2])
    return calibration.calibrate(order, progress)


def load_rules(path: str | os.PathLike[str]) -> None:
    """Run a Python file that registers rules for operators of your own with `@sizeup.op_rule`."""
    file = Path(path)
    if not file.is_file():
        raise RuleError(f"{file}: no such file of rules")
    name = f"sizeup_rules_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RuleError(f"{file}: rules are a Python file, with the ending .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SizeupError:
        raise
    # It is the user's code: whatever it raises is news about that file, not a fault of ours.
    except Exception as error:
        raise RuleError(f"{file}: the rules cannot be used: {type(error).__name__}: {error}") from error


def _demand_complete(report: Report) -> None:
    if report.unknown:
        listed = "; ".join(f"{each.count:,} x {each.kind} ({each.reason})" for each in report.unknown)
        raise Incomplete(
            f"{report.name}: {len(report.ops) - report.known_ops:,} of {len(report.ops):,} operators"
            f" are not counted: {listed}"
        )


def _sha256(source: Source) -> str | None:
    """The digest of the file that was read, without the files that it refers to; None for anything else."""
    if not isinstance(source, str | os.PathLike) or not Path(source).is_file():
        return None
    digest = hashlib.sha256()
    with Path(source).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
