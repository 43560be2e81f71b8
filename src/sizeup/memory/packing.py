"""Assigns offsets to buffers: the smallest packing, with a proven lower bound.

First fit in a few orders reaches the lower bound for most networks. Otherwise a solver decides whether the
buffers fit into a given height: the lower bound first, then by bisection. (Minimizing the height directly is
slow to prove.) CP-SAT runs first, with one worker and a limit of its deterministic time, so that the same
file gets the same memory plan on a busy machine. If that is too little, the search of `stack_search.py` gets
a share of the time, then CP-SAT with two workers: each is fast on cases where another one takes minutes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from sizeup.errors import DoesNotFit, LimitReached
from sizeup.memory.address_space import AddressSpace
from sizeup.memory.check import check_offsets
from sizeup.memory.liveness import Buffers

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpSolver

INSTALL_HINT = "no solver is installed; to search for a smaller memory plan: pip install 'sizeup[solve]'"

_BOUND_SHARE = 0.5  # share of the remaining time for the attempt at the lower bound
FIRST_WORK = 0.06  # CP-SAT's deterministic time for its first attempt: two seconds or so
_SOLVER_SECONDS = 2.0  # seconds of the second one if no time is left for the stacking search
_MIN_STACK_SECONDS = 20.0  # seconds that must remain for that: the stacking search compiles on first use
_MAX_ALL_ORDERS = 2_000  # up to this many buffers, first_fit tries every order
_STACK_SHARE = 0.3  # share of the then remaining time for the stacking search


def is_solver_installed() -> bool:
    """Whether packings beyond first fit can be searched for."""
    return find_spec("ortools") is not None


@dataclass(frozen=True, slots=True)
class Packing:
    """An offset per buffer, the resulting height, and a proven lower bound."""

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    seconds: float
    method: str
    note: str = ""

    @property
    def status(self) -> str:
        """'optimal' if the height equals the lower bound, otherwise 'feasible'."""
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
    """The smallest packing found within the time limit.

    With a capacity, returns the first packing that fits, or raises DoesNotFit.
    """
    started = time.monotonic()
    sizes = _aligned(buffers, alignment)
    bound = int(sizes.live_bytes().max()) if sizes.steps and len(sizes) else 0
    target = bound if capacity is None else max(capacity, bound)
    best = _best_greedy(sizes, target, started + time_limit)
    method, note = "first fit", ""
    if best[0] > target:
        share = _BOUND_SHARE if capacity is None else 1.0  # with a capacity, no other height is tried
        solution = _solve(sizes, best, bound, target, share, started + time_limit, progress)
        if solution is None:
            note = INSTALL_HINT
        else:
            best, bound, method = solution
    check_offsets(buffers, best[1], alignment=alignment)
    packing = Packing(best[1], best[0], bound, time.monotonic() - started, method, note)
    if capacity is not None and packing.height > capacity:
        raise DoesNotFit(capacity, packing.height, packing.lower_bound)
    return packing


def first_fit(buffers: Buffers) -> Packing:
    """The best first-fit packing over a few orders: no solver, deterministic.

    With more than 2,000 buffers, only the first order is tried.
    """
    started = time.monotonic()
    bound = int(buffers.live_bytes().max()) if buffers.steps and len(buffers) else 0
    target = bound if len(buffers) <= _MAX_ALL_ORDERS else int(buffers.size.sum())
    height, offsets = _best_greedy(buffers, target, math.inf)
    check_offsets(buffers, offsets)
    return Packing(offsets, height, bound, time.monotonic() - started, "first fit")


_Solution = tuple[int, tuple[int, ...]]  # height, offsets


def _aligned(buffers: Buffers, alignment: int) -> Buffers:
    """The buffers with sizes rounded up to the alignment, so that all offsets are aligned."""
    return replace(buffers, size=-(-buffers.size // alignment) * alignment)


def _best_greedy(buffers: Buffers, target: int, deadline: float) -> _Solution:
    """The best of a few first-fit orders; the first order ignores the deadline, so there is a result."""
    best: _Solution | None = None
    for order in _orders(buffers):
        solution = _first_fit(buffers, order, deadline if best else math.inf)
        if solution is not None and (best is None or solution < best):
            best = solution
        if solution is None or best is None or best[0] <= target or time.monotonic() > deadline:
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


def _first_fit(buffers: Buffers, order: list[int], deadline: float) -> _Solution | None:
    """Put each buffer at the lowest offset that is free while it is live; None after the deadline.

    After too many steps (see `address_space`), the other buffers are put above all that are live with them.
    """
    firsts, lasts, sizes = (column.tolist() for column in (buffers.first, buffers.last, buffers.size))
    offsets = [0] * len(buffers)
    space = AddressSpace(firsts, lasts)
    height, is_limited = 0, False
    for buffer in order:
        if time.monotonic() > deadline:
            return None
        first, last, size = firsts[buffer], lasts[buffer], sizes[buffer]
        if not size:
            continue
        if not is_limited:
            try:
                offset = space.lowest_gap(first, last, size)
            except LimitReached:
                is_limited = True
        if is_limited:
            offset = space.end(first, last)
        offsets[buffer] = offset
        height = max(height, offset + size)
        space.add(first, last, offset, offset + size)
    return height, tuple(offsets)


def _solve(
    buffers: Buffers,
    best: _Solution,
    bound: int,
    target: int,
    share: float,
    deadline: float,
    progress: Progress | None,
) -> tuple[_Solution, int, str] | None:
    """The best packing, the proven lower bound and the method; None without a solver.

    The time to load the solver, seconds on a busy machine, is added to the deadline.
    """
    started = time.monotonic()
    try:
        from ortools.sat.python import cp_model  # noqa: F401 - check once whether it is installed
    except ImportError:
        return None
    deadline += time.monotonic() - started
    height, method = target, "first fit"
    while best[0] > target and bound < best[0] and time.monotonic() < deadline:
        if progress is not None:
            progress(bound, best[0])
        answer, decided_by = _decide(buffers, height, (deadline - time.monotonic()) * share)
        share = 1.0
        if isinstance(answer, tuple):
            best, method = answer, decided_by
        elif answer is False:
            bound = max(bound, height + 1)
            target = max(target, bound)
        else:
            low = height  # undecided: continue between this height and the best known one
            if best[0] - low <= 1:
                break
            height = low + (best[0] - low) // 2
            continue
        height = bound + (best[0] - bound) // 2 if best[0] > target else target
    return best, min(bound, best[0]), "CP-SAT" if bound == best[0] and method == "first fit" else method


def _decide(buffers: Buffers, height: int, seconds: float) -> tuple[_Solution | bool | None, str]:
    """Whether the buffers fit into a height (see `_fits`), and the method that decided it."""
    started = time.monotonic()
    answer = _fits(buffers, height, seconds, workers=1, work=FIRST_WORK)
    remaining = started + seconds - time.monotonic()
    longest = _SOLVER_SECONDS
    if answer is None and remaining > _MIN_STACK_SECONDS:
        stacked = _stack(buffers, height, remaining * _STACK_SHARE)
        if stacked is not None:
            return stacked, "stacking"
        longest = remaining = started + seconds - time.monotonic()
    if answer is None and remaining > 0:
        answer = _fits(buffers, height, min(remaining, longest), workers=2)
    return answer, "CP-SAT"


def _stack(buffers: Buffers, height: int, seconds: float) -> _Solution | None:
    try:
        from sizeup.memory.stack_search import stack

        offsets = stack(buffers, height, seconds)
    # numba is missing or its cache is unreadable: fall back to the solver.
    except Exception:
        return None
    return None if offsets is None else (packing_height(buffers, offsets), offsets)


def packing_height(buffers: Buffers, offsets: tuple[int, ...]) -> int:
    """The end of the highest buffer."""
    return max(
        (offset + size for offset, size in zip(offsets, buffers.size.tolist(), strict=True)), default=0
    )


def limited_solver(seconds: float, *, workers: int, work: float = math.inf) -> CpSolver:
    """CP-SAT with limits of elapsed time and of deterministic time, which is the same on every machine."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, 0.1)
    solver.parameters.max_deterministic_time = work
    solver.parameters.num_workers = workers
    return solver


def _fits(
    buffers: Buffers, height: int, seconds: float, *, workers: int, work: float = math.inf
) -> _Solution | bool | None:
    """A packing within a height, False if there is none, None if time ran out."""
    from ortools.sat.python import cp_model

    unit = int(np.gcd.reduce(buffers.size)) or 1  # offsets are sums of sizes: use their common divisor
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
    solver = limited_solver(seconds, workers=workers, work=work)
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return False
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    offsets = tuple(unit * solver.value(starts[b]) if b in starts else 0 for b in range(len(buffers)))
    return packing_height(buffers, offsets), offsets
