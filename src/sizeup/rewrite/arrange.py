"""Orders and memory plans for a file, chosen by what TFLite Micro's interpreter reports."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from sizeup.errors import Incomplete, InvalidPlan, RunFailed
from sizeup.formats.tflite.write import rewrite
from sizeup.graph import Graph
from sizeup.memory import check_offsets, lifetimes
from sizeup.memory.arena import Packing, pack
from sizeup.memory.check import check_overlapping
from sizeup.memory.liveness import Buffers
from sizeup.memory.overlapping import lowest, pack_overlapping, shared_results
from sizeup.memory.schedule import find_order, peak_bytes, reordered, telling
from sizeup.memory.schedule_problem import Ordering
from sizeup.memory.tflm import arena, planned
from sizeup.memory.tflm.overlap import overlaps
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


_ALIGNMENT = 16
_ONLINE = -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to write the file: its order and its plan, None for what stays; and the arena to expect."""

    order: tuple[int, ...] | None
    offsets: tuple[int, ...] | None
    expected: Arena
    plan_status: str | None = None
    note: str = ""  # what would make a better plan
    overlaps: int = 0  # outputs that share bytes with a dying input

    @property
    def changes(self) -> int:
        """How much it changes, to prefer the least of equals; what not every kernel bears counts most."""
        return (self.order is not None) + (self.offsets is not None) + 3 * (self.overlaps > 0)


@dataclass(frozen=True, slots=True)
class Search:
    """The candidates, the file as it is among them, and what is known of orders."""

    candidates: tuple[Candidate, ...]
    ordering: Ordering | None
    has_better_order: bool  # than the file's own, as TFLite Micro runs it


def search(graph: Graph, wishes: OptimizeOptions) -> Search:
    """All ways that may need less than the file does; raises Incomplete where sizes depend on data."""
    if graph.offsets and not wishes.verify and arena(graph).unknown:
        wishes = replace(wishes, plan=False)  # kernels that nobody knows may rely on the plan that is there
    ordering, better = None, False
    orders: list[tuple[int, ...] | None] = [None]
    if wishes.reorder and graph.ops:
        ran = _as_run(graph)
        ordering = find_order(ran, views=False, time_limit=wishes.time_limit, progress=wishes.progress)
        better = ordering.peak_bytes < int(lifetimes(ran, views=False).live_bytes().max())
        orders += [ordering.order] if better else []
    found = [Candidate(None, None, _as_it_is(graph))]
    for order in orders:
        without = _without_plan(graph, order)
        if order is not None or (wishes.plan and without.offsets is not None):
            found.append(without)
        if wishes.plan:
            found += _planned(graph, order, without.expected, wishes)
        if wishes.plan and wishes.overlap:
            found += _overlapping(graph, order, found[-1].expected, wishes)
    return Search(tuple(found), ordering, better)


def _as_it_is(graph: Graph) -> Arena:
    """The arena with the plan that the file has, if the interpreter takes that."""
    with suppress(InvalidPlan):
        return _expected(graph, graph.offsets or None, overlap=True)
    return _expected(graph)


def _without_plan(graph: Graph, order: tuple[int, ...] | None) -> Candidate:
    """That order, and no place prescribed: a plan that the file has may be worse than none."""
    online = (_ONLINE,) * len(graph.tensors) if graph.offsets else None
    return Candidate(order, online, _expected(reordered(graph, order)))


def predicted(graph: Graph, offsets: Sequence[int] | None = None) -> Arena | None:
    """The arena to expect of a file that nobody ran; None where a kernel's share is not known."""
    try:
        found = arena(graph, offsets=offsets, overlap=True)
    except (Incomplete, InvalidPlan):
        return None
    return None if found.tail_bytes_64 is None else Arena(found.head_bytes, found.tail_bytes_64)


def overlapping(graph: Graph) -> tuple[int, str | None]:
    """How many tensors the file's own plan lays over others in use at once, and the kernels it holds for."""
    if not graph.offsets:
        return 0, None
    try:
        found = arena(graph, offsets=graph.offsets, overlap=True)
    except (Incomplete, InvalidPlan):
        return 0, None
    return found.overlapping, found.kernels


def _as_run(graph: Graph) -> Graph:
    """The graph as TFLite Micro runs it: what is computed from constants is computed, and takes memory."""
    tensors = tuple(
        replace(each, data=None) if each.data is not None and each.data.role == "derived" else each
        for each in graph.tensors
    )
    return replace(graph, tensors=tensors)


def _expected(graph: Graph, offsets: Sequence[int] | None = None, *, overlap: bool = False) -> Arena:
    found = arena(graph, offsets=offsets, overlap=overlap)
    return Arena(found.head_bytes, found.tail_bytes_64 or 0)


def _planned(
    graph: Graph, order: tuple[int, ...] | None, without: Arena, wishes: OptimizeOptions
) -> list[Candidate]:
    """A plan, if one can need less than what the interpreter would find by itself.

    Where the file has a plan there is always a new one, for `without` is not what the file takes.
    """
    ordered = reordered(graph, order)
    live = planned(ordered).buffers.live_bytes()
    if not len(live) or (not graph.offsets and without.head_bytes <= int(live.max())):
        return []
    offsets, packing = plan_of(ordered, wishes)
    return [Candidate(order, offsets, _expected(ordered, offsets), packing.status, packing.note)]


def plan_of(graph: Graph, wishes: OptimizeOptions) -> tuple[tuple[int, ...], Packing]:
    """An offset for every tensor of the main graph, -1 for none, and the packing that they are from.

    Scratch that kernels ask for and tensors of called graphs are planned along, so that there is room for
    them, but only the interpreter can place them.
    """
    buffers = planned(graph).buffers
    packing = pack(
        buffers, alignment=_ALIGNMENT, time_limit=wishes.time_limit, progress=telling(wishes.progress, "plan")
    )
    check_offsets(buffers, packing.offsets, alignment=_ALIGNMENT)
    return _of_tensors(buffers, packing), packing


def _overlapping(
    graph: Graph, order: tuple[int, ...] | None, without: Arena, wishes: OptimizeOptions
) -> list[Candidate]:
    """A plan with overlaps, if one can need less than what is known already."""
    ordered = reordered(graph, order)
    head = planned(ordered)
    allowed = overlaps(ordered, head)
    if not allowed or without.head_bytes <= lowest(head.buffers, allowed):
        return []
    packing = pack_overlapping(
        head.buffers,
        allowed,
        alignment=_ALIGNMENT,
        time_limit=wishes.time_limit,
        progress=telling(wishes.progress, "plan"),
    )
    check_overlapping(head.buffers, packing.offsets, allowed, alignment=_ALIGNMENT)
    offsets = _of_tensors(head.buffers, packing)
    expected = _expected(ordered, offsets, overlap=True)
    shared = shared_results(head.buffers, packing.offsets, allowed)
    return [Candidate(order, offsets, expected, packing.status, packing.note, len(shared))]


def _of_tensors(buffers: Buffers, packing: Packing) -> tuple[int, ...]:
    return tuple(_ONLINE if buffer < 0 else int(packing.offsets[buffer]) for buffer in buffers.of_tensor)
