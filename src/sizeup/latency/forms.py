"""Kernels of a network with free dimensions: columns of closed forms, made by the rules for plain sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from sizeup.cost import count
from sizeup.cost.forms import Forms, Moved, bytes_of
from sizeup.dtypes import DType
from sizeup.graph import (
    Assumptions,
    Condition,
    Graph,
    Grid,
    Number,
    Ratio,
    Tensor,
    as_ratio,
    asked_by,
    assuming,
    bound,
    value_at,
)
from sizeup.latency.counted import Quantities
from sizeup.latency.executed import Executed, executed
from sizeup.latency.work import Codes, Flags, Floats, Work

COLUMNS = ("macs", "read", "written", "weights", "length", "columns", "rows")
_CLOSE = 1e-12
# So many rows of work at a time: with all that is computed from them about 50 MB.
_ROWS = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class _Accesses:
    """Reads or writes of closed forms, as those of plain numbers are asked for."""

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
    """Closed forms as what a network costs."""

    forms: Forms

    @property
    def graph(self) -> Graph:
        return self.forms.graph

    @property
    def macs(self) -> Quantities:
        return _objects(list(self.forms.macs))

    @property
    def reads(self) -> _Accesses:
        return _Accesses(self.forms.reads)

    @property
    def writes(self) -> _Accesses:
        return _Accesses(self.forms.writes)


def _objects(values: list[Any]) -> Quantities:
    made = np.empty(len(values), object)
    made[:] = values
    return made


@dataclass(frozen=True, slots=True)
class KernelForm:
    """Kernels that are alike but for their names: their class, how often they run, and their columns."""

    name: str
    count: float
    places: tuple[int, ...]  # the kernels that it stands for
    quantities: tuple[Ratio, ...]  # in the order of `COLUMNS`


@dataclass(frozen=True, slots=True, eq=False)
class KernelForms:
    """All kernels of one piece of a model, and where they are its kernels, beside where the piece is."""

    forms: Forms
    origins: Mapping[Condition, str]
    kernels: tuple[KernelForm, ...]
    main: Codes  # of every kernel the operator that names it

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What must hold, beside the conditions of the counts."""
        return tuple(self.origins)

    def works(self, grid: Grid) -> Iterator[tuple[slice, Work]]:
        """The work at all points, one network a point, so many points at a time that memory stays small."""
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
        """From one row a quantity of every kernel, one column a point."""
        points = values.shape[1]
        names = tuple(dict.fromkeys(each.name for each in self.kernels))
        kinds = np.array([names.index(each.name) for each in self.kernels], np.int64)
        counts = np.array([each.count for each in self.kernels], np.float64)
        by_column = values.reshape(len(self.kernels), len(COLUMNS), points).transpose(1, 0, 2)
        macs, read, made, weights, length, columns, rows = (each.reshape(-1) for each in by_column)
        return Work(
            names,
            points,
            np.tile(np.arange(points), len(self.kernels)),
            np.repeat(kinds, points),
            macs,
            read,
            made,
            weights,
            length,
            columns,
            rows,
            np.repeat(counts, points),
        )


def kernel_forms(
    forms: Forms, example: Mapping[str, int], precision: DType | None, fuses: Collection[str]
) -> KernelForms | None:
    """The kernels of a piece around an example; None where they have no closed form.

    They are held against the kernels at the example, which come from plain numbers.
    """
    assumptions = Assumptions(example)
    try:
        with assuming(assumptions), asked_by("what runs as one kernel"):
            found = executed(_Counted(forms), precision, fuses)
    # A rule may ask more of a number than a free one can answer, and fail in its own way.
    except (TypeError, ValueError, ArithmeticError, LookupError):
        return None
    plain = executed(count(bound(forms.graph, example)), precision, fuses)
    if not _agrees(found, plain, example):
        return None
    return KernelForms(forms, dict(assumptions.origins), tuple(_folded(found.work)), found.main)


def _agrees(found: Executed, plain: Executed, sizes: Mapping[str, int]) -> bool:
    one, other = found.work, plain.work
    if [one.names[each] for each in one.kind] != [other.names[each] for each in other.kind]:
        return False
    same = (found.kernel == plain.kernel).all() and (found.main == plain.main).all()
    if not same or (one.count != other.count).any():
        return False
    values = [[_at(each, sizes) for each in getattr(one, column)] for column in COLUMNS]
    expected = [getattr(other, column) for column in COLUMNS]
    return bool(np.allclose(values, expected, rtol=_CLOSE, atol=0))


def _at(quantity: Any, sizes: Mapping[str, int]) -> float:
    ratio = as_ratio(quantity)
    return value_at(ratio.top, sizes) / value_at(ratio.bottom, sizes)


def _folded(work: Work) -> Iterator[KernelForm]:
    """Kernels that are alike as one, in the order of their first."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    quantities = zip(*(map(as_ratio, getattr(work, column)) for column in COLUMNS), strict=True)
    for place, (kind, *row) in enumerate(zip(work.kind.tolist(), quantities, strict=True)):
        key = (kind, *((each.top, each.bottom) for each in row[0]))
        alike.setdefault(key, []).append(place)
    for (kind, *parts), places in alike.items():
        runs = float(work.count[places].sum())
        yield KernelForm(work.names[kind], runs, tuple(places), tuple(Ratio(*each) for each in parts))
