"""Prediction intervals of calibrations, from the errors of all targets with the same runtime.

One target has about 30 networks, whose 5 % and 95 % quantiles are its extremes. Targets with the same runtime
have errors of the same shape, so these are divided by the spread of each target and pooled. Each end of the
interval moves outwards with the distance of a latency from the typical one of the target, at the slope that
fits the quantile best. Quantiles of the same errors are slightly too narrow for new networks, so the share
beyond each end is the largest one at which families that are left out in turn are covered as stated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fitting.measured import Measured
from latency.truth.splits import folds
from sizeup.latency import PredictionInterval, Rates, Work, seconds
from sizeup.latency.interval import LEVEL
from sizeup.latency.work import Flags, Floats

_TAILS = tuple((1 - LEVEL) / 2 * share for share in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2))
_PRIOR_NETWORKS = 20  # weight of the spread of all targets, in networks of one target
_LARGEST_ERROR = 1.0  # of a logarithm, for the spread: single outliers belong to the quantile
_SLOPES = np.linspace(0.0, 1.5, 7)  # in spreads


class HeldOut(NamedTuple):
    """Measurements on a target, with calibrations that do not use the family of a network."""

    samples: Measured
    estimated: Floats
    rates: dict[str, Rates]  # by the family that is left out

    @property
    def errors(self) -> Floats:
        """Logarithms of measured / estimated seconds."""
        return np.asarray(np.log(self.samples.seconds / self.estimated), np.float64)

    @property
    def typical(self) -> float:
        """The median of the measured seconds."""
        return float(np.median(self.samples.seconds))

    @property
    def distance(self) -> Floats:
        """Distance of each estimate from the typical latency, in logarithms."""
        return np.asarray(np.abs(np.log(self.estimated / self.typical)), np.float64)


def held_out(samples: Measured, fit: Callable[[Work, Floats], Rates], most_folds: int = 10) -> HeldOut:
    """Estimates of each network by a calibration on other families; `samples.group` are the families."""
    estimated, rates = np.zeros(len(samples.seconds)), {}
    fold = folds(samples.group, most_folds)
    for label in np.unique(fold):
        rest, left_out = np.flatnonzero(fold != label), np.flatnonzero(fold == label)
        fitted = fit(samples.work.select(rest), samples.seconds[rest])
        estimated[left_out] = seconds(fitted, samples.work.select(left_out))
        rates.update(dict.fromkeys(samples.group[left_out].tolist(), fitted))
    return HeldOut(samples, estimated, rates)


class _Ends(NamedTuple):
    """The interval of a pool in spreads of a target: each end at distance 0, and its slope."""

    low: float
    low_slope: float
    high: float
    high_slope: float

    def covers(self, errors: Floats, distance: Floats) -> Flags:
        """Whether errors in spreads of their target are within the interval."""
        above = errors >= self.low - self.low_slope * distance
        return np.asarray(above & (errors <= self.high + self.high_slope * distance), np.bool_)


class Pool:
    """Targets with the same runtime."""

    def __init__(self, targets: Iterable[HeldOut]) -> None:
        self.targets = tuple(targets)
        self.errors = np.concatenate([each.errors for each in self.targets])
        self.distance = np.concatenate([each.distance for each in self.targets])
        self.family = np.concatenate([each.samples.group for each in self.targets])
        self.target = np.repeat(np.arange(len(self.targets)), [len(each.estimated) for each in self.targets])
        self.known: dict[str | None, tuple[_Ends, Floats]] = {}

    def interval(self, target: HeldOut, family: str | None = None) -> PredictionInterval:
        """The interval of one target; without the errors of a family if given, to evaluate it there."""
        if family not in self.known:
            used = self.family != family
            spreads = self._spreads(used)
            self.known[family] = self._ends(used, self._tail(used)), spreads
        ends, spreads = self.known[family]
        own = float(spreads[next(index for index, each in enumerate(self.targets) if each is target)])
        return PredictionInterval(
            min(ends.low * own, 0.0),
            max(ends.high * own, 0.0),
            typical=target.typical if ends.low_slope or ends.high_slope else 0.0,
            low_slope=ends.low_slope * own,
            high_slope=ends.high_slope * own,
        )

    def _spreads(self, used: Flags) -> Floats:
        """The root mean square of the errors of each target, shrunk towards that of all."""
        squares = np.minimum(np.abs(self.errors), _LARGEST_ERROR) ** 2 * used
        counts = np.bincount(self.target, used, len(self.targets))
        common = _PRIOR_NETWORKS * squares.sum() / used.sum()
        sums = np.bincount(self.target, squares, len(self.targets))
        return np.asarray(np.sqrt((common + sums) / (_PRIOR_NETWORKS + counts)), np.float64)

    def _ends(self, used: Flags, tail: float) -> _Ends:
        """The interval that leaves a share of the errors beyond each end."""
        scaled = (self.errors / self._spreads(used)[self.target])[used]
        low, low_slope = _upper_end(-scaled, self.distance[used], tail)
        return _Ends(-low, low_slope, *_upper_end(scaled, self.distance[used], tail))

    def _tail(self, used: Flags) -> float:
        """The largest share beyond each end with enough coverage of families that are left out in turn."""
        for tail in _TAILS:
            inside = 0
            for family in np.unique(self.family[used]):
                rest, left_out = used & (self.family != family), used & (self.family == family)
                scaled = self.errors / self._spreads(rest)[self.target]
                inside += int(self._ends(rest, tail).covers(scaled[left_out], self.distance[left_out]).sum())
            if inside >= LEVEL * used.sum():
                return tail
        return _TAILS[-1]


def pools_by_runtime(targets: Iterable[HeldOut]) -> dict[str, Pool]:
    """The targets of each runtime, which are pooled."""
    by_runtime: dict[str, list[HeldOut]] = {}
    for each in targets:
        by_runtime.setdefault(each.samples.target.runtime.name, []).append(each)
    return {runtime: Pool(members) for runtime, members in by_runtime.items()}


def _upper_end(errors: Floats, distance: Floats, tail: float) -> tuple[float, float]:
    """The upper end of an interval at distance 0, and its slope."""
    level = 1 - tail

    def loss(slope: float) -> float:
        beyond = errors - slope * distance
        beyond = beyond - np.quantile(beyond, level)
        return float(np.mean(np.maximum(level * beyond, (level - 1) * beyond)))

    slope = min(_SLOPES.tolist(), key=loss)
    return float(np.quantile(errors - slope * distance, level)), slope
