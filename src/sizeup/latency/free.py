"""Latency over free dimensions: kernels as closed forms, evaluated at any number of points at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizeup.cost import Cost
from sizeup.cost.closed import FreeCost
from sizeup.cost.forms import Forms
from sizeup.dtypes import DType
from sizeup.graph import Condition, Grid, grid_of, without_collection
from sizeup.graph.free import cover
from sizeup.latency.estimate import BASES, Estimate, check_types
from sizeup.latency.forms import KernelForms, kernel_forms
from sizeup.latency.timed import Basis, times_of
from sizeup.targets import Target

# Of one piece of a model; where sizes are decided by more often than that, single points are cheaper.
_MOST_FORMS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Seconds at the points that were asked for, numbers or arrays; nan where a range is not known."""

    seconds: Any
    low: Any
    high: Any
    basis: Any  # what the seconds rest on

    @property
    def ms(self) -> Any:
        """Milliseconds."""
        return 1e3 * self.seconds


@dataclass(frozen=True, slots=True)
class Asked:
    """What a latency is asked for: a target, a precision or the model's own, and what it shall rest on."""

    target: Target
    precision: DType | None = None
    basis: Basis | None = None


@dataclass(frozen=True, slots=True)
class _OneByOne:
    """What stands for points that no closed form covers."""

    conditions: tuple[Condition, ...] = ()


class FreeEstimate:
    """How long a model with free dimensions takes on a target.

    What a runtime merges and what a kernel moves are closed forms under conditions, as counts are. Where none
    can be had, and for a table of coefficients or a precision for each layer, every distinct point is bound
    and estimated by itself (`single`), without reading the model again.
    """

    def __init__(
        self, cost: FreeCost, single: Callable[[Cost], Estimate], asked: Asked | None = None
    ) -> None:
        if asked is not None:
            check_types(asked.target, asked.precision)
        self.cost, self.asked = cost, asked
        self._single = single
        self._known: dict[tuple[int, ...], tuple[float | None, ...]] = {}
        self._forms: dict[int, list[KernelForms | _OneByOne]] = {}

    def at(self, **sizes: Any) -> Times:
        """The times at one point (whole numbers), or at many (arrays that broadcast)."""
        grid, shape = grid_of(self.cost.graph.names, sizes)
        found, basis = np.full((3, grid.points), np.nan), np.zeros(grid.points, np.int8)
        for part in self.cost.parts(grid):
            for forms, inside in self._cover(part.forms, part.grid):
                places = part.places[inside]
                here = part.grid if len(inside) == part.grid.points else part.grid.take(inside)
                for some, times, rests in self._times(forms, here):
                    found[:, places[some]], basis[places[some]] = times, rests
        if shape:
            seconds, low, high = (each.reshape(shape) for each in found)
            return Times(seconds, low, high, np.array(BASES)[basis].reshape(shape))
        seconds, low, high = found[:, 0].tolist()
        return Times(seconds, low, high, BASES[basis[0]])

    def forms_at(self, sizes: Mapping[str, int]) -> KernelForms | None:
        """The kernels as closed forms around a point; None where that has none."""
        grid, _ = grid_of(self.cost.graph.names, sizes)
        (part,) = self.cost.parts(grid)
        ((found, _),) = self._cover(part.forms, part.grid)
        return found if isinstance(found, KernelForms) else None

    def _cover(self, forms: Forms, grid: Grid) -> list[tuple[KernelForms | _OneByOne, Any]]:
        known = self._forms.setdefault(id(forms), [])

        def more(point: Mapping[str, int]) -> KernelForms | _OneByOne:
            made = None
            if self.asked is not None and len(known) < _MOST_FORMS:
                fuses = self.asked.target.runtime.fuses or ()
                with without_collection():
                    made = kernel_forms(forms, point, self.asked.precision, fuses)
            known.append(made or _OneByOne())
            return known[-1]

        return cover(grid, known, lambda each: each.conditions, more)

    def _times(self, forms: KernelForms | _OneByOne, grid: Grid) -> Iterable[tuple[slice, Any, Any]]:
        """Seconds, low and high of some points after the other, and what they rest on."""
        if self.asked is None or isinstance(forms, _OneByOne):
            rows = np.array([self._alone(grid.point(place)) for place in range(grid.points)], np.float64)
            yield slice(grid.points), rows[:, :3].T, rows[:, 3]
            return
        is_whole = not forms.forms.example.reasons
        for some, work in forms.works(grid):
            found = times_of(work, self.asked.target, self.asked.basis, is_whole)
            rests = np.where(found.is_calibrated, BASES.index("calibrated"), BASES.index("roofline"))
            yield some, (found.seconds, found.low, found.high), rests

    def _alone(self, sizes: Mapping[str, int]) -> tuple[float | None, ...]:
        point = tuple(sizes[name] for name in self.cost.graph.names)
        if point not in self._known:
            made = self.single(sizes)
            self._known[point] = (made.seconds, made.low, made.high, BASES.index(made.basis))
        return self._known[point]

    def single(self, sizes: Mapping[str, int]) -> Estimate:
        """The whole estimate at one point."""
        return self._single(self.cost.cost_at(**sizes))
