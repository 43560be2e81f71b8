"""One model at every precision, batch and input size: what each takes, and which keep to the budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError, TargetError
from sizeup.graph import Graph, Shape
from sizeup.precision.assign import assign
from sizeup.precision.choose import Budgets, Figures, figures_at
from sizeup.precision.layers import layers
from sizeup.targets import Target

# A graph for an input of that shape; None: as it is.
Loader = Callable[[Shape | None], Graph]


@dataclass(frozen=True, slots=True)
class Point:
    """One way to run a model; `accuracy` is None where nobody measured it, `refused` says what is wrong."""

    precision: str
    batch: int | None
    size: int | None
    figures: Figures | None
    accepted: bool | None
    accuracy: float | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """The means over all points of one precision, and the share of them that keeps to the budgets."""

    precision: str
    points: int
    accuracy: float | None
    seconds: float | None
    memory_bytes: float | None
    joules: float | None
    accepted_ratio: float | None


def points(
    load: Loader,
    precisions: Sequence[DType],
    batches: Sequence[int],
    sizes: Sequence[int],
    target: Target | None,
    budgets: Budgets,
    accuracy: Mapping[str, float],
) -> Iterator[Point]:
    """Every combination; an empty list of batches or sizes leaves the model as it is."""
    usual = load(None) if batches or sizes else None
    for batch in batches or (None,):
        for size in sizes or (None,):
            graph = load(None if usual is None else shape_at(usual, batch, size))
            for precision in precisions:
                yield _point(graph, precision, batch, size, target, budgets, accuracy)


def shape_at(graph: Graph, batch: int | None, size: int | None) -> Shape:
    """The first input's shape with another batch and another height and width, or length of a sequence."""
    shape = list(graph.tensors[graph.inputs[0]].shape or ())
    if not shape:
        raise SizeupError("the first input has no dimensions that could change")
    if batch is not None:
        shape[0] = batch
    if size is not None:
        if len(shape) not in (2, 4):
            raise SizeupError(
                f"an input of {len(shape)} dimensions has no one size; bind its dimensions instead"
            )
        for axis in (2, 3) if len(shape) == 4 else (1,):
            shape[axis] = size
    return tuple(shape)


def _point(
    graph: Graph,
    precision: DType,
    batch: int | None,
    size: int | None,
    target: Target | None,
    budgets: Budgets,
    accuracy: Mapping[str, float],
) -> Point:
    name = precision_name(precision)
    known = accuracy.get(name)
    if target is not None and name not in target.runtime.dtypes:
        reason = f"{target.runtime.name} has no kernels for {name}"
        return Point(name, batch, size, None, False, known, reason)
    try:
        figures = figures_at(assign(graph, {layer.op: precision for layer in layers(graph)}), target)
    except TargetError as error:
        return Point(name, batch, size, None, None, known, str(error))
    return Point(name, batch, size, figures, budgets.kept_by(figures), known)


def table(found: Sequence[Point]) -> list[Row]:
    """One row a precision, the fastest first, or the smallest where no times are known."""
    by_precision: dict[str, list[Point]] = {}
    for point in found:
        by_precision.setdefault(point.precision, []).append(point)
    rows = [_row(name, each) for name, each in by_precision.items()]
    unknown = float("inf")
    return sorted(rows, key=lambda row: (row.seconds or unknown, row.memory_bytes or unknown))


def _row(precision: str, found: Sequence[Point]) -> Row:
    figures = [each.figures for each in found if each.figures is not None]
    verdicts = [each.accepted for each in found if each.accepted is not None]
    return Row(
        precision,
        len(found),
        _mean([each.accuracy for each in found]),
        _mean([each.seconds for each in figures]),
        _mean([each.flash_bytes + each.arena_bytes for each in figures]),
        _mean([each.joules for each in figures]),
        sum(verdicts) / len(verdicts) if verdicts else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
