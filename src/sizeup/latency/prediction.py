"""Latencies of many networks on a target at once, by its calibration or its data sheet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.errors import TargetError
from sizeup.latency.backend import latency_backend
from sizeup.latency.gaps import NOTICEABLE, uncounted_seconds
from sizeup.latency.interval import PredictionInterval, unseen_share
from sizeup.latency.model import Kernels, Rate, Rates, dtype_wildcard, kernels, rates_from
from sizeup.latency.roofline import dtype_of, least_kernels, nearest_peak
from sizeup.latency.work import Flags, Floats, Work
from sizeup.targets import Slowdown, Target, TargetCalibration, current_catalog

Basis = Literal["calibrated", "instructions", "vela", "roofline", "coefficients"]

_TRACE = 0.01  # share of MACs allowed in dtypes that the calibration does not cover
_ROUNDING = 0.05  # of data sheets, and boost clocks
_SHORT = 0.1  # of the calibrated networks' latency: below it, most of the time may be overhead
_SHORT_SECONDS = 1e-4  # if the calibrated networks' latency is not known
_NO_OVERHEAD = 0.01  # share of the time
_LEAST_OVERHEAD = 5e-6  # seconds in which an operating system starts an inference at best
_NO_LAUNCH = 1e-9  # seconds: no kernel starts faster


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedPrediction:
    """Latencies by a calibration."""

    calibration: TargetCalibration
    kernels: Kernels
    overhead_seconds: float  # per-inference overhead in seconds
    seconds: Floats
    low: Floats
    high: Floats
    unseen_share: Floats  # of the time, in kernels that the calibration does not cover
    is_impossible: Flags  # faster than the data sheet allows, so the calibration does not apply
    is_mostly_run: Flags  # mostly overhead of much longer networks, so the calibration does not apply
    lacks_overhead: Flags  # too short for a calibration without any overhead: `high` is nan
    lacks_kernels: Flags  # kernels that count as 0 s take a noticeable time: `high` is nan

    @property
    def is_applicable(self) -> Flags:
        """Whether the calibration applies to each network."""
        return ~(self.is_impossible | self.is_mostly_run)


def check_own_estimate(target: Target, basis: Basis | None = None) -> None:
    """Raise NoLatency if only the compiler of a target has its latency; TargetError for a foreign basis."""
    latency_backend(target).check_basis(basis)


def predict_calibrated(work: Work, target: Target, calibration: TargetCalibration) -> CalibratedPrediction:
    """The latencies of networks by a target's calibration."""
    rates = rates_from(calibration.rates)
    times = kernels(rates, work)
    total = work.totals(times.seconds) + rates.run
    share = unseen_share(rates, work, times.seconds)
    interval = PredictionInterval(**calibration.interval)
    low, high = interval.bounds(total, share)
    is_impossible = total < _least_seconds(work, target) * (1 - _ROUNDING)
    has_system = target.device.device_class != "microcontroller"  # which starts threads and kernels
    is_short = has_system & (total < max(_SHORT * interval.typical, _SHORT_SECONDS))
    overhead = work.totals(times.launch) + rates.run
    lacks_overhead = is_short & (overhead < np.maximum(_NO_OVERHEAD * total, _LEAST_OVERHEAD))
    lacks_kernels = uncounted_seconds(times, work, target) > NOTICEABLE * total
    high = np.where(lacks_overhead | lacks_kernels, np.nan, high)
    is_mostly_run = (2 * rates.run > total) & _is_without_launches(rates, interval)
    return CalibratedPrediction(
        calibration,
        times,
        rates.run,
        total,
        low,
        high,
        share,
        is_impossible,
        is_mostly_run,
        lacks_overhead,
        lacks_kernels,
    )


def _is_without_launches(rates: Rates, interval: PredictionInterval) -> bool:
    """Whether the calibrated networks were so long that launches of kernels did not show in their time.

    The overhead per inference is then an offset of long networks, not what a short one takes.
    """
    launches = [rate.launch for rate in (rates.pooled, *rates.classes.values())]
    return not interval.typical and max(launches) < _NO_LAUNCH


def _least_seconds(work: Work, target: Target) -> Floats:
    """The seconds that a network takes at least by the data sheet; 0 without rates and bandwidth."""
    try:
        return work.totals(least_kernels(work, target)[0].seconds)
    except TargetError:
        return np.zeros(work.networks)


def is_covered(work: Work, calibration: TargetCalibration) -> Flags:
    """Whether at least 99 % of each network is in dtypes that the calibration covers."""
    is_foreign = np.array(
        [dtype_of(name) not in calibration.covered_precisions for name in work.names], np.bool_
    )
    if not is_foreign.any():
        return np.ones(work.networks, np.bool_)
    computes = work.totals(work.macs) > 0
    weights = np.where(computes[work.network], work.macs, work.traffic)
    return work.totals(weights * is_foreign[work.class_index]) <= _TRACE * work.totals(weights)


