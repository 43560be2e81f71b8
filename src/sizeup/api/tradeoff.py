"""One model at several precisions, batches and input sizes: accuracy, latency, energy, memory, budgets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import cost, dtypes
from sizeup.api.analyze import target_of
from sizeup.api.models import Source, load
from sizeup.api.precision import budgets_of
from sizeup.errors import SizeupError, UnboundDimension
from sizeup.formats import Inputs
from sizeup.formats.torch import runnable_source
from sizeup.graph import Graph, Shape

if TYPE_CHECKING:
    from sizeup.checks import Budget
    from sizeup.dtypes import DType
    from sizeup.mixed_precision.accuracy import Accuracy
    from sizeup.mixed_precision.table import Data
    from sizeup.mixed_precision.tradeoff import Grid, Judge, Point
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
    """Accuracy, latency, energy and memory at every precision, batch and input size, and who accepts them.

    Accuracy is measured on `data` by simulated quantization, as `sensitivity` does, or given as {precision:
    share} or a CSV file; without labels it is agreement with the float network. The limits are those of
    `choose`; `budgets` is a budgets.toml, whose budgets of this model are judged one by one. Sizes change
    height and width of the first input, or its length. What the runtime has no kernels for is listed as
    unsupported. A .pt2 file has to be `trusted` for `data`: running one can run any code that it holds.
    """
    from sizeup.mixed_precision.tradeoff import Grid, points
    from sizeup.results.precision import Tradeoff

    if data is not None and accuracy is not None:
        raise SizeupError("accuracy is either measured on data or given; leave one of both out")
    kinds = [dtypes.precision(each) for each in dict.fromkeys(precisions)]
    if not kinds:
        raise SizeupError("no precision is named to compare")
    samples = None if data is None else _samples(data, labels)
    runnable = source if samples is None else runnable_source(source, trusted=trusted)
    model = _Sizable(source, inputs, bind, batches, samples)
    named = target_of(target)
    judges, caveats = ({}, []) if budgets is None else _judges(source, budgets)
    grid = Grid(kinds, batches, sizes, named, budgets_of(weights, activations, latency, energy), judges)
    if named is None and (grid.budgets.seconds is not None or grid.budgets.joules is not None):
        raise SizeupError("a limit on latency or energy needs a target: give one with -d")
    shares = _given(accuracy)
    if samples is not None:
        shares = _measured(runnable, samples, model.as_saved, grid, calibration, cache, progress)
    found = tuple(_shown(points(model.load, grid, shares), len(grid), progress))
    if all(each.unsupported for each in found):
        raise SizeupError(f"nothing to compare: {found[0].unsupported}")
    if shares is not None:
        caveats += _without_accuracy(found)
    name = model.as_saved.name or "model"
    return Tradeoff(name, None if named is None else named.name, grid.budgets, found, shares, tuple(caveats))


class _Sizable:
    """A model that is read at other shapes of its first input."""

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
            self._batch_names = tuple(each.name for each in error.dimensions if each.axis == 0)
            self.as_saved = load(source, inputs=self.inputs, bind=self.bind)

    def load(self, shape: Shape | None) -> Graph:
        """The graph for an input of that shape; None: as it is."""
        if shape is None:
            return self.as_saved
        first = self.as_saved.tensors[self.as_saved.inputs[0]]
        bind = self.bind | dict.fromkeys(self._batch_names, shape[0])
        if self.as_saved.format in ("onnx", "tflite"):
            given: Any = {**(self.inputs if isinstance(self.inputs, Mapping) else {}), first.name: shape}
        elif isinstance(self.inputs, Mapping):
            given = {**self.inputs, next(iter(self.inputs)): (shape, first.dtype.name)}
        else:
            given = ((shape, first.dtype.name),)
        return load(self.source, inputs=given, bind=bind)


def _is_file(source: Source) -> bool:
    named = isinstance(source, str | os.PathLike) and os.fspath(source).lower().endswith(_FILES)
    package = type(source).__module__.partition(".")[0]
    return named or package in ("onnx", "onnx_ir") or isinstance(source, bytes | Graph)


def _shapes_of(data: Data) -> Any:
    """Inputs of one sample each, as the data has them."""
    shapes = [
        ((1, *each.shape[1:]), "float32" if each.dtype.kind == "f" else each.dtype.name)
        for each in data.arrays
    ]
    return dict(zip(data.names, shapes, strict=True)) if data.names else tuple(shapes)


def _sizes_of(error: UnboundDimension, batches: Sequence[int], data: Data | None) -> dict[str, int]:
    """Sizes for symbolic dimensions: batches are swept, all others are those of the data."""
    sizes: dict[str, int] = {}
    for each in error.dimensions:
        if each.axis == 0 and each.name and (batches or data is not None):
            sizes[each.name] = 1
        elif data is not None and each.name and len(data.arrays) == 1 and each.axis < data.arrays[0].ndim:
            sizes[each.name] = int(data.arrays[0].shape[each.axis])
    if any(each.name not in sizes for each in error.dimensions):
        raise error
    return sizes


def _samples(data: Any, labels: Any) -> Data:
    from sizeup.mixed_precision.table import data_of

    return data_of(data, labels)


def _given(accuracy: Mapping[str, float] | str | os.PathLike[str] | None) -> Accuracy | None:
    from sizeup.mixed_precision.accuracy import given_accuracy, read_accuracy

    if accuracy is None:
        return None
    return given_accuracy(accuracy) if isinstance(accuracy, Mapping) else read_accuracy(Path(accuracy))


def _measured(
    source: Source,
    samples: Data,
    graph: Graph,
    grid: Grid,
    calibration: Any,
    cache: Any,
    progress: Progress | None,
) -> Accuracy | None:
    from sizeup.mixed_precision.accuracy import measured_accuracy
    from sizeup.mixed_precision.options import unsupported

    kinds: list[DType] = [each for each in grid.precisions if not unsupported(graph, each, grid.target)]
    if not kinds:
        return None
    return measured_accuracy(
        source, samples, kinds, grid.target, calibration=calibration, cache=cache, progress=progress
    )


def _without_accuracy(found: Sequence[Point]) -> list[str]:
    """The precisions, and the input sizes of which only some have none."""
    lacking = [
        each for each in found if not each.unsupported and each.accuracy is None and each.agreement is None
    ]
    places = dict.fromkeys(f"{each.precision}{f' at {each.size}' if each.size else ''}" for each in lacking)
    return [f"accuracy is unknown for {', '.join(places)}"] if places else []


def _judges(source: Source, path: str | os.PathLike[str]) -> tuple[dict[str, Judge], list[str]]:
    """What each budget of the model says of it at a precision, and limits that are not judged here."""
    from sizeup.checks import read_budgets

    is_named = isinstance(source, str | os.PathLike)
    budgets = read_budgets(Path(path))
    judges: dict[str, Judge] = {}
    caveats = []
    for budget in budgets.of(os.fspath(source)) if is_named else budgets.budgets:
        name, number = budget.name, 2
        while name in judges:
            name, number = f"{budget.name} ({number})", number + 1
        judges[name] = _judge(budget, source if is_named else None)
        if budget.growth:
            caveats.append(f"budget {name}: its growth limits are not judged here; sizeup check does")
    return judges, caveats


def _judge(budget: Budget, source: Source) -> Judge:
    from sizeup.checks import LimitSpec, Needs, Subject, judge, verdict
    from sizeup.mixed_precision.options import uniform, unsupported
    from sizeup.mixed_precision.tradeoff import Judge

    target = target_of(budget.target)
    size = Path(source).stat().st_size if source is not None and Path(source).is_file() else None
    ram, flash = (
        None if each not in budget.limits else int(budget.limits[each]) for each in ("ram", "flash")
    )
    wanted = LimitSpec(budget.limits, {}, budget.layers, None, budget.name, budget.expected)

    def decide(given: Graph, precision: DType) -> bool | None:
        if unsupported(given, precision, target):
            return False
        network = uniform(given, precision, target)
        same = [each.dtype for each in given.tensors] == [each.dtype for each in network.tensors]
        counted = cost.count(network)
        needs = Needs(network, counted, None, size, None if same else cost.count(given))
        subject = Subject(needs, target, ram, flash)
        if budget.strict and counted.reasons:
            return None
        return verdict(judge(subject, wanted), None if subject.room is None else subject.room.refused)

    return Judge(decide, budget.precision)


def _shown(made: Iterator[Point], total: int, progress: Progress | None) -> Iterator[Point]:
    """The points, each reported as it is done."""
    for done, point in enumerate(made, 1):
        if progress is not None:
            places = {"batch": point.batch, "size": point.size}
            at = ", ".join(f"{what} {number}" for what, number in places.items() if number is not None)
            progress(done, total, f"{point.precision}{f' at {at}' if at else ''}")
        yield point
