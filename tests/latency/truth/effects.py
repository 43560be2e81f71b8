"""Times as sums of random effects.

An effect (of a core, an engine, a board) is normally distributed around zero; its `pull` is the precision, in
units of the variance of one measurement. One measurement on a new board updates the others there: part of its
error is attributed to the board, the rest to the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize

from sizeup.latency.work import Floats

Labels: TypeAlias = np.ndarray[Any, np.dtype[np.str_]]

# The constant has an uninformative prior.
_FREE = 1e-6
# Errors beyond this, in logarithms, count as absolute instead of squared errors.
_ROBUST = 0.15
_STEPS = 12
# Prior of the pulls: within a factor of e^2 of their start.
_PRIOR_WIDTH = 2.0


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect on the times: one label per measurement with separate effects, or one number with a slope.

    `pull` is the strength of the shrinkage to zero, in measurements.
    """

    values: Labels | Floats
    pull: float


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Predicted logarithms of times, and their covariance in units of `noise`, a measurement's variance."""

    logs: Floats
    covariance: Floats
    noise: float

    def after(self, index: int, measured: float) -> Expected:
        """The prediction after measuring the logarithm of the time at `index`."""
        along = self.covariance[:, index]
        slope = along / (along[index] + 1)
        logs = self.logs + slope * (measured - self.logs[index])
        return replace(self, logs=logs, covariance=self.covariance - np.outer(slope, along))

    @property
    def closest(self) -> Floats:
        """The times with the smallest mean relative error.

        Overestimates have unbounded relative errors, so uncertain times are estimated below their median: for
        a normal distribution of the logarithm, by its variance.
        """
        variance = self.noise * (np.diag(self.covariance) + 1)
        return np.asarray(np.exp(self.logs - variance), np.float64)


def from_effects(effects: Sequence[Effect], logs: Floats, query: Sequence[Effect]) -> Floats:
    """Logarithms of times at the queried labels, as sums of effects fitted to measured ones.

    A label without measurements has no effect; its other effects still apply.
    """
    return expected(effects, logs, query).logs


def expected(effects: Sequence[Effect], logs: Floats, query: Sequence[Effect]) -> Expected:
    """The prediction at the queried labels by effects fitted to measured logarithms of times."""
    known, common = _common(effects, effects), _common(query, effects)
    weights: Floats = np.ones(len(logs))
    alpha: Floats = np.zeros(len(logs))
    for _ in range(_STEPS):
        alpha = np.asarray(np.linalg.solve(known + np.diag(1 / weights), logs), np.float64)
        # The residual of a measurement is its alpha times its variance.
        weights = np.asarray(1 / np.maximum(np.abs(alpha / weights) / _ROBUST, 1.0), np.float64)
    explained = np.linalg.solve(known + np.diag(1 / weights), common.T)
    return Expected(
        common @ alpha, _common(query, query) - common @ explained, float(logs @ alpha) / len(logs)
    )


def _common(left: Sequence[Effect], right: Sequence[Effect]) -> Floats:
    """The covariance of measurements due to shared effects."""
    total = np.full((len(left[0].values), len(right[0].values)), 1 / _FREE)
    for one, other in zip(left, right, strict=True):
        total += _alike(one, other) / one.pull
    return total


def _alike(left: Effect, right: Effect) -> Floats:
    if left.values.dtype.kind == "f":
        return np.outer(np.asarray(left.values, np.float64), np.asarray(right.values, np.float64))
    return np.asarray(left.values[:, None] == right.values[None, :], np.float64)


def likeliest_pulls(effects: Sequence[Effect], logs: Floats) -> list[float]:
    """The maximum a posteriori pulls for the measured logarithms; those of `effects` are the prior."""
    start = np.log([each.pull for each in effects])
    alike = np.stack([_alike(each, each) for each in effects])
    optimum = minimize(_unlikeliness, start, (start, alike, logs), jac=True, method="L-BFGS-B")
    return [float(each) for each in np.exp(optimum.x)]


def _unlikeliness(pulls: Floats, start: Floats, alike: Floats, logs: Floats) -> tuple[float, Floats]:
    """The negative log likelihood at the best noise, and its derivatives by the logarithms of the pulls."""
    shares = np.exp(-pulls)
    total = np.tensordot(shares, alike, 1) + np.eye(len(logs)) + 1 / _FREE
    root = np.linalg.cholesky(total)
    inverse = np.linalg.inv(total)
    alpha = inverse @ logs
    noise = float(logs @ alpha) / len(logs)
    value = len(logs) / 2 * np.log(noise) + np.log(np.diag(root)).sum()
    by_share = 0.5 * np.tensordot(alike, inverse - np.outer(alpha, alpha) / noise, 2)
    away = (pulls - start) / _PRIOR_WIDTH
    return float(value + 0.5 * away @ away), np.asarray(away / _PRIOR_WIDTH - by_share * shares, np.float64)
