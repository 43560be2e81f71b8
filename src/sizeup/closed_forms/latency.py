"""Latency as closed forms: kernels of a model with symbolic dimensions, evaluated at many points at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from sizeup.closed_forms.cost import CostForms, FreeCost, Moved, bytes_of
from sizeup.cost import Cost, count
from sizeup.dtypes import DType
from sizeup.graph import Graph, Tensor, without_collection
from sizeup.latency.estimate import BASES, Estimate, check_types
from sizeup.latency.executed import Executed, Quantities, executed
from sizeup.latency.timed import Basis, times_of
from sizeup.latency.work import Codes, Flags, Floats, Work
from sizeup.symbolic import (
    Assumptions,
    Grid,
    Guard,
    Number,
    Ratio,
    as_ratio,
    assuming,
    bound,
    cover,
    grid_of,
    guard_source,
    value_at,
)
from sizeup.targets import Target

COLUMNS = ("macs", "read", "written", "weights", "length", "columns", "rows")
_CLOSE = 1e-12
# Rows of work at a time: with everything computed from them about 50 MB.
_ROWS = 1 << 17
# Sets of closed forms per specialization; beyond that, single points are cheaper.
_MOST_FORMS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Seconds at some points, numbers or arrays; nan if a prediction interval is not known."""

    seconds: Any
    low: Any
    high: Any
    basis: Any

    @property
    def ms(self) -> Any:
        """Milliseconds."""
        return 1e3 * self.seconds


@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """A target, a precision (None for the model's own) and a basis (None for the best available)."""

    target: Target
    precision: DType | None = None
    basis: Basis | None = None


@dataclass(frozen=True, slots=True)
class _OneByOne:
    """Stands for points that no closed form covers."""

    guards: tuple[Guard, ...] = ()


class FreeEstimate:
    """The latency of a model with symbolic dimensions on a target.

    Fusion and what a kernel moves are closed forms under guards, as counts are. If there are none, and for a
    table of coefficients or a precision map, every distinct point is bound and estimated by itself
    (`single`), without reading the model again.
    """

    def __init__(
        self, cost: FreeCost, single: Callable[[Cost], Estimate], options: LatencyOptions | None = None
    ) -> None:
        if options is not None:
            check_types(options.target, options.precision)
        self.cost, self.options = cost, options
        self._single = single
        self._known: dict[tuple[int, ...], tuple[float | None, ...]] = {}
        self._forms: dict[int, list[KernelForms | _OneByOne]] = {}

    def at(self, **sizes: Any) -> Times:
        """The latency at one point (ints), or at many (arrays that broadcast)."""
        grid, shape = grid_of(self.cost.graph.names, sizes)
        columns, basis = np.full((3, grid.points), np.nan), np.zeros(grid.points, np.int8)
        for part in self.cost.parts(grid):
            for forms, inside in self._cover(part.forms, part.grid):
                places = part.places[inside]
                here = part.grid if len(inside) == part.grid.points else part.grid.take(inside)
                for some, times, bases in self._times(forms, here):
                    columns[:, places[some]], basis[places[some]] = times, bases
        if shape:
            seconds, low, high = (each.reshape(shape) for each in columns)
            return Times(seconds, low, high, np.array(BASES)[basis].reshape(shape))
        seconds, low, high = columns[:, 0].tolist()
        return Times(seconds, low, high, BASES[basis[0]])

    def forms_at(self, sizes: Mapping[str, int]) -> KernelForms | None:
        """The kernels as closed forms around a point; None if there are none."""
        grid, _ = grid_of(self.cost.graph.names, sizes)
        (part,) = self.cost.parts(grid)
        ((forms, _),) = self._cover(part.forms, part.grid)
        return forms if isinstance(forms, KernelForms) else None

    def _cover(self, forms: CostForms, grid: Grid) -> list[tuple[KernelForms | _OneByOne, Any]]:
        known = self._forms.setdefault(id(forms), [])

        def more(point: Mapping[str, int]) -> KernelForms | _OneByOne:
            added = None
            if self.options is not None and len(known) < _MOST_FORMS:
                fuses = self.options.target.runtime.fuses or ()
                with without_collection():
                    added = kernel_forms(forms, point, self.options.precision, fuses)
            known.append(added or _OneByOne())
            return known[-1]

        return cover(grid, known, more)

    def _times(self, forms: KernelForms | _OneByOne, grid: Grid) -> Iterable[tuple[slice, Any, Any]]:
        """Seconds, low and high of some points at a time, and their basis."""
        if self.options is None or isinstance(forms, _OneByOne):
            rows = np.array([self._alone(grid.point(place)) for place in range(grid.points)], np.float64)
            yield slice(grid.points), rows[:, :3].T, rows[:, 3]
            return
        is_whole = not forms.forms.example.reasons
        for some, work in forms.works(grid):
            times = times_of(work, self.options.target, self.options.basis, is_whole)
            bases = np.where(times.is_calibrated, BASES.index("calibrated"), BASES.index("roofline"))
            yield some, (times.seconds, times.low, times.high), bases

    def _alone(self, sizes: Mapping[str, int]) -> tuple[float | None, ...]:
        point = tuple(sizes[name] for name in self.cost.graph.names)
        if point not in self._known:
            estimate = self.single(sizes)
            basis = BASES.index(estimate.basis)
            self._known[point] = (estimate.seconds, estimate.low, estimate.high, basis)
        return self._known[point]

    def single(self, sizes: Mapping[str, int]) -> Estimate:
        """The whole estimate at one point."""
        return self._single(self.cost.cost_at(**sizes))


