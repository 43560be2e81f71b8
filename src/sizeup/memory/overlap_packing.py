"""Memory plans in which an output may overlap an input that is not used afterwards.

Two buffers that are live at once exclude open intervals of the distance between their offsets: from minus
the size of one to the size of the other, or less if they may overlap. First fit from the last op to the first
follows chains of such pairs well. If the result is above the lower bound, CP-SAT continues.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sizeup.memory.check import AddressRanges, Overlap, check_overlapping, live_changes
from sizeup.memory.liveness import Buffers, Column
from sizeup.memory.packing import (
    FIRST_WORK,
    INSTALL_HINT,
    Packing,
    Progress,
    limited_solver,
    pack,
    packing_height,
)

# Limits on the pairs of buffers that are live at once: for the solver, and for listing them at all.
_MAX_SOLVER_PAIRS = 20_000
_MAX_PAIRS = 200_000

# Open intervals that the difference of two offsets must avoid.
_Gaps = tuple[tuple[int, int], ...]
_Solution = tuple[int, tuple[int, ...]]  # height, offsets


def pack_overlapping(
    buffers: Buffers,
    overlaps: Sequence[Overlap],
    *,
    alignment: int = 1,
    time_limit: float = 10.0,
    progress: Progress | None = None,
) -> Packing:
    """The smallest packing found within the time limit, with a lower bound for these overlaps.

    Time grows with the pairs of buffers that are live at once. Above 200,000 pairs no overlap is used.
    """
    started = time.monotonic()
    sizes = replace(buffers, size=-(-buffers.size // alignment) * alignment)
    relevant = [
        _aligned(overlap, alignment)
        for overlap in overlaps
        if buffers.size[overlap.source] and buffers.size[overlap.result]
    ]
    bound = overlap_lower_bound(sizes, relevant)
    if _pairs(sizes) > _MAX_PAIRS:
        disjoint = pack(buffers, alignment=alignment, time_limit=time_limit, progress=progress)
        return replace(disjoint, lower_bound=min(bound, disjoint.height))
    conflicts = _conflicts(sizes, relevant)
    best = min(_first_fit(sizes, conflicts, order) for order in _orders(sizes))
    method, note = "first fit", ""
    if best[0] > bound and _pairs(sizes) <= _MAX_SOLVER_PAIRS:
        solution = _solve(sizes, conflicts, best, bound, started + time_limit, progress)
        if solution is None:
            note = INSTALL_HINT
        else:
            best, bound, method = solution
    check_overlapping(buffers, best[1], overlaps, alignment=alignment)
    return Packing(best[1], best[0], bound, time.monotonic() - started, method, note)


def _pairs(buffers: Buffers) -> int:
    """The number of pairs of buffers that are live at once."""
    first, last = np.sort(buffers.first), np.sort(buffers.last)
    return int(np.arange(len(first)).sum() - np.searchsorted(last, first).sum())


def _aligned(overlap: Overlap, alignment: int) -> Overlap:
    return overlap._replace(distance=-(-overlap.distance // alignment) * alignment)


def overlap_lower_bound(buffers: Buffers, overlaps: Sequence[Overlap]) -> int:
    """A lower bound of all packings: the maximum over steps of the bytes covered."""
    if not buffers.steps or not len(buffers):
        return 0
    return int(covered_bytes(buffers, overlaps).max())


def covered_bytes(buffers: Buffers, overlaps: Sequence[Overlap]) -> Column:
    """Per step, a lower bound of the bytes that its live buffers cover."""
    live = buffers.live_bytes().copy()
    sources: dict[int, list[Overlap]] = {}
    for overlap in overlaps:
        sources.setdefault(overlap.result, []).append(overlap)
    for result, group in sources.items():
        output = int(buffers.size[result])
        inputs = [int(buffers.size[overlap.source]) for overlap in group]
        shared = sum(
            size + output - min(size + output, max(output, max(overlap.distance, 0) + size))
            for overlap, size in zip(group, inputs, strict=True)
        )
        # Inputs do not overlap each other, so the saving is at most the output or all inputs.
        live[buffers.first[result]] -= min(shared, output, sum(inputs))
    return live


def overlapped_outputs(buffers: Buffers, offsets: Sequence[int], overlaps: Sequence[Overlap]) -> set[int]:
    """The outputs that share bytes with an input in this plan."""
    return {
        overlap.result
        for overlap in overlaps
        if -buffers.size[overlap.source]
        < offsets[overlap.source] - offsets[overlap.result]
        < buffers.size[overlap.result]
    }


def overlapping_buffers(buffers: Buffers, offsets: Sequence[int]) -> set[int]:
    """The buffers that share bytes with a live buffer when they become live."""
    overlapping = set()
    ranges, sizes = AddressRanges(), buffers.size.tolist()
    for added, removed in live_changes(buffers):
        for buffer in removed:
            ranges.remove(offsets[buffer], offsets[buffer] + sizes[buffer])
        for buffer in added:
            occupied = offsets[buffer], offsets[buffer] + sizes[buffer]
            if ranges.count(*occupied):
                overlapping.add(buffer)
            ranges.add(*occupied)
    return overlapping


def _conflicts(buffers: Buffers, overlaps: Sequence[Overlap]) -> list[dict[int, _Gaps]]:
    """Per buffer, the buffers live at the same time, with the excluded differences of the offsets."""
    permitted = {(index.source, index.result): index for index in overlaps}
    conflicts: list[dict[int, _Gaps]] = [{} for _ in range(len(buffers))]
    sizes, firsts, lasts = (column.tolist() for column in (buffers.size, buffers.first, buffers.last))
    live: list[int] = []
    for buffer in sorted(
        (index for index in range(len(sizes)) if sizes[index]), key=lambda index: firsts[index]
    ):
        live = [other for other in live if lasts[other] >= firsts[buffer]]
        for other in live:
            overlap = permitted.get((other, buffer)) or permitted.get((buffer, other))
            gaps: _Gaps = ((-sizes[other], sizes[buffer]),)  # offset of other minus offset of buffer
            if overlap is not None:
                gaps = _gaps(overlap, sizes)
                if overlap.source == buffer:
                    gaps = _negated(gaps)
            conflicts[other][buffer] = gaps
            conflicts[buffer][other] = _negated(gaps)
        live.append(buffer)
    return conflicts


def _gaps(overlap: Overlap, sizes: Sequence[int]) -> _Gaps:
    """The excluded differences: offset of the source minus offset of the result."""
    below, above = -sizes[overlap.source], sizes[overlap.result]
    if overlap.in_place:
        return ((below, 0), (0, above))
    return ((below, min(overlap.distance, above)),) if overlap.distance > below else ()


def _negated(gaps: _Gaps) -> _Gaps:
    return tuple((-high, -low) for low, high in gaps)


def _orders(buffers: Buffers) -> Iterator[list[int]]:
    size, first, last = (column.tolist() for column in (buffers.size, buffers.first, buffers.last))
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda b: (-last[b], -size[b]),
        lambda b: (-first[b], -size[b]),
        lambda b: (-size[b], -first[b]),
        lambda b: (first[b] - last[b], -last[b]),
        lambda b: (first[b], -size[b]),
    )
    for key in keys:
        yield sorted((buffer for buffer in range(len(size)) if size[buffer]), key=key)


def _first_fit(buffers: Buffers, conflicts: list[dict[int, _Gaps]], order: list[int]) -> _Solution:
    """Put each buffer at the lowest offset that is compatible with those placed before."""
    offsets = [0] * len(buffers)
    placed = [False] * len(buffers)
    height = 0
    for buffer in order:
        excluded = sorted(
            (offsets[other] + low, offsets[other] + high)
            for other, gaps in conflicts[buffer].items()
            if placed[other]
            for low, high in gaps
        )
        offset = 0
        for low, high in excluded:  # sorted: intervals that start at or above the offset cannot exclude it
            if low < offset < high:
                offset = high
        offsets[buffer], placed[buffer] = offset, True
        height = max(height, offset + int(buffers.size[buffer]))
    return height, tuple(offsets)


def _solve(
    buffers: Buffers,
    conflicts: list[dict[int, _Gaps]],
    best: _Solution,
    bound: int,
    deadline: float,
    progress: Progress | None,
) -> tuple[_Solution, int, str] | None:
    """The best packing, the proven lower bound and the method; None without a solver.

    The time to load the solver is added to the deadline.
    """
    started = time.monotonic()
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    deadline += time.monotonic() - started
    if progress is not None:
        progress(bound, best[0])
    unit = int(np.gcd.reduce(list(_numbers(buffers.size, conflicts))))
    model = cp_model.CpModel()
    height = model.new_int_var(-(-bound // unit), best[0] // unit, "")
    starts = _model(model, buffers.size // unit, conflicts, unit, height, best)
    model.minimize(height)
    # The first attempt is the same on every machine, so that the same file gets the same plan.
    for workers, work in ((1, FIRST_WORK), (2, math.inf)):
        solver = limited_solver(deadline - time.monotonic(), workers=workers, work=work)
        status = solver.solve(model)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            offsets = tuple(unit * solver.value(starts[b]) if b in starts else 0 for b in range(len(buffers)))
            best = min(best, (packing_height(buffers, offsets), offsets))
            bound = max(bound, unit * round(solver.best_objective_bound))
        if status == cp_model.OPTIMAL or time.monotonic() > deadline:
            break
    return best, min(bound, best[0]), "CP-SAT"


def _numbers(sizes: Column, conflicts: list[dict[int, _Gaps]]) -> Iterator[int]:
    """All lengths; offsets are sums of these."""
    yield from sizes.tolist()
    for others in conflicts:
        for gaps in others.values():
            for gap in gaps:
                yield from gap


def _model(
    model: Any, sizes: Column, conflicts: list[dict[int, _Gaps]], unit: int, height: Any, best: _Solution
) -> dict[int, Any]:
    """Add variables and constraints to the solver model; returns the offset variables."""
    starts = {}
    for buffer, size in enumerate(sizes.tolist()):
        if size:
            starts[buffer] = model.new_int_var(0, best[0] // unit - size, "")
            model.add(starts[buffer] + size <= height)
            model.add_hint(starts[buffer], best[1][buffer] // unit)
    for buffer, others in enumerate(conflicts):
        for other, gaps in others.items():
            if other < buffer:
                continue
            difference = starts[buffer] - starts[other]
            for low, high in gaps:
                above = model.new_bool_var("")
                model.add(difference >= high // unit).only_enforce_if(above)
                model.add(difference <= low // unit).only_enforce_if(~above)
    return starts
