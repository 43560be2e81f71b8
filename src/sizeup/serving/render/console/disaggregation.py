"""Disaggregated serving as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from sizeup import units
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.serving.render.console import cost as llm_cost
from sizeup.serving.render.console.times import goal_texts
from sizeup.units import plural, rate

if TYPE_CHECKING:
    from sizeup.serving.results.llm import Serving
    from sizeup.serving.times.disaggregation import Disaggregation, Side
    from sizeup.serving.times.divisions import DivisionRow

_TITLES = ("requests", "decoding", "TPOT", "TTFT")
_DIVISION_TITLES = ("GPUs", "requests", "TPOT", "TTFT")


def render(serving: Serving, console: Console) -> None:
    """Print times with prompts and answers on different GPUs."""
    division, divisions = serving.disaggregation, serving.divisions
    if divisions is not None:
        console.print()
        print_labeled(console, "divisions", divisions_text(serving, divisions))
        if divisions:
            print_rows(console, division_titles(serving), division_rows(serving, divisions))
    if division is None:
        return
    console.print()
    for label, text in facts(division):
        print_labeled(console, label, text)
    print_rows(console, titles(serving), rows(serving, division))
    for text in division.caveats:
        print_labeled(console, "caveat", text)


def divisions_text(serving: Serving, divisions: Sequence[DivisionRow]) -> str:
    """What the best divisions of the GPUs were searched for."""
    goals = goal_texts(serving)
    if not divisions:
        reason = f"reaches {goals}, even with one request" if goals else "fits"
        return f"no division of the GPUs {reason}"
    at = f"the most requests that reach {goals}" if goals else plural(divisions[0].point.requests, "request")
    tied = "; tied: the difference is within the errors of the prediction"
    return f"the best of each number of prefill GPUs, at {at}{tied if len(divisions) > 1 else ''}"


def division_titles(serving: Serving) -> tuple[str, ...]:
    """Columns of the table of divisions."""
    return (*_DIVISION_TITLES, _throughput_title(serving), "rank", "--disaggregate")


def division_rows(serving: Serving, divisions: Sequence[DivisionRow]) -> list[tuple[str, ...]]:
    """Divisions of the GPUs as rows of text."""
    return [
        (
            f"{row.prefill.cluster.devices}:{row.decode.cluster.devices}",
            f"{row.point.requests:,}",
            units.duration(row.point.tpot),
            units.duration(row.point.ttft),
            _throughput(serving, row.point.gpu_tokens_per_second),
            "tied" if row.is_tied else "best" if number == 0 else "",
            row.text,
        )
        for number, row in enumerate(divisions)
    ]


def facts(division: Disaggregation) -> Iterator[tuple[str, str]]:
    """Labels and texts of both sides and of what they exchange."""
    most = division.points[-1]
    yield "prefill", f"{_side(division.prefill)}: at most {rate(division.prefill_rate)} requests/s"
    decode = f"{_side(division.decode)}: at most {rate(most.decode_rate)} requests/s"
    requests = plural(most.requests, "request")
    held = plural(division.max_sequences, "sequence")
    yield "decode", f"{decode} with {requests}; cache for at most {held}"
    if most.requests > 1:  # one request is on one side at a time
        balance = division.balance
        one, many = ("prefill", "decode") if balance >= 1 else ("decode", "prefill")
        ratio = rate(max(balance, 1 / balance))
        yield "balance", f"with {requests}, both sides are as fast with {ratio} {many} GPUs per {one} GPU"
    delay = division.transfer_seconds
    time = "unknown time" if delay is None else units.duration(delay)
    received, sent = (units.size(each) for each in (division.transfer_bytes, division.sent_bytes))
    yield "transfer", f"cache of a prompt: {sent} from a prefill GPU, {received} to a decode GPU, {time}"


def _side(side: Side) -> str:
    return f"{plural(side.cluster.devices, 'GPU')}, {side.layout}"


def titles(serving: Serving) -> tuple[str, ...]:
    """Columns of the table of times."""
    return (*_TITLES, _throughput_title(serving), "prefill busy", "limited by")


def rows(serving: Serving, division: Disaggregation) -> list[tuple[str, ...]]:
    """Times and throughput as rows of text."""
    return [
        (
            f"{point.requests:,}",
            rate(point.decoding),
            units.duration(point.tpot),
            units.duration(point.ttft),
            _throughput(serving, point.gpu_tokens_per_second),
            f"{point.prefill_load:.0%}",
            point.limiter,
        )
        for point in division.points
    ]


def _throughput_title(serving: Serving) -> str:
    return "tokens/s per GPU" if serving.cluster.price is None else "per 1 M output"


def _throughput(serving: Serving, tokens_per_second: float) -> str:
    if serving.cluster.price is None:
        return rate(tokens_per_second)
    return llm_cost.money(serving, serving.token_cost(tokens_per_second).output)
