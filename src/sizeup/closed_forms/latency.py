"""Latency as closed forms: kernels of a model with symbolic dimensions, evaluated at many points at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from sizeup.closed_forms.cost import CostForms, Moved, SymbolicCost, bytes_of
from sizeup.cost import Cost, count
from sizeup.dtypes import DType
from sizeup.errors import NoLatency
from sizeup.graph import Graph, Tensor, without_gc
from sizeup.latency.backend import latency_backend
from sizeup.latency.estimate import BASES, Estimate, check_types
from sizeup.latency.execution import Execution, Quantities, execution_of
from sizeup.latency.gaps import dependent_steps
from sizeup.latency.prediction import Basis, latencies_of
from sizeup.latency.work import Codes, Flags, Floats, Work
from sizeup.symbolic import (
    Assumptions,
    Grid,
    Guard,
    Number,
    Ratio,
    as_ratio,
    assuming,
    bind,
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
class Latencies:
    """Seconds at some points, as numbers or arrays; nan if unknown, or without a prediction interval."""

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
class _PointByPoint:
    """Points that no closed form covers."""

    guards: tuple[Guard, ...] = ()


class SymbolicEstimate:
    """The latency of a model with symbolic dimensions on a target.

    Fusion and memory traffic are closed forms under guards, as counts are. If there are none, and for a
    coefficient table or a precision map, each distinct point is estimated separately (`single`), without
    loading the model again.
    """

    def __init__(
        self, cost: SymbolicCost, single: Callable[[Cost], Estimate], options: LatencyOptions | None = None
    ) -> None:
        if options is not None:
            check_types(options.target, options.precision)
        self.cost, self.options = cost, options
        self._single = single
        self._known: dict[tuple[int, ...], tuple[float | None, ...]] = {}
        self._forms: dict[int, list[KernelForms | _PointByPoint]] = {}

    def at(self, **sizes: Any) -> Latencies:
        """The latency at one point (ints), or at many (arrays that broadcast)."""
        grid, shape = grid_of(self.cost.graph.names, sizes)
        columns, basis = np.full((3, grid.points), np.nan), np.zeros(grid.points, np.int8)
        for part in self.cost.parts(grid):
            for forms, inside in self._cover(part.forms, part.grid):
                indices = part.indices[inside]
                subgrid = part.grid if len(inside) == part.grid.points else part.grid.take(inside)
                for chunk, times, bases in self._times(forms, subgrid):
                    columns[:, indices[chunk]], basis[indices[chunk]] = times, bases
        if shape:
            seconds, low, high = (column.reshape(shape) for column in columns)
            return Latencies(seconds, low, high, np.array(BASES)[basis].reshape(shape))
        seconds, low, high = columns[:, 0].tolist()
        return Latencies(seconds, low, high, BASES[basis[0]])

    def forms_at(self, sizes: Mapping[str, int]) -> KernelForms | None:
        """The kernels as closed forms around a point; None if there are none."""
        grid, _ = grid_of(self.cost.graph.names, sizes)
        (part,) = self.cost.parts(grid)
        ((forms, _),) = self._cover(part.forms, part.grid)
        return forms if isinstance(forms, KernelForms) else None

    def _cover(self, forms: CostForms, grid: Grid) -> list[tuple[KernelForms | _PointByPoint, Any]]:
        known = self._forms.setdefault(id(forms), [])

        def more(point: Mapping[str, int]) -> KernelForms | _PointByPoint:
            added = None
            if self.options is not None and len(known) < _MOST_FORMS:
                fuses = self.options.target.runtime.fusions or ()
                with without_gc():
                    added = kernel_forms(forms, point, self.options.precision, fuses)
            known.append(added or _PointByPoint())
            return known[-1]

        return cover(grid, known, more)

    def _times(self, forms: KernelForms | _PointByPoint, grid: Grid) -> Iterable[tuple[slice, Any, Any]]:
        """Seconds, low and high of some points at a time, and their basis."""
        if self.options is None or isinstance(forms, _PointByPoint):
            rows = np.array([self._at_point(grid.point(index)) for index in range(grid.points)], np.float64)
            yield slice(grid.points), rows[:, :3].T, rows[:, 3]
            return
        recurrent = dependent_steps(forms.forms.graph, self.options.target)
        target, example = self.options.target, forms.forms.example
        sizes = example.graph.open_sizes(uses_record=latency_backend(target).uses_recorded_shapes)
        is_complete = not example.reasons and not recurrent and not sizes
        for chunk, work in forms.works(grid):
            times = latencies_of(work, self.options.target, self.options.basis, is_complete)
            bases = np.where(times.is_calibrated, BASES.index("calibrated"), BASES.index("roofline"))
            seconds = np.where(times.seconds > 0, times.seconds, np.nan)  # unknown is not 0 seconds
            yield chunk, (seconds, times.low, times.high), bases

    def _at_point(self, sizes: Mapping[str, int]) -> tuple[float | None, ...]:
        point = tuple(sizes[name] for name in self.cost.graph.names)
        if point not in self._known:
            try:
                estimate = self.estimate_at(sizes)
            except NoLatency:
                self._known[point] = (None, None, None, BASES.index("roofline"))
            else:
                basis = BASES.index(estimate.basis)
                self._known[point] = (estimate.seconds, estimate.low, estimate.high, basis)
        return self._known[point]

    def estimate_at(self, sizes: Mapping[str, int]) -> Estimate:
        """The full estimate at one point."""
        return self._single(self.cost.cost_at(**sizes))


@dataclass(frozen=True, slots=True)
class KernelForm:
    """Kernels that are equal except for their names."""

    name: str  # their class
    count: float  # of runs
    indices: tuple[int, ...]  # of the kernels
    quantities: tuple[Ratio, ...]  # in the order of `COLUMNS`


@dataclass(frozen=True, slots=True, eq=False)
class KernelForms:
    """All kernels of one specialization, and the guards that they need in addition to those of the cost."""

    forms: CostForms
    origins: Mapping[Guard, str]
    kernels: tuple[KernelForm, ...]
    main: Codes  # the main op of each kernel

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The additional guards."""
        return tuple(self.origins)

    def works(self, grid: Grid) -> Iterator[tuple[slice, Work]]:
        """The work at all points, one network per point, in chunks that bound the memory."""
        parts = [
            (quantity.numerator, quantity.denominator)
            for kernel in self.kernels
            for quantity in kernel.quantities
        ]
        numbers: list[Number] = list(dict.fromkeys(part for pair in parts for part in pair))
        index_of = {number: index for index, number in enumerate(numbers)}
        tops, bottoms = (
            np.array([[index_of[number] for number in pair] for pair in parts], np.int64).reshape(-1, 2).T
        )
        step = max(_ROWS // max(len(self.kernels), 1), 1)
        for start in range(0, grid.points, step):
            chunk = slice(start, min(start + step, grid.points))
            values = np.empty((len(numbers), chunk.stop - start))
            points = grid.take(np.arange(start, chunk.stop))
            for row, column in zip(values, points.values(numbers), strict=True):
                row[:] = column
            yield chunk, self._work(values[tops] / values[bottoms])

    def _work(self, values: Floats) -> Work:
        """The work from values with one row per quantity of each kernel and one column per point."""
        points = values.shape[1]
        names = tuple(dict.fromkeys(kernel.name for kernel in self.kernels))
        classes = np.array([names.index(kernel.name) for kernel in self.kernels], np.int64)
        counts = np.array([kernel.count for kernel in self.kernels], np.float64)
        by_column = values.reshape(len(self.kernels), len(COLUMNS), points).transpose(1, 0, 2)
        return Work(
            names,
            points,
            np.tile(np.arange(points), len(self.kernels)),
            np.repeat(classes, points),
            **{name: column.reshape(-1) for name, column in zip(COLUMNS, by_column, strict=True)},
            count=np.repeat(counts, points),
        )


def kernel_forms(
    forms: CostForms, example: Mapping[str, int], precision: DType | None, fuses: Collection[str]
) -> KernelForms | None:
    """The kernels of a specialization around an example; None if they have no closed form.

    They are checked against the kernels at the example, computed from integers.
    """
    counted = _Counted(forms.graph, _objects(forms.macs), _Accesses(forms.reads), _Accesses(forms.writes))
    assumptions = Assumptions(example)
    try:
        with assuming(assumptions), guard_source("kernel fusion"):
            symbolic = execution_of(counted, precision, fuses)
    # A cost rule may need more than an expression supports, and fail in its own way.
    except (TypeError, ValueError, ArithmeticError, LookupError):
        return None
    plain = execution_of(count(bind(forms.graph, example)), precision, fuses)
    if not _agrees(symbolic, plain, example):
        return None
    return KernelForms(
        forms, dict(assumptions.guard_sources), tuple(_grouped(symbolic.work)), symbolic.main_op
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Accesses:
    """Reads or writes as closed forms, with the interface of those of a cost."""

    moved: tuple[Moved, ...]

    @property
    def first(self) -> Codes:
        return np.array([0, *accumulate(map(len, self.moved))], np.int64)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(tensor for row in self.moved for _, _, tensor in row)

    @property
    def is_weight(self) -> Flags:
        return np.array([tensor.data is not None for tensor in self.tensors], np.bool_)

    def bytes_at(self, precision: DType | None = None) -> Quantities:
        return _objects([as_ratio(bytes_of(*access, precision)) for row in self.moved for access in row])


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


def _agrees(symbolic: Execution, plain: Execution, sizes: Mapping[str, int]) -> bool:
    one, other = symbolic.work, plain.work
    if [one.names[index] for index in one.class_index] != [other.names[index] for index in other.class_index]:
        return False
    same = (symbolic.kernel == plain.kernel).all() and (symbolic.main_op == plain.main_op).all()
    if not same or (one.count != other.count).any():
        return False
    values = [[_at(quantity, sizes) for quantity in getattr(one, column)] for column in COLUMNS]
    expected = [getattr(other, column) for column in COLUMNS]
    return bool(np.allclose(values, expected, rtol=_CLOSE, atol=0))


def _at(quantity: Any, sizes: Mapping[str, int]) -> float:
    ratio = as_ratio(quantity)
    return value_at(ratio.numerator, sizes) / value_at(ratio.denominator, sizes)


def _grouped(work: Work) -> Iterator[KernelForm]:
    """Equal kernels grouped, in the order of their first."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    quantities = zip(*(map(as_ratio, getattr(work, column)) for column in COLUMNS), strict=True)
    for index, (class_index, row) in enumerate(zip(work.class_index.tolist(), quantities, strict=True)):
        groups.setdefault((class_index, *((ratio.numerator, ratio.denominator) for ratio in row)), []).append(
            index
        )
    for (class_index, *parts), indices in groups.items():
        runs = float(work.count[indices].sum())
        ratios = tuple(Ratio(*part) for part in parts)
        yield KernelForm(work.names[class_index], runs, tuple(indices), ratios)
