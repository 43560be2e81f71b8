"""The most concurrent requests of a layout that reach goals for TTFT and TPOT."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sizeup.language_models.layouts import Layout
from sizeup.serving.estimate import ServingPoint
from sizeup.serving.step import Server
from sizeup.serving.times import times

_ALL_COUNTS = 512  # numbers of requests up to this one are all tried
_LARGER_COUNTS = 256


@dataclass(frozen=True, slots=True)
class Goals:
    """Times that must not be exceeded, in seconds; None without a limit."""

    ttft: float | None = None
    tpot: float | None = None


@dataclass(frozen=True, slots=True)
class GoalRow:
    """A layout at the most requests that reach the goals."""

    layout: Layout
    point: ServingPoint
    is_tied: bool = False  # with the first row: intervals of throughput overlap, or one has none


def most_requests(server: Server, goals: Goals, input: int, output: int, most: int) -> int:
    """The most concurrent requests that reach the goals; 0 if a single one does not.

    `most` is the number of requests whose cache fits at once.
    """
    counts = np.arange(1, min(most, _ALL_COUNTS) + 1)
    if most > _ALL_COUNTS:
        larger = np.rint(np.geomspace(_ALL_COUNTS, most, _LARGER_COUNTS)).astype(np.int64)
        counts = np.unique(np.concatenate([counts, larger]))
    result = times(server, counts, input, output, most)
    is_reached = np.ones(len(counts), bool)
    for actual, goal in ((result.ttft, goals.ttft), (result.tpot, goals.tpot)):
        is_reached &= actual <= (np.inf if goal is None else goal)
    return int(counts[is_reached].max(initial=0))


def ranked(rows: Iterable[GoalRow]) -> tuple[GoalRow, ...]:
    """Rows by throughput per GPU, the largest first, with ties marked."""
    order = sorted(rows, key=lambda row: -row.point.gpu_tokens_per_second)
    return tuple(replace(row, is_tied=_is_tied(order[0].point, row.point)) for row in order)


def _is_tied(first: ServingPoint, other: ServingPoint) -> bool:
    """Whether intervals of throughput overlap, which those of TPOT stand for."""
    slow, fast = first.tpot, other.tpot
    if first is other:
        return False
    if slow.high is None or fast.low is None:
        return True
    least = first.gpu_tokens_per_second * slow.seconds / slow.high
    return other.gpu_tokens_per_second * fast.seconds / fast.low >= least
