"""Prediction intervals, from the errors on held-out networks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from sizeup.errors import SizeupError
from sizeup.latency.model import Rates, kernels, seconds
from sizeup.latency.regression import FitOptions, fit_rates
from sizeup.latency.work import Codes, Floats, Work

LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """The 90 % prediction interval of log(measured / estimated).

    `unseen` widens it on both sides, in proportion to the share of time in kernel classes that the
    calibration does not cover. `drift` widens it for sizes outside the calibration: errors behave like a
    random walk, so with the square root of the distance between the logarithms of both sizes, and
    independently of the errors within a size. `low_longer`, `low_shorter`, `high_longer` and `high_shorter`
    widen one side each for estimates longer or shorter than the `typical` seconds of the calibrated networks,
    in proportion to the distance in logarithms; `typical` is 0 if errors do not depend on it.
    """

    low: float
    high: float
    unseen: float = 0.0
    drift: float = 0.0
    typical: float = 0.0
    low_longer: float = 0.0
    low_shorter: float = 0.0
    high_longer: float = 0.0
    high_shorter: float = 0.0

    def bounds(
        self, estimated: Floats, unseen_share: Floats | float = 0.0, distance: Floats | float = 0.0
    ) -> tuple[Floats, Floats]:
        """The ends of the intervals of estimates, at a distance from the sizes in the calibration."""
        wider = self.unseen * np.asarray(unseen_share, np.float64)
        away = self.drift * np.sqrt(np.asarray(distance, np.float64))
        low, high = (np.hypot(side, away) - abs(side) + wider for side in (self.low, self.high))
        if self.typical:
            ratio = np.divide(estimated, self.typical, out=np.ones_like(estimated), where=estimated > 0)
            longer, shorter = np.maximum(np.log(ratio), 0.0), np.maximum(-np.log(ratio), 0.0)
            low = low + self.low_longer * longer + self.low_shorter * shorter
            high = high + self.high_longer * longer + self.high_shorter * shorter
        return estimated * np.exp(self.low - low), estimated * np.exp(self.high + high)

    def to_dict(self) -> dict[str, float]:
        """Plain numbers for TOML and JSON."""
        return asdict(self)


def held_out_estimates(work: Work, measured: Floats, fold: Codes, form: FitOptions | None = None) -> Floats:
    """The estimate of each network by a calibration on the networks of all other folds."""
    estimated = np.zeros(work.networks)
    for label in np.unique(fold):
        left_out = np.flatnonzero(fold == label)
        rest = np.flatnonzero(fold != label)
        estimated[left_out] = seconds(
            fit_rates(work.select(rest), measured[rest], form), work.select(left_out)
        )
    return estimated


def prediction_interval(
    estimated: Floats, measured: Floats, groups: Codes | None = None, level: float = LEVEL
) -> PredictionInterval:
    """The prediction interval from these held-out estimates.

    Errors within a group (a device, an input shape) are correlated, so each group has the same weight,
    whatever its number of measurements. The interval of groups is symmetric: if group A predicts B too low,
    B predicts A too high. The quantile is raised for a small effective number of samples.
    """
    if not len(estimated):
        raise SizeupError("a prediction interval needs estimates of held-out networks")
    errors = np.log(np.asarray(measured) / np.asarray(estimated))
    if groups is not None:
        sizes = np.bincount(groups)
        correction = 1 + 1 / _effective_samples(errors, groups)
        half = _weighted_quantile(np.abs(errors), 1 / sizes[groups], min(level * correction, 1.0))
        return PredictionInterval(-half, half)
    ordered = np.sort(errors)
    # A new error is equally likely at each of the n + 1 ranks.
    outer = max(int((1 - level) / 2 * (len(errors) + 1)) - 1, 0)
    return PredictionInterval(float(ordered[outer]), float(ordered[len(errors) - 1 - outer]))


def _effective_samples(errors: Floats, groups: Codes) -> float:
    """The number of independent samples that these groups are worth, all groups weighted equally.

    Computed from the intraclass correlation (one-way analysis of variance): with correlation 0 each member is
    a sample, with 1 each group.
    """
    sizes = np.bincount(groups).astype(np.float64)
    totals = np.bincount(groups, errors)[sizes > 0]
    member_of = np.cumsum(sizes > 0)[groups] - 1
    sizes = sizes[sizes > 0]
    count, members = len(sizes), len(errors)
    if count < 2 or members == count:
        return float(count)
    means = totals / sizes
    between = float((sizes * (means - errors.mean()) ** 2).sum()) / (count - 1)
    within = float(((errors - means[member_of]) ** 2).sum()) / (members - count)
    mean_size = (members - float((sizes**2).sum()) / members) / (count - 1)
    total = between + (mean_size - 1) * within
    correlation = min(max((between - within) / total, 0.0), 1.0) if total > 0 else 1.0
    return float(count / np.mean((1 + (sizes - 1) * correlation) / sizes))


def _weighted_quantile(values: Floats, weights: Floats, level: float) -> float:
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(mass, level * mass[-1])]])


def drift(estimated: Floats, measured: Floats, distance: Floats, level: float = LEVEL) -> float:
    """Error per square root of a unit of log size, from calibrations on networks at a distance in size."""
    errors = np.abs(np.log(np.asarray(measured) / np.asarray(estimated)))
    return float(np.quantile(errors / np.sqrt(np.asarray(distance)), level))


def unseen_share(rates: Rates, work: Work, by_kernel: Floats | None = None) -> Floats:
    """The share of each network's estimated time in classes that the calibration does not cover.

    `by_kernel` are the seconds of each kernel, computed if None.
    """
    is_unseen = np.array([not rates.covers(name) for name in work.names], np.bool_)
    if not is_unseen.any():
        return np.zeros(work.networks)
    by_kernel = kernels(rates, work).seconds if by_kernel is None else by_kernel
    total, unseen = work.totals(by_kernel), work.totals(by_kernel * is_unseen[work.class_index])
    return np.divide(unseen, total, out=np.zeros(work.networks), where=total > 0)


def unseen_spread(rates: Rates, work: Work, level: float = LEVEL) -> float:
    """Spread of the classes' rates around the pooled rate, in logarithms; assumed for classes not covered."""
    pooled = replace(rates, classes={}, run=0.0, cache=0.0, far=0.0, reread=0.0, cold=0.0)
    own, shared = kernels(rates, work).seconds * work.count, kernels(pooled, work).seconds * work.count
    by_own = np.bincount(work.class_index, own, len(work.names))
    by_shared = np.bincount(work.class_index, shared, len(work.names))
    is_positive = (by_own > 0) & (by_shared > 0)
    if not is_positive.any():
        return 0.0
    return float(np.quantile(np.abs(np.log(by_own[is_positive] / by_shared[is_positive])), level))
