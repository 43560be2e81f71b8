"""The ordering problem in its bare form: operators, the memory that they make and read, and sets of them.

A set of operators that have run is an int with one bit each. `live` memory is a function of that set
alone: what was made and is still to be read, and what leaves the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sizeup.dtypes import DType
from sizeup.graph import Graph, Op
from sizeup.memory.liveness import given_tensors, lifetimes
from sizeup.ops import rule_of


@dataclass(frozen=True)
class Ordering:
    """An order, the peak that it reaches, and what no order can go below."""

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound_bytes: int
    seconds: float
    states: int = 0  # sets of operators that the search looked at

    @property
    def status(self) -> str:
        """'optimal' where the peak is proven to be the least, otherwise 'feasible'."""
        return "optimal" if self.peak_bytes == self.lower_bound_bytes else "feasible"


@dataclass(frozen=True)
class Problem:
    """What the search needs to know: for every operator the buffers that it makes and those that it reads."""

    sizes: tuple[int, ...]  # bytes of each buffer
    makes: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[int, ...], ...]
    stays: tuple[bool, ...]  # whether a buffer lives to the end
    given: tuple[int, ...] = ()  # buffers that are there before the first operator
    after: tuple[tuple[int, ...], ...] = ()  # operators that must run earlier though nothing is passed on

    @property
    def count(self) -> int:
        """How many operators there are."""
        return len(self.makes)

    @cached_property
    def made_bytes(self) -> list[int]:
        """What each operator adds while it runs."""
        return [sum(self.sizes[buffer] for buffer in made) for made in self.makes]

    @cached_property
    def readers(self) -> list[int]:
        """The set of operators that read each buffer."""
        readers = [0] * len(self.sizes)
        for op, buffers in enumerate(self.reads):
            for buffer in buffers:
                readers[buffer] |= 1 << op
        return readers

    @cached_property
    def freeable(self) -> list[list[tuple[int, int]]]:
        """For each operator the (readers, bytes) of buffers that may end with it."""
        return [
            [(self.readers[buffer], self.sizes[buffer]) for buffer in buffers if not self.stays[buffer]]
            for buffers in self.reads
        ]

    @cached_property
    def unread_bytes(self) -> list[int]:
        """What each operator makes and nobody reads: it goes at once."""
        return [
            sum(self.sizes[b] for b in made if not self.readers[b] and not self.stays[b])
            for made in self.makes
        ]

    @cached_property
    def needs(self) -> list[int]:
        """The set of operators that must run before each one."""
        maker = {buffer: op for op, made in enumerate(self.makes) for buffer in made}
        needs = [0] * self.count
        for op, buffers in enumerate(self.reads):
            for buffer in buffers:
                if buffer in maker:
                    needs[op] |= 1 << maker[buffer]
        for op, earlier in enumerate(self.after):
            for other in earlier:
                needs[op] |= 1 << other
        return [before & ~(1 << op) for op, before in enumerate(needs)]

    @cached_property
    def followers(self) -> list[list[int]]:
        """The operators that wait for each one."""
        followers: list[list[int]] = [[] for _ in range(self.count)]
        for op, before in enumerate(self.needs):
            for earlier in members(before):
                followers[earlier].append(op)
        return followers

    @cached_property
    def start_bytes(self) -> int:
        """What is live before the first operator."""
        return sum(self.sizes[buffer] for buffer in self.given if self.readers[buffer] or self.stays[buffer])

    def run(self, done: int, live: int, op: int) -> tuple[int, int]:
        """The set and the live bytes after one more operator."""
        done |= 1 << op
        live += self.made_bytes[op] - self.unread_bytes[op]
        for readers, size in self.freeable[op]:
            if not readers & ~done:
                live -= size
        return done, live

    def ready(self, done: int = 0) -> list[int]:
        """The operators that can run once `done` have."""
        return [op for op in range(self.count) if not done >> op & 1 and not self.needs[op] & ~done]

    def peak(self, order: Iterable[int]) -> int:
        """The most bytes in use while any operator of an order runs."""
        done, live, peak = 0, self.start_bytes, 0
        for op in order:
            peak = max(peak, live + self.made_bytes[op])
            done, live = self.run(done, live, op)
        return peak


def members(operators: int) -> list[int]:
    """The operators of a set, in order."""
    found = []
    offset = 0
    while operators:
        # Shifting the empty end away keeps the numbers short where operators lie close together.
        skipped = (operators & -operators).bit_length() - 1
        offset += skipped
        found.append(offset)
        operators >>= skipped + 1
        offset += 1
    return found


def problem_of(graph: Graph, *, views: bool = True, precision: DType | None = None) -> Problem:
    """The ordering problem of a graph; operators with effects beyond their outputs keep their order."""
    buffers = lifetimes(graph, views=views, precision=precision)
    place = buffers.of_tensor
    seen = {place[identity] for identity in given_tensors(graph) if place[identity] >= 0}
    given = tuple(sorted(seen))
    makes, reads = [], []
    for op in graph.ops:
        made = dict.fromkeys(place[i] for i in op.outputs if place[i] >= 0 and place[i] not in seen)
        seen.update(made)
        touched = (place[i] for i in (*op.inputs, *op.outputs) if i >= 0)
        makes.append(tuple(made))
        reads.append(tuple(b for b in dict.fromkeys(touched) if b >= 0 and b not in made))
    stays = [False] * len(buffers)
    for identity in graph.outputs:
        if place[identity] >= 0:
            stays[place[identity]] = True
    return Problem(
        tuple(buffers.size.tolist()), tuple(makes), tuple(reads), tuple(stays), given, _effects(graph)
    )


def _effects(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """For each operator with effects the one before it: state is read and written in the given order."""
    previous: int | None = None
    after: list[tuple[int, ...]] = []
    for index, op in enumerate(graph.ops):
        if not _has_effects(graph, op):
            after.append(())
            continue
        after.append(() if previous is None else (previous,))
        previous = index
    return tuple(after)


def _has_effects(graph: Graph, op: Op) -> bool:
    """Whether an operator may do more than make its outputs: variables, bodies, and whatever has no rule."""
    if not op.outputs or op.bodies or rule_of(op.kind) is None:
        return True
    return any(graph.tensors[i].dtype.name in ("resource", "variant") for i in op.inputs if i >= 0)


def static_bound(problem: Problem) -> int:
    """Bytes that no order avoids: an operator's own, and what must straddle it.

    A buffer straddles an operator when the operator depends on its maker and one of its readers
    depends on the operator. The sets of all operators before and behind each one are kept, one bit
    for each pair: 20,000 operators take 100 MB and under a second.
    """
    before, behind = _closure(problem)
    maker = {buffer: op for op, made in enumerate(problem.makes) for buffer in made}
    over = list(problem.made_bytes)
    everyone = (1 << problem.count) - 1
    for buffer, size in enumerate(problem.sizes):
        made_by = maker.get(buffer)
        if not size or (made_by is None and buffer not in problem.given):
            continue
        possible = everyone if made_by is None else behind[made_by]
        needed = everyone if problem.stays[buffer] else 0
        for reader in members(problem.readers[buffer]):
            needed |= before[reader] | 1 << reader
        for op in members(possible & needed):
            over[op] += size
    return max(over, default=0)


def _closure(problem: Problem) -> tuple[list[int], list[int]]:
    """All operators that must run before each one, and all that must run behind it."""
    order = topological(problem)
    before = [0] * problem.count
    behind = [0] * problem.count
    for op in order:
        for earlier in members(problem.needs[op]):
            before[op] |= before[earlier] | 1 << earlier
    for op in reversed(order):
        for later in problem.followers[op]:
            behind[op] |= behind[later] | 1 << later
    return before, behind


def topological(problem: Problem) -> Sequence[int]:
    """The operators in an order that respects what each needs: their own, where that does."""
    waiting = [before.bit_count() for before in problem.needs]
    if all(before < 1 << op for op, before in enumerate(problem.needs)):
        return range(problem.count)
    ready = [op for op, count in enumerate(waiting) if not count]
    found: list[int] = []
    while ready:
        op = ready.pop()
        found.append(op)
        for later in problem.followers[op]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    return found
