"""Throughput of accelerators that process several inputs at once, from calibrations on frames per second."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup import units
from sizeup.latency.prediction import is_covered, predict_calibrated
from sizeup.latency.work import Work
from sizeup.targets import Target, current_catalog


@dataclass(frozen=True, slots=True)
class PipelinedThroughput:
    """Inferences per second of a pipeline, with a 90 % prediction interval.

    Several inputs are processed at once, so the latency of one inference is longer than the time between two
    results, and does not follow from it.
    """

    inferences_per_second: float
    low: float
    high: float
    provenance: str


def pipelined_throughput(work: Work, target: Target) -> PipelinedThroughput | None:
    """The throughput of a network; None without a calibration on throughputs at its dtypes."""
    calibration = current_catalog().calibration(target, "throughput")
    if calibration is None or not is_covered(work, calibration)[0]:
        return None
    prediction = predict_calibrated(work, target, calibration)
    if prediction.is_impossible[0] or not prediction.seconds[0]:
        return None
    return PipelinedThroughput(
        1 / float(prediction.seconds[0]),
        1 / float(prediction.high[0]),
        1 / float(prediction.low[0]),
        f"{units.plural(calibration.measurements, 'measurement')}; MAPE {100 * calibration.mape:.1f} %,"
        f" {calibration.held_out} held out",
    )
