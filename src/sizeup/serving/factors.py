"""Factors between measured and estimated times, interpolated between the loads that were measured.

A load is a number of concurrent requests, an input and an output length, as logarithms to base 2. At a
measured load, the factor is measured / estimated. Elsewhere it is a Gaussian process with the covariance
2^(-distance / 3): its effect halves every three doublings. The three was chosen on measurements with families
of models held out (benchmarks/serving_anchors.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MOST_RATIO = 10.0
"""Of measured and estimated times; beyond it, they are not of one server."""
MOST_LOADS = 500
"""Measurements of one configuration: the time of an estimate grows with their square."""
HALVING = 3.0
"""Doublings of concurrency, input or output after which a measurement counts half."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """The factor of one quantity as a function of the load."""

    loads: Floats  # one row per measurement: logarithms of requests, input and output
    weights: Floats

    def at(self, requests: npt.ArrayLike, input: npt.ArrayLike, output: npt.ArrayLike) -> Floats:
        """The factors at loads; arguments broadcast."""
        axes = np.broadcast_arrays(
            *(np.log2(np.asarray(each, np.float64)) for each in (requests, input, output))
        )
        factors: Floats = np.exp(_covariance(np.stack(axes, axis=-1), self.loads) @ self.weights)
        return factors


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Factors of TPOT and TTFT, and the measurements behind them."""

    tpot: Factor
    ttft: Factor
    measurements: int
    files: tuple[str, ...]


def factor(loads: Sequence[tuple[int, int, int]], ratios: Sequence[float]) -> Factor:
    """The factor that equals each ratio at its load; of equal loads, the geometric mean counts."""
    logs: dict[tuple[int, int, int], list[float]] = {}
    for load, ratio in zip(loads, ratios, strict=True):
        logs.setdefault(load, []).append(float(np.log(ratio)))
    points = np.log2(np.array(list(logs), np.float64).reshape(-1, 3))
    means = np.array([np.mean(each) for each in logs.values()])
    return Factor(points, np.linalg.solve(_covariance(points, points), means))


def _covariance(points: Floats, others: Floats) -> Floats:
    distance = np.abs(points[..., None, :] - others).sum(axis=-1)
    covariance: Floats = 0.5 ** (distance / HALVING)
    return covariance
