"""Times of served language models as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from sizeup import units
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.units import plural

if TYPE_CHECKING:
    from sizeup.results.llm import Serving
    from sizeup.results.parts import Duration, GoalRow, ServingEstimate, Traffic

TIME_TITLES = ("requests", "TPOT", "90 % interval", "TTFT", "90 % interval")
"""Columns of the table of times."""
RATE_TITLES = ("requests", "running", "tokens/s per user", "tokens/s per GPU", "limited by")
"""Columns of the table of throughput."""

TRAFFIC_TITLES = ("mean", "p50", "p90", "p99", "simulated")
"""Columns of the table of percentiles."""


GOAL_TITLES = ("requests", "TPOT", "TTFT", "tokens/s per user", "tokens/s per GPU", "rank", "layout")
"""Columns of the table of layouts that reach the goals."""


def render(serving: Serving, console: Console, top: int = 5) -> None:
    """Print times and throughput at each concurrency, and what they are based on."""
    times = serving.times()
    if times is not None:
        console.print()
        print_rows(console, TIME_TITLES, time_rows(times))
        console.print()
        print_rows(console, RATE_TITLES, rate_rows(times))
        print_labeled(console, "basis", basis(serving, times))
        for text in times.caveats:
            print_labeled(console, "caveat", text)
    if serving.goals is not None:
        rows = serving.goal_rows(top)
        console.print()
        print_labeled(console, "goals", goals_text(serving, rows))
        if rows:
            print_rows(console, GOAL_TITLES, goal_cells(rows))
    if serving.traffic is not None:
        console.print()
        print_labeled(console, "traffic", traffic_text(serving.traffic))
        percentiles = traffic_rows(serving.traffic)
        if percentiles:
            print_rows(console, TRAFFIC_TITLES, percentiles)


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


def goals_text(serving: Serving, rows: Sequence[GoalRow]) -> str:
    """The goals, and whether a layout reaches them."""
    goals = serving.goals
    named = () if goals is None else (("TTFT", goals.ttft), ("TPOT", goals.tpot))
    text = " and ".join(
        f"{name} at most {units.duration(value)}" for name, value in named if value is not None
    )
    if not rows:
        return f"{text}: no layout reaches them, even with one request"
    return f"{text}; the most requests of a layout that reach them"


def goal_cells(rows: Sequence[GoalRow]) -> list[tuple[str, ...]]:
    """Layouts that reach the goals as rows of text."""
    return [
        (
            f"{row.point.requests:,}",
            units.duration(row.point.tpot.seconds),
            units.duration(row.point.ttft.seconds),
            _rate(row.point.user_tokens_per_second),
            _rate(row.point.gpu_tokens_per_second),
            "tied" if row.is_tied else "best" if number == 0 else "",
            str(row.layout),
        )
        for number, row in enumerate(rows)
    ]


def traffic_text(traffic: Traffic) -> str:
    """Arrivals, and whether the servers keep up."""
    most = f"{_rate(traffic.rate)} requests/s arrive, at most {_rate(traffic.max_rate)} are served"
    is_recorded = traffic.seed is None
    if traffic.is_overloaded and not is_recorded:
        return f"overloaded: {most}, so the queue grows without end"
    load = "overloaded" if traffic.is_overloaded else f"{traffic.rate / traffic.max_rate:.0%} load"
    count = f"{traffic.requests:,} {'recorded requests' if is_recorded else 'requests per server'}"
    return (
        f"{most} ({load}); {count} simulated, {plural(traffic.preemptions or 0, 'preemption')},"
        " without an interval"
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
