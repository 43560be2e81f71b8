"""Measurements, utilizations and calibrations for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console import latency as latency_words
from sizeup.render.console.columns import shortened
from sizeup.render.console.layout import LEAST_ROOM, print_labelled, print_rows
from sizeup.results.rollup import TOP_LEVEL
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.measurement import Measurement
    from sizeup.results.parts import AttributedKernel, Calibration, ModuleTime, Utilization

UNATTRIBUTED = "(unattributed)"
"""The row of kernels that match no operator of the model."""
_FIGURES = 32  # cells that the columns before the names take


def render(found: Measurement, console: Console, top: int = 10, by: str | None = None) -> None:
    """Print the time first, then how fast that is, then where it goes, by `kernel` or by `module`."""
    console.print(Text(plain(f"{found.name} ({found.format})"), style="bold"))
    for label, text in _lines(found):
        print_labelled(console, label, text, "bold" if label == "time" else "")
    if by is not None and not found.timing.kernels:
        print_labelled(console, "note", f"no times by {by}: there is no profile of this run")
    if found.timing.kernels:
        console.print()
        (_print_modules if by == "module" else _print_kernels)(console, found, top)


def _lines(found: Measurement) -> Iterator[tuple[str, str]]:
    timing = found.timing
    least, median = units.duration(timing.least), units.duration(timing.median)
    warm = len(timing.warm_up_seconds)
    yield "time", f"{least} least, {median} median of {len(timing.seconds):,} runs after {warm} to warm up"
    threads = f"{timing.threads} thread{'s' if timing.threads > 1 else ''}"
    yield "runtime", f"{timing.title} {timing.version}, {threads}, on this machine"
    slowest = max(timing.seconds)
    if slowest > 1.5 * timing.least:
        yield "spread", f"up to {units.duration(slowest)}: other work on the machine slows runs down"
    macs, moved = found.macs_per_second, found.bytes_per_second
    if macs is not None and moved is not None:
        each = f"{units.count(macs)}MAC/s" if found.cost.total_macs else "no MACs"
        yield (
            "achieved",
            f"{each.replace('  ', ' ')}, {units.size(moved)}/s read and written by its operators",
        )
    else:
        yield "achieved", "not known: not every operator could be counted"
    attained = found.hardware
    if attained is not None and found.target is not None:
        yield "hardware", f"{latency_words.attained(attained)}, of {found.target.device.title}"
        if (attained.compute_share or 0.0) > 1:
            yield "but", f"no {found.target.device.title} is that fast: this machine is another one"
    yield "loading", units.duration(timing.loading_seconds)
    yield from (("note", note) for note in found.notes)


def _print_kernels(console: Console, found: Measurement, top: int) -> None:
    ranked = sorted(found.kernels, key=lambda each: -each.kernel.seconds)
    whole = _profiled(found)
    modules, kernels = _names(console, ranked[:top])
    rows = [
        (*_row(whole, each.kernel.seconds, found.macs_of(each)), f"{module}  {kernel}")
        for each, module, kernel in zip(ranked, modules, kernels, strict=False)
    ]
    rest = ranked[top:]
    if rest:
        macs = _sum([found.macs_of(each) for each in rest])
        rows.append((*_row(whole, sum(each.kernel.seconds for each in rest), macs), _more(len(rest))))
    rows.append((*_total(found), "total"))
    title = "module".ljust(len(modules[0]))
    print_rows(console, ("time", "share", "MACs", f"{title}  kernel of the profile"), rows)


def _names(console: Console, kernels: Sequence[AttributedKernel]) -> tuple[list[str], list[str]]:
    """The modules and names of kernels, each cut to its part of the line."""
    room = max(console.width - _FIGURES, 2 * LEAST_ROOM)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    modules = [_module_name(each.module) for each in kernels]
    width = max(min(max(map(cell_len, modules)), room // 2), len("module"))
    texts = [plain(f"{each.kernel.kind}  {each.kernel.name}") for each in kernels]
    padded = [set_cell_size(each, width) for each in shortened(modules, width, dots)]
    return padded, shortened(texts, room - width, dots)


def _print_modules(console: Console, found: Measurement, top: int) -> None:
    whole, modules = _profiled(found), found.modules
    named = [each for each in modules if each.module is not None]
    shown = [*named[:top], *(each for each in modules if each.module is None)]
    rows = [
        (*_row(whole, each.seconds, each.macs), *_rates(found, each), _module_name(each.module))
        for each in shown
    ]
    rest = named[top:]
    if rest:
        seconds, macs = sum(each.seconds for each in rest), _sum([each.macs for each in rest])
        blank = ("" for _ in _rate_titles(found))
        rows.insert(top, (*_row(whole, seconds, macs), *blank, _more(len(rest))))
    rows.append((*_total(found), *("" for _ in _rate_titles(found)), "total"))
    print_rows(console, ("time", "share", "MACs", *_rate_titles(found), "module"), rows)


def _rate_titles(found: Measurement) -> tuple[str, ...]:
    return ("MAC/s",) if found.target is None else ("MAC/s", "of peak")


def _rates(found: Measurement, row: ModuleTime) -> tuple[str, ...]:
    rate = units.count(row.macs_per_second) if row.macs_per_second else "-"
    if found.target is None:
        return (rate,)
    return rate, "-" if row.compute_share is None else f"{100 * row.compute_share:.3g} %"


def _row(whole: float, seconds: float, macs: int | None) -> tuple[str, ...]:
    return (
        units.duration(seconds),
        units.share(seconds, whole),
        "?" if macs is None else units.count(macs) if macs else "-",
    )


def _total(found: Measurement) -> tuple[str, ...]:
    whole = _profiled(found)
    return _row(whole, whole, found.cost.total_macs if found.cost.known.all() else None)


def _module_name(module: str | None) -> str:
    return UNATTRIBUTED if module is None else plain(module) or TOP_LEVEL


def _more(count: int) -> str:
    return f"{count:,} more: --top N shows them"


def _profiled(found: Measurement) -> float:
    return sum(each.seconds for each in found.timing.kernels)


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if any(each is None for each in counts) else sum(each or 0 for each in counts)


def render_utilization(utilization: Utilization, console: Console) -> None:
    """Print what was given, then the two rates with their shares, then which of them bounds."""
    console.print(Text(plain(f"{utilization.name} ({utilization.format})"), style="bold"))
    for label, text in _utilization_lines(utilization):
        print_labelled(console, label, text, "bold" if label == "bound by" else "")


def _utilization_lines(utilization: Utilization) -> Iterator[tuple[str, str]]:
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


def render_calibration(found: Calibration, console: Console, top: int = 5) -> None:
    """Print the target first, then its error, then the networks that fit worst."""
    console.print(Text(plain(found.target), style="bold"))
    for label, text in _calibration_lines(found):
        print_labelled(console, label, text, "bold" if label == "error" else "")
    worst = sorted(found.fitted.judged, key=lambda each: -abs(each.error))[:top]
    rows = [
        (
            f"{100 * each.error:+.1f} %",
            units.duration(each.measured),
            units.duration(each.estimated),
            plain(each.name),
        )
        for each in worst
    ]
    console.print()
    print_rows(console, ("off by", "measured", "estimated", "largest errors"), rows)


def _calibration_lines(found: Calibration) -> Iterator[tuple[str, str]]:
    fit, band = found.fitted, found.fitted.band
    types = ", ".join(fit.precisions)
    yield "measured", f"{fit.measurements:,} networks or kernels at {types}"
    low, high = 100 * (math.exp(band.low) - 1), 100 * (math.exp(band.high) - 1)
    reach = f"nine of ten took {low:+.0f} to {high:+.0f} %"
    yield "error", f"{100 * fit.error:.1f} % off on average with its {fit.held_out} left out; {reach}"
    if len(fit.judged) < found.enough:
        yield "few", f"{len(fit.judged)} networks judge it; {found.enough} or more make the range trustworthy"
    if found.failures:
        yield "not run", f"{len(found.failures)} networks: {plain(found.failures[0])}"
    yield "saved in", plain(str(found.path))
    yield "next", plain(f"sizeup analyze MODEL -d {found.target}")
