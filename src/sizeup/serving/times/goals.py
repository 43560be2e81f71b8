"""The most concurrent requests of a layout that reach goals for TTFT and TPOT."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Integers, Layout
from sizeup.serving.steps.step import Server
from sizeup.serving.steps.work import Floats
from sizeup.serving.times.estimate import Duration, ServingPoint
from sizeup.serving.times.speculation import DraftServer, draft_times

MOST_LAYOUTS = 400
"""Layouts that are compared, at most; DeepSeek-V3 has 335 on 64 devices."""
TIED_RATIO = 1.28
"""Of throughputs: 90 % of the ratios between two divisions were predicted within it.

By benchmarks/serving_disaggregated.py.
"""
Booleans: TypeAlias = npt.NDArray[np.bool_]
_Rate = TypeVar("_Rate", float, Floats)
_ALL_COUNTS = 512  # numbers of requests up to this one are all tried
_LARGER_COUNTS = 256


@dataclass(frozen=True, slots=True)
class Goals:
    """Times that must not be exceeded, in seconds; None without a limit."""

    ttft: float | None = None
    tpot: float | None = None

    def check(self, output: int) -> None:
        """Raise SizeupError if a time per output token is limited, and answers have one token."""
        if self.tpot is not None and output == 1:
            raise SizeupError("--tpot: answers of one token have no time per output token")

    def are_reached(self, ttft: Floats, tpot: Floats) -> Booleans:
        """Whether times are within the goals."""
        is_reached = np.ones(ttft.shape, bool)
        for actual, goal in ((ttft, self.ttft), (tpot, self.tpot)):
            is_reached &= actual <= (np.inf if goal is None else goal)
        return is_reached


@dataclass(frozen=True, slots=True)
class GoalRow:
    """A layout at the most requests that reach the goals."""

    layout: Layout
    point: ServingPoint
    is_tied: bool = False  # with the first row: intervals of throughput overlap
    is_corrected: bool = False  # by measurements of the user


def most_requests(
    server: Server, goals: Goals, input: int, output: int, most: int, draft: DraftServer | None = None
) -> int:
    """The most concurrent requests that reach the goals; 0 if a single one does not.

    `most` is the number of requests whose cache fits at once.
    """
    counts = request_counts(most)
    result = draft_times(server, draft, counts, input, output, most)
    return int(counts[goals.are_reached(result.ttft, result.tpot)].max(initial=0))


def request_counts(most: int) -> Integers:
    """Numbers of requests that are tried, up to `most`."""
    counts = np.arange(1, min(most, _ALL_COUNTS) + 1)
    if most <= _ALL_COUNTS:
        return counts
    larger = np.rint(np.geomspace(_ALL_COUNTS, most, _LARGER_COUNTS)).astype(np.int64)
    return np.unique(np.concatenate([counts, larger]))


def ranked(rows: Iterable[GoalRow]) -> tuple[GoalRow, ...]:
    """Rows by throughput per GPU, the largest first, with ties marked."""
    order = sorted(rows, key=lambda row: -row.point.gpu_tokens_per_second)
    return tuple(replace(row, is_tied=_is_tied(order[0].point, row.point)) for row in order)


def _is_tied(first: ServingPoint, other: ServingPoint) -> bool:
    """Whether intervals of throughput overlap."""
    if first is other:
        return False
    least, _ = throughput_interval(first.gpu_tokens_per_second, first.tpot)
    _, most = throughput_interval(other.gpu_tokens_per_second, other.tpot)
    return most >= least


def throughput_interval(rate: _Rate, tpot: Duration) -> tuple[_Rate, _Rate]:
    """The interval of throughput, which that of TPOT stands for.

    Without one, two throughputs overlap if their ratio is at most `TIED_RATIO`.
    """
    least = TIED_RATIO**-0.5 if tpot.high is None else tpot.seconds / tpot.high
    most = TIED_RATIO**0.5 if tpot.low is None else tpot.seconds / tpot.low
    return rate * least, rate * most