@dataclass(frozen=True, slots=True, eq=False)
class RooflinePrediction:
    """Latencies by a data sheet and the measured slowdown of units alike.

    If the slowdown or a rate is unknown, the interval is nan and the latency a lower bound. So it is if the
    data sheet does not allow even the upper end of the interval: the slowdown does not apply. `rates` are
    those of the data sheet with the slowdown applied, None without one; `slowed` are the seconds at these
    rates, `slowed_low` and `slowed_high` their interval, also if the data sheet does not allow them.
    """

    kernels: Kernels
    slowdown: Slowdown | None
    rates: Rates | None
    seconds: Floats
    low: Floats
    high: Floats
    notes: tuple[str, ...]
    slowed: Floats
    slowed_low: Floats
    slowed_high: Floats

    @property
    def is_slowed(self) -> Flags:
        """Whether the slowdown alone determines latency and interval, within what the data sheet allows."""
        return np.asarray((self.seconds == self.slowed) & (self.low == self.slowed_low), np.bool_)


def predict_roofline(work: Work, target: Target) -> RooflinePrediction:
    """The latencies of networks by a target's data sheet; raises NoLatency for an Ethos-U."""
    check_own_estimate(target)
    bound, is_complete, notes = least_kernels(work, target)
    slowdown = current_catalog().slowdown(target)
    unknown = np.full(work.networks, np.nan)
    rates = None if slowdown is None else slowed_rates(slowdown, target, work.names)
    least = work.totals(bound.seconds)
    if slowdown is None or rates is None or not is_complete.any():
        return RooflinePrediction(
            bound, slowdown, None, least, unknown, unknown, tuple(notes), unknown, unknown, unknown
        )
    times = kernels(rates, work)
    slowed = np.where(is_complete, work.totals(times.seconds), np.nan)
    slowed_low, slowed_high = slowed * slowdown.low, slowed * slowdown.high
    physical = work.totals(np.maximum(bound.compute, bound.traffic))  # a launch may be shorter than usual
    is_possible, is_slowed = slowed_high >= physical, slowed >= physical  # false if nan
    by_kernel = is_slowed[work.network]
    parts = ("compute", "traffic", "launch", "seconds")
    mixed = Kernels(*(np.where(by_kernel, getattr(times, part), getattr(bound, part)) for part in parts))
    low = np.where(is_possible, np.where(is_slowed, slowed_low, least), np.nan)
    high = np.where(is_possible, np.where(is_slowed, slowed_high, np.maximum(slowed_high, least)), np.nan)
    seconds = work.totals(mixed.seconds)
    return RooflinePrediction(
        mixed, slowdown, rates, seconds, low, high, tuple(notes), slowed, slowed_low, slowed_high
    )


def slowed_rates(slowdown: Slowdown, target: Target, names: Iterable[str]) -> Rates | None:
    """The rates of a data sheet with a measured slowdown applied, for these classes of kernels.

    None if traffic takes time, and the bandwidth is unknown.
    """
    bandwidth = target.device.bandwidth
    if bandwidth is None and slowdown.traffic:
        return None
    byte, launch = slowdown.traffic / (bandwidth or 1.0), slowdown.launch_seconds
    rates = {}
    for name in dict.fromkeys(map(dtype_wildcard, names)):
        peak = nearest_peak(target, dtype_of(name))
        rates[name] = Rate(0.0 if peak is None else slowdown.compute / peak[1], byte, launch)
    return Rates(Rate(0.0, byte, launch), rates)


def not_calibrated_error(target: Target, calibration: TargetCalibration | None) -> TargetError:
    """The error that a target has no calibration for a network."""
    known = (
        "it has no calibration"
        if calibration is None
        else f"only {', '.join(calibration.precisions)} was measured"
    )
    return TargetError(f"{target.name} is not calibrated for this network: {known}")


@dataclass(frozen=True, slots=True, eq=False)
class Latencies:
    """Seconds of each network, their prediction interval (nan if unknown), and if they are calibrated."""

    seconds: Floats
    low: Floats
    high: Floats
    is_calibrated: Flags


def latencies_of(work: Work, target: Target, basis: Basis | None, is_complete: bool = True) -> Latencies:
    """The latencies of networks on a target; `is_complete`: the networks have no unknown operators."""
    calibration = None if basis == "roofline" else current_catalog().calibration(target)
    is_calibrated = (
        np.zeros(work.networks, np.bool_) if calibration is None else is_covered(work, calibration)
    )
    if basis == "calibrated" and not is_calibrated.all():
        raise not_calibrated_error(target, calibration)
    columns = np.empty((3, work.networks))
    if calibration is not None and is_calibrated.any():
        fitted = predict_calibrated(work, target, calibration)
        columns[:] = fitted.seconds, fitted.low, fitted.high
        if basis != "calibrated":
            is_calibrated &= fitted.is_applicable
    rest = np.flatnonzero(~is_calibrated)
    if len(rest):
        sheet = predict_roofline(work if len(rest) == work.networks else work.select(rest), target)
        columns[:, rest] = sheet.seconds, sheet.low, sheet.high
    seconds, low, high = columns
    low[seconds == 0] = high[seconds == 0] = np.nan
    if not is_complete:
        high[:] = np.nan
    return Latencies(seconds, low, high, is_calibrated)
