"""A utilization in words and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.latency import Utilization
from sizeup.render.console.layout import print_labelled
from sizeup.render.console.report import plain

SCHEMA_VERSION = 1


def to_dict(utilization: Utilization) -> dict[str, Any]:
    """All of it as plain data, in seconds, FLOPs and bytes."""
    counted, given = utilization.counted, utilization.measurement
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "sizeup", "version": version("sizeup")},
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


def render(utilization: Utilization, console: Console) -> None:
    """Print what was given, then the two rates with their shares, then which of them bounds."""
    console.print(Text(plain(f"{utilization.name} ({utilization.format})"), style="bold"))
    for label, text in _lines(utilization):
        print_labelled(console, label, text, "bold" if label == "bound by" else "")


def _lines(utilization: Utilization) -> Iterator[tuple[str, str]]:
    target, seconds = utilization.target, utilization.measurement.seconds
    yield "latency", f"{units.duration(seconds)}, as given; nothing was run"
    yield "target", f"{target.device.title} with {target.runtime.title}"
    yield "compute", _compute(utilization)
    yield "memory", _memory(utilization)
    yield "bound by", _bottleneck(utilization)
    yield from (("caveat", text) for text in utilization.caveats)


def _compute(utilization: Utilization) -> str:
    rate, peak = utilization.flops_per_second, utilization.peak_flops_per_second
    if rate is None:
        return "unknown: not every operator could be counted"
    if not rate:
        return "no MACs"
    at = " and ".join(utilization.precisions)
    if peak is None:
        return f"{_rate(rate, 'FLOP')}, the peak at {at} is not known"
    share = f"{_percent(utilization.compute_share)} of {_rate(peak, 'FLOP')}"
    return f"{_rate(rate, 'FLOP')}, {share} at {at}{_cores(utilization)}"


def _cores(utilization: Utilization) -> str:
    cores = [unit.cores for unit in utilization.target.units]
    is_cpu = utilization.target.units[0].kind == "cpu" and all(cores)
    count = sum(each or 0 for each in cores)
    return f", all {count} cores" if is_cpu and count > 1 else ""


def _memory(utilization: Utilization) -> str:
    rate, peak = utilization.bytes_per_second, utilization.target.device.bandwidth
    if rate is None:
        return "unknown: not every operator could be counted"
    basis = "as given" if utilization.measurement.bandwidth else "by counted bytes"
    if peak is None:
        return f"{_rate(rate, 'B')} {basis}, the bandwidth of the device is not known"
    return f"{_rate(rate, 'B')} {basis}, {_percent(utilization.bandwidth_share)} of {_rate(peak, 'B')}"


def _bottleneck(utilization: Utilization) -> str:
    if utilization.bound_by is None:
        return "undetermined: one of the two shares is not known"
    other = "memory" if utilization.bound_by == "compute" else "compute"
    return f"{utilization.bound_by}, which is closer to its peak than {other}"


def _rate(value: float, unit: str) -> str:
    return f"{units.count(value)}{unit}/s" if value >= 1000 else f"{units.count(value)} {unit}/s"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.3g} %"
