"""Factors between measured and estimated times, interpolated between the loads that were measured.

A load is a number of concurrent requests, an input and an output length, as logarithms to base 2. At a
measured load, the factor is measured / estimated. Elsewhere it is a Gaussian process with the covariance
2^(-distance / 3): its effect halves every three doublings. The three was chosen on measurements with families
of models held out (benchmarks/serving_anchors.py). Times do not fall as requests or inputs grow, so a
corrected time is not below what was measured with fewer requests and shorter inputs, nor above the opposite.
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
_EQUAL = 1e-9  # of logarithms


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """The factor of one quantity as a function of the load."""

    loads: Floats  # one row per measurement: logarithms of requests, input and output
    weights: Floats
    seconds: Floats  # measured

    def at(self, requests: npt.ArrayLike, input: npt.ArrayLike, output: npt.ArrayLike) -> Floats:
        """The factors at loads; arguments broadcast."""
        factors: Floats = np.exp(_covariance(_points(requests, input, output), self.loads) @ self.weights)
        return factors

    def corrected(
        self, seconds: Floats, requests: npt.ArrayLike, input: npt.ArrayLike, output: npt.ArrayLike
    ) -> Floats:
        """Estimated seconds times their factors, between the measurements of smaller and larger loads."""
        difference = _points(requests, input, output)[..., None, :] - self.loads
        is_same = np.abs(difference[..., 2]) < _EQUAL
        is_larger = is_same & (difference[..., :2] > -_EQUAL).all(axis=-1)
        is_smaller = is_same & (difference[..., :2] < _EQUAL).all(axis=-1)
        least = np.where(is_larger, self.seconds, 0.0).max(axis=-1, initial=0.0)
        most = np.where(is_smaller, self.seconds, np.inf).min(axis=-1, initial=np.inf)
        estimated = self.at(requests, input, output) * seconds
        result: Floats = np.where(least <= most, np.clip(estimated, least, most), estimated)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Factors of TPOT and TTFT, and the measurements behind them."""

    tpot: Factor
    ttft: Factor
    measurements: int
    files: tuple[str, ...]


def factor(
    loads: Sequence[tuple[int, int, int]], measured: Sequence[float], estimated: Sequence[float]
) -> Factor:
    """The factor between seconds at loads; of equal loads, the geometric mean counts."""
    logs: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    for load, seconds, estimate in zip(loads, measured, estimated, strict=True):
        logs.setdefault(load, []).append((float(np.log(seconds / estimate)), float(np.log(seconds))))
    points = np.log2(np.array(list(logs), np.float64).reshape(-1, 3))
    means = np.array([np.mean(each, axis=0) for each in logs.values()]).reshape(-1, 2)
    return Factor(points, np.linalg.solve(_covariance(points, points), means[:, 0]), np.exp(means[:, 1]))


def _points(*axes: npt.ArrayLike) -> Floats:
    logs = np.broadcast_arrays(*(np.log2(np.asarray(each, np.float64)) for each in axes))
    return np.stack(logs, axis=-1)


def _covariance(points: Floats, others: Floats) -> Floats:
    distance = np.abs(points[..., None, :] - others).sum(axis=-1)
    covariance: Floats = 0.5 ** (distance / HALVING)
    return covariance
