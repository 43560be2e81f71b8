"""Searches schedules and memory plans for a file, ranked by the arena that TFLite Micro reports."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from sizeup.backends.tflm import Build, arena, head_buffers
from sizeup.backends.tflm.as_run import without_derived_constants
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.backends.tflm.overlap import overlaps
from sizeup.errors import Incomplete, InvalidPlan, RunFailed
from sizeup.formats.tflite.write import rewrite
from sizeup.graph import Graph
from sizeup.memory import buffer_liveness, check_offsets
from sizeup.memory.check import check_overlapping
from sizeup.memory.liveness import Buffers
from sizeup.memory.overlap_packing import overlap_lower_bound, overlapped_outputs, pack_overlapping
from sizeup.memory.packing import Packing, pack
from sizeup.memory.schedule import find_schedule, peak_bytes, search_progress, with_schedule
from sizeup.memory.schedule_problem import Schedule
from sizeup.rewrite.result import OptimizeOptions
from sizeup.rewrite.split import SplitModel
from sizeup.rewrite.verify import Verifier
from sizeup.runtimes import Arena


class Arrangement(NamedTuple):
    """A file with another schedule or memory plan, and its arena if known."""

    content: bytes
    schedule: tuple[int, ...] | None
    plan_status: str | None  # None: no new plan
    arena: Arena | None
    peak_bytes: int
    overlaps: int = 0  # outputs that share bytes with an input that is not used afterwards
    total_bytes: int | None = None  # of the arena, measured or predicted, on the target if there is one
    split: SplitModel | None = None  # segments that run in strips


class Arrangements(NamedTuple):
    """The arrangements that are better than the file, best first, and the result of the schedule search."""

    better: list[Arrangement]
    best_schedule: Schedule | None
    has_better_schedule: bool  # whether a schedule has a lower peak than file order
    notes: list[str]


def arrangements(
    content: bytes, graph: Graph, options: OptimizeOptions, verifier: Verifier | None, current: Arena | None
) -> Arrangements:
    """All schedules and plans that need less memory: measured if TFLite Micro verifies, else predicted."""
    if verifier is None or verifier.honors_plans:
        try:
            return _tflm_arrangements(content, graph, options, verifier, current)
        except Incomplete as error:
            return schedule_arrangements(content, graph, options, [str(error)])
    return schedule_arrangements(content, graph, options, [])


def schedule_arrangements(
    content: bytes, graph: Graph, options: OptimizeOptions, notes: list[str]
) -> Arrangements:
    """The schedule with the lowest peak, for runtimes that do not use a stored memory plan."""
    if not options.reorder:
        return Arrangements([], None, False, notes)
    best_schedule = find_schedule(
        graph, aliases=True, time_limit=options.time_limit, progress=options.progress
    )
    if best_schedule.peak_bytes >= peak_bytes(graph):
        return Arrangements([], best_schedule, False, notes)
    new = Arrangement(
        rewrite(content, schedule=best_schedule.ops),
        best_schedule.ops,
        None,
        None,
        best_schedule.peak_bytes,
    )
    return Arrangements([new], best_schedule, True, notes)


def _tflm_arrangements(
    content: bytes, graph: Graph, options: OptimizeOptions, verifier: Verifier | None, current: Arena | None
) -> Arrangements:
    search_result = search(graph, options)
    unchanged, *others = search_result.candidates
    notes: list[str] = []
    current = current or unchanged.expected
    least = (current.total_bytes, peak_bytes(graph))
    ranked = []
    for candidate in others:
        written = rewrite(content, schedule=candidate.schedule, offline_offsets=candidate.offsets)
        arena = candidate.expected if verifier is None else measured_arena(verifier, written, notes)
        peak = peak_bytes(with_schedule(graph, candidate.schedule))
        if arena is not None and (arena.total_bytes, peak) < least:
            new = Arrangement(
                written,
                candidate.schedule,
                candidate.plan_status,
                arena,
                peak,
                candidate.overlaps,
                arena.total_bytes,
            )
            ranked.append(((arena.total_bytes, peak), candidate.changes, new))
    ranked.sort(key=lambda entry: entry[:2])
    better = [entry[2] for entry in ranked]
    notes += dict.fromkeys(candidate.note for candidate in others if candidate.note)
    if search_result.has_better_schedule and not any(entry.schedule for entry in better):
        notes.append("a schedule with a lower peak exists, but it does not reduce the arena")
    return Arrangements(better, search_result.best_schedule, search_result.has_better_schedule, notes)


def measured_arena(verifier: Verifier, content: bytes, notes: list[str]) -> Arena | None:
    """The arena of a file in the interpreter; None, with a note, if it does not load."""
    try:
        return verifier.load(content).arena
    except RunFailed as error:
        notes.append(f"a schedule or memory plan was skipped: {error}")
        return None


_ALIGNMENT = 16
_ONLINE = -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule and a memory plan (None: unchanged), and the predicted arena."""

    schedule: tuple[int, ...] | None
    offsets: tuple[int, ...] | None
    expected: Arena
    plan_status: str | None = None
    note: str = ""  # how to get a better plan
    overlaps: int = 0  # outputs that share bytes with an input that is not used afterwards

    @property
    def changes(self) -> int:
        """The amount of change, as a tie-breaker; overlaps, which some kernels do not support, weigh most."""
        return (self.schedule is not None) + (self.offsets is not None) + 3 * (self.overlaps > 0)


