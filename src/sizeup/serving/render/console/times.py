"""Times of served language models as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from sizeup import units
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.serving.render.console import cost as llm_cost
from sizeup.units import plural, printable, rate

if TYPE_CHECKING:
    from sizeup.serving.results.llm import Serving
    from sizeup.serving.times.estimate import Duration, ServingEstimate, ServingPoint
    from sizeup.serving.times.goals import GoalRow
    from sizeup.serving.times.traffic import Traffic

TIME_TITLES = ("requests", "TPOT", "90 % interval", "TTFT", "90 % interval")
"""Columns of the table of times."""
RATE_TITLES = ("requests", "running", "tokens/s per user", "tokens/s per GPU", "limited by")
"""Columns of the table of throughput."""

TRAFFIC_TITLES = ("mean", "p50", "p90", "p99", "simulated")
"""Columns of the table of percentiles."""


GOAL_TITLES = ("requests", "TPOT", "TTFT", "tokens/s per user", "tokens/s per GPU", "rank", "layout")
"""Columns of the table of layouts that reach the goals."""
PRICED_GOAL_TITLES = (
    "requests", "TPOT", "TTFT", "tokens/s per GPU", "per 1 M output", "rank", "layout"
)  # fmt: skip
"""Its columns with a price."""


def render(serving: Serving, console: Console, top: int = 5) -> None:
    """Print times and throughput at each concurrency, and what they are based on."""
    if serving.is_local:
        console.print()
        for label, text in local_facts(serving):
            print_labeled(console, label, text)
        return
    times = serving.times()
    if times is not None:
        _render_times(serving, times, console)
    if serving.goals is not None:
        rows = serving.goal_rows(max(top, 1))
        console.print()
        print_labeled(console, "goals", goals_text(serving, rows))
        if rows[:top]:
            print_rows(console, goal_titles(serving), goal_cells(serving, rows[:top]))
    if serving.traffic is not None:
        _render_traffic(serving, serving.traffic, console)


def local_facts(serving: Serving) -> Iterator[tuple[str, str]]:
    """Labels and texts of the times of one sequence on a laptop or phone."""
    times = serving.times()
    if times is None:
        yield "times", f"not known: {serving.no_times or 'it does not fit'}"
        return
    (point,) = times.points
    speed = rate(point.user_tokens_per_second)
    yield "next token", f"{_with_interval(point.tpot)}: {speed} tokens/s, limited by {point.limiter}"
    yield "first token", f"{_with_interval(point.ttft)} for a prompt of {plural(serving.input, 'token')}"
    total = units.duration(serving.output / point.gpu_tokens_per_second)
    yield "answer", f"{total} for {plural(serving.output, 'token')}"
    calibration = times.calibration
    if calibration is not None:
        rates = calibration.tokens[times.device]
        errors = (
            f"{100 * rates.tpot.mape:.0f} % for next tokens, {100 * rates.ttft.mape:.0f} % for first tokens"
        )
        count = (
            f"{calibration.counts[times.device]:,} measurements of {len(rates.families)} families of models"
        )
        yield "basis", f"{count} on {times.device}; MAPE with families held out: {errors}"
        yield "source", calibration.source
    for text in times.caveats:
        yield "caveat", text


def _with_interval(duration: Duration) -> str:
    interval = "" if duration.low is None else f" (90 % interval {_interval(duration)})"
    return f"{units.duration(duration.seconds)}{interval}"


def _render_times(serving: Serving, times: ServingEstimate, console: Console) -> None:
    console.print()
    print_rows(console, TIME_TITLES, time_rows(times))
    console.print()
    print_rows(console, RATE_TITLES, rate_rows(times))
    if serving.images is not None:
        print_labeled(console, "vision tower", tower_text(serving, times))
    print_labeled(console, "basis", basis(serving, times))
    for text in times.caveats:
        print_labeled(console, "caveat", text)
    costs = llm_cost.cost_rows(serving, times)
    if costs:
        console.print()
        print_rows(console, llm_cost.COST_TITLES, costs)
    for label, text in llm_cost.cost_facts(serving, times):
        print_labeled(console, label, text)


def _render_traffic(serving: Serving, traffic: Traffic, console: Console) -> None:
    console.print()
    print_labeled(console, "traffic", traffic_text(serving, traffic))
    percentiles = traffic_rows(traffic)
    if percentiles:
        print_rows(console, TRAFFIC_TITLES, percentiles)
    cost = llm_cost.traffic_cost(serving)
    if cost:
        print_labeled(console, "cost", f"{cost} at this rate")
    if serving.goals is not None and traffic.seed is not None:
        print_labeled(console, "needed", llm_cost.fleet_text(serving, serving.fleet))


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
            f"{most}{rate(point.user_tokens_per_second)}",
            f"{most}{rate(point.gpu_tokens_per_second)}",
            point.limiter,
        )
        for point in times.points
    ]


def tower_text(serving: Serving, times: ServingEstimate) -> str:
    """The time of the vision tower."""
    least = "" if times.calibration else "at least "
    images = plural(0 if serving.images is None else serving.images.count, "image")
    seconds = units.duration(times.points[0].tower_seconds)
    return f"{least}{seconds} of TTFT, for {images} of a prompt"


def goal_texts(serving: Serving) -> str:
    """The goals, such as `TTFT at most 1 s`; empty without any."""
    goals = serving.goals
    named = () if goals is None else (("TTFT", goals.ttft), ("TPOT", goals.tpot))
    return " and ".join(
        f"{name} at most {units.duration(value)}" for name, value in named if value is not None
    )


def goals_text(serving: Serving, rows: Sequence[GoalRow]) -> str:
    """The goals, and whether a layout reaches them."""
    text = goal_texts(serving)
    goal = "them" if " and " in text else "it"
    if not rows:
        return f"{text}: no layout that fits reaches {goal}, even with one request"
    corrected = [str(row.layout) for row in rows if row.is_corrected]
    partly = f"; only {', '.join(corrected)} is corrected by measurements" if corrected else ""
    partly = partly if len(corrected) < len(rows) else ""
    return f"{text}; the most requests of a layout that reach {goal}{partly}"


def goal_titles(serving: Serving) -> tuple[str, ...]:
    """Columns of the table of layouts that reach the goals."""
    return GOAL_TITLES if serving.cluster.price is None else PRICED_GOAL_TITLES


def goal_cells(serving: Serving, rows: Sequence[GoalRow]) -> list[tuple[str, ...]]:
    """Layouts that reach the goals as rows of text."""
    return [
        (
            f"{row.point.requests:,}",
            units.duration(row.point.tpot.seconds),
            units.duration(row.point.ttft.seconds),
            *_goal_rates(serving, row.point),
            "tied" if row.is_tied else "best" if number == 0 else "",
            str(row.layout),
        )
        for number, row in enumerate(rows)
    ]


def _goal_rates(serving: Serving, point: ServingPoint) -> tuple[str, str]:
    per_gpu = rate(point.gpu_tokens_per_second)
    if serving.cluster.price is None:
        return rate(point.user_tokens_per_second), per_gpu
    return per_gpu, llm_cost.money(serving, serving.token_cost(point.gpu_tokens_per_second).output)


def traffic_text(serving: Serving, traffic: Traffic) -> str:
    """Arrivals, and whether the servers of the layout keep up."""
    served = f"at most {rate(traffic.max_rate)} are served in layout {serving.layout}"
    most = f"{rate(traffic.rate)} requests/s arrive, {served}"
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


def _interval(duration: Duration) -> str:
    if duration.low is None or duration.high is None:
        return "none"
    return f"{units.duration(duration.low)} - {units.duration(duration.high)}"


def basis(serving: Serving, times: ServingEstimate) -> str:
    """What the times are based on, with held-out errors."""
    engine, calibration = serving.engine.title, times.calibration
    if calibration is None:
        why = f"not calibrated for {engine}"
        if times.is_calibration_unused:
            why = f"the calibration for {engine} needs the bandwidth of all links"
        return f"data sheet of {times.device}, without overhead; {why}"
    tpot, ttft = calibration.mape[times.device]
    errors = "total times of batches" if ttft is None else f"TPOT, {100 * ttft:.0f} % for TTFT"
    factors, measured = times.factors, ""
    if factors is not None:
        files = f"{factors.files[0]}{f' and {len(factors.files) - 1} more' if factors.files[1:] else ''}"
        measured = f"; corrected by {plural(factors.measurements, 'measurement')} of {printable(files)}"
    device = calibration.measured_on.get(times.device, times.device)
    return (
        f"calibrated for {engine} {calibration.versions} on {device} with"
        f" {calibration.counts[times.device]:,} measurements; MAPE with models held out:"
        f" {100 * tpot:.0f} % for {errors}{measured}"
    )
