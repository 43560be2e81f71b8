"""Which operator of one model is which of the other: by name, then by structure.

Every step is linear in operators and their connections, but for sorting and for `sequence.aligned`, which
states its own bound. A step only looks at operators that none before it has matched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from sizeup.comparison.facts import Facts, Interner, Tokens, class_of, dims

# What an alignment costs: an operator that is there once or differs counts one.
_RENAMED = 0.25
# Names are believed unless structure alone explains the models with less than this share of differences.
_CLEARLY = 0.5


@dataclass(frozen=True, slots=True)
class Matched:
    """For every operator of each model its partner in the other, or -1; `how` by operators of the first."""

    a: Tokens
    b: Tokens
    how: dict[int, str]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All that were matched, in the order of the first model."""
        return [(index, other) for index, other in enumerate(self.a) if other >= 0]


def match(a: Facts, b: Facts, intern: Interner) -> Matched:
    """Match two models by name and structure, or by structure alone where names clearly were shifted."""
    by_name = _Matching(a, b, intern)
    named = by_name.names(exactly=True) + by_name.names()
    by_name.structure()
    enough = _CLEARLY * by_name.cost()
    if not named or _least_cost(a, b) >= enough:
        return by_name.result()
    alone = _Matching(a, b, intern)
    alone.structure()
    return (alone if alone.cost() < enough else by_name).result()


def _least_cost(a: Facts, b: Facts) -> int:
    """What any alignment costs: operators of which one model has more cannot all be the same."""
    ours, theirs = Counter(a.exact), Counter(b.exact)
    return max((ours - theirs).total(), (theirs - ours).total())


