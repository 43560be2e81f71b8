"""Where to put every buffer: the lowest arena, with a proof of how low any arena can go.

First fit in a few orders answers most networks at once, because it meets the bound. What is left is asked
as a question: not for the least height, which is slow to prove, but whether a given height suffices; at the
bound first, then half-way up. CP-SAT answers, and where it hesitates a search that stacks buffers takes a
turn: each of them finds in a second what costs the other minutes.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sizeup.errors import DoesNotFit
from sizeup.memory.check import check_offsets
from sizeup.memory.liveness import Buffers, Column

_INSTALL = "pip install 'sizeup[solve]' proves more"
_PATIENCE = 0.5  # of the time that is left, for the question at the bound
_HESITATION = 2.0  # seconds after which the solver is interrupted for the other search
_WORTHWHILE = 20.0  # seconds that must be left then: the first time, the other search has to be compiled
_FEW = 2_000  # buffers that every order of first fit is tried on where nobody set a time
_TURN = 0.3  # of the time that is then left, for the other search


@dataclass(frozen=True, slots=True)
class Packing:
    """A place for every buffer, the height that this takes, and what no packing goes below."""

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    seconds: float
    method: str
    note: str = ""

    @property
    def status(self) -> str:
        """'optimal' where the height is proven to be the least, otherwise 'feasible'."""
        return "optimal" if self.height == self.lower_bound else "feasible"


Progress = Callable[[int, int], None]  # proven lower bound, best height so far


def pack(
    buffers: Buffers,
    *,
    alignment: int = 1,
    capacity: int | None = None,
    time_limit: float = 10.0,
    progress: Progress | None = None,
) -> Packing:
    """The lowest packing found in time; with a capacity the first that fits, or DoesNotFit."""
    started = time.monotonic()
    sizes = _aligned(buffers, alignment)
    bound = int(sizes.live_bytes().max()) if sizes.steps and len(sizes) else 0
    enough = bound if capacity is None else max(capacity, bound)
    best = _best_greedy(sizes, enough, started + time_limit)
    method, note = "first fit", ""
    if best[0] > enough:
        patience = _PATIENCE if capacity is None else 1.0  # no other height is worth a question
        asked = _ask(sizes, best, bound, enough, patience, started + time_limit, progress)
        if asked is None:
            note = _INSTALL
        else:
            best, bound, method = asked
    check_offsets(buffers, best[1], alignment=alignment)
    found = Packing(best[1], best[0], bound, time.monotonic() - started, method, note)
    if capacity is not None and found.height > capacity:
        raise DoesNotFit(capacity, found.height, found.lower_bound)
    return found


def first_fit(buffers: Buffers) -> Packing:
    """The best packing that first fit finds in a few orders: no solver, and the same every time.

    Of many buffers only the first order is tried.
    """
    started = time.monotonic()
    bound = int(buffers.live_bytes().max()) if buffers.steps and len(buffers) else 0
    enough = bound if len(buffers) <= _FEW else int(buffers.size.sum())
    height, offsets = _best_greedy(buffers, enough, math.inf)
    check_offsets(buffers, offsets)
    return Packing(offsets, height, bound, time.monotonic() - started, "first fit")


_Placed = tuple[int, tuple[int, ...]]  # height, offsets


def _aligned(buffers: Buffers, alignment: int) -> Buffers:
    """Buffers of sizes that are multiples of the alignment, so that whatever is put on top is aligned too."""
    return replace(buffers, size=-(-buffers.size // alignment) * alignment)


def _best_greedy(buffers: Buffers, enough: int, deadline: float) -> _Placed:
    """The best of a few orders; the first one is always tried to its end, for there must be a plan."""
    best: _Placed | None = None
    for order in _orders(buffers):
        found = _first_fit(buffers, order, deadline if best else math.inf)
        if found is not None and (best is None or found < best):
            best = found
        if found is None or best is None or best[0] <= enough or time.monotonic() > deadline:
            break
    assert best is not None  # there is at least one order
    return best


def _orders(buffers: Buffers) -> Iterator[list[int]]:
    size, first, last = (column.tolist() for column in (buffers.size, buffers.first, buffers.last))
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda b: (-size[b], first[b]),
        lambda b: (-size[b] * (last[b] - first[b] + 1), first[b]),
        lambda b: (first[b] - last[b], -size[b]),
        lambda b: (first[b], -size[b]),
    )
    for key in keys:
        yield sorted(range(len(size)), key=key)


def _first_fit(buffers: Buffers, order: list[int], deadline: float) -> _Placed | None:
    """Each buffer in turn at the lowest place that is free for as long as it lives; None when time is up.

    Placed buffers are kept sorted by address, and those that live at another time are passed over: the time
    grows with the square of the buffers, at one numpy comparison each (10,000 buffers: a few seconds).
    """
    offsets = [0] * len(buffers)
    placed = np.empty(len(order), np.int64)
    addresses: list[int] = []
    count = height = 0
    for buffer in order:
        if time.monotonic() > deadline:
            return None
        size = int(buffers.size[buffer])
        if size:
            others = placed[:count]
            at_once = (buffers.first[others] <= buffers.last[buffer]) & (
                buffers.last[others] >= buffers.first[buffer]
            )
            offset = _lowest_gap(others[at_once].tolist(), offsets, buffers.size, size)
            offsets[buffer] = offset
            height = max(height, offset + size)
            place = bisect_right(addresses, offset)
            addresses.insert(place, offset)
            placed[place + 1 : count + 1] = placed[place:count].copy()
            placed[place] = buffer
            count += 1
    return height, tuple(offsets)


def _lowest_gap(neighbours: list[int], offsets: list[int], sizes: Column, wanted: int) -> int:
    top = 0
    for other in neighbours:
        if offsets[other] - top >= wanted:
            break
        top = max(top, offsets[other] + int(sizes[other]))
    return top


def _ask(
    buffers: Buffers,
    best: _Placed,
    bound: int,
    enough: int,
    patience: float,
    deadline: float,
    progress: Progress | None,
) -> tuple[_Placed, int, str] | None:
    """The best packing, the proven bound and a word for how; None without a solver."""
    try:
        from ortools.sat.python import cp_model  # noqa: F401 - asked for once, before anything is built
    except ImportError:
        return None
    height, method = enough, "first fit"
    while best[0] > enough and bound < best[0] and time.monotonic() < deadline:
        if progress is not None:
            progress(bound, best[0])
        answer, asked = _answer(buffers, height, (deadline - time.monotonic()) * patience)
        patience = 1.0
        if isinstance(answer, tuple):
            best, method = answer, asked
        elif answer is False:
            bound = max(bound, height + 1)
            enough = max(enough, bound)
        else:
            low = height  # neither placed nor refuted: look between it and what is known to fit
            if best[0] - low <= 1:
                break
            height = low + (best[0] - low) // 2
            continue
        height = bound + (best[0] - bound) // 2 if best[0] > enough else enough
    return best, min(bound, best[0]), "CP-SAT" if bound == best[0] and method == "first fit" else method


def _answer(buffers: Buffers, height: int, seconds: float) -> tuple[_Placed | bool | None, str]:
    """Whether the buffers fit in a height, and who said so: the two searches in turn."""
    started = time.monotonic()
    answer = _fits(buffers, height, min(seconds, _HESITATION))
    if answer is None and seconds > _WORTHWHILE:
        stacked = _stacked(buffers, height, (seconds - _HESITATION) * _TURN)
        if stacked is not None:
            return stacked, "stacking"
        answer = _fits(buffers, height, started + seconds - time.monotonic())
    return answer, "CP-SAT"


def _stacked(buffers: Buffers, height: int, seconds: float) -> _Placed | None:
    try:
        from sizeup.memory.stacking import stack

        offsets = stack(buffers, height, seconds)
    # No numba for this system, or what it compiled before cannot be read: there is still the solver.
    except Exception:
        return None
    return None if offsets is None else (height_of(buffers, offsets), offsets)


def height_of(buffers: Buffers, offsets: tuple[int, ...]) -> int:
    """Where the highest buffer ends."""
    return max(
        (offset + size for offset, size in zip(offsets, buffers.size.tolist(), strict=True)), default=0
    )


def _fits(buffers: Buffers, height: int, seconds: float) -> _Placed | bool | None:
    """A packing within a height, False where there is none, None where time ran out."""
    from ortools.sat.python import cp_model

    unit = int(np.gcd.reduce(buffers.size)) or 1  # places are sums of sizes: count in their common unit
    model = cp_model.CpModel()
    starts, across, up = {}, [], []
    for buffer, (size, first, last) in enumerate(
        zip(buffers.size.tolist(), buffers.first.tolist(), buffers.last.tolist(), strict=True)
    ):
        if not size:
            continue
        if size > height:
            return False
        start = model.new_int_var(0, (height - size) // unit, "")
        starts[buffer] = start
        across.append(model.new_fixed_size_interval_var(first, last - first + 1, ""))
        up.append(model.new_fixed_size_interval_var(start, size // unit, ""))
    model.add_no_overlap_2d(across, up)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, 0.1)
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return False
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    offsets = tuple(unit * solver.value(starts[b]) if b in starts else 0 for b in range(len(buffers)))
    return height_of(buffers, offsets), offsets
