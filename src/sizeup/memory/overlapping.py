"""Where to put buffers of which some may overlap: an output that follows its dying input through memory.

Of two buffers that are in use at once, places are forbidden to each other as open intervals of the distance
between them: for most pairs from minus the size of one to the size of the other, for those that may overlap
less. First fit from the last operator to the first follows chains of such pairs well; what stays above the
bound is asked of CP-SAT, pair by pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sizeup.memory.arena import Packing, Progress, height_of, pack
from sizeup.memory.check import Overlap, check_overlapping
from sizeup.memory.liveness import Buffers, Column

_INSTALL = "pip install 'sizeup[solve]' proves more"
# Pairs in use at once: more of them the solver would not even read in time, or would take minutes to list.
_MOST_ASKED = 20_000
_MOST_PAIRS = 200_000

# What the offset of a buffer minus that of another must not be, ends excluded.
_Gaps = tuple[tuple[int, int], ...]
_Placed = tuple[int, tuple[int, ...]]  # height, offsets


def pack_overlapping(
    buffers: Buffers,
    overlaps: Sequence[Overlap],
    *,
    alignment: int = 1,
    time_limit: float = 10.0,
    progress: Progress | None = None,
) -> Packing:
    """The lowest packing found in time, with a bound below which no packing with these overlaps goes.

    The work grows with the pairs of buffers that are in use at once; where they are too many, no overlap is
    used.
    """
    started = time.monotonic()
    sizes = replace(buffers, size=-(-buffers.size // alignment) * alignment)
    used = [
        _aligned(each, alignment)
        for each in overlaps
        if buffers.size[each.source] and buffers.size[each.result]
    ]
    bound = lowest(sizes, used)
    if _pairs(sizes) > _MOST_PAIRS:
        plain = pack(buffers, alignment=alignment, time_limit=time_limit, progress=progress)
        return replace(plain, lower_bound=min(bound, plain.height))
    conflicts = _conflicts(sizes, used)
    best = min(_first_fit(sizes, conflicts, order) for order in _orders(sizes))
    method, note = "first fit", ""
    if best[0] > bound and _pairs(sizes) <= _MOST_ASKED:
        asked = _ask_solver(sizes, conflicts, best, bound, started + time_limit, alignment, progress)
        if asked is None:
            note = _INSTALL
        else:
            best, bound, method = asked
    check_overlapping(buffers, best[1], overlaps, alignment=alignment)
    return Packing(best[1], best[0], bound, time.monotonic() - started, method, note)


def _pairs(buffers: Buffers) -> int:
    """How many pairs of buffers are in use at once: those that began before one, less those that ended."""
    first, last = np.sort(buffers.first), np.sort(buffers.last)
    return int(np.arange(len(first)).sum() - np.searchsorted(last, first).sum())


def _aligned(overlap: Overlap, alignment: int) -> Overlap:
    return overlap._replace(distance=-(-overlap.distance // alignment) * alignment)


def lowest(buffers: Buffers, overlaps: Sequence[Overlap]) -> int:
    """What no packing goes below: the bytes that are covered while each operator runs."""
    if not buffers.steps or not len(buffers):
        return 0
    live = buffers.live_bytes().copy()
    sources: dict[int, list[Overlap]] = {}
    for each in overlaps:
        sources.setdefault(each.result, []).append(each)
    for result, group in sources.items():
        output = int(buffers.size[result])
        inputs = [int(buffers.size[each.source]) for each in group]
        shared = sum(
            size + output - min(size + output, max(output, max(each.distance, 0) + size))
            for each, size in zip(group, inputs, strict=True)
        )
        # Inputs share nothing among themselves, so neither all of them nor the output can be saved.
        live[buffers.first[result]] -= min(shared, output, sum(inputs))
    return int(live.max())


def shared_results(buffers: Buffers, offsets: Sequence[int], overlaps: Sequence[Overlap]) -> set[int]:
    """The outputs that really share bytes with an input."""
    return {
        each.result
        for each in overlaps
        if -buffers.size[each.source]
        < offsets[each.source] - offsets[each.result]
        < buffers.size[each.result]
    }


def sharing(buffers: Buffers, offsets: Sequence[int]) -> set[int]:
    """The buffers that lie, when they come into use, over bytes of another that is in use.

    All pairs in use at once are compared.
    """
    found = set()
    in_use: list[int] = []
    starts, sizes, lasts = list(offsets), buffers.size.tolist(), buffers.last.tolist()
    order = np.argsort(buffers.first, kind="stable").tolist()
    for buffer in (each for each in order if sizes[each]):
        in_use = [other for other in in_use if lasts[other] >= buffers.first[buffer]]
        start, end = starts[buffer], starts[buffer] + sizes[buffer]
        if any(starts[other] < end and start < starts[other] + sizes[other] for other in in_use):
            found.add(buffer)
        in_use.append(buffer)
    return found


def _conflicts(buffers: Buffers, overlaps: Sequence[Overlap]) -> list[dict[int, _Gaps]]:
    """For every buffer those in use at the same time, with the forbidden offsets of it from them."""
    leaves = {(each.source, each.result): each for each in overlaps}
    found: list[dict[int, _Gaps]] = [{} for _ in range(len(buffers))]
    sizes, firsts, lasts = (column.tolist() for column in (buffers.size, buffers.first, buffers.last))
    in_use: list[int] = []
    for buffer in sorted((each for each in range(len(sizes)) if sizes[each]), key=lambda each: firsts[each]):
        in_use = [other for other in in_use if lasts[other] >= firsts[buffer]]
        for other in in_use:
            leave = leaves.get((other, buffer)) or leaves.get((buffer, other))
            gaps: _Gaps = ((-sizes[other], sizes[buffer]),)  # of the other's offset from this one's
            if leave is not None:
                gaps = _gaps(leave, sizes)
                if leave.source == buffer:
                    gaps = _turned(gaps)
            found[other][buffer] = gaps
            found[buffer][other] = _turned(gaps)
        in_use.append(buffer)
    return found


def _gaps(leave: Overlap, sizes: Sequence[int]) -> _Gaps:
    """The forbidden offsets of the source from the result."""
    below, above = -sizes[leave.source], sizes[leave.result]
    if leave.in_place:
        return ((below, 0), (0, above))
    return ((below, min(leave.distance, above)),) if leave.distance > below else ()


def _turned(gaps: _Gaps) -> _Gaps:
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
        yield sorted((each for each in range(len(size)) if size[each]), key=key)


def _first_fit(buffers: Buffers, conflicts: list[dict[int, _Gaps]], order: list[int]) -> _Placed:
    """Each buffer in turn at the lowest offset that nothing placed before forbids."""
    offsets = [0] * len(buffers)
    placed = [False] * len(buffers)
    height = 0
    for buffer in order:
        taken = sorted(
            (offsets[other] + low, offsets[other] + high)
            for other, gaps in conflicts[buffer].items()
            if placed[other]
            for low, high in gaps
        )
        offset = 0
        for low, high in taken:  # whatever begins at or above the place cannot forbid it
            if low < offset < high:
                offset = high
        offsets[buffer], placed[buffer] = offset, True
        height = max(height, offset + int(buffers.size[buffer]))
    return height, tuple(offsets)


def _ask_solver(
    buffers: Buffers,
    conflicts: list[dict[int, _Gaps]],
    best: _Placed,
    bound: int,
    deadline: float,
    alignment: int,
    progress: Progress | None,
) -> tuple[_Placed, int, str] | None:
    """The best packing, the proven bound and a word for how; None without a solver."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    if progress is not None:
        progress(bound, best[0])
    unit = int(np.gcd.reduce([*_numbers(buffers.size, conflicts), 0])) or alignment
    model = cp_model.CpModel()
    height = model.new_int_var(-(-bound // unit), best[0] // unit, "")
    starts = _model(model, buffers.size // unit, conflicts, unit, height, best)
    model.minimize(height)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(deadline - time.monotonic(), 0.1)
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = tuple(unit * solver.value(starts[b]) if b in starts else 0 for b in range(len(buffers)))
        best = min(best, (height_of(buffers, found), found))
        bound = max(bound, unit * round(solver.best_objective_bound))
    return best, min(bound, best[0]), "CP-SAT"


def _numbers(sizes: Column, conflicts: list[dict[int, _Gaps]]) -> Iterator[int]:
    """All lengths of which offsets are sums."""
    yield from sizes.tolist()
    for others in conflicts:
        for gaps in others.values():
            for gap in gaps:
                yield from gap


def _model(
    model: Any, sizes: Column, conflicts: list[dict[int, _Gaps]], unit: int, height: Any, known: _Placed
) -> dict[int, Any]:
    """Say it all to the solver; returns the variables of the offsets."""
    starts = {}
    for buffer, size in enumerate(sizes.tolist()):
        if size:
            starts[buffer] = model.new_int_var(0, known[0] // unit - size, "")
            model.add(starts[buffer] + size <= height)
            model.add_hint(starts[buffer], known[1][buffer] // unit)
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
