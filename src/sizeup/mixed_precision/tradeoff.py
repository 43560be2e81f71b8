"""One model at every precision, batch and input size: its cost at each, and the budgets that accept it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sizeup import dtypes
from sizeup.dtypes import DType, precision_name
from sizeup.errors import LoadError, SizeupError, TargetError
from sizeup.graph import Graph, Shape
from sizeup.latency import Basis, Estimate, energy
from sizeup.latency.provenance import NOT_CALIBRATED, covered_precisions
from sizeup.mixed_precision.accuracy import Accuracy
from sizeup.mixed_precision.basis import common_basis, latency_at
from sizeup.mixed_precision.figures import Budgets, Figures, figures_at
from sizeup.mixed_precision.options import uniform, unsupported, weight_only
from sizeup.targets import Target, current_catalog

# Loads the graph for an input shape; None: as saved.
Loader = Callable[[Shape | None], Graph]


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """A named budget. `decide` gives its verdict on the network at a precision; None if undetermined."""

    decide: Callable[[Graph, DType], bool | None]
    precision: str | None = None  # the only precision that it applies to; None: all


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
    """One precision, batch and input size. If it cannot run, `unsupported` is why, and figures are None."""

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
    no_latency_reason: str = ""  # why it has no latency on a target that runs it

    @property
    def accepted(self) -> bool | None:
        """Whether all budgets accept it; None if that is undetermined or there are no budgets."""
        verdicts = list(self.verdicts.values())
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True

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
class TradeoffOptions:
    """The combinations to compare, the target and the budgets; an empty list leaves the model unchanged."""

    precisions: Sequence[DType]
    batches: Sequence[int] = ()
    sizes: Sequence[int] = ()
    target: Target | None = None
    budgets: Budgets = field(default_factory=Budgets)
    budget_checks: Mapping[str, BudgetCheck] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.precisions) * max(len(self.batches), 1) * max(len(self.sizes), 1)


# The budget of the options --weights, --activations, --latency and --energy.
LIMITS = "limits"


def points(load: Loader, grid: TradeoffOptions, accuracy: Accuracy | None = None) -> Iterator[Point]:
    """Yields every combination; those that cannot run have a reason."""
    as_saved = load(None)
    for batch in grid.batches or (None,):
        for size in grid.sizes or (None,):
            graph = _resized(load, as_saved, batch, size)
            if isinstance(graph, Graph):
                yield from _at_precisions(graph, batch, size, grid, accuracy)
                continue
            for precision in grid.precisions:
                yield Point(precision_name(precision), batch, size, unsupported=graph)


def _resized(load: Loader, as_saved: Graph, batch: int | None, size: int | None) -> Graph | str:
    """Returns the network at a batch and an input size, or why it cannot be loaded at them."""
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
    """Returns the first input's shape with another batch, and another height and width or sequence length."""
    shape = list(graph.tensors[graph.inputs[0]].shape or ())
    if not shape:
        raise SizeupError("the first input has no dimensions to change")
    if batch is not None:
        shape[0] = batch
    if size is not None:
        if len(shape) not in (2, 4):
            raise SizeupError(
                f"an input of {len(shape)} dimensions has no single size; bind its dimensions instead"
            )
        for axis in (2, 3) if len(shape) == 4 else (1,):
            shape[axis] = size
    return tuple(shape)


def _at_precisions(
    graph: Graph, batch: int | None, size: int | None, grid: TradeoffOptions, accuracy: Accuracy | None
) -> Iterator[Point]:
    """Yields all precisions of one graph, with latencies on one basis."""
    target = grid.target
    reasons = {dtype: unsupported(graph, dtype, target) for dtype in grid.precisions}
    basis = common_basis(
        graph, [_computed_in(dtype, target) for dtype, reason in reasons.items() if not reason], target
    )
    for precision, reason in reasons.items():
        point = Point(precision_name(precision), batch, size, unsupported=reason)
        yield point if reason else _measured(point, graph, precision, basis, grid, accuracy)


