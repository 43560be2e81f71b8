"""Rates that may ship, from timm's benchmark (Apache-2.0) and sizeup's own trace of its models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from latency.truth.image_models import MORE_RUNS, RUNS, Run, measured
from latency.truth.splits import family, folds
from sizeup.dtypes import precision
from sizeup.latency import Band, Rates, Work, band, fit, held_out, typed, unseen_spread
from sizeup.latency.work import Floats


@dataclass(frozen=True)
class Fitted:
    """One run: rates over classes with their number type, and how far they were off where held out."""

    name: str
    run: Run
    rates: Rates
    band: Band
    estimated: Floats  # seconds, families held out
    seconds: Floats  # measured
    batches: tuple[int, int]  # the middle half of the batches that were measured

    @property
    def error(self) -> float:
        """Percent, families held out."""
        return float(100 * np.abs(self.estimated / self.seconds - 1).mean())


def fits(trace: Path, folder: Path) -> dict[str, Fitted]:
    """A fit to every run, for classes as `executed` names them at the run's precision."""
    return {name: fitted(name, trace, folder) for name in RUNS | MORE_RUNS}


def fitted(name: str, trace: Path, folder: Path) -> Fitted:
    """A fit to one run."""
    run = (RUNS | MORE_RUNS)[name]
    work, seconds, models, batches = measured(folder, run, trace)
    work = _typed(work, run)
    # A thousand pictures at once cannot tell a launch from work: what it would be given is wrong for one.
    form = replace(run.own_form, launching=bool(np.median(batches) == 1))
    estimated = held_out(work, seconds, folds([family(each) for each in models.tolist()]), form)
    rates = fit(work, seconds, form)
    stated = replace(band(estimated, seconds), unseen=unseen_spread(rates, work))
    low, high = np.quantile(batches, (0.25, 0.75)).astype(int).tolist()
    return Fitted(name, run, rates, stated, estimated, seconds, (low, high))


def _typed(work: Work, run: Run) -> Work:
    """Classes at the run's precision, but for those that have a type of their own (masks)."""
    width = precision(run.precision)
    return replace(work, names=tuple(each if "." in each else typed(each, width) for each in work.names))
