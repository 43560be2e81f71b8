"""Estimates against measurements: how far off, how well ordered, and how often within the stated interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls
from scipy.stats import kendalltau

from sizeup.latency import (
    FitOptions,
    PredictionInterval,
    drift,
    fit_rates,
    held_out_estimates,
    prediction_interval,
    seconds,
    unseen_share,
    unseen_spread,
)
from sizeup.latency.selection import choose_form
from sizeup.latency.work import Codes, Floats, Work


@dataclass(frozen=True, eq=False)
class Outcome:
    """Held-out estimates of one set, with the interval that was stated for each; and what the plain sum of
    MACs, bytes, operators and a constant gives, fitted and held out in the same way."""

    name: str
    estimated: Floats
    measured: Floats
    low: Floats
    high: Floats
    baseline: Floats | None = None

    @property
    def error(self) -> float:
        """Mean absolute error in percent."""
        return float(100 * np.abs(self.estimated / self.measured - 1).mean())

    @property
    def within(self) -> float:
        """Percent of estimates that are off by less than 10 %."""
        return float(100 * (np.abs(self.estimated / self.measured - 1) < 0.1).mean())

    @property
    def tau(self) -> float:
        """Kendall's rank correlation."""
        return float(kendalltau(self.estimated, self.measured).statistic)

    @property
    def coverage(self) -> float:
        """Percent of measurements within their interval."""
        return float(100 * ((self.low <= self.measured) & (self.measured <= self.high)).mean())

    @property
    def baseline_error(self) -> float:
        """Mean absolute error of the baseline in percent; NaN if there is none."""
        return (
            np.nan if self.baseline is None else float(100 * np.abs(self.baseline / self.measured - 1).mean())
        )


def joined(name: str, outcomes: list[Outcome]) -> Outcome:
    """Several as one."""
    columns = ["estimated", "measured", "low", "high"]
    columns += ["baseline"] * all(each.baseline is not None for each in outcomes)
    return Outcome(name, *(np.concatenate([getattr(o, each) for o in outcomes]) for each in columns))


def plain_sum(work: Work, measured: Floats, seen: Codes, unseen: Codes) -> Floats:
    """The baseline: one non-negative coefficient each, by least squares of relative errors."""
    columns = [work.totals(each) for each in (work.macs, work.traffic, np.ones(len(work)))]
    design = np.stack([*columns, np.ones(work.networks)], axis=1)
    scale = design[seen].max(axis=0)
    scale[scale == 0] = 1
    rates, _ = nnls(design[seen] / scale / measured[seen, None], np.ones(len(seen)))
    return np.asarray((design[unseen] / scale) @ rates, np.float64)


def with_others(name: str, estimated: Floats, measured: Floats, fold: Codes, alike: bool = False) -> Outcome:
    """Every fold's interval from the errors of the other folds, whose members may err alike."""
    low, high = np.zeros(len(fold)), np.zeros(len(fold))
    for each in np.unique(fold):
        here, others = fold == each, fold != each
        stated = prediction_interval(estimated[others], measured[others], fold[others] if alike else None)
        low[here], high[here] = stated.bounds(estimated[here])
    return Outcome(name, estimated, measured, low, high)


def folded(
    name: str,
    work: Work,
    measured: Floats,
    fold: Codes,
    form: FitOptions,
    families: Sequence[str] | None = None,
) -> Outcome:
    """Every fold from a fit to the others; intervals from the errors of the other folds, wider where a
    network spends its time in classes that its fit has not met. With `families`, each fit has this form or
    four coefficients, chosen by held-out families of the other folds."""
    estimated, foreign, spread, baseline = np.zeros((4, len(fold)))
    for each in np.unique(fold):
        here, rest = np.flatnonzero(fold == each), np.flatnonzero(fold != each)
        known, chosen = work.select(rest), form
        if families is not None:
            sample = (known, measured[rest], [families[index] for index in rest.tolist()])
            chosen = choose_form([sample], (replace(form, by_class=False), form))
        rates = fit_rates(known, measured[rest], chosen)
        estimated[here] = seconds(rates, work.select(here))
        foreign[here] = unseen_share(rates, work.select(here))
        spread[here] = unseen_spread(rates, known)
        baseline[here] = plain_sum(work, measured, rest, here)
    plain = with_others(name, estimated, measured, fold)
    wider = np.exp(foreign * spread)
    return Outcome(name, estimated, measured, plain.low / wider, plain.high * wider, baseline)


def split(
    name: str,
    work: Work,
    measured: Floats,
    seen: Codes,
    unseen: Codes,
    form: FitOptions,
    inner: Codes,
    size: Floats | None = None,
) -> Outcome:
    """One fit to what is seen; its interval from folds (`inner`) of what is seen. Where what is unseen has
    another `size` (a logarithm, one a network), wider by what two sizes that are seen say of each other."""
    known = work.select(seen)
    off = held_out_estimates(known, measured[seen], inner, form)
    stated: PredictionInterval = prediction_interval(off, measured[seen])
    away: Floats | float = 0.0
    if size is not None:
        first, last = np.unique(size[seen])
        between = held_out_estimates(known, measured[seen], (size[seen] == last).astype(np.int64), form)
        stated = replace(stated, drift=drift(between, measured[seen], np.full(len(seen), last - first)))
        away = np.minimum(np.abs(size[unseen] - first), np.abs(size[unseen] - last))
    estimated = seconds(fit_rates(known, measured[seen], form), work.select(unseen))
    baseline = plain_sum(work, measured, seen, unseen)
    return Outcome(name, estimated, measured[unseen], *stated.bounds(estimated, 0.0, away), baseline)
