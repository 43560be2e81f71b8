"""Latency over free dimensions: the estimate at every point that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizeup.cost import Cost
from sizeup.cost.closed import FreeCost
from sizeup.graph import grid_of
from sizeup.latency.estimate import Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Seconds at the points that were asked for, numbers or arrays; nan where a range is not known."""

    seconds: Any
    low: Any
    high: Any

    @property
    def ms(self) -> Any:
        """Milliseconds."""
        return 1e3 * self.seconds


class FreeEstimate:
    """How long a model with free dimensions takes on a target, point by point.

    What a runtime merges and which kernel bounds depends on sizes in ways that no one formula tells, so that
    every distinct point is bound and estimated by itself, without reading the model again.
    """

    def __init__(self, cost: FreeCost, estimate: Callable[[Cost], Estimate]) -> None:
        self.cost = cost
        self._estimate = estimate
        self._known: dict[tuple[int, ...], tuple[float, float, float]] = {}

    def at(self, **sizes: Any) -> Times:
        """The times at one point (whole numbers), or at many (arrays that broadcast)."""
        names = self.cost.graph.names
        grid, shape = grid_of(names, sizes)
        rows = [tuple(grid.point(place)[name] for name in names) for place in range(grid.points)]
        found = np.array([self._at(row) for row in rows], np.float64).reshape(-1, 3).T
        seconds, low, high = (each.reshape(shape) if shape else float(each[0]) for each in found)
        return Times(seconds, low, high)

    def _at(self, point: tuple[int, ...]) -> tuple[float, float, float]:
        known = self._known.get(point)
        if known is None:
            sizes = dict(zip(self.cost.graph.names, point, strict=True))
            made = self._estimate(self.cost.cost_at(**sizes))
            none = float("nan")
            low, high = (none if each is None else each for each in (made.low, made.high))
            known = self._known[point] = (made.seconds, low, high)
        return known
