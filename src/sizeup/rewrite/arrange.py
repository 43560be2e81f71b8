"""Choosing among orders and plans by what the real interpreter then reports."""

from __future__ import annotations

from typing import NamedTuple

from sizeup.errors import Incomplete, RunFailed
from sizeup.formats.tflite.write import rewrite
from sizeup.graph import Graph
from sizeup.memory.schedule import find_order, peak_bytes, reordered
from sizeup.memory.schedule_problem import Ordering
from sizeup.rewrite.micro import search
from sizeup.rewrite.result import OptimizeOptions
from sizeup.rewrite.verify import Judge
from sizeup.runtimes import Arena


class Arrangement(NamedTuple):
    """A file with another order or a plan, and the arena that it takes, where that is known."""

    content: bytes
    order: tuple[int, ...] | None
    plan_status: str | None  # None: it has no new plan
    arena: Arena | None
    peak_bytes: int
    overlaps: int = 0  # outputs that share bytes with a dying input


class Arrangements(NamedTuple):
    """What is better than the file as it is, the best first, and what was learnt on the way."""

    better: list[Arrangement]
    ordering: Ordering | None
    has_better_order: bool  # than the file's own
    notes: list[str]


def arrangements(
    content: bytes, graph: Graph, wishes: OptimizeOptions, judge: Judge | None, now: Arena | None
) -> Arrangements:
    """Every order and plan that needs less: measured where TFLite Micro is the judge, else predicted."""
    if judge is None or judge.runtime == "tflm":
        try:
            return _for_micro(content, graph, wishes, judge, now)
        except Incomplete as error:
            notes = [str(error)]
    else:
        notes = []
    if not wishes.reorder:
        return Arrangements([], None, False, notes)
    ordering = find_order(graph, views=True, time_limit=wishes.time_limit, progress=wishes.progress)
    if ordering.peak_bytes >= peak_bytes(graph):
        return Arrangements([], ordering, False, notes)
    new = Arrangement(rewrite(content, order=ordering.order), ordering.order, None, None, ordering.peak_bytes)
    return Arrangements([new], ordering, True, notes)


def _for_micro(
    content: bytes, graph: Graph, wishes: OptimizeOptions, judge: Judge | None, now: Arena | None
) -> Arrangements:
    found = search(graph, wishes)
    as_it_is, *others = found.candidates
    notes: list[str] = []
    now = now or as_it_is.expected
    least = (now.total_bytes, peak_bytes(graph))
    ranked = []
    for candidate in others:
        written = rewrite(content, order=candidate.order, offline_offsets=candidate.offsets)
        arena = candidate.expected if judge is None else _measured(judge, written, notes)
        peak = peak_bytes(reordered(graph, candidate.order))
        if arena is not None and (arena.total_bytes, peak) < least:
            new = Arrangement(
                written, candidate.order, candidate.plan_status, arena, peak, candidate.overlaps
            )
            ranked.append(((arena.total_bytes, peak), candidate.changes, new))
    ranked.sort(key=lambda each: each[:2])
    better = [each[2] for each in ranked]
    notes += dict.fromkeys(candidate.note for candidate in others if candidate.note)
    if found.has_better_order and not any(each.order for each in better):
        notes.append("an order with a lower peak is known, but the arena would not get smaller")
    return Arrangements(better, found.ordering, found.has_better_order, notes)


def _measured(judge: Judge, content: bytes, notes: list[str]) -> Arena | None:
    try:
        return judge.load(content).arena
    except RunFailed as error:
        notes.append(f"an order or a plan was left out: {error}")
        return None
