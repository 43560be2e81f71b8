"""Packing by stacking buffers upward: finds what a solver does not, and proves nothing.

Every packing can be pushed down until each buffer rests on the floor or on another one, and then be built
in the order of its addresses. The search builds packings in that order, depth first, and leaves a branch
when (1) what is left cannot fit above what stands, at some step; (2) something could still slide under what
was just placed, so that another branch holds a packing that is no worse. On a dead end it goes back to the
last placement that had to do with it, which is judged by time alone, so a packing may be missed: a search
that ends without one says nothing. Several rules of thumb take turns, each for a number of placements, then
again with some noise.

Compiled by numba at first use. The tables grow with the square of the buffers, at 21 bytes a pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

from sizeup.memory.liveness import Buffers, Column

MOST_BUFFERS = 2_000
# Largest first by: the fullest step that a buffer lives through, how long it lives, its area.
_RULES = ("fullness length area", "length area fullness", "fullness area length")
_LIMIT, _GROWTH = 3_000, 1.4  # placements of an attempt in the first round, and how they grow
_MOST = 100_000  # time is looked at between attempts, so each must be short:
_MOST_STEPS = 40_000_000  # placements times buffers, about a second
_NOISE = (0.03, 0.15, 0.4)

_Compiled = TypeVar("_Compiled", bound=Callable[..., Any])
_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Flags = np.ndarray[Any, np.dtype[np.bool_]]


def _compiled(function: _Compiled) -> _Compiled:
    try:
        made: Any = numba.njit(cache=True)(function)
    except RuntimeError:  # no folder to keep the compiled code in
        made = numba.njit(function)
    return cast("_Compiled", made)


class _Shape(NamedTuple):
    """The buffers, over time cut into the spans between two changes; neighbours live at one time."""

    size: _Numbers
    birth: _Numbers
    death: _Numbers  # half open
    start: _Numbers  # the neighbours of b are neighbour[start[b]:start[b + 1]]
    neighbour: _Numbers
    spans: int


class _State(NamedTuple):
    """What stands, what each unplaced buffer may still do, and one row a placement to take it back."""

    placed: _Flags
    lowest: _Numbers  # the top of what stands below, for each buffer; its address once it is placed
    ready: _Numbers  # no packing of this branch has it lower
    by_ready: _Numbers  # all buffers, rising in `ready`
    room: _Numbers
    keys: _Numbers
    candidate: np.ndarray[Any, np.dtype[np.int32]]
    candidates: _Numbers
    tried: _Numbers
    level: _Numbers  # address and rank of the placement before
    level_rank: _Numbers
    chosen: _Numbers
    to_blame: _Flags  # [depth, earlier depth]
    undo_buffer: _Numbers
    undo_lowest: _Numbers
    undo_from: _Numbers


def stack(buffers: Buffers, height: int, seconds: float) -> tuple[int, ...] | None:
    """Addresses within a height, or None where none were found in time."""
    if len(buffers) > MOST_BUFFERS or not len(buffers) or int(buffers.size.max()) > height:
        return None
    shape = _shape(buffers)
    _search(shape, height, np.zeros(len(buffers), np.int64), 0, False)  # compiled before the clock runs
    deadline = time.monotonic() + seconds
    for rank, limit, wide in _attempts(buffers, shape):
        found, addresses = _search(shape, height, rank, limit, wide)
        if found:
            return tuple(addresses.tolist())
        if time.monotonic() > deadline:
            break
    return None


def _shape(buffers: Buffers) -> _Shape:
    cuts = np.unique(np.concatenate([buffers.first, buffers.last + 1]))
    first, end = np.searchsorted(cuts, buffers.first), np.searchsorted(cuts, buffers.last + 1)
    at_once = (first[:, None] < end) & (first < end[:, None])
    np.fill_diagonal(at_once, val=False)
    start = np.concatenate([[0], np.cumsum(at_once.sum(1))])
    return _Shape(
        np.ascontiguousarray(buffers.size), first, end, start, np.nonzero(at_once)[1], len(cuts) - 1
    )


def _attempts(buffers: Buffers, shape: _Shape) -> Iterator[tuple[Column, int, bool]]:
    """Ranks to break ties by, for how many placements, and how widely to blame; without an end."""
    chance = np.random.default_rng(0)
    live = buffers.live_bytes()
    fullness = [live[first : last + 1].max() for first, last in zip(buffers.first, buffers.last, strict=True)]
    lengths = (buffers.last - buffers.first + 1, shape.death - shape.birth)
    for turn in count():
        noise = _NOISE[turn // 2 % len(_NOISE)] if turn % 2 else 0.0
        for rule, length, wide in product(_RULES, lengths, (False, True)):
            weight = {"length": length, "area": length * buffers.size, "fullness": np.array(fullness)}
            keys = [weight[word] * np.exp(chance.normal(0, noise, len(buffers))) for word in rule.split()]
            rank = np.empty(len(buffers), np.int64)
            rank[np.lexsort([-key for key in keys[::-1]])] = np.arange(len(buffers))
            yield rank, int(min(_LIMIT * _GROWTH**turn, _MOST, _MOST_STEPS / len(buffers))), wide


@_compiled
def _empty_state(count: int, spans: int) -> _State:
    rows = count + 1
    return _State(
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.arange(count),
        np.zeros(spans, np.int64),
        np.zeros(count, np.int64),
        np.zeros((rows, count), np.int32),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.full(rows, -1, np.int64),
        np.zeros(rows, np.int64),
        np.zeros((rows, rows), np.bool_),
        np.zeros(count * count + 1, np.int64),
        np.zeros(count * count + 1, np.int64),
        np.zeros(rows + 1, np.int64),
    )


@_compiled
def _search(shape: _Shape, height: int, rank: _Numbers, limit: int, wide: bool) -> tuple[bool, _Numbers]:
    count = len(shape.size)
    state = _empty_state(count, shape.spans)
    depth = 0
    for _ in range(limit):
        _enter(shape, state, height, rank, depth, wide)
        while state.tried[depth] == state.candidates[depth]:
            depth = _go_back(state, depth)
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


@_compiled
def _comes_after(address: int, rank: int, level: int, level_rank: int) -> bool:
    """Whether a placement may follow another: addresses rise, and ranks where they do not."""
    return address > level or (address == level and rank > level_rank)


@_compiled
def _enter(shape: _Shape, state: _State, height: int, rank: _Numbers, depth: int, wide: bool) -> None:
    """Judge what stands, list what may come next, and whom to blame should all of it fail."""
    size, spans, birth, death = shape.size, shape.spans, shape.birth, shape.death
    placed, lowest, candidates = state.placed, state.lowest, state.candidates
    lowest_top, slider = height + 1, -1
    for buffer in range(len(size)):
        if not placed[buffer] and lowest[buffer] + size[buffer] < lowest_top:
            lowest_top, slider = lowest[buffer] + size[buffer], buffer
    state.tried[depth] = candidates[depth] = 0
    if slider < 0:  # one alone is too large for what is left
        _blame(shape, state, depth, 0, spans)
        return
    first, end = birth[slider], death[slider]
    if lowest_top > state.level[depth]:
        stuck = _set_ready(shape, state, height, rank, depth)
        if stuck < 0:
            full, above = _overfull_span(shape, state, height)
            if full < 0:
                _list_candidates(state, rank, depth, lowest_top)
                if candidates[depth] == 0:
                    first, end = 0, spans
            else:
                first, end = _extent_of_span(shape, state, full, above, wide)
        else:
            first, end = _extent(shape, state, stuck, wide)
    _blame(shape, state, depth, first, end)


@_compiled
def _set_ready(shape: _Shape, state: _State, height: int, rank: _Numbers, depth: int) -> int:
    """How low each unplaced buffer can still come to rest; returns one that cannot within the height, or -1.

    One that was passed over must be lifted by something that is placed below it later.
    """
    size, start, neighbour = shape.size, shape.start, shape.neighbour
    placed, lowest, ready = state.placed, state.lowest, state.ready
    level, level_rank = state.level[depth], state.level_rank[depth]
    for buffer in range(len(size)):
        if placed[buffer]:
            continue
        rests = lowest[buffer]
        if not _comes_after(rests, rank[buffer], level, level_rank):
            rests = height + 1
            for place in range(start[buffer], start[buffer + 1]):
                other = neighbour[place]
                if not placed[other]:
                    top = max(lowest[other], level) + size[other]
                    rests = min(rests, top)
        ready[buffer] = rests
        if rests + size[buffer] > height:
            return buffer
    return -1


@_compiled
def _overfull_span(shape: _Shape, state: _State, height: int) -> tuple[int, int]:
    """A span of time with buffers that do not fit above the lowest of them, and how low that is; or -1.

    Asked for every set of the buffers that rest highest, going down: their sizes and the lowest of them.
    """
    size, birth, death = shape.size, shape.birth, shape.death
    room, by_ready, placed, ready = state.room, state.by_ready, state.placed, state.ready
    _sort_by_ready(state, height)
    room[:] = height
    for place in range(len(size) - 1, -1, -1):
        buffer = by_ready[place]
        if placed[buffer]:
            continue
        full = -1
        for span in range(birth[buffer], death[buffer]):
            room[span] -= size[buffer]
            if room[span] < ready[buffer]:
                full = span
        if full >= 0:
            return full, ready[buffer]
    return -1, 0


@_compiled
def _sort_by_ready(state: _State, height: int) -> None:
    """By insertion: little changes from one placement to the next."""
    by_ready, placed, ready = state.by_ready, state.placed, state.ready
    for place in range(len(by_ready)):
        buffer = by_ready[place]
        if placed[buffer]:
            ready[buffer] = height + 1
        at = place - 1
        while at >= 0 and ready[by_ready[at]] > ready[buffer]:
            by_ready[at + 1] = by_ready[at]
            at -= 1
        by_ready[at + 1] = buffer


@_compiled
def _list_candidates(state: _State, rank: _Numbers, depth: int, lowest_top: int) -> None:
    """What may come next, lowest first: nothing that leaves room for another buffer under itself."""
    placed, lowest, keys, candidate = state.placed, state.lowest, state.keys, state.candidate
    level, level_rank = state.level[depth], state.level_rank[depth]
    count = len(placed)
    found = 0
    for buffer in range(count):
        if placed[buffer] or lowest[buffer] >= lowest_top:
            continue
        if _comes_after(lowest[buffer], rank[buffer], level, level_rank):
            key, at = lowest[buffer] * count + rank[buffer], found - 1
            while at >= 0 and keys[at] > key:
                keys[at + 1] = keys[at]
                candidate[depth, at + 1] = candidate[depth, at]
                at -= 1
            keys[at + 1] = key
            candidate[depth, at + 1] = buffer
            found += 1
    state.candidates[depth] = found


@_compiled
def _extent(shape: _Shape, state: _State, buffer: int, wide: bool) -> tuple[int, int]:
    """From when to when live those that decide how low a buffer comes to rest."""
    birth, death, start, neighbour = shape.birth, shape.death, shape.start, shape.neighbour
    ready, lowest, placed = state.ready, state.lowest, state.placed
    first, end = birth[buffer], death[buffer]
    if wide and ready[buffer] != lowest[buffer]:
        for place in range(start[buffer], start[buffer + 1]):
            other = neighbour[place]
            if not placed[other]:
                first, end = min(first, birth[other]), max(end, death[other])
    return first, end


@_compiled
def _extent_of_span(shape: _Shape, state: _State, span: int, above: int, wide: bool) -> tuple[int, int]:
    """The same for those that overfill a span."""
    spans, size, birth, death = shape.spans, shape.size, shape.birth, shape.death
    placed, ready = state.placed, state.ready
    first, end = spans, 0
    for buffer in range(len(size)):
        in_span = birth[buffer] <= span < death[buffer]
        if in_span and not placed[buffer] and (ready[buffer] >= above or not wide):
            from_, to = _extent(shape, state, buffer, wide)
            first, end = min(first, from_), max(end, to)
    return first, end


@_compiled
def _blame(shape: _Shape, state: _State, depth: int, first: int, end: int) -> None:
    birth, death = shape.birth, shape.death
    chosen, to_blame = state.chosen, state.to_blame
    for earlier in range(depth):
        other = chosen[earlier]
        to_blame[depth, earlier] = birth[other] < end and first < death[other]


@_compiled
def _place(shape: _Shape, state: _State, depth: int, buffer: int) -> None:
    size, start, neighbour = shape.size, shape.start, shape.neighbour
    placed, lowest = state.placed, state.lowest
    undo_from, undo_buffer, undo_lowest = state.undo_from, state.undo_buffer, state.undo_lowest
    state.chosen[depth] = buffer
    placed[buffer] = True
    top = lowest[buffer] + size[buffer]
    kept = undo_from[depth]
    for place in range(start[buffer], start[buffer + 1]):
        other = neighbour[place]
        if not placed[other] and lowest[other] < top:
            undo_buffer[kept], undo_lowest[kept] = other, lowest[other]
            lowest[other] = top
            kept += 1
    undo_from[depth + 1] = kept


@_compiled
def _go_back(state: _State, depth: int) -> int:
    """Take placements back up to the last one to blame, which inherits the blame; -1 where none is left."""
    undo_from, lowest, undo_buffer, undo_lowest, placed, chosen, to_blame = (
        state.undo_from,
        state.lowest,
        state.undo_buffer,
        state.undo_lowest,
        state.placed,
        state.chosen,
        state.to_blame,
    )
    failed = depth
    while depth > 0:
        depth -= 1
        for kept in range(undo_from[depth + 1] - 1, undo_from[depth] - 1, -1):
            lowest[undo_buffer[kept]] = undo_lowest[kept]
        placed[chosen[depth]] = False
        if to_blame[failed, depth]:
            to_blame[depth, :depth] |= to_blame[failed, :depth]
            return depth
    return -1
