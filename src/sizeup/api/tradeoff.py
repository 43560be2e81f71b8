"""Tradeoff tables: one model at several precisions, batch sizes and input sizes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import cost, dtypes
from sizeup.api.analyze import named_target, target_of
from sizeup.api.models import Source, load, refuse_report
from sizeup.api.precision import budgets_of
from sizeup.errors import SizeupError, UnboundDimension
from sizeup.files import is_file
from sizeup.formats import Inputs
from sizeup.formats.torch import runnable_source
from sizeup.graph import Graph, Shape

if TYPE_CHECKING:
    from sizeup.checks import Budget
    from sizeup.dtypes import DType
    from sizeup.mixed_precision.accuracy import Accuracy
    from sizeup.mixed_precision.table import Data
    from sizeup.mixed_precision.tradeoff import BudgetCheck, Point, TradeoffOptions
    from sizeup.results.precision import Tradeoff
    from sizeup.targets import Target

Progress = Callable[[int, int, str], None]
_FILES = (".onnx", ".tflite", ".pt2")


def tradeoff(
    source: Source,
    inputs: Inputs = None,
    *,
    bind: Mapping[str, int] | None = None,
    precisions: Sequence[str] = ("fp32", "fp16", "int8", "int4", "int2"),
    batches: Sequence[int] = (),
    sizes: Sequence[int] = (),
    target: str | Target | None = None,
    weights: int | str | None = None,
    activations: int | str | None = None,
    latency: float | str | None = None,
    energy: float | str | None = None,
    budgets: str | os.PathLike[str] | None = None,
    data: Any = None,
    labels: Any = None,
    calibration: Any = None,
    accuracy: Mapping[str, float] | str | os.PathLike[str] | None = None,
    cache: Any = None,
    trusted: bool = False,
    progress: Progress | None = None,
) -> Tradeoff:
    """Accuracy, latency, energy and memory at every precision, batch size and input size.

    Accuracy is measured on `data` by simulated quantization, as in `sensitivity`, or given as {precision:
    share} or a CSV file; without labels it is agreement with the float model. Limits are those of `choose`;
    `budgets` is a budget file, and each budget of this model is checked. `sizes` set height and width of the
    first input, or its length. Points without kernels in the runtime are listed as unsupported. A .pt2 file
    has to be `trusted` for `data`: running it can execute any code it contains.
    """
    from sizeup.mixed_precision.tradeoff import TradeoffOptions, calibration_caveats, points
    from sizeup.results.precision import Tradeoff

    if data is not None and accuracy is not None:
        raise SizeupError("give either data or accuracy, not both")
    dtypes_compared = list(dict.fromkeys(map(dtypes.precision, precisions)))
    if not dtypes_compared:
        raise SizeupError("give at least one precision, e.g. fp32,int8")
    if data is not None:
        refuse_report(source, "measuring accuracy")
    samples = None if data is None else _samples(data, labels)
    runnable = source if samples is None else runnable_source(source, trusted=trusted)
    model = _ResizableModel(source, inputs, bind, batches, samples)
    resolved = target_of(target)
    budget_checks, caveats = ({}, []) if budgets is None else _budget_checks(source, budgets)
    limits = budgets_of(weights, activations, latency, energy)
    grid = TradeoffOptions(dtypes_compared, batches, sizes, resolved, limits, budget_checks)
    if resolved is None and (grid.budgets.seconds is not None or grid.budgets.joules is not None):
        raise SizeupError("a latency or energy limit needs a target: add -d TARGET")
    shares = _read_accuracy(accuracy)
    if samples is not None:
        shares = _measure_accuracy(runnable, samples, model.as_saved, grid, calibration, cache, progress)
    table = tuple(_with_progress(points(model.load, grid, shares), len(grid), progress))
    if all(point.unsupported for point in table):
        raise SizeupError(f"no supported point to compare: {table[0].unsupported}")
    if shares is not None:
        caveats += _accuracy_caveats(table)
    caveats += calibration_caveats(model.as_saved, grid)
    name = model.as_saved.name or "model"
    target_name = None if resolved is None else resolved.name
    return Tradeoff(name, target_name, grid.budgets, table, shares, tuple(caveats))


class _ResizableModel:
    """A model that can be loaded at other shapes of its first input."""

    def __init__(
        self,
        source: Source,
        inputs: Inputs,
        bind: Mapping[str, int] | None,
        batches: Sequence[int],
        data: Data | None,
    ) -> None:
        self.source, self.inputs, self.bind = source, inputs, dict(bind or {})
        self._batch_names: tuple[str, ...] = ()
        if inputs is None and data is not None and not _is_file(source):
            self.inputs = _shapes_of(data)
        try:
            self.as_saved = load(source, inputs=self.inputs, bind=self.bind)
        except UnboundDimension as error:
            self.bind |= _sizes_of(error, batches, data)
            self._batch_names = tuple(dim.name for dim in error.dimensions if dim.axis == 0)
            self.as_saved = load(source, inputs=self.inputs, bind=self.bind)

    def load(self, shape: Shape | None) -> Graph:
        """The graph at a shape of the first input; None is the original shape."""
        if shape is None:
            return self.as_saved
        first = self.as_saved.tensors[self.as_saved.inputs[0]]
        bind = self.bind | dict.fromkeys(self._batch_names, shape[0])
        if self.as_saved.format in ("onnx", "tflite"):
            new_inputs: Any = {**(self.inputs if isinstance(self.inputs, Mapping) else {}), first.name: shape}
        elif isinstance(self.inputs, Mapping):
            new_inputs = {**self.inputs, next(iter(self.inputs)): (shape, first.dtype.name)}
        else:
            new_inputs = ((shape, first.dtype.name),)
        return load(self.source, inputs=new_inputs, bind=bind)


def _is_file(source: Source) -> bool:
    is_path = isinstance(source, str | os.PathLike) and os.fspath(source).lower().endswith(_FILES)
    package = type(source).__module__.partition(".")[0]
    return is_path or package in ("onnx", "onnx_ir") or isinstance(source, bytes | Graph)


def _shapes_of(data: Data) -> Any:
    """Input shapes and dtypes of one sample of the data."""
    shapes = [
        ((1, *array.shape[1:]), "float32" if array.dtype.kind == "f" else array.dtype.name)
        for array in data.arrays
    ]
    return dict(zip(data.names, shapes, strict=True)) if data.names else tuple(shapes)


def _sizes_of(error: UnboundDimension, batches: Sequence[int], data: Data | None) -> dict[str, int]:
    """Sizes of symbolic dimensions: 1 for batches, else those of the data; raises `error` if unknown."""
    sizes: dict[str, int] = {}
    for dim in error.dimensions:
        if dim.axis == 0 and dim.name and (batches or data is not None):
            sizes[dim.name] = 1
        elif data is not None and dim.name and len(data.arrays) == 1 and dim.axis < data.arrays[0].ndim:
            sizes[dim.name] = int(data.arrays[0].shape[dim.axis])
    if any(dim.name not in sizes for dim in error.dimensions):
        raise error
    return sizes


def _samples(data: Any, labels: Any) -> Data:
    from sizeup.mixed_precision.table import load_data

    return load_data(data, labels)


def _read_accuracy(accuracy: Mapping[str, float] | str | os.PathLike[str] | None) -> Accuracy | None:
    from sizeup.mixed_precision.accuracy import accuracy_from_values, read_accuracy

    if accuracy is None:
        return None
    return accuracy_from_values(accuracy) if isinstance(accuracy, Mapping) else read_accuracy(Path(accuracy))


def _measure_accuracy(
    source: Source,
    samples: Data,
    graph: Graph,
    grid: TradeoffOptions,
    calibration: Any,
    cache: Any,
    progress: Progress | None,
) -> Accuracy | None:
    from sizeup.mixed_precision.accuracy import measured_accuracy
    from sizeup.mixed_precision.options import unsupported

    supported: list[DType] = [
        dtype for dtype in grid.precisions if not unsupported(graph, dtype, grid.target)
    ]
    if not supported:
        return None
    return measured_accuracy(
        source, samples, supported, grid.target, calibration=calibration, cache=cache, progress=progress
    )


def _accuracy_caveats(points: Sequence[Point]) -> list[str]:
    """A caveat that lists the supported points without an accuracy, if there are any."""
    unknown = [
        point
        for point in points
        if not point.unsupported and point.accuracy is None and point.agreement is None
    ]
    names = dict.fromkeys(
        f"{point.precision}{f' at {point.size}' if point.size else ''}" for point in unknown
    )
    return [f"accuracy is unknown for {', '.join(names)}"] if names else []


def _budget_checks(source: Source, path: str | os.PathLike[str]) -> tuple[dict[str, BudgetCheck], list[str]]:
    """A check per budget of the model, and caveats for limits that are not checked here."""
    from sizeup.checks import read_budgets

    is_named = isinstance(source, str | os.PathLike)
    budgets = read_budgets(Path(path))
    budget_checks: dict[str, BudgetCheck] = {}
    caveats = []
    for budget in budgets.budgets_for(os.fspath(source)) if is_named else budgets.budgets:
        name, number = budget.name, 2
        while name in budget_checks:
            name, number = f"{budget.name} ({number})", number + 1
        budget_checks[name] = _budget_check(budget, source if is_named else None)
        if budget.growth:
            caveats.append(f"budget {name}: growth limits are not checked here; use sizeup check")
    return budget_checks, caveats


def _budget_check(budget: Budget, source: Source) -> BudgetCheck:
    from sizeup.checks import LimitSpec, Needs, Subject, evaluate_limits, verdict
    from sizeup.mixed_precision.options import uniform, unsupported
    from sizeup.mixed_precision.tradeoff import BudgetCheck

    target = named_target(budget.target)
    size = Path(source).stat().st_size if source is not None and is_file(source) else None
    ram, flash = (
        None if name not in budget.limits else int(budget.limits[name]) for name in ("ram", "flash")
    )
    spec = LimitSpec(budget.limits, {}, budget.layers, None, budget.name, budget.expected)

    def decide(graph: Graph, precision: DType) -> bool | None:
        if unsupported(graph, precision, target):
            return False
        converted = uniform(graph, precision, target)
        is_same = [tensor.dtype for tensor in graph.tensors] == [tensor.dtype for tensor in converted.tensors]
        converted_cost = cost.count(converted)
        needs = Needs(converted, converted_cost, None, size, None if is_same else cost.count(graph))
        subject = Subject(needs, target, ram, flash)
        if budget.strict and converted_cost.reasons:
            return None
        return verdict(
            evaluate_limits(subject, spec),
            None if subject.memory_fit is None else subject.memory_fit.unsupported_reason,
        )

    return BudgetCheck(decide, budget.precision)


def _with_progress(points: Iterator[Point], total: int, progress: Progress | None) -> Iterator[Point]:
    """The points; calls `progress` after each."""
    for done, point in enumerate(points, 1):
        if progress is not None:
            settings = {"batch": point.batch, "size": point.size}
            at = ", ".join(f"{name} {number}" for name, number in settings.items() if number is not None)
            progress(done, total, f"{point.precision}{f' at {at}' if at else ''}")
        yield point