def calibration_caveats(graph: Graph, grid: TradeoffOptions) -> Iterator[str]:
    """Yields that a calibration is unused because it covers only some precisions, and what uses it."""
    target = grid.target
    calibration = None if target is None else current_catalog().calibration(target)
    supported = [dtype for dtype in grid.precisions if not unsupported(graph, dtype, target)]
    computed = {dtype: _computed_in(dtype, target) for dtype in supported}
    if target is None or calibration is None or common_basis(graph, [*computed.values()], target) is None:
        return
    text = covered_precisions(calibration, target)
    covered = [
        dtype for dtype in supported if precision_name(computed[dtype]) in calibration.covered_precisions
    ]
    if not covered:
        yield text
        return
    latency = latency_at(uniform(graph, covered[0], target), graph, target, None)
    if isinstance(latency, Estimate):
        names = ",".join(map(precision_name, covered))
        refusal = next((note for note in latency.notes if note.startswith(NOT_CALIBRATED)), "")
        effect = "uses it" if latency.basis == "calibrated" else f"has the basis {latency.basis}"
        text += f"; --precisions {names} {effect}" + (f", because it is {refusal}" if refusal else "")
    yield text


def _computed_in(precision: DType, target: Target | None) -> DType:
    limits = weight_only(precision, target)
    return precision if limits is None else dtypes.precision(limits.computes_in)


def _measured(
    point: Point,
    graph: Graph,
    precision: DType,
    basis: Basis | None,
    grid: TradeoffOptions,
    accuracy: Accuracy | None,
) -> Point:
    network = uniform(graph, precision, grid.target)
    try:
        estimated = None if grid.target is None else _estimated(network, graph, precision, grid.target, basis)
    except TargetError as error:
        return replace(point, unsupported=str(error))
    if isinstance(estimated, str):
        point, estimated = replace(point, no_latency_reason=estimated), None
    consumption = None if estimated is None else energy(estimated)
    latency = None if estimated is None else _latency(estimated)
    figures = replace(
        figures_at(network),
        seconds=None if latency is None else latency.seconds,
        joules=None if consumption is None else consumption.joules,
    )
    verdicts = {
        name: check.decide(graph, precision)
        for name, check in grid.budget_checks.items()
        if check.precision in (None, point.precision)
    }
    if grid.budgets != Budgets():
        verdicts = {LIMITS: _within(grid.budgets, figures, latency), **verdicts}
    share = None if accuracy is None else accuracy.at(point.precision, point.size, graph)
    is_agreement = accuracy is not None and accuracy.is_agreement
    return replace(
        point,
        figures=figures,
        latency=latency,
        energy_basis=None if consumption is None else consumption.basis,
        accuracy=None if is_agreement else share,
        agreement=share if is_agreement else None,
        verdicts=verdicts,
    )


def _estimated(
    network: Graph, graph: Graph, precision: DType, target: Target, basis: Basis | None
) -> Estimate | str:
    """Returns the latency at a precision; kernels of TFLite Micro are those that `analyze` assumes for it."""
    if basis == "instructions":
        return latency_at(graph, graph, target, basis, precision)
    return latency_at(network, graph, target, basis)


def _latency(estimated: Estimate) -> Latency:
    if estimated.low is None:
        return Latency(None, estimated.seconds, None, estimated.basis, estimated.provenance, estimated.notes)
    return Latency(
        estimated.seconds,
        estimated.low,
        estimated.high,
        estimated.basis,
        estimated.provenance,
        estimated.notes,
    )


def _within(budgets: Budgets, figures: Figures, latency: Latency | None) -> bool | None:
    """Whether figures are within budgets; None if a figure that decides is unknown."""
    exceeded = budgets.exceeded_by(figures)
    if any(getattr(figures, name) is not None for name in exceeded):
        return False
    if budgets.seconds is not None and latency is not None and latency.low > budgets.seconds:
        return False  # a lower bound suffices to reject
    return None if exceeded else True


def table(all_points: Sequence[Point]) -> list[Row]:
    """Returns one row per precision that runs, the fastest first, or the smallest without latencies."""
    by_precision: dict[str, list[Point]] = {}
    for point in all_points:
        if not point.unsupported:
            by_precision.setdefault(point.precision, []).append(point)
    rows = [_row(name, group) for name, group in by_precision.items()]
    unknown = float("inf")
    return sorted(rows, key=lambda row: (row.seconds or unknown, row.memory_bytes or unknown))


def _row(precision: str, row_points: Sequence[Point]) -> Row:
    figures = [point.figures for point in row_points if point.figures is not None]
    verdicts = [point.accepted for point in row_points]
    return Row(
        precision,
        len(row_points),
        _mean([point.accuracy for point in row_points]),
        _mean([point.agreement for point in row_points]),
        _mean([figure.seconds for figure in figures]),
        _mean([point.memory_bytes for point in row_points]),
        _mean([figure.joules for figure in figures]),
        _mean([None if verdict is None else float(verdict) for verdict in verdicts]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Returns the mean; None if any value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
