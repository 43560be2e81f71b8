"""Times as sums of effects, each of which may also be larger or smaller than those that were met before.

An effect (of a core, an engine, a board) is drawn from a bell curve around zero; its `pull` says how narrow
that is, in the variance of one measurement. So what one measurement on a new board tells of the others
there follows: a part of its error belongs to the board, the rest to the network alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize

from sizeup.latency.work import Floats

Labels: TypeAlias = np.ndarray[Any, np.dtype[np.str_]]

# The constant is pulled to nothing: it may be anything.
_FREE = 1e-6
# Errors beyond this, in logarithms, count as absolute ones, not as squares.
_ROBUST = 0.15
_STEPS = 12
# Pulls are believed to lie within a factor of e^2 of what they start from, most often.
_DOUBT = 2.0


@dataclass(frozen=True, slots=True)
class Effect:
    """A reason why times differ: labels, one a measurement, each with an effect of its own; or a number,
    one a measurement, with a slope. `pull` holds an effect to zero, in measurements."""

    values: Labels | Floats
    pull: float


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Logarithms of times, and how their errors go together, in `noise`: a measurement's variance."""

    logs: Floats
    covariance: Floats
    noise: float

    def after(self, index: int, measured: float) -> Expected:
        """What is expected once the time at `index` has been measured (its logarithm)."""
        along = self.covariance[:, index]
        slope = along / (along[index] + 1)
        logs = self.logs + slope * (measured - self.logs[index])
        return replace(self, logs=logs, covariance=self.covariance - np.outer(slope, along))

    @property
    def closest(self) -> Floats:
        """The times whose relative errors are least on average.

        Too high costs without bound and too low at most everything, so what is uncertain is estimated
        below its middle: for a bell curve in logarithms, by its variance.
        """
        variance = self.noise * (np.diag(self.covariance) + 1)
        return np.asarray(np.exp(self.logs - variance), np.float64)


def from_effects(effects: Sequence[Effect], logs: Floats, wanted: Sequence[Effect]) -> Floats:
    """Logarithms of times at the wanted labels, as sums of effects fitted to measured ones.

    A label that was never measured has no effect: what it has in common with others speaks for it.
    """
    return expected(effects, logs, wanted).logs


def expected(effects: Sequence[Effect], logs: Floats, wanted: Sequence[Effect]) -> Expected:
    """What effects fitted to measured logarithms of times say of the wanted labels."""
    known, asked = _common(effects, effects), _common(wanted, effects)
    weights: Floats = np.ones(len(logs))
    alpha: Floats = np.zeros(len(logs))
    for _ in range(_STEPS):
        alpha = np.asarray(np.linalg.solve(known + np.diag(1 / weights), logs), np.float64)
        # What is left of a measurement is its alpha times its own variance.
        weights = np.asarray(1 / np.maximum(np.abs(alpha / weights) / _ROBUST, 1.0), np.float64)
    told = np.linalg.solve(known + np.diag(1 / weights), asked.T)
    return Expected(asked @ alpha, _common(wanted, wanted) - asked @ told, float(logs @ alpha) / len(logs))


def _common(left: Sequence[Effect], right: Sequence[Effect]) -> Floats:
    """The covariance that measurements have because they share effects."""
    total = np.full((len(left[0].values), len(right[0].values)), 1 / _FREE)
    for one, other in zip(left, right, strict=True):
        total += _alike(one, other) / one.pull
    return total


def _alike(left: Effect, right: Effect) -> Floats:
    if left.values.dtype.kind == "f":
        return np.outer(np.asarray(left.values, np.float64), np.asarray(right.values, np.float64))
    return np.asarray(left.values[:, None] == right.values[None, :], np.float64)


def likeliest_pulls(effects: Sequence[Effect], logs: Floats) -> list[float]:
    """The pulls under which the measured logarithms are likeliest; those given are where doubt starts."""
    start = np.log([each.pull for each in effects])
    alike = np.stack([_alike(each, each) for each in effects])
    found = minimize(_unlikeliness, start, (start, alike, logs), jac=True, method="L-BFGS-B")
    return [float(each) for each in np.exp(found.x)]


def _unlikeliness(pulls: Floats, start: Floats, alike: Floats, logs: Floats) -> tuple[float, Floats]:
    """Minus the logarithm of the likelihood at the best noise, and its derivatives by logarithms of pulls."""
    shares = np.exp(-pulls)
    total = np.tensordot(shares, alike, 1) + np.eye(len(logs)) + 1 / _FREE
    root = np.linalg.cholesky(total)
    inverse = np.linalg.inv(total)
    alpha = inverse @ logs
    noise = float(logs @ alpha) / len(logs)
    value = len(logs) / 2 * np.log(noise) + np.log(np.diag(root)).sum()
    by_share = 0.5 * np.tensordot(alike, inverse - np.outer(alpha, alpha) / noise, 2)
    away = (pulls - start) / _DOUBT
    return float(value + 0.5 * away @ away), np.asarray(away / _DOUBT - by_share * shares, np.float64)