@dataclass(frozen=True, slots=True)
class KernelForm:
    """Kernels that differ in their names alone: their class, how often they run, and their columns."""

    name: str
    count: float
    places: tuple[int, ...]  # the kernels that it stands for
    quantities: tuple[Ratio, ...]  # in the order of `COLUMNS`


@dataclass(frozen=True, slots=True, eq=False)
class KernelForms:
    """All kernels of one specialization, and the guards that they need in addition to those of the cost."""

    forms: CostForms
    origins: Mapping[Guard, str]
    kernels: tuple[KernelForm, ...]
    main: Codes  # of every kernel the op that names it

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The additional guards."""
        return tuple(self.origins)

    def works(self, grid: Grid) -> Iterator[tuple[slice, Work]]:
        """The work at all points, one network per point, as many points at a time as bound memory."""
        parts = [(each.top, each.bottom) for kernel in self.kernels for each in kernel.quantities]
        numbers: list[Number] = list(dict.fromkeys(part for each in parts for part in each))
        place = {number: index for index, number in enumerate(numbers)}
        tops, bottoms = (
            np.array([[place[each] for each in pair] for pair in parts], np.int64).reshape(-1, 2).T
        )
        step = max(_ROWS // max(len(self.kernels), 1), 1)
        for start in range(0, grid.points, step):
            here = slice(start, min(start + step, grid.points))
            values = np.empty((len(numbers), here.stop - start))
            points = grid.take(np.arange(start, here.stop))
            for row, column in zip(values, points.values(numbers), strict=True):
                row[:] = column
            yield here, self._work(values[tops] / values[bottoms])

    def _work(self, values: Floats) -> Work:
        """From one row per quantity of every kernel, one column per point."""
        points = values.shape[1]
        names = tuple(dict.fromkeys(each.name for each in self.kernels))
        kinds = np.array([names.index(each.name) for each in self.kernels], np.int64)
        counts = np.array([each.count for each in self.kernels], np.float64)
        by_column = values.reshape(len(self.kernels), len(COLUMNS), points).transpose(1, 0, 2)
        return Work(
            names,
            points,
            np.tile(np.arange(points), len(self.kernels)),
            np.repeat(kinds, points),
            **{name: each.reshape(-1) for name, each in zip(COLUMNS, by_column, strict=True)},
            count=np.repeat(counts, points),
        )


def kernel_forms(
    forms: CostForms, example: Mapping[str, int], precision: DType | None, fuses: Collection[str]
) -> KernelForms | None:
    """The kernels of a specialization around an example; None if they have no closed form.

    They are checked against the kernels at the example, which come from ints.
    """
    counted = _Counted(forms.graph, _objects(forms.macs), _Accesses(forms.reads), _Accesses(forms.writes))
    assumptions = Assumptions(example)
    try:
        with assuming(assumptions), guard_source("what runs as one kernel"):
            symbolic = executed(counted, precision, fuses)
    # A cost rule may need more than an expression supports, and fail in its own way.
    except (TypeError, ValueError, ArithmeticError, LookupError):
        return None
    plain = executed(count(bound(forms.graph, example)), precision, fuses)
    if not _agrees(symbolic, plain, example):
        return None
    return KernelForms(forms, dict(assumptions.origins), tuple(_folded(symbolic.work)), symbolic.main)


@dataclass(frozen=True, slots=True, eq=False)
class _Accesses:
    """Reads or writes of closed forms, with the interface of those of ints."""

    moved: tuple[Moved, ...]

    @property
    def first(self) -> Codes:
        return np.array([0, *accumulate(map(len, self.moved))], np.int64)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(tensor for row in self.moved for _, _, tensor in row)

    @property
    def weight(self) -> Flags:
        return np.array([each.data is not None for each in self.tensors], np.bool_)

    def bytes_at(self, precision: DType | None = None) -> Quantities:
        return _objects([as_ratio(bytes_of(*each, precision)) for row in self.moved for each in row])


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """Closed forms with the interface of a cost."""

    graph: Graph
    macs: Quantities
    reads: _Accesses
    writes: _Accesses


def _objects(values: Collection[Any]) -> Quantities:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _agrees(symbolic: Executed, plain: Executed, sizes: Mapping[str, int]) -> bool:
    one, other = symbolic.work, plain.work
    if [one.names[each] for each in one.kind] != [other.names[each] for each in other.kind]:
        return False
    same = (symbolic.kernel == plain.kernel).all() and (symbolic.main == plain.main).all()
    if not same or (one.count != other.count).any():
        return False
    values = [[_at(each, sizes) for each in getattr(one, column)] for column in COLUMNS]
    expected = [getattr(other, column) for column in COLUMNS]
    return bool(np.allclose(values, expected, rtol=_CLOSE, atol=0))


def _at(quantity: Any, sizes: Mapping[str, int]) -> float:
    ratio = as_ratio(quantity)
    return value_at(ratio.top, sizes) / value_at(ratio.bottom, sizes)


def _folded(work: Work) -> Iterator[KernelForm]:
    """Equal kernels as one, in the order of their first."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    quantities = zip(*(map(as_ratio, getattr(work, column)) for column in COLUMNS), strict=True)
    for place, (kind, row) in enumerate(zip(work.kind.tolist(), quantities, strict=True)):
        alike.setdefault((kind, *((each.top, each.bottom) for each in row)), []).append(place)
    for (kind, *parts), places in alike.items():
        runs = float(work.count[places].sum())
        yield KernelForm(work.names[kind], runs, tuple(places), tuple(Ratio(*each) for each in parts))
