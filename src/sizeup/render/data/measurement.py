"""Measurements as plain data: seconds, FLOPs and bytes raw."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.render.data.report import plain

if TYPE_CHECKING:
    from sizeup.results.measurement import Measurement
    from sizeup.results.parts import Utilization


def to_dict(found: Measurement) -> dict[str, Any]:
    """All of it as plain data, seconds and bytes raw."""
    timing = found.timing
    return {
        **envelope.head(),
        "model": {"name": found.name, "format": found.format},
        "runtime": {"name": timing.runtime, "version": timing.version, "threads": timing.threads},
        "seconds": {
            "least": timing.least,
            "median": timing.median,
            "mean": statistics.fmean(timing.seconds),
            "cpu_least": min(timing.cpu_seconds),
            "loading": timing.loading_seconds,
            "runs": list(timing.seconds),
            "warm_up": list(timing.warm_up_seconds),
        },
        "achieved": {
            "macs_per_second": found.macs_per_second,
            "bytes_per_second": found.bytes_per_second,
        },
        "target": None if found.target is None else found.target.name,
        "hardware": plain(found.hardware),
        "notes": list(found.notes),
        "kernels": [
            {
                "name": each.kernel.name,
                "kind": each.kernel.kind,
                "seconds": each.kernel.seconds,
                "module": each.module,
                "macs": found.macs_of(each),
            }
            for each in found.kernels
        ],
        "modules": [plain(each) for each in found.modules],
    }


def utilization_to_dict(utilization: Utilization) -> dict[str, Any]:
    """All of it as plain data, in seconds, FLOPs and bytes."""
    counted, given = utilization.counted, utilization.measurement
    return {
        **envelope.head(),
        "model": {"name": utilization.name, "format": utilization.format},
        "target": utilization.target.name,
        "precisions": list(utilization.precisions),
        "given": {"latency_ms": given.latency_ms, "bytes_per_second": given.bandwidth},
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
