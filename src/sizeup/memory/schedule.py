"""Searches for the schedule with the lowest peak activation memory, with a proven lower bound.

Best-first search over sets of executed ops. A threshold starts at a lower bound of all schedules. Every state
reachable within the threshold is explored before the threshold rises, so it is always a proven lower bound,
and the first complete schedule is optimal.

Live memory is submodular on these sets. So a dependent chain that runs within the threshold and does not
increase live memory can be scheduled immediately without losing optimality.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter

from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory.check import check_schedule
from sizeup.memory.liveness import buffer_liveness
from sizeup.memory.schedule_problem import Schedule, ScheduleProblem, problem_of, static_bound

# The static bound needs one bit per pair of ops.
_MAX_STATIC_BOUND_OPS = 20_000
_BEAMS = (8, 64)
_MAX_CHAIN = 64
# A step looks at one op that could run next. A search that is limited by states has this limit of steps per
# state, and so has the search for an upper bound before it. The ops that all states list take memory.
_STEPS_PER_STATE = 2_000
_CLOCK_EVERY = 2_000  # steps
_REPORT_EVERY = 256  # states
_MAX_LISTED = 30_000_000

Progress = Callable[[str, int, int], None]  # name of the search, proven lower bound, best so far
_Bounds = Callable[[int, int], None]  # proven lower bound, best peak so far


def find_schedule(
    graph: Graph,
    *,
    aliases: bool,
    time_limit: float,
    progress: Progress | None,
    precision: DType | None = None,
    alignment: int = 1,
) -> Schedule:
    """The best schedule found within the time limit; sizes are rounded up to `alignment`."""
    problem = problem_of(graph, aliases=aliases, precision=precision)
    problem = replace(problem, sizes=tuple(-(-size // alignment) * alignment for size in problem.sizes))
    schedule = best_schedule(problem, time_limit=time_limit, progress=search_progress(progress, "schedule"))
    check_schedule(graph, schedule.ops)
    return schedule


def search_progress(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    """A callback for the bounds of one search, which passes its name to `progress`."""
    return None if progress is None else lambda bound, best: progress(name, bound, best)


def peak_bytes(graph: Graph) -> int:
    """Peak activation memory of a graph in file order."""
    live = buffer_liveness(graph).live_bytes()
    return int(live.max()) if len(live) else 0


def with_schedule(graph: Graph, order: Sequence[int] | None) -> Graph:
    """The graph with another schedule."""
    return graph if order is None else replace(graph, ops=tuple(graph.ops[index] for index in order))


def count_moved_ops(order: Sequence[int]) -> int:
    """The number of ops that a schedule moves."""
    return sum(step != index for step, index in enumerate(order))


def best_schedule(
    problem: ScheduleProblem,
    *,
    time_limit: float = 10.0,
    max_states: int | None = None,
    progress: _Bounds | None = None,
) -> Schedule:
    """The schedule with the lowest peak, or the best one found within the limits.

    With `max_states`, the steps are limited too, so that the result is the same on every machine.
    """
    started = time.monotonic()
    max_steps = None if max_states is None else _STEPS_PER_STATE * max_states
    initial = tuple(range(problem.count))
    if problem.count == 0:
        return Schedule((), 0, 0, 0.0)
    peak = problem.peak(initial)
    bound = max(_working_sets(problem), 0)
    best = (peak, initial)
    if peak > bound and problem.count <= _MAX_STATIC_BOUND_OPS:
        bound = static_bound(problem)
    if peak > bound:
        best = _upper_bound(problem, best, bound, _Effort(started + time_limit / 4, max_steps))
    states = 0
    if best[0] > bound:
        effort = _Effort(started + time_limit, max_steps)
        search = _Search(problem, best, bound, effort, max_states, progress)
        best, bound = search.run()
        states = search.states
    return Schedule(best[1], best[0], bound, time.monotonic() - started, states)


def _working_sets(problem: ScheduleProblem) -> int:
    """The largest working set of one op: the simplest lower bound, in linear time."""
    ops = zip(problem.inputs, problem.output_bytes, strict=True)
    return max((produced + sum(problem.sizes[b] for b in inputs) for inputs, produced in ops), default=0)


_Best = tuple[int, tuple[int, ...]]  # peak, order


class _LimitReached(Exception):
    pass


class _Effort:
    """Steps of a search, limited by number and by time."""

    def __init__(self, deadline: float, max_steps: int | None) -> None:
        self.deadline = deadline
        self.max_steps = max_steps
        self._steps = 0
        self._next_look = _CLOCK_EVERY

    def spend(self, steps: int) -> None:
        """Count steps; raises _LimitReached after too many, or at the deadline."""
        self._steps += steps
        if self.max_steps is not None and self._steps > self.max_steps:
            raise _LimitReached
        if self._steps >= self._next_look:
            self._next_look = self._steps + _CLOCK_EVERY
            if time.monotonic() > self.deadline:
                raise _LimitReached


def _upper_bound(problem: ScheduleProblem, best: _Best, bound: int, effort: _Effort) -> _Best:
    """Greedy search, then beam search, until the lower bound is reached or a limit."""
    with suppress(_LimitReached):
        for key in (_least_growth, _least_growth_above(bound)):
            best = min(best, _greedy(problem, key, effort))
            if best[0] <= bound:
                return best
        for width in _BEAMS:
            best = _beam(problem, width, best, effort)
            if best[0] <= bound:
                break
    return best


_Key = Callable[[ScheduleProblem, int, int, int], tuple[int, int]]


def _least_growth(problem: ScheduleProblem, done: int, live: int, op: int) -> tuple[int, int]:
    return problem.run(done, live, op)[1] - live, problem.output_bytes[op]


def _least_growth_above(bound: int) -> _Key:
    def key(problem: ScheduleProblem, done: int, live: int, op: int) -> tuple[int, int]:
        needed = live + problem.output_bytes[op]
        return max(needed, bound), problem.run(done, live, op)[1] - live

    return key


def _greedy(problem: ScheduleProblem, key: _Key, effort: _Effort) -> _Best:
    done, live, peak = 0, problem.initial_bytes, 0
    ready = problem.ready()
    order: list[int] = []
    while ready:
        effort.spend(len(ready))
        op = min(ready, key=lambda candidate: key(problem, done, live, candidate))
        peak = max(peak, live + problem.output_bytes[op])
        done, live = problem.run(done, live, op)
        ready = _next_ready(problem, ready, done, op)
        order.append(op)
    return peak, tuple(order)


def _next_ready(problem: ScheduleProblem, ready: list[int], done: int, op: int) -> list[int]:
    """The ops that are ready after an op has run."""
    dependencies = problem.dependencies
    ready_ops = [candidate for candidate in ready if candidate != op]
    ready_ops += [candidate for candidate in problem.dependents[op] if not dependencies[candidate] & ~done]
    return ready_ops


@dataclass
class _Partial:
    peak: int
    live: int
    done: int
    ready: list[int]
    trail: tuple[object, int] | None  # (earlier trail, op)


def _beam(problem: ScheduleProblem, width: int, best: _Best, effort: _Effort) -> _Best:
    """Beam search: keeps the `width` best partial schedules per length that can still improve."""
    beam = [_Partial(0, problem.initial_bytes, 0, problem.ready(), None)]
    for _ in range(problem.count):
        partials: dict[int, _Partial] = {}
        for partial in beam:
            effort.spend(len(partial.ready))
            for op in partial.ready:
                peak = max(partial.peak, partial.live + problem.output_bytes[op])
                if peak >= best[0]:
                    continue
                done, live = problem.run(partial.done, partial.live, op)
                if done not in partials or partials[done].peak > peak:
                    partials[done] = _Partial(peak, live, done, partial.ready, (partial.trail, op))
        if not partials:
            return best
        beam = heapq.nsmallest(width, partials.values(), key=attrgetter("peak", "live"))
        for partial in beam:
            if partial.trail is not None:
                partial.ready = _next_ready(problem, partial.ready, partial.done, partial.trail[1])
    (complete,) = beam  # of all schedules with the same ops done, one was kept
    return complete.peak, _schedule_of(complete.trail)


def _schedule_of(trail: object) -> tuple[int, ...]:
    order: list[int] = []
    while isinstance(trail, tuple):
        trail, op = trail
        order.append(op)
    return tuple(reversed(order))


_State = tuple[int, int, list[int]]  # ops done, live bytes, ops ready


class _Search:
    """Best-first search with a rising threshold."""

    def __init__(
        self,
        problem: ScheduleProblem,
        best: _Best,
        bound: int,
        effort: _Effort,
        max_states: int | None,
        progress: _Bounds | None,
    ) -> None:
        self.problem = problem
        self.best = best
        self.threshold = bound
        self.effort = effort
        self.max_states = max_states
        self.progress = progress
        self.states = 0
        self.listed = 0
        self.visited: dict[int, tuple[int, tuple[int, ...]]] = {}  # set -> (set before, ops run since)
        self.stack: list[_State] = []
        self.postponed: list[tuple[int, int, _State, int]] = []  # (bytes needed, tie, state, op)

    def run(self) -> tuple[_Best, int]:
        """The best schedule and the proven lower bound."""
        try:
            return self._search()
        except _LimitReached:
            return self.best, self.threshold

    def _search(self) -> tuple[_Best, int]:
        everything = (1 << self.problem.count) - 1
        self._enter(-1, (0, self.problem.initial_bytes, self.problem.ready()), ())
        while True:
            while self.stack:
                state = self.stack.pop()
                if state[0] == everything:
                    return (self.threshold, self._schedule(everything)), self.threshold
                self.states += 1
                if self.states == self.max_states or self.listed > _MAX_LISTED:
                    raise _LimitReached
                if self.progress is not None and self.states % _REPORT_EVERY == 0:
                    self.progress(self.threshold, self.best[0])
                self._expand(state)
            if not self.postponed:
                return self.best, self.best[0]
            self.threshold = self.postponed[0][0]
            self._resume()

    def _expand(self, state: _State) -> None:
        _, live, ready = state
        for op in ready:
            needed = live + self.problem.output_bytes[op]
            if needed <= self.threshold:
                self._step(state, op)
            elif needed < self.best[0]:
                heapq.heappush(self.postponed, (needed, len(self.visited) + self.states, state, op))

    def _resume(self) -> None:
        while self.postponed and self.postponed[0][0] <= self.threshold:
            _, _, state, op = heapq.heappop(self.postponed)
            self._step(state, op)

    def _step(self, state: _State, op: int) -> None:
        done, live = self.problem.run(state[0], state[1], op)
        self._enter(state[0], (done, live, _next_ready(self.problem, state[2], done, op)), (op,))

    def _enter(self, before: int, state: _State, ran: tuple[int, ...]) -> None:
        """Run all free chains, then add the state unless its set is known."""
        state, free = self._run_free_chains(state)
        if state[0] not in self.visited:
            self.listed += len(state[2])
            self.visited[state[0]] = (before, ran + tuple(free))
            self.stack.append(state)

    def _run_free_chains(self, state: _State) -> tuple[_State, list[int]]:
        problem = self.problem
        done, live, ready = state
        ran: list[int] = []
        searching = True
        while searching:
            searching = False
            for op in ready:
                self.effort.spend(1)
                chain = self._free_chain(done, live, op)
                if chain:
                    for chain_op in chain:
                        done, live = problem.run(done, live, chain_op)
                        ready = _next_ready(problem, ready, done, chain_op)
                    ran += chain
                    searching = True
                    break
        return (done, live, ready), ran

    def _free_chain(self, done: int, live: int, op: int) -> list[int] | None:
        """A chain from this op that stays within the threshold and does not increase live memory."""
        problem, threshold = self.problem, self.threshold
        chain: list[int] = []
        chain_done, chain_live = done, live
        next_op: int | None = op
        while next_op is not None and len(chain) < _MAX_CHAIN:
            if chain_live + problem.output_bytes[next_op] > threshold:
                return None
            chain_done, chain_live = problem.run(chain_done, chain_live, next_op)
            chain.append(next_op)
            if chain_live <= live:
                return chain
            next_op = self._best_follower(chain_done, chain_live, next_op)
        return None

    def _best_follower(self, done: int, live: int, op: int) -> int | None:
        problem = self.problem
        best, least = None, 0
        for later in problem.dependents[op]:
            if problem.dependencies[later] & ~done or live + problem.output_bytes[later] > self.threshold:
                continue
            live_after = problem.run(done, live, later)[1]
            if best is None or live_after < least:
                best, least = later, live_after
        return best

    def _schedule(self, done: int) -> tuple[int, ...]:
        pieces: list[tuple[int, ...]] = []
        while done >= 0:
            done, ran = self.visited[done]
            pieces.append(ran)
        return tuple(op for piece in reversed(pieces) for op in piece)
