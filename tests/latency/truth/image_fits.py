"""Shipped calibrations from timm's benchmark (Apache-2.0) and sizeup's trace of its models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from latency.truth.image_models import MORE_RUNS, RUNS, Run, measured
from latency.truth.splits import family, folds
from sizeup.dtypes import precision
from sizeup.latency import (
    PredictionInterval,
    Rates,
    Work,
    class_with_dtype,
    fit_rates,
    held_out_estimates,
    prediction_interval,
    unseen_spread,
)
from sizeup.latency.selection import choose_form
from sizeup.latency.work import Floats


@dataclass(frozen=True)
class Fitted:
    """One run: rates over classes with their dtype, and held-out estimates."""

    name: str
    run: Run
    rates: Rates
    interval: PredictionInterval
    estimated: Floats  # seconds, families held out
    seconds: Floats  # measured
    batches: tuple[int, int]  # the middle half of the batches that were measured

    @property
    def error(self) -> float:
        """Percent, families held out."""
        return float(100 * np.abs(self.estimated / self.seconds - 1).mean())


def fits(trace: Path, folder: Path) -> dict[str, Fitted]:
    """The calibration of each run, for the classes of `executed` at the run's precision."""
    return {name: fitted(name, trace, folder) for name in RUNS | MORE_RUNS}


def fitted(name: str, trace: Path, folder: Path) -> Fitted:
    """The calibration of one run."""
    run = (RUNS | MORE_RUNS)[name]
    work, seconds, models, batches = measured(folder, run, trace)
    work = _typed(work, run)
    # Batches of 1,000 images do not separate launches from work: fitted launches would be wrong at batch 1.
    detailed = replace(run.own_form, launching=bool(np.median(batches) == 1))
    families = [family(each) for each in models.tolist()]
    form = choose_form([(work, seconds, families)], (replace(detailed, by_class=False), detailed))
    estimated = held_out_estimates(work, seconds, folds(families), form)
    rates = fit_rates(work, seconds, form)
    stated = replace(prediction_interval(estimated, seconds), unseen=unseen_spread(rates, work))
    low, high = np.quantile(batches, (0.25, 0.75)).astype(int).tolist()
    return Fitted(name, run, rates, stated, estimated, seconds, (low, high))


def _typed(work: Work, run: Run) -> Work:
    """Classes at the run's precision, except those with a fixed dtype (masks)."""
    width = precision(run.precision)
    return replace(
        work, names=tuple(each if "." in each else class_with_dtype(each, width) for each in work.names)
    )
