"""Heuristic packing by depth-first search in offset order. It cannot prove that no packing exists.

Every packing can be compacted so that each buffer starts at 0 or at the end of another buffer, and then be
built in the order of offsets. The search builds packings in that order and prunes a branch if (1) the
remaining buffers cannot fit above the placed ones at some step, or (2) an unplaced buffer would still fit
below the last placed one, so that another branch has a packing that is no worse. On a dead end it backjumps
to the last placement that is live at the same time as the conflict. This criterion is not exact, so a packing
may be missed. Several tie-breaking rules take turns, each for a limited number of placements, then again and
again with noise: many short attempts find a packing sooner than a few long ones.

Compiled by numba on first use. Memory is quadratic in the number of buffers: 21 bytes per pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

from sizeup.memory.liveness import Buffers, Column

MAX_BUFFERS = 2_000
# Sort keys, largest first: maximum live bytes while a buffer is live, length of its liveness, area.
_RULES = ("fullness length area", "length area fullness", "fullness area length")
_LIMIT, _GROWTH = 3_000, 1.2  # placements per attempt in the first round, and their growth per round
_MAX_PLACEMENTS = 100_000  # upper limit, since time is only checked between attempts
_MAX_STEPS = 40_000_000  # placements times buffers per attempt, about a second
_NOISE = (0.03, 0.15, 0.4)

_Compiled = TypeVar("_Compiled", bound=Callable[..., Any])
_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Flags = np.ndarray[Any, np.dtype[np.bool_]]


def _compile(function: _Compiled) -> _Compiled:
    try:
        compiled: Any = numba.njit(cache=True)(function)
    except RuntimeError:  # no writable cache folder
        compiled = numba.njit(function)
    return cast("_Compiled", compiled)


class _Shape(NamedTuple):
    """The buffers, with time divided into spans without changes; neighbors are live at the same time."""

    size: _Numbers
    birth: _Numbers
    death: _Numbers  # half open
    start: _Numbers  # the neighbors of b are neighbor[start[b]:start[b + 1]]
    neighbor: _Numbers
    spans: int


class _State(NamedTuple):
    """Search state: placed buffers, bounds of the unplaced ones, and one undo row per placement."""

    placed: _Flags
    lowest: _Numbers  # per buffer, the end of the placed neighbors; its offset once it is placed
    ready: _Numbers  # lower bound of the buffer's offset in this branch
    by_ready: _Numbers  # all buffers, sorted by `ready`
    space: _Numbers
    keys: _Numbers
    candidate: np.ndarray[Any, np.dtype[np.int32]]
    candidates: _Numbers
    tried: _Numbers
    level: _Numbers  # offset and rank of the previous placement
    level_rank: _Numbers
    order: _Numbers
    conflicts: _Flags  # [depth, earlier depth]
    undo_buffer: _Numbers
    undo_lowest: _Numbers
    undo_from: _Numbers


def stack(buffers: Buffers, height: int, seconds: float) -> tuple[int, ...] | None:
    """Offsets within a height, or None if none were found within the time limit."""
    if len(buffers) > MAX_BUFFERS or not len(buffers) or int(buffers.size.max()) > height:
        return None
    shape = _shape(buffers)
    _search(shape, height, np.zeros(len(buffers), np.int64), 0, False)  # compile before measuring time
    deadline = time.monotonic() + seconds
    for rank, limit, wide in _attempts(buffers, shape):
        is_packed, addresses = _search(shape, height, rank, limit, wide)
        if is_packed:
            return tuple(addresses.tolist())
        if time.monotonic() > deadline:
            break
    return None


def _shape(buffers: Buffers) -> _Shape:
    cuts = np.unique(np.concatenate([buffers.first, buffers.last + 1]))
    first, end = np.searchsorted(cuts, buffers.first), np.searchsorted(cuts, buffers.last + 1)
    overlaps_in_time = (first[:, None] < end) & (first < end[:, None])
    np.fill_diagonal(overlaps_in_time, val=False)
    start = np.concatenate([[0], np.cumsum(overlaps_in_time.sum(1))])
    return _Shape(
        np.ascontiguousarray(buffers.size), first, end, start, np.nonzero(overlaps_in_time)[1], len(cuts) - 1
    )


def _attempts(buffers: Buffers, shape: _Shape) -> Iterator[tuple[Column, int, bool]]:
    """Endless attempts: tie-breaking ranks, limit of placements, and whether to use the wide conflict set."""
    chance = np.random.default_rng(0)
    live = buffers.live_bytes()
    fullness = [live[first : last + 1].max() for first, last in zip(buffers.first, buffers.last, strict=True)]
    lengths = (buffers.last - buffers.first + 1, shape.death - shape.birth)
    for turn in count():
        noise = _NOISE[turn % len(_NOISE)] if turn else 0.0
        for rule, length, wide in product(_RULES, lengths, (False, True)):
            weight = {"length": length, "area": length * buffers.size, "fullness": np.array(fullness)}
            keys = [weight[word] * np.exp(chance.normal(0, noise, len(buffers))) for word in rule.split()]
            rank = np.empty(len(buffers), np.int64)
            rank[np.lexsort([-key for key in keys[::-1]])] = np.arange(len(buffers))
            yield rank, int(min(_LIMIT * _GROWTH**turn, _MAX_PLACEMENTS, _MAX_STEPS / len(buffers))), wide


@_compile
def _empty_state(count: int, spans: int) -> _State:
    return _State(
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.arange(count),
        np.zeros(spans, np.int64),
        np.zeros(count, np.int64),
        np.zeros((count, count), np.int32),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
        np.zeros(count, np.int64),
        np.zeros((count, count), np.bool_),
        np.zeros(count * count, np.int64),
        np.zeros(count * count, np.int64),
        np.zeros(count + 1, np.int64),
    )


@_compile
def _search(shape: _Shape, height: int, rank: _Numbers, limit: int, wide: bool) -> tuple[bool, _Numbers]:
    count = len(shape.size)
    state = _empty_state(count, shape.spans)
    depth = 0
    for _ in range(limit):
        _enter(shape, state, height, rank, depth, wide)
        while state.tried[depth] == state.candidates[depth]:
            depth = _backjump(state, depth)
            if depth < 0:
                return False, state.lowest
        buffer = state.candidate[depth, state.tried[depth]]
        state.tried[depth] += 1
        _place(shape, state, depth, buffer)
        depth += 1
        if depth == count:
            return True, state.lowest
        state.level[depth] = state.lowest[buffer]
        state.level_rank[depth] = rank[buffer]
    return False, state.lowest


@_compile
def _comes_after(address: int, rank: int, level: int, level_rank: int) -> bool:
    """Whether a placement may follow another: offsets increase, or are equal and ranks increase."""
    return address > level or (address == level and rank > level_rank)


@_compile
def _enter(shape: _Shape, state: _State, height: int, rank: _Numbers, depth: int, wide: bool) -> None:
    """Check the state, list the candidates for the next placement, and record the conflict set."""
    size, spans, birth, death = shape.size, shape.spans, shape.birth, shape.death
    placed, lowest, candidates = state.placed, state.lowest, state.candidates
    lowest_top, slider = height + 1, -1
    for buffer in range(len(size)):
        if not placed[buffer] and lowest[buffer] + size[buffer] < lowest_top:
            lowest_top, slider = lowest[buffer] + size[buffer], buffer
    state.tried[depth] = candidates[depth] = 0
    if slider < 0:  # a single buffer does not fit
        _set_conflicts(shape, state, depth, 0, spans)
        return
    first, end = birth[slider], death[slider]
    if lowest_top > state.level[depth]:
        stuck = _set_ready(shape, state, height, rank, depth)
        if stuck < 0:
            full, above = _find_overfull_span(shape, state, height)
            if full < 0:
                _list_candidates(state, rank, depth, lowest_top)
                if candidates[depth] == 0:
                    first, end = 0, spans
            else:
                first, end = _extent_of_span(shape, state, full, above, wide)
        else:
            first, end = _extent(shape, state, stuck, wide)
    _set_conflicts(shape, state, depth, first, end)


@_compile
def _set_ready(shape: _Shape, state: _State, height: int, rank: _Numbers, depth: int) -> int:
    """Compute the lower bound of each unplaced buffer's offset; returns one that cannot fit, or -1.

    A buffer that was skipped must later be raised by another buffer placed below it.
    """
    size, start, neighbor = shape.size, shape.start, shape.neighbor
    placed, lowest, ready = state.placed, state.lowest, state.ready
    level, level_rank = state.level[depth], state.level_rank[depth]
    for buffer in range(len(size)):
        if placed[buffer]:
            continue
        bound = lowest[buffer]
        if not _comes_after(bound, rank[buffer], level, level_rank):
            bound = height + 1
            for index in range(start[buffer], start[buffer + 1]):
                other = neighbor[index]
                if not placed[other]:
                    top = max(lowest[other], level) + size[other]
                    bound = min(bound, top)
        ready[buffer] = bound
        if bound + size[buffer] > height:
            return buffer
    return -1


@_compile
def _find_overfull_span(shape: _Shape, state: _State, height: int) -> tuple[int, int]:
    """A span whose unplaced buffers do not fit above the lowest of them, and that offset; (-1, 0) if none.

    Checks the buffers in decreasing order of `ready`: their total size against the lowest of them.
    """
    size, birth, death = shape.size, shape.birth, shape.death
    space, by_ready, placed, ready = state.space, state.by_ready, state.placed, state.ready
    _sort_by_ready(state, height)
    space[:] = height
    for buffer in by_ready[::-1]:
        if placed[buffer]:
            continue
        full = -1
        for span in range(birth[buffer], death[buffer]):
            space[span] -= size[buffer]
            if space[span] < ready[buffer]:
                full = span
        if full >= 0:
            return full, ready[buffer]
    return -1, 0


@_compile
def _sort_by_ready(state: _State, height: int) -> None:
    """Insertion sort: the order changes little between placements."""
    by_ready, placed, ready = state.by_ready, state.placed, state.ready
    for index in range(len(by_ready)):
        buffer = by_ready[index]
        if placed[buffer]:
            ready[buffer] = height + 1
        at = index - 1
        while at >= 0 and ready[by_ready[at]] > ready[buffer]:
            by_ready[at + 1] = by_ready[at]
            at -= 1
        by_ready[at + 1] = buffer


@_compile
def _list_candidates(state: _State, rank: _Numbers, depth: int, lowest_top: int) -> None:
    """List the candidates, lowest first, without those that leave space for another buffer below."""
    placed, lowest, keys, candidate = state.placed, state.lowest, state.keys, state.candidate
    level, level_rank = state.level[depth], state.level_rank[depth]
    count = len(placed)
    listed = 0
    for buffer in range(count):
        if placed[buffer] or lowest[buffer] >= lowest_top:
            continue
        if _comes_after(lowest[buffer], rank[buffer], level, level_rank):
            key, at = lowest[buffer] * count + rank[buffer], listed - 1
            while at >= 0 and keys[at] > key:
                keys[at + 1] = keys[at]
                candidate[depth, at + 1] = candidate[depth, at]
                at -= 1
            keys[at + 1] = key
            candidate[depth, at + 1] = buffer
            listed += 1
    state.candidates[depth] = listed


@_compile
def _extent(shape: _Shape, state: _State, buffer: int, wide: bool) -> tuple[int, int]:
    """The time range of the buffers that determine the lower bound of a buffer's offset."""
    birth, death, start, neighbor = shape.birth, shape.death, shape.start, shape.neighbor
    ready, lowest, placed = state.ready, state.lowest, state.placed
    first, end = birth[buffer], death[buffer]
    if wide and ready[buffer] != lowest[buffer]:
        for index in range(start[buffer], start[buffer + 1]):
            other = neighbor[index]
            if not placed[other]:
                first, end = min(first, birth[other]), max(end, death[other])
    return first, end


