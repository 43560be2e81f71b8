"""The order of operators that needs the least memory, with a proof of how low any order can go.

Best-first over sets of operators that have run. A threshold starts at a bound that no order avoids;
everything that can be reached within it is explored before it is raised, so the threshold is at all
times a proven lower bound, and the first complete order found is a best one.

Live memory is submodular on these sets. So a dependent chain that can run within the threshold and
leaves no more memory in use than it found may be run at once: doing it first never hurts.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory.check import check_order
from sizeup.memory.liveness import lifetimes
from sizeup.memory.schedule_problem import Ordering, Problem, problem_of, static_bound, topological

# The exact bound keeps one bit for each pair of operators.
_MOST_FOR_STATIC_BOUND = 20_000
_BEAMS = (8, 64)
_LONGEST_CHAIN = 64
_CLOCK_EVERY = 256

Progress = Callable[[str, int, int], None]  # what is searched for, proven lower bound, best so far
_Bounds = Callable[[int, int], None]  # proven lower bound, best peak so far


def find_order(
    graph: Graph,
    *,
    views: bool,
    time_limit: float,
    progress: Progress | None,
    precision: DType | None = None,
    alignment: int = 1,
) -> Ordering:
    """The best order found in time, with the bound proven by then; sizes are rounded up to `alignment`."""
    problem = problem_of(graph, views=views, precision=precision)
    problem = replace(problem, sizes=tuple(-(-size // alignment) * alignment for size in problem.sizes))
    found = best_order(problem, time_limit=time_limit, progress=telling(progress, "order"))
    check_order(graph, found.order)
    return found


def telling(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """What a search reports its bounds to, so that it is known which search that is."""
    return None if progress is None else lambda bound, best: progress(what, bound, best)


def peak_bytes(graph: Graph) -> int:
    """The most bytes in use at once, in the graph's own order."""
    live = lifetimes(graph).live_bytes()
    return int(live.max()) if len(live) else 0


def reordered(graph: Graph, order: Sequence[int] | None) -> Graph:
    """The graph with its operators in another order."""
    return graph if order is None else replace(graph, ops=tuple(graph.ops[index] for index in order))


def moved(order: Sequence[int]) -> int:
    """How many operators stand elsewhere than before."""
    return sum(place != index for place, index in enumerate(order))


def best_order(
    problem: Problem,
    *,
    time_limit: float = 10.0,
    most_states: int | None = None,
    progress: _Bounds | None = None,
) -> Ordering:
    """The order with the least peak, or the best found within the limits with the bound proven by then."""
    started = time.monotonic()
    given = tuple(topological(problem))
    if problem.count == 0:
        return Ordering((), 0, 0, 0.0)
    peak = problem.peak(given)
    bound = max(_working_sets(problem), 0)
    best = (peak, given)
    if peak > bound and problem.count <= _MOST_FOR_STATIC_BOUND:
        bound = static_bound(problem)
    if peak > bound:
        best = _upper_bound(problem, best, bound, started + time_limit / 4)
    states = 0
    if best[0] > bound:
        search = _Search(problem, best, bound, started + time_limit, most_states, progress)
        best, bound = search.run()
        states = search.states
    return Ordering(best[1], best[0], bound, time.monotonic() - started, states)


def _working_sets(problem: Problem) -> int:
    """The most that one operator touches: the simplest bound, linear in the size of the graph."""
    own = zip(problem.reads, problem.made_bytes, strict=True)
    return max((made + sum(problem.sizes[b] for b in reads) for reads, made in own), default=0)


_Best = tuple[int, tuple[int, ...]]  # peak, order


def _upper_bound(problem: Problem, best: _Best, bound: int, deadline: float) -> _Best:
    """Greedy orders, then beams, until the bound is met or time is up."""
    for key in (_least_growth, _least_growth_above(bound)):
        best = min(best, _greedy(problem, key))
        if best[0] <= bound:
            return best
    for width in _BEAMS:
        if time.monotonic() > deadline:
            break
        best = _beam(problem, width, best, deadline)
        if best[0] <= bound:
            break
    return best


_Key = Callable[[Problem, int, int, int], tuple[int, int]]


def _least_growth(problem: Problem, done: int, live: int, op: int) -> tuple[int, int]:
    return problem.run(done, live, op)[1] - live, problem.made_bytes[op]


def _least_growth_above(bound: int) -> _Key:
    def key(problem: Problem, done: int, live: int, op: int) -> tuple[int, int]:
        in_use = live + problem.made_bytes[op]
        return max(in_use, bound), problem.run(done, live, op)[1] - live

    return key


def _greedy(problem: Problem, key: _Key) -> _Best:
    done, live, peak = 0, problem.start_bytes, 0
    ready = problem.ready()
    order: list[int] = []
    while ready:
        op = min(ready, key=lambda each: key(problem, done, live, each))
        peak = max(peak, live + problem.made_bytes[op])
        done, live = problem.run(done, live, op)
        ready = _following(problem, ready, done, op)
        order.append(op)
    return peak, tuple(order)


def _following(problem: Problem, ready: list[int], done: int, op: int) -> list[int]:
    """What can run after an operator has."""
    needs = problem.needs
    following = [each for each in ready if each != op]
    following += [each for each in problem.followers[op] if not needs[each] & ~done]
    return following


@dataclass(order=True)
class _Partial:
    peak: int
    live: int
    done: int = field(compare=False)
    ready: list[int] = field(compare=False)
    trail: tuple[object, int] | None = field(compare=False)  # (earlier trail, operator)