class _Matching:
    def __init__(self, a: Facts, b: Facts, intern: Interner) -> None:
        self.a, self.b, self.intern = a, b, intern
        self.of_a: Tokens = [-1] * len(a.graph.ops)
        self.of_b: Tokens = [-1] * len(b.graph.ops)
        self.how: dict[int, str] = {}

    def result(self) -> Matched:
        return Matched(self.of_a, self.of_b, self.how)

    def _join(self, pairs: Iterable[tuple[int, int]], how: str) -> int:
        joined = 0
        for one, other in pairs:
            self.of_a[one], self.of_b[other] = other, one
            self.how[one] = how
            joined += 1
        return joined

    def cost(self) -> float:
        """How much the models differ in this alignment."""
        alone = self.of_a.count(-1) + self.of_b.count(-1)
        changed = renamed = 0
        for one, other in enumerate(self.of_a):
            if other >= 0:
                changed += self.a.exact[one] != self.b.exact[other]
                renamed += self.a.paths[one] != self.b.paths[other]
        return alone + changed + _RENAMED * renamed

    def names(self, exactly: bool = False) -> int:
        """Match operators of one name, their own before their module's; `exactly` demands equal facts."""
        joined = 0
        for keys in (_own_keys, _module_keys):
            ours = _grouped(keys(self.a), self.of_a)
            theirs = _grouped(keys(self.b), self.of_b)
            for key, first in ours.items():
                second = theirs.get(key)
                if second:
                    joined += self._join(self._paired(first, second, exactly), "name")
        return joined

    def _paired(self, first: Tokens, second: Tokens, exactly: bool) -> list[tuple[int, int]]:
        if not exactly:
            return list(zip(first, second, strict=False))
        ours, theirs = [self.a.exact[i] for i in first], [self.b.exact[i] for i in second]
        return [(first[x], second[y]) for x, y in aligned(ours, theirs)]

    def structure(self) -> None:
        """Match by all that comes before or after, then by order, sizes counting less with every step."""
        a, b = self.a, self.b
        if self._is_open():
            before = [_histories(each, self.intern) for each in (a, b)]
            after = [_futures(each, self.intern) for each in (a, b)]
            both = [list(zip(*each, strict=True)) for each in zip(before, after, strict=True)]
            self._alike(*both)
            self._alike(*before)
            self._alike(*after)
        # Between formats only what has MACs is sure to be in both; within one, all of it gives the place.
        if a.graph.format != b.graph.format:
            self._in_gaps(a.exact, b.exact, products=True)
        self._in_gaps(a.exact, b.exact)
        self._alike(_surroundings(a, self.of_a, self.intern), _surroundings(b, self.of_b, self.intern))
        self._in_gaps(a.shaped, b.shaped, products=True)
        self._in_gaps(a.classed, b.classed, products=True)
        self._in_gaps(a.classed, b.classed)

    def _is_open(self) -> bool:
        """Whether both models have operators without a partner."""
        return -1 in self.of_a and -1 in self.of_b

    def _alike(self, ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> None:
        """Match operators of equal tokens, the first with the first, wherever they are in the order."""
        found = _grouped(theirs, self.of_b)
        for token, first in _grouped(ours, self.of_a).items():
            self._join(zip(first, found.get(token, ()), strict=False), "structure")

    def _in_gaps(self, ours: Tokens, theirs: Tokens, products: bool = False) -> None:
        """Match equal tokens in order, between neighbours that are matched in the same order in both."""
        if not self._is_open():
            return
        anchors = increasing([(i, j) for i, j in enumerate(self.of_a) if j >= 0])
        ends = [*anchors, (len(ours), len(theirs))]
        start = (0, 0)
        for end in ends:
            first = self._free(self.a, self.of_a, start[0], end[0], products)
            second = self._free(self.b, self.of_b, start[1], end[1], products)
            if first and second:
                pairs = aligned([ours[i] for i in first], [theirs[j] for j in second])
                self._join(((first[x], second[y]) for x, y in pairs), "structure")
            start = (end[0] + 1, end[1] + 1)

    @staticmethod
    def _free(side: Facts, partner: Tokens, start: int, end: int, products: bool) -> Tokens:
        return [
            each for each in range(start, end) if partner[each] < 0 and (side.has_macs[each] or not products)
        ]


def _grouped(keys: Sequence[Hashable], partner: Tokens) -> dict[Hashable, Tokens]:
    """The operators of each key that are not matched yet, in order; those without a key in none."""
    found: dict[Hashable, Tokens] = {}
    for index, key in enumerate(keys):
        if key is not None and partner[index] < 0:
            found.setdefault(key, []).append(index)
    return found


def _own_keys(side: Facts) -> list[Hashable]:
    """Names of operators that no module tells of: where one does, their own are mostly counters."""
    rows = zip(side.own_names, side.paths, side.graph.ops, strict=True)
    return [(name, class_of(op.kind)) if name and not path else None for name, path, op in rows]


def _module_keys(side: Facts) -> list[Hashable]:
    ops = side.graph.ops
    return [(path, class_of(op.kind)) if path else None for path, op in zip(side.paths, ops, strict=True)]


def _histories(side: Facts, intern: Interner) -> Tokens:
    """Equal for operators that compute the same from the same: all that leads to them is equal."""
    tensors = side.graph.tensors
    given = {identity: place for place, identity in enumerate(side.graph.inputs)}
    found: Tokens = []
    for index, op in enumerate(side.graph.ops):
        sources: list[Hashable] = []
        for identity in op.inputs:
            if identity in side.maker:
                sources.append(found[side.maker[identity]])
            elif identity in given:
                sources.append(("input", given[identity], dims(tensors[identity].shape)))
        found.append(intern(("history", side.exact[index], tuple(sources))))
    return found


def _futures(side: Facts, intern: Interner) -> Tokens:
    """Equal for operators whose results are used alike: all that follows from them is equal."""
    given = {identity: place for place, identity in enumerate(side.graph.outputs)}
    slots = {
        (i, identity): slot for i, op in enumerate(side.graph.ops) for slot, identity in enumerate(op.inputs)
    }
    found: Tokens = [0] * len(side.graph.ops)
    for index in range(len(found) - 1, -1, -1):
        op = side.graph.ops[index]
        uses: list[tuple[int, int]] = [(-1, given[each]) for each in op.outputs if each in given]
        for made in op.outputs:
            uses += [(found[reader], slots[reader, made]) for reader in side.readers.get(made, ())]
        found[index] = intern(("future", side.exact[index], tuple(sorted(uses))))
    return found


def _surroundings(side: Facts, partner: Tokens, intern: Interner) -> list[int | None]:
    """Equal for operators with MACs that are equal, and whose neighbours are; None for others."""
    found: list[int | None] = []
    for index, token in enumerate(side.exact):
        if partner[index] >= 0 or not side.has_macs[index]:
            found.append(None)
            continue
        before = tuple(side.exact[each] for each in side.makers_of(index))
        after = tuple(sorted(side.exact[each] for each in side.readers_of(index)))
        found.append(intern(("surroundings", token, before, after)))
    return found


# Exact for as many edits (tokens in one sequence alone) in a row of unsettled tokens. Beyond that the longest
# alignment found so far is kept and the search starts anew behind it, so that no more than
# (2 x MOST_EDITS + 1) x (length of both) tokens are ever compared.
MOST_EDITS = 64


def aligned(a: Sequence[int], b: Sequence[int], most_edits: int = MOST_EDITS) -> list[tuple[int, int]]:
    """Places of equal tokens in both, each in order: as many as there can be, where edits are few.

    The greedy algorithm of Myers (An O(ND) Difference Algorithm and Its Variations, 1986), cut into pieces of
    at most `most_edits` edits.
    """
    shorter = min(len(a), len(b))
    head = 0
    while head < shorter and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < shorter - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    pairs = [(place, place) for place in range(head)]
    x, y, end_x, end_y = head, head, len(a) - tail, len(b) - tail
    while x < end_x and y < end_y:
        x, y, found = _Piece(a, b, (x, y), (end_x, end_y)).run(most_edits)
        pairs += found
    pairs += [(len(a) - left, len(b) - left) for left in range(tail, 0, -1)]
    return pairs


class _Piece:
    """One search from a start; a diagonal is where the place in `a` less that in `b` is the same."""

    def __init__(
        self, a: Sequence[int], b: Sequence[int], start: tuple[int, int], end: tuple[int, int]
    ) -> None:
        self.a, self.b, self.start, self.end = a, b, start, end
        self.main = start[0] - start[1]
        # The furthest place in `a` on each diagonal, as if one token of `b` had been left out to get here.
        self.reached = {self.main + 1: start[0]}
        self.history: list[dict[int, int]] = []

    def run(self, most_edits: int) -> tuple[int, int, list[tuple[int, int]]]:
        """Where at most so many edits lead to, and the equal tokens on the way."""
        goal = self.end[0] - self.end[1]
        for edits in range(most_edits + 1):
            self.history.append(dict(self.reached))
            for diagonal in range(self.main - edits, self.main + edits + 1, 2):
                if self._advanced(diagonal) == self.end[0] and diagonal == goal:
                    return self._traced(diagonal)
        parity = (self.main + most_edits) % 2
        ended = {k: x for k, x in self.reached.items() if k % 2 == parity}
        return self._traced(max(ended, key=lambda k: (2 * ended[k] - k, -abs(goal - k))))

    def _advanced(self, diagonal: int) -> int | None:
        """The place in `a` that one more edit, and all equal tokens after it, lead to on a diagonal."""
        begun = self._begun(self.reached, diagonal)
        if begun is None:
            self.reached.pop(diagonal, None)
            return None
        a, b, (end_x, end_y) = self.a, self.b, self.end
        x, y = begun, begun - diagonal
        while x < end_x and y < end_y and a[x] == b[y]:
            x, y = x + 1, y + 1
        self.reached[diagonal] = x
        return x

    def _begun(self, reached: dict[int, int], diagonal: int) -> int | None:
        """Where the edit leads to: a token of `a` left out, or one of `b`, whichever is further."""
        skipped, added = reached.get(diagonal - 1), reached.get(diagonal + 1)
        if added is not None and added - diagonal > self.end[1]:
            added = None
        if skipped is not None and skipped < self.end[0] and (added is None or skipped + 1 > added):
            return skipped + 1
        return added

    def _traced(self, diagonal: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The way back from a diagonal, as equal tokens in order."""
        x = self.reached[diagonal]
        end = (x, x - diagonal)
        pairs: list[tuple[int, int]] = []
        for before in reversed(self.history):
            begun = self._begun(before, diagonal)
            assert begun is not None  # the way led through here
            while x > begun:
                x -= 1
                pairs.append((x, x - diagonal))
            came_down = begun == before.get(diagonal + 1)
            diagonal, x = (diagonal + 1, x) if came_down else (diagonal - 1, x - 1)
        return end[0], end[1], pairs[::-1]


def increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of pairs, sorted by their first, whose seconds grow too (patience sorting)."""
    lasts: list[int] = []  # of the best chain of each length, its last second
    places: list[int] = []
    before: list[int] = []
    for place, (_, second) in enumerate(pairs):
        length = bisect_left(lasts, second)
        before.append(places[length - 1] if length else -1)
        if length == len(lasts):
            lasts.append(second)
            places.append(place)
        else:
            lasts[length], places[length] = second, place
    chain = []
    place = places[-1] if places else -1
    while place >= 0:
        chain.append(pairs[place])
        place = before[place]
    return chain[::-1]
