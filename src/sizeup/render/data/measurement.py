"""Measurements as plain data, in seconds, FLOPs and bytes."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.render.data.report import plain

if TYPE_CHECKING:
    from sizeup.results.measurement import Measurement
    from sizeup.results.parts import Utilization


def to_dict(measurement: Measurement) -> dict[str, Any]:
    """Returns a measurement as plain data, in seconds and bytes."""
    timing = measurement.timing
    return {
        **envelope.head(),
        "model": {"name": measurement.name, "format": measurement.format},
        "runtime": {"name": timing.runtime, "version": timing.version, "threads": timing.threads},
        "seconds": {
            "min": timing.minimum,
            "median": timing.median,
            "mean": statistics.fmean(timing.seconds),
            "cpu_min": min(timing.cpu_seconds),
            "loading": timing.loading_seconds,
            "runs": list(timing.seconds),
            "warm_up": list(timing.warm_up_seconds),
        },
        "throughput": {
            "macs_per_second": measurement.macs_per_second,
            "bytes_per_second": measurement.bytes_per_second,
        },
        "target": None if measurement.target is None else measurement.target.name,
        "hardware": plain(measurement.throughput),
        "notes": list(measurement.notes),
        "kernels": [
            {
                "name": item.kernel.name,
                "op_type": item.kernel.op_kind,
                "seconds": item.kernel.seconds,
                "module": item.module,
                "macs": measurement.macs_of(item),
            }
            for item in measurement.kernels
        ],
        "modules": [plain(item) for item in measurement.modules],
    }


def utilization_to_dict(utilization: Utilization) -> dict[str, Any]:
    """Returns a utilization as plain data, in seconds, FLOPs and bytes."""
    counted, measurement = utilization.counted, utilization.measurement
    return {
        **envelope.head(),
        "model": {"name": utilization.name, "format": utilization.format},
        "target": utilization.target.name,
        "precisions": list(utilization.precisions),
        "supplied": {"latency_ms": measurement.latency_ms, "bytes_per_second": measurement.bandwidth},
        "macs": None if counted is None else counted.macs,
        "bytes": None if counted is None else counted.bytes,
        "flops_per_second": utilization.flops_per_second,
        "peak_flops_per_second": utilization.peak_flops_per_second,
        "compute_share": utilization.compute_share,
        "bytes_per_second": utilization.bytes_per_second,
        "peak_bytes_per_second": utilization.target.device.bandwidth,
        "bandwidth_share": utilization.bandwidth_share,
        "bound_by": utilization.bound_by,
        "caveats": list(utilization.caveats),
    }
