"""Where a latency comes from, and why a calibration is not used, as text."""

from __future__ import annotations

from collections.abc import Iterable

from sizeup import units
from sizeup.latency.counted import InstructionsPrediction, LeastInstructions
from sizeup.latency.roofline import dtype_of
from sizeup.targets import Slowdown, Target, TargetCalibration

WITHOUT_OVERHEAD = (
    "no upper end: the calibration has almost no overhead, which takes most of the time of so short a network"
)
"""That a calibration has rates only, so that short networks take longer."""

NOT_CALIBRATED = "not calibrated for this network"
"""The start of the reason why a calibration is not used for one network, though it covers its dtypes."""
WITHOUT_KERNELS = "no upper end: operators that the calibration counts as 0 s take a noticeable time"
"""That a calibration has a rate per MAC only, and the network has much else to compute."""


def of_calibration(calibration: TargetCalibration, target: Target) -> str:
    """The measurements of a calibration and its error."""
    threads = f", {units.plural(calibration.threads, 'thread')}" if calibration.threads else ""
    version = f", {target.runtime.title} {calibration.version}" if calibration.version else ""
    return (
        f"{units.plural(calibration.measurements, 'measurement')}{version}{threads};"
        f" MAPE {100 * calibration.mape:.1f} %, {calibration.held_out} held out"
    )


def equal_precisions(calibration: TargetCalibration, target: Target, names: Iterable[str]) -> str:
    """That the rates of some of these classes of kernels are those of another dtype, and why."""
    used = {dtype_of(name) for name in names}.intersection(calibration.equal_precisions)
    return "".join(f"; {_equal_precision(dtype, target, calibration)}" for dtype in sorted(used))


def _equal_precision(dtype: str, target: Target, calibration: TargetCalibration) -> str:
    if dtype == "fp16":
        return (
            f"the latency at fp16 is that measured at fp32: {target.runtime.name} computes both in fp16 if"
            " the device supports it"
        )
    measured = ", ".join(calibration.precisions)
    return f"rates and interval for {dtype} are those measured at {measured}, which has the same peak"


def of_slowdown(slowdown: Slowdown) -> str:
    """The measured slowdown against a data sheet, and what it was measured on."""
    family, _, runtime = slowdown.name.partition("/")
    return (
        f"slowdown measured with {runtime} on {slowdown.devices} {family} devices"
        f" ({slowdown.measurements:,} networks): arithmetic x {slowdown.compute:.3g}, traffic x"
        f" {slowdown.traffic:.3g}, {units.duration(slowdown.launch_seconds)} per kernel"
    )


def of_instructions(counted: InstructionsPrediction, target: Target) -> str:
    """The instructions of a network, and the cycles of each."""
    rate = counted.rate
    return (
        f"{units.count(counted.instructions)} instructions (fitted to an emulated core) x"
        f" {rate.cycles:.3g} cycles ({rate.measurements} networks in microTVM) at {_clock(target)}"
    )


def of_least_instructions(least: LeastInstructions, target: Target) -> str:
    """The fewest instructions of a network, and the fewest cycles of each."""
    return (
        f"at least {units.count(least.instructions)} instructions (fitted to an emulated core) x at least"
        f" {least.cycles:.3g} cycles at {_clock(target)}"
    )


def _clock(target: Target) -> str:
    return f"{units.count(target.units[0].clock_hz or 0.0)}Hz"


def covered_precisions(calibration: TargetCalibration, target: Target) -> str:
    """That a calibration is not used because it covers other precisions."""
    return f"the calibration of {target.name} covers only {', '.join(calibration.precisions)}"


def without_calibration(target: Target) -> str:
    """That a lower bound is by the data sheet alone, although the target has a calibration."""
    return f"the data sheet is used without the calibration of {target.name}"


def shorter_than_instructions(seconds: float, least: LeastInstructions) -> str:
    """That a calibration is not used because the instructions of the network take longer."""
    return (
        f"{NOT_CALIBRATED}: {units.duration(seconds)} is less than its instructions take, at least"
        f" {units.duration(least.seconds)}"
    )


def not_calibrated(seconds: float, overhead_seconds: float | None, target: Target) -> str:
    """That a calibration is not used because the data sheet does not allow its latency.

    Or, with `overhead_seconds`, because most of the time would be its overhead per inference.
    """
    reason = (
        f"{units.duration(seconds)} is less than the data sheet of {target.name} allows"
        + _with_launches(target)
        if overhead_seconds is None
        else f"{units.duration(overhead_seconds)} of {units.duration(seconds)} would be an overhead per"
        " inference that was fitted to much longer networks"
    )
    return f"{NOT_CALIBRATED}: {reason}"


def slowdown_below_data_sheet(slowed: float, target: Target) -> str:
    """That the latency is that of the data sheet, because it does not allow that with the slowdown."""
    return (
        f"with the slowdown alone it is {units.duration(slowed)}, less than the data sheet of {target.name}"
        f" allows{_with_launches(target)}"
    )


def slowdown_impossible(slowed_high: float, target: Target) -> str:
    """That the slowdown is not used because the data sheet does not allow its interval."""
    return (
        f"the slowdown does not apply: the upper end of its interval, {units.duration(slowed_high)}, is less"
        f" than the data sheet of {target.name} allows{_with_launches(target)}"
    )


def _with_launches(target: Target) -> str:
    """The part of the bound by the data sheet that is no number of the data sheet."""
    overhead = target.overhead_seconds
    if not overhead:
        return ""
    return f" with the launch overhead of {target.runtime.name}, {units.duration(overhead)} per kernel"
