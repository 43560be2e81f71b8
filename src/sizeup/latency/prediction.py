"""Latencies of many networks on a target at once, by its calibration or its data sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.errors import TargetError
from sizeup.latency.interval import PredictionInterval, unseen_share
from sizeup.latency.model import Kernels, kernels, rates_from
from sizeup.latency.roofline import dtype_of, roofline_kernels
from sizeup.latency.work import Flags, Floats, Work
from sizeup.targets import Slowdown, Target, TargetCalibration, current_catalog

Basis = Literal["calibrated", "instructions", "roofline", "coefficients"]

_TRACE = 0.01  # share of MACs allowed in dtypes that the calibration does not cover
# Seconds: no runtime on an operating system launches a kernel faster. Shorter kernels are dominated by their
# launch, which no factor on the data sheet's time predicts.
MIN_LAUNCH_SECONDS = 1e-6


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
    is_launch_bound: Flags  # launches alone take longer, so the calibration does not apply


def predict_calibrated(work: Work, target: Target, calibration: TargetCalibration) -> CalibratedPrediction:
    """The latencies of networks by a target's calibration."""
    rates = rates_from(calibration.rates)
    times = kernels(rates, work)
    total = work.totals(times.seconds) + rates.run
    share = unseen_share(rates, work, times.seconds)
    low, high = PredictionInterval(**calibration.interval).bounds(total, share)
    waits = total < (target.overhead_seconds or 0.0) * _runs(work)
    return CalibratedPrediction(calibration, times, rates.run, total, low, high, share, waits)


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


def _runs(work: Work) -> Floats:
    """The number of kernels that each network launches."""
    return work.totals(np.ones(len(work)))


@dataclass(frozen=True, slots=True, eq=False)
class RooflinePrediction:
    """Latencies by a data sheet, times the measured slowdown of comparable devices.

    If the slowdown is unknown, `slowdown_factor` is 1 and the interval is nan: the latency is a lower bound.
    `is_launch_bound` marks networks that are dominated by kernel launches of unknown duration.
    """

    kernels: Kernels  # the lower bound of each
    slowdown: Slowdown | None
    slowdown_factor: Floats
    seconds: Floats
    low: Floats
    high: Floats
    is_launch_bound: Flags
    notes: tuple[str, ...]


def predict_roofline(work: Work, target: Target) -> RooflinePrediction:
    """The latencies of networks by a target's data sheet."""
    times_by_kernel, is_complete, notes = roofline_kernels(work, target)
    fastest, slowdown = work.totals(times_by_kernel.seconds), current_catalog().slowdown(target)
    if slowdown is None:
        unknown = np.full(work.networks, np.nan)
        ones, lost = np.ones(work.networks), np.zeros(work.networks, np.bool_)
        return RooflinePrediction(times_by_kernel, None, ones, fastest, unknown, unknown, lost, tuple(notes))
    # The slowdown does not apply to networks with unknown rates or launch times.
    lost = is_complete & _is_launch_bound(work, target, fastest * slowdown.factor)
    times, low, high = (
        np.full(work.networks, factor) for factor in (slowdown.factor, slowdown.low, slowdown.high)
    )
    is_bound = lost | ~is_complete
    times[is_bound], low[is_bound], high[is_bound] = 1.0, np.nan, np.nan
    return RooflinePrediction(
        times_by_kernel, slowdown, times, fastest * times, fastest * low, fastest * high, lost, tuple(notes)
    )


def _is_launch_bound(work: Work, target: Target, total: Floats) -> Flags:
    """Whether launches of unknown duration take longer than the kernels."""
    if target.overhead_seconds is not None or target.device.device_class == "microcontroller":
        return np.zeros(work.networks, np.bool_)
    return total < MIN_LAUNCH_SECONDS * _runs(work)


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
            is_calibrated &= ~fitted.is_launch_bound
    rest = np.flatnonzero(~is_calibrated)
    if len(rest):
        sheet = predict_roofline(work if len(rest) == work.networks else work.select(rest), target)
        columns[:, rest] = sheet.seconds, sheet.low, sheet.high
    seconds, low, high = columns
    low[seconds == 0] = high[seconds == 0] = np.nan
    if not is_complete:
        high[:] = np.nan
    return Latencies(seconds, low, high, is_calibrated)
