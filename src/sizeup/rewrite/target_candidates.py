"""Searches schedules and memory plans for the kernels of a target, ranked by its exact arena."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sizeup.backends import backend_of
from sizeup.backends.tflm import Build, arena, head_buffers
from sizeup.backends.tflm.as_run import graph_as_run
from sizeup.backends.tflm.builds import TargetArena, arena_of
from sizeup.backends.tflm.layout import ALIGNMENT
from sizeup.formats.tflite.write import ONLINE, rewrite
from sizeup.graph import Graph
from sizeup.memory.packing import INSTALL_HINT
from sizeup.memory.schedule import find_schedule, peak_bytes, with_schedule
from sizeup.memory.schedule_problem import Schedule
from sizeup.rewrite.candidates import (
    Arrangement,
    Arrangements,
    overlap_plan_of,
    plan_of,
    schedule_arrangements,
)
from sizeup.rewrite.result import OptimizeOptions
from sizeup.targets import Target


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The offsets to store in a file; None: the file has no plan and gets none."""

    offsets: tuple[int, ...] | None
    status: str | None = None  # None: tensors are planned by the interpreter
    note: str = ""
    overlaps: int = 0


def target_arrangements(
    content: bytes, graph: Graph, options: OptimizeOptions, target: Target
) -> Arrangements:
    """The schedules and plans with which a file needs a smaller arena on a target, best first.

    If the core of the target is not known, none of its possible builds needs more.
    """
    if not backend_of(target).honors_plans:
        notes = []
        if options.plan:
            notes = [f"no memory plan was written: {target.runtime.name} does not use plans stored in files"]
        return schedule_arrangements(content, graph, options, notes)
    target_arena = arena_of(target)
    current = target_arena.sizes(graph, graph.offsets or None, overlap=True)
    if current is None:
        reason = arena(graph).tail_unknown_reason or "its memory plan is not valid"
        note = f"schedule and memory plan were not changed: the arena on {target.name} is not known: {reason}"
        return Arrangements([], None, False, [note])
    best_schedule, is_better = _find_schedule(graph, options, target_arena.builds[-1])
    schedules = [None, best_schedule.ops] if best_schedule is not None and is_better else [None]
    ranked, tried, notes = [], [], []
    is_proven = best_schedule is None or best_schedule.status == "optimal"
    for schedule in schedules:
        ordered = with_schedule(graph, schedule)
        for plan in plans(ordered, options, target_arena, is_reordered=schedule is not None):
            sizes = target_arena.sizes(ordered, plan.offsets, overlap=plan.overlaps > 0)
            if sizes is None:
                continue
            tried.append(max(sizes))
            is_proven &= plan.status in (None, "optimal")
            notes += [plan.note] if plan.note and plan.note not in notes else []
            if max(sizes) < max(current) and all(map(int.__le__, sizes, current)):
                peak = peak_bytes(ordered)
                changes = (schedule is not None) + (plan.status is not None) + 3 * (plan.overlaps > 0)
                written = rewrite(content, schedule=schedule, offline_offsets=plan.offsets)
                new = Arrangement(written, schedule, plan.status, None, peak, plan.overlaps, max(sizes))
                ranked.append(((max(sizes), sum(sizes), peak, changes), new))
    ranked.sort(key=lambda entry: entry[0])
    if not ranked:
        notes.insert(0, _unchanged(target, max(current), tried, _finding(is_proven, notes)))
    return Arrangements([new for _, new in ranked], best_schedule, is_better, notes)


def _finding(is_proven: bool, notes: list[str]) -> str:
    """What the search established, and what ended it if that is not a proof."""
    if is_proven:
        return "no change reduces the arena"
    limit = "without a solver" if INSTALL_HINT in notes else "in --search-limit"
    return f"no change that reduces the arena was found {limit}"


def _unchanged(target: Target, current: int, tried: list[int], finding: str) -> str:
    best = f"; the best other schedule or memory plan needs {min(tried):,} B" if tried else ""
    kernels = backend_of(target).kernel_library
    return f"{finding} on {target.name}: it is {current:,} B with {kernels} kernels{best}"


def plans(
    graph: Graph, options: OptimizeOptions, target_arena: TargetArena, *, is_reordered: bool
) -> Iterator[StoredPlan]:
    """The plans to try in the schedule of a graph: none, and one packed for each build."""
    if is_reordered or (options.plan and graph.offsets):
        yield StoredPlan((ONLINE,) * len(graph.tensors) if graph.offsets else None)
    if not options.plan:
        return
    for build in target_arena.builds:
        least = head = arena(graph, firmware=build).head_bytes
        if graph.offsets or head > _live_bytes(graph, build):
            offsets, packing = plan_of(graph, options, build)
            least = min(head, packing.height)
            yield StoredPlan(offsets, packing.status, packing.note)
        overlapped = overlap_plan_of(graph, options, least, build) if options.overlap else None
        if overlapped is not None:
            offsets, packing, count = overlapped
            yield StoredPlan(offsets, packing.status, packing.note, count)


def _find_schedule(graph: Graph, options: OptimizeOptions, build: Build) -> tuple[Schedule | None, bool]:
    """The schedule with the lowest peak including kernel scratch, and whether it is below file order."""
    if not options.reorder or not graph.ops:
        return None, False
    schedule = find_schedule(
        graph_as_run(graph, build),
        aliases=False,
        time_limit=options.time_limit,
        progress=options.progress,
        alignment=ALIGNMENT,
    )
    planned = _live_bytes(with_schedule(graph, schedule.ops), build)
    return schedule, planned < _live_bytes(graph, build)


def _live_bytes(graph: Graph, build: Build) -> int:
    live = head_buffers(graph, build=build).buffers.live_bytes()
    return int(live.max()) if len(live) else 0