@dataclass(frozen=True, slots=True)
class Search:
    """The candidates, the unchanged file first, and the result of the schedule search."""

    candidates: tuple[Candidate, ...]
    best_schedule: Schedule | None
    has_better_schedule: bool  # whether a schedule has a lower peak than file order in TFLite Micro


def search(graph: Graph, options: OptimizeOptions) -> Search:
    """All candidates that may need less memory than the file; raises Incomplete if sizes depend on data."""
    if graph.offsets and not options.verify and arena(graph).tail_unknown_reason:
        options = replace(options, plan=False)  # unknown kernels may depend on the existing plan
    best_schedule, is_better = None, False
    schedules: list[tuple[int, ...] | None] = [None]
    if options.reorder and graph.ops:
        as_run = without_derived_constants(graph)
        best_schedule = find_schedule(
            as_run, aliases=False, time_limit=options.time_limit, progress=options.progress
        )
        is_better = best_schedule.peak_bytes < int(buffer_liveness(as_run, aliases=False).live_bytes().max())
        schedules += [best_schedule.ops] if is_better else []
    candidates = [Candidate(None, None, _unchanged_arena(graph))]
    for schedule in schedules:
        unplanned = _without_plan(graph, schedule)
        if schedule is not None or (options.plan and unplanned.offsets is not None):
            candidates.append(unplanned)
        if options.plan:
            candidates += _plan_candidates(graph, schedule, unplanned.expected, options)
        if options.plan and options.overlap:
            candidates += _overlap_candidates(graph, schedule, candidates[-1].expected, options)
    return Search(tuple(candidates), best_schedule, is_better)


def _unchanged_arena(graph: Graph) -> Arena:
    """The arena with the plan of the file, if the interpreter accepts it."""
    with suppress(InvalidPlan):
        return _expected(graph, graph.offsets or None, overlap=True)
    return _expected(graph)


def _without_plan(graph: Graph, schedule: tuple[int, ...] | None) -> Candidate:
    """A candidate without a plan: the plan of the file may be worse than none."""
    online = (_ONLINE,) * len(graph.tensors) if graph.offsets else None
    return Candidate(schedule, online, _expected(with_schedule(graph, schedule)))


def predicted(graph: Graph, offsets: Sequence[int] | None = None) -> Arena | None:
    """The predicted arena of a file; None if a kernel's memory is not known."""
    try:
        tflm_arena = arena(graph, offsets=offsets, overlap=True)
    except (Incomplete, InvalidPlan):
        return None
    return (
        None if tflm_arena.tail_bytes_64 is None else Arena(tflm_arena.head_bytes, tflm_arena.tail_bytes_64)
    )