@_compile
def _extent_of_span(shape: _Shape, state: _State, span: int, above: int, wide: bool) -> tuple[int, int]:
    """The time range for the buffers that overfill a span."""
    spans, size, birth, death = shape.spans, shape.size, shape.birth, shape.death
    placed, ready = state.placed, state.ready
    first, end = spans, 0
    for buffer in range(len(size)):
        in_span = birth[buffer] <= span < death[buffer]
        if in_span and not placed[buffer] and (ready[buffer] >= above or not wide):
            from_, to = _extent(shape, state, buffer, wide)
            first, end = min(first, from_), max(end, to)
    return first, end


@_compile
def _set_conflicts(shape: _Shape, state: _State, depth: int, first: int, end: int) -> None:
    birth, death = shape.birth, shape.death
    order, conflicts = state.order, state.conflicts
    for earlier in range(depth):
        other = order[earlier]
        conflicts[depth, earlier] = birth[other] < end and first < death[other]


@_compile
def _place(shape: _Shape, state: _State, depth: int, buffer: int) -> None:
    size, start, neighbor = shape.size, shape.start, shape.neighbor
    placed, lowest = state.placed, state.lowest
    undo_from, undo_buffer, undo_lowest = state.undo_from, state.undo_buffer, state.undo_lowest
    state.order[depth] = buffer
    placed[buffer] = True
    top = lowest[buffer] + size[buffer]
    undo = undo_from[depth]
    for index in range(start[buffer], start[buffer + 1]):
        other = neighbor[index]
        if not placed[other] and lowest[other] < top:
            undo_buffer[undo], undo_lowest[undo] = other, lowest[other]
            lowest[other] = top
            undo += 1
    undo_from[depth + 1] = undo


@_compile
def _backjump(state: _State, depth: int) -> int:
    """Undo placements back to the last one in the conflict set, and merge the sets; -1 if none is left."""
    undo_from, lowest, undo_buffer, undo_lowest, placed, order, conflicts = (
        state.undo_from,
        state.lowest,
        state.undo_buffer,
        state.undo_lowest,
        state.placed,
        state.order,
        state.conflicts,
    )
    failed = depth
    while depth > 0:
        depth -= 1
        for undo in range(undo_from[depth + 1] - 1, undo_from[depth] - 1, -1):
            lowest[undo_buffer[undo]] = undo_lowest[undo]
        placed[order[depth]] = False
        if conflicts[failed, depth]:
            conflicts[depth, :depth] |= conflicts[failed, :depth]
            return depth
    return -1
