"""Times of served language models as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from sizeup import units
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.units import plural

if TYPE_CHECKING:
    from sizeup.results.llm import Serving
    from sizeup.results.parts import Duration, ServingEstimate, Traffic

TIME_TITLES = ("requests", "TPOT", "90 % interval", "TTFT", "90 % interval")
"""Columns of the table of times."""
RATE_TITLES = ("requests", "running", "tokens/s per user", "tokens/s per GPU", "limited by")
"""Columns of the table of throughput."""

TRAFFIC_TITLES = ("mean", "p50", "p90", "p99", "simulated")
"""Columns of the table of percentiles."""


def render(serving: Serving, console: Console) -> None:
    """Print times and throughput at each concurrency, and what they are based on."""
    times = serving.times()
    if times is None:
        return
    console.print()
    print_rows(console, TIME_TITLES, time_rows(times))
    console.print()
    print_rows(console, RATE_TITLES, rate_rows(times))
    print_labeled(console, "basis", basis(serving, times))
    for text in times.caveats:
        print_labeled(console, "caveat", text)
    if serving.traffic is not None:
        console.print()
        print_labeled(console, "traffic", traffic_text(serving.traffic))
        rows = traffic_rows(serving.traffic)
        if rows:
            print_rows(console, TRAFFIC_TITLES, rows)


def time_rows(times: ServingEstimate) -> list[tuple[str, ...]]:
    """TPOT and TTFT as rows of text."""
    least = "" if times.calibration else "at least "
    return [
        (
            f"{point.requests:,}",
            f"{least}{units.duration(point.tpot.seconds)}",
            _interval(point.tpot),
            f"{least}{units.duration(point.ttft.seconds)}",
            _interval(point.ttft),
        )
        for point in times.points
    ]


def rate_rows(times: ServingEstimate) -> list[tuple[str, ...]]:
    """Tokens per second as rows of text."""
    most = "" if times.calibration else "at most "
    return [
        (
            f"{point.requests:,}",
            f"{point.running:,}",
            f"{most}{_rate(point.user_tokens_per_second)}",
            f"{most}{_rate(point.gpu_tokens_per_second)}",
            point.limiter,
        )
        for point in times.points
    ]


def traffic_text(traffic: Traffic) -> str:
    """Arrivals, and whether the servers keep up."""
    most = f"{_rate(traffic.rate)} requests/s arrive, at most {_rate(traffic.max_rate)} are served"
    if traffic.is_overloaded:
        return f"overloaded: {most}, so the queue grows without end"
    return (
        f"{most} ({traffic.rate / traffic.max_rate:.0%} load); {traffic.requests:,} requests simulated per"
        f" server, {plural(traffic.preemptions or 0, 'preemption')}, without an interval"
    )


def traffic_rows(traffic: Traffic) -> list[tuple[str, ...]]:
    """Mean and percentiles of TTFT and TPOT as rows of text."""
    named = (("TTFT", traffic.ttft), ("TPOT", traffic.tpot))
    return [
        (*(units.duration(value) for value in (each.mean, each.p50, each.p90, each.p99)), name)
        for name, each in named
        if each is not None
    ]


def _rate(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _interval(duration: Duration) -> str:
    if duration.low is None or duration.high is None:
        return "none"
    return f"{units.duration(duration.low)} - {units.duration(duration.high)}"


def basis(serving: Serving, times: ServingEstimate) -> str:
    """What the times are based on, with held-out errors."""
    engine, calibration = serving.engine.title, times.calibration
    if calibration is None:
        return f"data sheet of {times.device}, without overhead; not calibrated for {engine}"
    tpot, ttft = calibration.mape[times.device]
    return (
        f"calibrated for {engine} {calibration.versions} on {times.device} with"
        f" {calibration.counts[times.device]:,} measurements; MAPE with models held out:"
        f" {100 * tpot:.0f} % for TPOT, {100 * ttft:.0f} % for TTFT"
    )
