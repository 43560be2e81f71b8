"""One model at every precision, batch and input size: its cost at each, and which budgets accept it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sizeup import dtypes
from sizeup.cost import count
from sizeup.dtypes import DType, precision_name
from sizeup.errors import LoadError, SizeupError, TargetError
from sizeup.graph import Graph, Shape
from sizeup.latency import Basis, Estimate, energy, estimate
from sizeup.mixed_precision.accuracy import Accuracy
from sizeup.mixed_precision.figures import Budgets, Figures, figures_at
from sizeup.mixed_precision.options import common_basis, uniform, unsupported, weight_only
from sizeup.targets import Target

# A graph for an input of that shape; None: as it is.
Loader = Callable[[Shape | None], Graph]


@dataclass(frozen=True, slots=True)
class Judge:
    """A named budget: `decide` is given the network as saved, and its precision; None if undetermined."""

    decide: Callable[[Graph, DType], bool | None]
    precision: str | None = None  # the only one that it is a budget for


@dataclass(frozen=True, slots=True)
class Latency:
    """One inference: expected seconds, the 90 % prediction interval, and the basis of both; None if unknown.

    Without `seconds`, `low` is a lower bound from the data sheet, and nothing more is known.
    """

    seconds: float | None
    low: float
    high: float | None
    basis: Basis
    provenance: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """One way to run a model; `unsupported` is the reason if it cannot run, and then there are no figures."""

    precision: str
    batch: int | None
    size: int | None
    figures: Figures | None = None
    latency: Latency | None = None
    energy_basis: str | None = None
    accuracy: float | None = None
    agreement: float | None = None
    verdicts: Mapping[str, bool | None] = field(default_factory=dict)  # by the budget's name
    unsupported: str = ""

    @property
    def accepted(self) -> bool | None:
        """Whether all budgets accept it; None if that is undetermined or there are no budgets."""
        answers = list(self.verdicts.values())
        if False in answers:
            return False
        return None if None in answers or not answers else True

    @property
    def memory_bytes(self) -> int | None:
        """Weights and the planned activations."""
        return None if self.figures is None else self.figures.weight_bytes + self.figures.activation_bytes


@dataclass(frozen=True, slots=True)
class Row:
    """The means over all points of one precision, and the share of them that all budgets accept."""

    precision: str
    points: int
    accuracy: float | None
    agreement: float | None
    seconds: float | None
    memory_bytes: float | None
    joules: float | None
    accepted_ratio: float | None


@dataclass(frozen=True, slots=True)
class Grid:
    """What to compare, where, and under which budgets; an empty list leaves the model as it is."""

    precisions: Sequence[DType]
    batches: Sequence[int] = ()
    sizes: Sequence[int] = ()
    target: Target | None = None
    budgets: Budgets = field(default_factory=Budgets)
    judges: Mapping[str, Judge] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.precisions) * max(len(self.batches), 1) * max(len(self.sizes), 1)


# The budget of the options --weights, --activations, --latency and --energy.
LIMITS = "limits"


def points(load: Loader, grid: Grid, accuracy: Accuracy | None = None) -> Iterator[Point]:
    """Every combination, those that cannot run with the reason."""
    as_saved = load(None)
    for batch in grid.batches or (None,):
        for size in grid.sizes or (None,):
            graph = _resized(load, as_saved, batch, size)
            if isinstance(graph, Graph):
                yield from _at_each(graph, batch, size, grid, accuracy)
                continue
            for precision in grid.precisions:
                yield Point(precision_name(precision), batch, size, unsupported=graph)


def _resized(load: Loader, as_saved: Graph, batch: int | None, size: int | None) -> Graph | str:
    """The network at a batch and an input size, or why it does not take them: files may have fixed shapes."""
    if batch is None and size is None:
        return as_saved
    shape = shape_at(as_saved, batch, size)
    if shape == as_saved.tensors[as_saved.inputs[0]].shape:
        return as_saved
    try:
        return load(shape)
    except LoadError as error:
        return str(error)


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


def _at_each(
    graph: Graph, batch: int | None, size: int | None, grid: Grid, accuracy: Accuracy | None
) -> Iterator[Point]:
    """All precisions of one graph, their latencies on one basis."""
    target = grid.target
    reasons = {each: unsupported(graph, each, target) for each in grid.precisions}
    basis = common_basis([_computed_in(each, target) for each, why in reasons.items() if not why], target)
    for precision, reason in reasons.items():
        point = Point(precision_name(precision), batch, size, unsupported=reason)
        yield point if reason else _measured(point, graph, precision, basis, grid, accuracy)


def _computed_in(precision: DType, target: Target | None) -> DType:
    limits = weight_only(precision, target)
    return precision if limits is None else dtypes.precision(limits.computes_in)


def _measured(
    point: Point, graph: Graph, precision: DType, basis: Basis | None, grid: Grid, accuracy: Accuracy | None
) -> Point:
    network = uniform(graph, precision, grid.target)
    try:
        timed = None if grid.target is None else estimate(count(network), grid.target, basis=basis)
    except TargetError as error:
        return replace(point, unsupported=str(error))
    spent = None if timed is None else energy(timed)
    latency = None if timed is None else _latency(timed)
    figures = replace(
        figures_at(network, None),
        seconds=None if latency is None else latency.seconds,
        joules=None if spent is None else spent.joules,
    )
    verdicts = {
        name: judge.decide(graph, precision)
        for name, judge in grid.judges.items()
        if judge.precision in (None, point.precision)
    }
    if grid.budgets != Budgets():
        verdicts = {LIMITS: _within(grid.budgets, figures, latency), **verdicts}
    share = None if accuracy is None else accuracy.at(point.precision, point.size, graph)
    agrees = accuracy is not None and accuracy.is_agreement
    return replace(
        point,
        figures=figures,
        latency=latency,
        energy_basis=None if spent is None else spent.basis,
        accuracy=None if agrees else share,
        agreement=share if agrees else None,
        verdicts=verdicts,
    )


def _latency(timed: Estimate) -> Latency:
    if timed.low is None:
        return Latency(None, timed.seconds, None, timed.basis, timed.origin, timed.notes)
    return Latency(timed.seconds, timed.low, timed.high, timed.basis, timed.origin, timed.notes)


def _within(budgets: Budgets, figures: Figures, latency: Latency | None) -> bool | None:
    """Whether figures are within budgets; None if one that decides is unknown."""
    exceeded = budgets.exceeded_by(figures)
    if any(getattr(figures, name) is not None for name in exceeded):
        return False
    if budgets.seconds is not None and latency is not None and latency.low > budgets.seconds:
        return False  # a lower bound is enough to reject
    return None if exceeded else True


def table(found: Sequence[Point]) -> list[Row]:
    """One row per precision that runs, the fastest first, or the smallest if no latencies are known."""
    by_precision: dict[str, list[Point]] = {}
    for point in found:
        if not point.unsupported:
            by_precision.setdefault(point.precision, []).append(point)
    rows = [_row(name, each) for name, each in by_precision.items()]
    unknown = float("inf")
    return sorted(rows, key=lambda row: (row.seconds or unknown, row.memory_bytes or unknown))


def _row(precision: str, found: Sequence[Point]) -> Row:
    figures = [each.figures for each in found if each.figures is not None]
    verdicts = [each.accepted for each in found]
    return Row(
        precision,
        len(found),
        _mean([each.accuracy for each in found]),
        _mean([each.agreement for each in found]),
        _mean([each.seconds for each in figures]),
        _mean([each.memory_bytes for each in found]),
        _mean([each.joules for each in figures]),
        _mean([None if each is None else float(each) for each in verdicts]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean; None if any value is unknown."""
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
