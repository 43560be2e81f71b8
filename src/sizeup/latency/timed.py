"""Seconds of many networks on a target at once, and what they rest on: measurements, or a data sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.errors import TargetError
from sizeup.latency.interval import Band, unseen_share
from sizeup.latency.model import Kernels, kernels, rates_from
from sizeup.latency.roofline import by_data_sheet, type_of
from sizeup.latency.work import Flags, Floats, Work
from sizeup.targets import Fit, Reach, Target, current

Basis = Literal["calibrated", "roofline", "coefficients"]

_TRACE = 0.01  # of all MACs, in number types that a fit has not met
# No runtime on an operating system starts a kernel in less: where kernels take less, starting them is most of
# the time, and no multiple of a data sheet tells of it.
LEAST_START = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What a fit says of every network: `share` of the time is in kernels that it has not met, and where
    launches alone take longer, it was not fitted to such networks."""

    fit: Fit
    kernels: Kernels
    run: float  # what a pass adds beside its kernels
    seconds: Floats
    low: Floats
    high: Floats
    share: Floats
    waits_for_launches: Flags


def by_fit(work: Work, target: Target, fit: Fit) -> Fitted:
    """What the measurements of a target say of networks."""
    rates = rates_from(fit.rates)
    found = kernels(rates, work)
    total = work.totals(found.seconds) + rates.run
    share = unseen_share(rates, work, found.seconds)
    low, high = Band(**fit.band).around(total, share)
    waits = total < (target.overhead_seconds or 0.0) * _runs(work)
    return Fitted(fit, found, rates.run, total, low, high, share, waits)


def is_covered(work: Work, fit: Fit) -> Flags:
    """Whether all but a trace of each network is in number types that were measured."""
    foreign = np.array([type_of(name) not in fit.precisions for name in work.names], np.bool_)
    if not foreign.any():
        return np.ones(work.networks, np.bool_)
    computes = work.totals(work.macs) > 0
    weights = np.where(computes[work.network], work.macs, work.traffic)
    return work.totals(weights * foreign[work.kind]) <= _TRACE * work.totals(weights)


def _runs(work: Work) -> Floats:
    """How many kernels every network starts."""
    return work.totals(np.ones(len(work)))


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """What a data sheet says of every network, as often as such networks took longer.

    Where that is not known, `times` is 1 and the range is nan: it is the least. `is_lost` where starting
    kernels takes most of the time, and how long that takes is not known.
    """

    kernels: Kernels  # the least that each of them takes
    reach: Reach | None
    times: Floats
    seconds: Floats
    low: Floats
    high: Floats
    is_lost: Flags
    notes: tuple[str, ...]


def by_sheet(work: Work, target: Target) -> Sheet:
    """What the data sheet of a target says of networks."""
    found, is_whole, notes = by_data_sheet(work, target)
    fastest, reach = work.totals(found.seconds), current().reach(target)
    if reach is None:
        unknown = np.full(work.networks, np.nan)
        once, lost = np.ones(work.networks), np.zeros(work.networks, np.bool_)
        return Sheet(found, None, once, fastest, unknown, unknown, lost, tuple(notes))
    # What a data sheet leaves out is not a multiple of what it tells.
    lost = is_whole & _is_lost_in_starting(work, target, fastest * reach.times)
    times, low, high = (np.full(work.networks, each) for each in (reach.times, reach.low, reach.high))
    is_least = lost | ~is_whole
    times[is_least], low[is_least], high[is_least] = 1.0, np.nan, np.nan
    return Sheet(found, reach, times, fastest * times, fastest * low, fastest * high, lost, tuple(notes))


def _is_lost_in_starting(work: Work, target: Target, total: Floats) -> Flags:
    """Whether kernels are so short that a start of unknown length takes longer."""
    if target.overhead_seconds is not None or target.device.kind == "microcontroller":
        return np.zeros(work.networks, np.bool_)
    return total < LEAST_START * _runs(work)


def not_calibrated(target: Target, fit: Fit | None) -> TargetError:
    """That measurements were asked for, and there are none of such networks."""
    known = "nothing was measured on it" if fit is None else f"only {', '.join(fit.precisions)} was measured"
    return TargetError(f"{target.name} is not calibrated for this network: {known}")


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """Seconds of every network and their range (nan where none is known); whether they were measured for."""

    seconds: Floats
    low: Floats
    high: Floats
    is_calibrated: Flags


def times_of(work: Work, target: Target, basis: Basis | None, is_whole: bool = True) -> Seconds:
    """What networks take on a target; `is_whole` says that no operator of theirs is unknown."""
    fit = None if basis == "roofline" else current().fit(target)
    trusted = np.zeros(work.networks, np.bool_) if fit is None else is_covered(work, fit)
    if basis == "calibrated" and not trusted.all():
        raise not_calibrated(target, fit)
    columns = np.empty((3, work.networks))
    if fit is not None and trusted.any():
        fitted = by_fit(work, target, fit)
        columns[:] = fitted.seconds, fitted.low, fitted.high
        if basis != "calibrated":
            trusted &= ~fitted.waits_for_launches
    rest = np.flatnonzero(~trusted)
    if len(rest):
        sheet = by_sheet(work if len(rest) == work.networks else work.of(rest), target)
        columns[:, rest] = sheet.seconds, sheet.low, sheet.high
    seconds, low, high = columns
    low[seconds == 0] = high[seconds == 0] = np.nan
    if not is_whole:
        high[:] = np.nan
    return Seconds(seconds, low, high, trusted)