def _beam(problem: Problem, width: int, best: _Best, deadline: float) -> _Best:
    """The `width` best partial orders of each length, those that cannot improve left out."""
    beam = [_Partial(0, problem.start_bytes, 0, problem.ready(), None)]
    for _ in range(problem.count):
        found: dict[int, _Partial] = {}
        for partial in beam:
            for op in partial.ready:
                peak = max(partial.peak, partial.live + problem.made_bytes[op])
                if peak >= best[0]:
                    continue
                done, live = problem.run(partial.done, partial.live, op)
                if done not in found or found[done].peak > peak:
                    found[done] = _Partial(peak, live, done, partial.ready, (partial.trail, op))
        if not found or time.monotonic() > deadline:
            return best
        beam = heapq.nsmallest(width, found.values())
        for partial in beam:
            if partial.trail is not None:
                partial.ready = _following(problem, partial.ready, partial.done, partial.trail[1])
    winner = min(beam)
    return winner.peak, _unrolled(winner.trail)


def _unrolled(trail: object) -> tuple[int, ...]:
    order: list[int] = []
    while isinstance(trail, tuple):
        trail, op = trail
        order.append(op)
    return tuple(reversed(order))


_State = tuple[int, int, list[int]]  # operators done, live bytes, operators ready


class _Search:
    """Best-first search with a rising threshold."""

    def __init__(
        self,
        problem: Problem,
        best: _Best,
        bound: int,
        deadline: float,
        most_states: int | None,
        progress: _Bounds | None,
    ) -> None:
        self.problem = problem
        self.best = best
        self.threshold = bound
        self.deadline = deadline
        self.most_states = most_states
        self.progress = progress
        self.states = 0
        self.came: dict[int, tuple[int, tuple[int, ...]]] = {}  # set -> (set before, operators run since)
        self.stack: list[_State] = []
        self.postponed: list[tuple[int, int, _State, int]] = []  # (bytes needed, tie, state, operator)

    def run(self) -> tuple[_Best, int]:
        """The best order and the proven bound."""
        everything = (1 << self.problem.count) - 1
        self._enter(-1, (0, self.problem.start_bytes, self.problem.ready()), ())
        while True:
            while self.stack:
                state = self.stack.pop()
                if state[0] == everything:
                    return (self.threshold, self._order(everything)), self.threshold
                self.states += 1
                if self.states == self.most_states or (self.states % _CLOCK_EVERY == 0 and self._is_late()):
                    return self.best, self.threshold
                self._expand(state)
            if not self.postponed:
                return self.best, self.best[0]
            self.threshold = self.postponed[0][0]
            self._resume()

    def _is_late(self) -> bool:
        if self.progress is not None:
            self.progress(self.threshold, self.best[0])
        return time.monotonic() > self.deadline

    def _expand(self, state: _State) -> None:
        _, live, ready = state
        for op in ready:
            needed = live + self.problem.made_bytes[op]
            if needed <= self.threshold:
                self._step(state, op)
            elif needed < self.best[0]:
                heapq.heappush(self.postponed, (needed, len(self.came) + self.states, state, op))

    def _resume(self) -> None:
        while self.postponed and self.postponed[0][0] <= self.threshold:
            _, _, state, op = heapq.heappop(self.postponed)
            self._step(state, op)

    def _step(self, state: _State, op: int) -> None:
        done, live = self.problem.run(state[0], state[1], op)
        self._enter(state[0], (done, live, _following(self.problem, state[2], done, op)), (op,))

    def _enter(self, before: int, state: _State, ran: tuple[int, ...]) -> None:
        """Run every chain that costs nothing, then keep the set unless it is known."""
        state, free = self._committed(state)
        if state[0] not in self.came:
            self.came[state[0]] = (before, ran + tuple(free))
            self.stack.append(state)

    def _committed(self, state: _State) -> tuple[_State, list[int]]:
        problem = self.problem
        done, live, ready = state
        ran: list[int] = []
        searching = True
        while searching:
            searching = False
            for op in ready:
                chain = self._free_chain(done, live, op)
                if chain:
                    for each in chain:
                        done, live = problem.run(done, live, each)
                        ready = _following(problem, ready, done, each)
                    ran += chain
                    searching = True
                    break
        return (done, live, ready), ran

    def _free_chain(self, done: int, live: int, op: int) -> list[int] | None:
        """A chain from this operator that runs within the threshold and ends at no more than it began."""
        problem, threshold = self.problem, self.threshold
        chain: list[int] = []
        now, in_use = done, live
        following: int | None = op
        while following is not None and len(chain) < _LONGEST_CHAIN:
            if in_use + problem.made_bytes[following] > threshold:
                return None
            now, in_use = problem.run(now, in_use, following)
            chain.append(following)
            if in_use <= live:
                return chain
            following = self._best_follower(now, in_use, following)
        return None

    def _best_follower(self, done: int, live: int, op: int) -> int | None:
        problem = self.problem
        found, least = None, 0
        for later in problem.followers[op]:
            if problem.needs[later] & ~done or live + problem.made_bytes[later] > self.threshold:
                continue
            after = problem.run(done, live, later)[1]
            if found is None or after < least:
                found, least = later, after
        return found

    def _order(self, done: int) -> tuple[int, ...]:
        pieces: list[tuple[int, ...]] = []
        while done >= 0:
            done, ran = self.came[done]
            pieces.append(ran)
        return tuple(op for piece in reversed(pieces) for op in piece)
