"""Measurements, utilizations and calibrations as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.columns import shortened
from sizeup.render.console.latency import throughput_text
from sizeup.render.console.layout import LEAST_ROOM, print_labeled, print_rows
from sizeup.render.vocabulary import cores_text
from sizeup.results.rollup import TOP_LEVEL
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.measurement import Measurement
    from sizeup.results.parts import (
        AttributedKernel,
        Calibration,
        ModuleTime,
        Utilization,
    )

UNATTRIBUTED = "(unattributed)"
"""The row of kernels that match no operator."""
_FIGURES = 32  # cells of the columns before the names


def render(measurement: Measurement, console: Console, top: int = 10, by: str | None = None) -> None:
    """Print the latency, the throughput, then the latency by `kernel` or by `module`."""
    console.print(Text(printable(f"{measurement.name} ({measurement.format})"), style="bold"))
    for label, text in _lines(measurement):
        print_labeled(console, label, text, "bold" if label == "latency" else "")
    if by is not None and not measurement.timing.kernels:
        print_labeled(console, "note", f"no latency by {by}: the run was not profiled")
    if measurement.timing.kernels:
        console.print()
        (_print_modules if by == "module" else _print_kernels)(console, measurement, top)


def _lines(measurement: Measurement) -> Iterator[tuple[str, str]]:
    timing = measurement.timing
    least, median = units.duration(timing.minimum), units.duration(timing.median)
    warm = len(timing.warm_up_seconds)
    runs = f"{units.plural(len(timing.seconds), 'run')} after {units.plural(warm, 'warm-up run')}"
    yield "latency", f"{least} minimum, {median} median of {runs}"
    threads = f"{timing.threads} thread{'s' if timing.threads > 1 else ''}"
    yield "runtime", f"{timing.title} {timing.version}, {threads}, on this computer"
    slowest = max(timing.seconds)
    if slowest > 1.5 * timing.minimum:
        yield "spread", f"up to {units.duration(slowest)}: other processes slow down some runs"
    macs, moved = measurement.macs_per_second, measurement.bytes_per_second
    if macs is not None and moved is not None:
        rate = f"{units.count(macs)}MAC/s" if measurement.cost.total_macs else "no MACs"
        yield "throughput", f"{rate.replace('  ', ' ')}, {units.size(moved)}/s read and written"
    else:
        yield "throughput", "unknown: not every operator could be counted"
    hardware = measurement.throughput
    if hardware is not None and measurement.target is not None:
        device = measurement.target.device.title
        yield "hardware", f"{throughput_text(hardware)}, of {device}"
        if (hardware.compute_share or 0.0) > 1:
            yield "caveat", f"exceeds the peak of {device}: this computer is another device"
    yield "loading", units.duration(timing.loading_seconds)
    yield from (("note", note) for note in measurement.notes)


def _print_kernels(console: Console, measurement: Measurement, top: int) -> None:
    ranked = sorted(measurement.kernels, key=lambda item: -item.kernel.seconds)
    total = _profiled(measurement)
    modules, kernels = _names(console, ranked[:top])
    rows = [
        (*_row(total, item.kernel.seconds, measurement.macs_of(item)), f"{module}  {kernel}")
        for item, module, kernel in zip(ranked, modules, kernels, strict=False)
    ]
    rest = ranked[top:]
    if rest:
        macs = _sum([measurement.macs_of(item) for item in rest])
        rows.append((*_row(total, sum(item.kernel.seconds for item in rest), macs), _more(len(rest))))
    rows.append((*_total(measurement), "total"))
    title = "module".ljust(len(modules[0]))
    print_rows(console, ("time", "share", "MACs", f"{title}  kernel"), rows)


def _names(console: Console, kernels: Sequence[AttributedKernel]) -> tuple[list[str], list[str]]:
    """Returns the modules and names of kernels, each shortened to its part of the line."""
    available = max(console.width - _FIGURES, 2 * LEAST_ROOM)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    modules = [_module_name(item.module) for item in kernels]
    width = max(min(max(map(cell_len, modules)), available // 2), len("module"))
    texts = [printable(f"{item.kernel.op_kind}  {item.kernel.name}") for item in kernels]
    padded = [set_cell_size(item, width) for item in shortened(modules, width, dots)]
    return padded, shortened(texts, available - width, dots)


def _print_modules(console: Console, measurement: Measurement, top: int) -> None:
    total, modules = _profiled(measurement), measurement.modules
    named = [row for row in modules if row.module is not None]
    shown = [*named[:top], *(row for row in modules if row.module is None)]
    rows = [
        (*_row(total, row.seconds, row.macs), *_rates(measurement, row), _module_name(row.module))
        for row in shown
    ]
    rest = named[top:]
    if rest:
        seconds, macs = sum(row.seconds for row in rest), _sum([row.macs for row in rest])
        blank = ("" for _ in _rate_titles(measurement))
        rows.insert(top, (*_row(total, seconds, macs), *blank, _more(len(rest))))
    rows.append((*_total(measurement), *("" for _ in _rate_titles(measurement)), "total"))
    print_rows(console, ("time", "share", "MACs", *_rate_titles(measurement), "module"), rows)


def _rate_titles(measurement: Measurement) -> tuple[str, ...]:
    return ("MAC/s",) if measurement.target is None else ("MAC/s", "of peak")


def _rates(measurement: Measurement, row: ModuleTime) -> tuple[str, ...]:
    rate = units.count(row.macs_per_second) if row.macs_per_second else "-"
    if measurement.target is None:
        return (rate,)
    return rate, "-" if row.compute_share is None else f"{100 * row.compute_share:.3g} %"


def _row(total: float, seconds: float, macs: int | None) -> tuple[str, ...]:
    return (
        units.duration(seconds),
        units.share(seconds, total),
        "?" if macs is None else units.count(macs) if macs else "-",
    )


def _total(measurement: Measurement) -> tuple[str, ...]:
    total = _profiled(measurement)
    return _row(total, total, measurement.cost.total_macs if measurement.cost.known.all() else None)


def _module_name(module: str | None) -> str:
    return UNATTRIBUTED if module is None else printable(module) or TOP_LEVEL


def _more(count: int) -> str:
    return f"{count:,} more: --top N shows them"


def _profiled(measurement: Measurement) -> float:
    return sum(kernel.seconds for kernel in measurement.timing.kernels)


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if any(count is None for count in counts) else sum(count or 0 for count in counts)


def render_utilization(utilization: Utilization, console: Console) -> None:
    """Print the supplied latency, both rates with their shares of the peak, and which of them bounds."""
    console.print(Text(printable(f"{utilization.name} ({utilization.format})"), style="bold"))
    for label, text in _utilization_lines(utilization):
        print_labeled(console, label, text, "bold" if label == "bound by" else "")


def _utilization_lines(utilization: Utilization) -> Iterator[tuple[str, str]]:
    target, seconds = utilization.target, utilization.measurement.seconds
    yield "latency", f"{units.duration(seconds)}, supplied; nothing was run"
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
        return f"{_rate(rate, 'FLOP')}, the peak at {at} is unknown"
    share = f"{_percent(utilization.compute_share)} of {_rate(peak, 'FLOP')}"
    return f"{_rate(rate, 'FLOP')}, {share} at {at}{cores_text(utilization.target)}"


def _memory(utilization: Utilization) -> str:
    rate, peak = utilization.bytes_per_second, utilization.target.device.bandwidth
    if rate is None:
        return "unknown: not every operator could be counted"
    basis = "supplied" if utilization.measurement.bandwidth else "from counted bytes"
    if peak is None:
        return f"{_rate(rate, 'B')} {basis}, the bandwidth of the device is unknown"
    return f"{_rate(rate, 'B')} {basis}, {_percent(utilization.bandwidth_share)} of {_rate(peak, 'B')}"


def _bottleneck(utilization: Utilization) -> str:
    if utilization.bound_by is None:
        return "undetermined: one of the two shares is unknown"
    other = "memory" if utilization.bound_by == "compute" else "compute"
    return f"{utilization.bound_by}, which is closer to its peak than {other}"


def _rate(value: float, unit: str) -> str:
    return f"{units.count(value)}{unit}/s" if value >= 1000 else f"{units.count(value)} {unit}/s"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.3g} %"


def render_calibration(calibration: Calibration, console: Console, top: int = 5) -> None:
    """Print the target, its error, then the networks with the largest errors."""
    console.print(Text(printable(calibration.target), style="bold"))
    for label, text in _calibration_lines(calibration):
        print_labeled(console, label, text, "bold" if label == "error" else "")
    worst = sorted(calibration.fit.held_out_predictions, key=lambda judged: -abs(judged.error))[:top]
    rows = [
        (
            f"{100 * judged.error:+.1f} %",
            units.duration(judged.measured),
            units.duration(judged.estimated),
            printable(judged.name),
        )
        for judged in worst
    ]
    console.print()
    print_rows(console, ("error", "measured", "estimated", "largest errors"), rows)


def _calibration_lines(calibration: Calibration) -> Iterator[tuple[str, str]]:
    fitted, interval = calibration.fit, calibration.fit.interval
    dtypes = ", ".join(fitted.precisions)
    yield "measured", f"{fitted.measurements:,} networks or kernels in {dtypes}"
    low, high = 100 * (math.exp(interval.low) - 1), 100 * (math.exp(interval.high) - 1)
    interval_text = f"90 % interval {low:+.0f} to {high:+.0f} %"
    yield "error", f"MAPE {100 * fitted.mape:.1f} %, {fitted.held_out.rstrip(',')} held out; {interval_text}"
    if len(fitted.held_out_predictions) < calibration.recommended_measurements:
        count = units.plural(len(fitted.held_out_predictions), "network")
        yield (
            "caveat",
            f"validated on {count}; the interval is reliable from {calibration.recommended_measurements} on",
        )
    if calibration.failures:
        yield (
            "failed",
            f"{units.plural(len(calibration.failures), 'network')}: {printable(calibration.failures[0])}",
        )
    yield "saved in", printable(str(calibration.path))
    yield "next", printable(f"sizeup analyze MODEL -d {calibration.target}")
