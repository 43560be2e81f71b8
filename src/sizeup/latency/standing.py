"""Finds the standing of targets."""

from __future__ import annotations

from sizeup.latency.backend import latency_backend
from sizeup.latency.roofline import nearest_peak
from sizeup.targets import Device, LatencyStanding, Standing, Target, current_catalog

# fp64 is estimated at the rate of fp32, and tf32 is a mode of fp32.
_WITHOUT_RATES = ("fp64", "tf32")


def standing_of(target: Target) -> Standing:
    """The standing of a target: the basis on which its latency is estimated at each precision.

    Precisions of weights alone are left out, because kernels compute in another one.
    """
    catalog, runtime = current_catalog(), target.runtime
    calibration = catalog.calibration(target)
    has_slowdown = catalog.slowdown(target) is not None

    def standing_at(dtype: str) -> LatencyStanding:
        if latency_backend(target).compiles_models:
            return "vela"
        if calibration is not None and dtype in calibration.covered_precisions:
            return "calibrated"
        if calibration is None and latency_backend(target).is_counted_at(dtype):
            return "instructions"
        if nearest_peak(target, dtype) is None:
            return "unknown"
        return "slowdown" if has_slowdown else "data sheet only"

    by_precision = {
        dtype: standing_at(dtype)
        for dtype in runtime.dtypes
        if dtype not in _WITHOUT_RATES and runtime.weight_only_at(dtype) is None
    }
    is_default = target.device.runtimes[:1] == (runtime.name,)
    return Standing(target.name, by_precision, target.device.verified, is_default)


def standings_of(device: Device) -> list[Standing]:
    """The standings of a device with each of its runtimes that runs on one of its units."""
    runtimes = map(current_catalog().runtime, device.runtimes)
    kinds = {unit.unit_class for unit in device.units}
    return [standing_of(Target(device, runtime)) for runtime in runtimes if kinds.intersection(runtime.units)]
