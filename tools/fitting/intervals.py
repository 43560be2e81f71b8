"""Prediction intervals of calibrations, from the errors of all targets with the same runtime.

One target has about 30 networks, whose 5 % and 95 % quantiles are its extremes. Targets with the same runtime
have errors of the same shape, so these are divided by the spread of each target and pooled. Each end of the
interval moves outwards with the distance of a latency from the typical one of the target, at the slope that
fits the quantile best. Quantiles of the same errors are slightly too narrow for new networks, so the share
beyond each end is the largest one at which families that are left out in turn are covered as stated.

The form (one slope per end, not one for longer and one for shorter latencies, nor none) has the smallest
interval score on families that are left out, whichever runtime the score leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from fitting.measured import Measured
from latency.truth.splits import folds
from latency.truth.tables import Words
from sizeup.latency import PredictionInterval, Rates, Work, seconds
from sizeup.latency.interval import LEVEL
from sizeup.latency.work import Flags, Floats

_TAILS = tuple((1 - LEVEL) / 2 * share for share in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2))
_PRIOR_NETWORKS = 20  # weight of the spread of all targets, in networks of one target
_LARGEST_ERROR = 1.0  # of a logarithm, for the spread: single outliers belong to the quantile
_SLOPES = (0.0, 0.25, 0.5, 1.0, 1.5)  # in spreads


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
        """How much longer or shorter each estimate is than the typical latency, in logarithms."""
        return np.asarray(np.abs(np.log(self.estimated / self.typical)), np.float64)


def held_out(
    samples: Measured, fit: Callable[[Work, Floats, frozenset[str]], Rates], most_folds: int = 10
) -> HeldOut:
    """Estimates of each network by a calibration on other families; `samples.group` are the families.

    `fit` gets the networks and seconds of a calibration, and the families that are held out.
    """
    estimated, rates = np.zeros(len(samples.seconds)), {}
    fold = folds(samples.group, most_folds)
    for label in np.unique(fold):
        rest, left_out = np.flatnonzero(fold != label), np.flatnonzero(fold == label)
        families = frozenset(samples.group[left_out].tolist())
        fitted = fit(samples.work.select(rest), samples.seconds[rest], families)
        estimated[left_out] = seconds(fitted, samples.work.select(left_out))
        rates.update(dict.fromkeys(families, fitted))
    return HeldOut(samples, estimated, rates)


class _End(NamedTuple):
    """One end of the interval of a pool in spreads of a target: its distance from 0, and its slope."""

    typical: float
    slope: float

    def at(self, distance: Floats) -> Floats:
        """The end at some distances."""
        return np.asarray(self.typical + self.slope * distance, np.float64)


class Pool:
    """Targets with the same runtime."""

    def __init__(self, targets: Iterable[HeldOut]) -> None:
        self.targets = tuple(targets)
        self.errors = np.concatenate([each.errors for each in self.targets])
        self.distance = np.concatenate([each.distance for each in self.targets])
        self.family = np.concatenate([each.samples.group for each in self.targets])
        self.target = np.repeat(np.arange(len(self.targets)), [len(each.estimated) for each in self.targets])
        self.known: dict[str | None, tuple[_End, _End, Floats]] = {}

    def member(self, name: str) -> HeldOut | None:
        """The target with a name; None if it does not belong to the pool."""
        return next((each for each in self.targets if each.samples.target.name == name), None)

    def interval(self, target: HeldOut, family: str | None = None) -> PredictionInterval:
        """The interval of one target; without the errors of a family if given, to evaluate it there."""
        if family not in self.known:
            used = self.family != family
            self.known[family] = (*self._ends(used, self._tail(used)), self._spreads(used))
        low, high, spreads = self.known[family]
        own = float(spreads[next(index for index, each in enumerate(self.targets) if each is target)])
        return PredictionInterval(
            min(-low.typical * own, 0.0),
            max(high.typical * own, 0.0),
            typical=target.typical if low.slope or high.slope else 0.0,
            low_longer=low.slope * own,
            low_shorter=low.slope * own,
            high_longer=high.slope * own,
            high_shorter=high.slope * own,
        )

    def _spreads(self, used: Flags) -> Floats:
        """The root mean square of the errors of each target, shrunk towards that of all."""
        squares = np.minimum(np.abs(self.errors), _LARGEST_ERROR) ** 2 * used
        counts = np.bincount(self.target, used, len(self.targets))
        common = _PRIOR_NETWORKS * squares.sum() / used.sum()
        sums = np.bincount(self.target, squares, len(self.targets))
        return np.asarray(np.sqrt((common + sums) / (_PRIOR_NETWORKS + counts)), np.float64)

    def _ends(self, used: Flags, tail: float) -> tuple[_End, _End]:
        """The ends of the interval that leave a share of the errors beyond each of them."""
        scaled = (self.errors / self._spreads(used)[self.target])[used]
        distance = self.distance[used]
        return _upper_end(-scaled, distance, tail), _upper_end(scaled, distance, tail)

    def _tail(self, used: Flags) -> float:
        """The largest share beyond each end with enough coverage of families that are left out in turn."""
        for tail in _TAILS:
            inside = 0
            for family in np.unique(self.family[used]):
                rest, left_out = used & (self.family != family), used & (self.family == family)
                scaled = (self.errors / self._spreads(rest)[self.target])[left_out]
                low, high = (end.at(self.distance[left_out]) for end in self._ends(rest, tail))
                inside += int(((-low <= scaled) & (scaled <= high)).sum())
            if inside >= LEVEL * used.sum():
                return tail
        return _TAILS[-1]


def pools_by_runtime(targets: Iterable[HeldOut]) -> dict[str, Pool]:
    """The targets of each runtime, which are pooled."""
    by_runtime: dict[str, list[HeldOut]] = {}
    for each in targets:
        by_runtime.setdefault(each.samples.target.runtime.name, []).append(each)
    return {runtime: Pool(members) for runtime, members in by_runtime.items()}


def _upper_end(errors: Floats, distance: Floats, tail: float) -> _End:
    """The upper end of an interval."""
    level = 1 - tail

    def loss(slope: float) -> float:
        beyond = errors - slope * distance
        beyond = beyond - np.quantile(beyond, level)
        return float(np.mean(np.maximum(level * beyond, (level - 1) * beyond)))

    slope = min(_SLOPES, key=loss)
    return _End(float(np.quantile(errors - slope * distance, level)), slope)


def interval_of_few_networks(errors: Floats, networks: Words) -> PredictionInterval:
    """The interval from errors of a few networks, each left out in turn, on many targets.

    The errors of a network go together, so there are as many samples as networks, all with the same weight,
    and the quantile is that of Student's distribution. The interval is symmetric: if one network predicts
    another too low, that one predicts it too high.
    """
    names, codes, counts = np.unique(networks, return_inverse=True, return_counts=True)
    mean_square = np.average(errors**2, weights=1 / counts[codes])
    half = float(student.ppf((1 + LEVEL) / 2, len(names)) * np.sqrt(mean_square))
    return PredictionInterval(-half, half)