def overlapping(graph: Graph) -> tuple[int, str | None]:
    """The number of tensors that overlap live tensors in the file's plan, and the kernels it is valid for."""
    if not graph.offsets:
        return 0, None
    try:
        tflm_arena = arena(graph, offsets=graph.offsets, overlap=True)
    except (Incomplete, InvalidPlan):
        return 0, None
    return tflm_arena.overlapping_tensors, tflm_arena.valid_kernels


def plan_problem(graph: Graph) -> str | None:
    """Why TFLite Micro runs a file wrongly with its plan; None if unknown kernels may rely on the plan."""
    try:
        if graph.offsets and not arena(graph).tail_unknown_reason:
            arena(graph, offsets=graph.offsets, overlap=True)
    except Incomplete:
        return None
    except InvalidPlan as error:
        return str(error)
    return None


def _expected(graph: Graph, offsets: Sequence[int] | None = None, *, overlap: bool = False) -> Arena:
    tflm_arena = arena(graph, offsets=offsets, overlap=overlap)
    return Arena(tflm_arena.head_bytes, tflm_arena.tail_bytes_64 or 0)


def _plan_candidates(
    graph: Graph, schedule: tuple[int, ...] | None, without: Arena, options: OptimizeOptions
) -> list[Candidate]:
    """A candidate with a plan, if a plan can need less memory than the interpreter's own (`without`).

    A file with a plan always gets a new one, since `without` is not its current arena.
    """
    ordered = with_schedule(graph, schedule)
    live = head_buffers(ordered).buffers.live_bytes()
    if not len(live) or (not graph.offsets and without.head_bytes <= int(live.max())):
        return []
    offsets, packing = plan_of(ordered, options)
    return [Candidate(schedule, offsets, _expected(ordered, offsets), packing.status, packing.note)]


def plan_of(
    graph: Graph, options: OptimizeOptions, build: Build = PYTHON_PACKAGE
) -> tuple[tuple[int, ...], Packing]:
    """An offset per tensor of the main graph (-1: not planned), and the packing.

    Kernel scratch and tensors of called graphs are part of the packing, so that there is space for them, but
    only the interpreter can place them.
    """
    buffers = head_buffers(graph, build=build).buffers
    packing = pack(
        buffers,
        alignment=_ALIGNMENT,
        time_limit=options.time_limit,
        progress=search_progress(options.progress, "plan"),
    )
    check_offsets(buffers, packing.offsets, alignment=_ALIGNMENT)
    return _tensor_offsets(buffers, packing), packing


def _overlap_candidates(
    graph: Graph, schedule: tuple[int, ...] | None, without: Arena, options: OptimizeOptions
) -> list[Candidate]:
    """A candidate with overlaps, if that can need less memory than `without`."""
    ordered = with_schedule(graph, schedule)
    plan = overlap_plan_of(ordered, options, without.head_bytes)
    if plan is None:
        return []
    offsets, packing, count = plan
    expected = _expected(ordered, offsets, overlap=True)
    return [Candidate(schedule, offsets, expected, packing.status, packing.note, count)]


def overlap_plan_of(
    graph: Graph, options: OptimizeOptions, head_bytes: int, build: Build = PYTHON_PACKAGE
) -> tuple[tuple[int, ...], Packing, int] | None:
    """An offset per tensor, the packing and the number of overlaps; None if no head can be smaller."""
    head = head_buffers(graph, build=build)
    allowed = overlaps(graph, head)
    if not allowed or head_bytes <= overlap_lower_bound(head.buffers, allowed):
        return None
    packing = pack_overlapping(
        head.buffers,
        allowed,
        alignment=_ALIGNMENT,
        time_limit=options.time_limit,
        progress=search_progress(options.progress, "plan"),
    )
    check_overlapping(head.buffers, packing.offsets, allowed, alignment=_ALIGNMENT)
    shared = overlapped_outputs(head.buffers, packing.offsets, allowed)
    return _tensor_offsets(head.buffers, packing), packing, len(shared)


def _tensor_offsets(buffers: Buffers, packing: Packing) -> tuple[int, ...]:
    return tuple(
        _ONLINE if buffer < 0 else int(packing.offsets[buffer]) for buffer in buffers.buffer_of_tensor
    )
