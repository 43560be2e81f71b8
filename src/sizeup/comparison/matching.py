"""Matches the ops of two models, by name and then by structure.

Every step is linear in ops and connections, except for sorting and `aligned`, which states its bound. A step
considers only ops that no earlier step has matched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from sizeup.comparison.facts import Facts, Interner, Tokens, class_of, dims

# The cost of an alignment: 1 per op that is unmatched or differs, and this per renamed op.
_RENAMED = 0.25
# Names are used unless structure alone has less than this fraction of their cost.
_NAME_MARGIN = 0.5


@dataclass(frozen=True, slots=True)
class Matched:
    """The partner of every op in the other model, or -1; `matched_by` is by ops of the first model."""

    a: Tokens
    b: Tokens
    matched_by: dict[int, str]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All matched pairs, in the order of the first model."""
        return [(index, other) for index, other in enumerate(self.a) if other >= 0]


def match(a: Facts, b: Facts, intern: Interner) -> Matched:
    """Match two models by name and structure, or by structure alone if names clearly shifted."""
    by_name = _Matching(a, b, intern)
    named = by_name.names(exactly=True) + by_name.names()
    by_name.structure()
    enough = _NAME_MARGIN * by_name.cost()
    if not named or _minimum_cost(a, b) >= enough:
        return by_name.result()
    by_structure = _Matching(a, b, intern)
    by_structure.structure()
    return (by_structure if by_structure.cost() < enough else by_name).result()


def _minimum_cost(a: Facts, b: Facts) -> int:
    """A lower bound of the cost of any alignment: surplus ops of one model have no equal partner."""
    ours, theirs = Counter(a.exact), Counter(b.exact)
    return max((ours - theirs).total(), (theirs - ours).total())


class _Matching:
    def __init__(self, a: Facts, b: Facts, intern: Interner) -> None:
        self.a, self.b, self.intern = a, b, intern
        self.of_a: Tokens = [-1] * len(a.graph.ops)
        self.of_b: Tokens = [-1] * len(b.graph.ops)
        self.matched_by: dict[int, str] = {}

    def result(self) -> Matched:
        return Matched(self.of_a, self.of_b, self.matched_by)

    def _link(self, pairs: Iterable[tuple[int, int]], matched_by: str) -> int:
        count = 0
        for one, other in pairs:
            self.of_a[one], self.of_b[other] = other, one
            self.matched_by[one] = matched_by
            count += 1
        return count

    def cost(self) -> float:
        """The cost of this alignment."""
        unmatched = self.of_a.count(-1) + self.of_b.count(-1)
        changed = renamed = 0
        for one, other in enumerate(self.of_a):
            if other >= 0:
                changed += self.a.exact[one] != self.b.exact[other]
                renamed += self.a.paths[one] != self.b.paths[other]
        return unmatched + changed + _RENAMED * renamed

    def names(self, exactly: bool = False) -> int:
        """Match ops by their own names, then by their modules; `exactly` requires equal facts."""
        count = 0
        for keys in (_own_keys, _module_keys):
            ours = _grouped(keys(self.a), self.of_a)
            theirs = _grouped(keys(self.b), self.of_b)
            for key, first in ours.items():
                second = theirs.get(key)
                if second:
                    count += self._link(self._paired(first, second, exactly), "name")
        return count

    def _paired(self, first: Tokens, second: Tokens, exactly: bool) -> list[tuple[int, int]]:
        if not exactly:
            return list(zip(first, second, strict=False))
        ours, theirs = [self.a.exact[i] for i in first], [self.b.exact[i] for i in second]
        return [(first[x], second[y]) for x, y in aligned(ours, theirs)]

    def structure(self) -> None:
        """Match by history and future, then by order, with weaker requirements at each step."""
        a, b = self.a, self.b
        if self._has_unmatched():
            before = [_histories(side, self.intern) for side in (a, b)]
            after = [_futures(side, self.intern) for side in (a, b)]
            both = [list(zip(*side, strict=True)) for side in zip(before, after, strict=True)]
            self._match_equal(*both)
            self._match_equal(*before)
            self._match_equal(*after)
        # Across formats, only ops with MACs are certain to be in both; within one, all ops give the position.
        if a.graph.format != b.graph.format:
            self._match_in_gaps(a.exact, b.exact, products=True)
        self._match_in_gaps(a.exact, b.exact)
        self._match_equal(_surroundings(a, self.of_a, self.intern), _surroundings(b, self.of_b, self.intern))
        self._match_in_gaps(a.shaped, b.shaped, products=True)
        self._match_in_gaps(a.classed, b.classed, products=True)
        self._match_in_gaps(a.classed, b.classed)

    def _has_unmatched(self) -> bool:
        """Whether both models have unmatched ops."""
        return -1 in self.of_a and -1 in self.of_b

    def _match_equal(self, ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> None:
        """Match ops of equal tokens in order of occurrence, independent of their neighbors."""
        unmatched = _grouped(theirs, self.of_b)
        for token, first in _grouped(ours, self.of_a).items():
            self._link(zip(first, unmatched.get(token, ()), strict=False), "structure")

    def _match_in_gaps(self, ours: Tokens, theirs: Tokens, products: bool = False) -> None:
        """Match equal tokens in order, between matched ops that are in the same order in both models."""
        if not self._has_unmatched():
            return
        anchors = increasing([(i, j) for i, j in enumerate(self.of_a) if j >= 0])
        ends = [*anchors, (len(ours), len(theirs))]
        start = (0, 0)
        for end in ends:
            first = self._free(self.a, self.of_a, start[0], end[0], products)
            second = self._free(self.b, self.of_b, start[1], end[1], products)
            if first and second:
                pairs = aligned([ours[i] for i in first], [theirs[j] for j in second])
                self._link(((first[x], second[y]) for x, y in pairs), "structure")
            start = (end[0] + 1, end[1] + 1)

    @staticmethod
    def _free(side: Facts, partner: Tokens, start: int, end: int, products: bool) -> Tokens:
        return [
            index
            for index in range(start, end)
            if partner[index] < 0 and (side.has_macs[index] or not products)
        ]


def _grouped(keys: Sequence[Hashable], partner: Tokens) -> dict[Hashable, Tokens]:
    """The unmatched ops by key, in order, without those whose key is None."""
    groups: dict[Hashable, Tokens] = {}
    for index, key in enumerate(keys):
        if key is not None and partner[index] < 0:
            groups.setdefault(key, []).append(index)
    return groups


def _own_keys(side: Facts) -> list[Hashable]:
    """Names of ops without a module; with a module, their names are mostly counters."""
    rows = zip(side.own_names, side.paths, side.graph.ops, strict=True)
    return [(name, class_of(op.kind)) if name and not path else None for name, path, op in rows]


def _module_keys(side: Facts) -> list[Hashable]:
    ops = side.graph.ops
    return [(path, class_of(op.kind)) if path else None for path, op in zip(side.paths, ops, strict=True)]


def _histories(side: Facts, intern: Interner) -> Tokens:
    """Tokens that are equal for ops with equal facts and equal ancestors."""
    tensors = side.graph.tensors
    input_index = {identity: position for position, identity in enumerate(side.graph.inputs)}
    tokens: Tokens = []
    for index, op in enumerate(side.graph.ops):
        sources: list[Hashable] = []
        for identity in op.inputs:
            if identity in side.producer:
                sources.append(tokens[side.producer[identity]])
            elif identity in input_index:
                sources.append(("input", input_index[identity], dims(tensors[identity].shape)))
        tokens.append(intern(("history", side.exact[index], tuple(sources))))
    return tokens


def _futures(side: Facts, intern: Interner) -> Tokens:
    """Tokens that are equal for ops with equal facts and equal descendants."""
    output_index = {identity: position for position, identity in enumerate(side.graph.outputs)}
    slots = {
        (i, identity): slot for i, op in enumerate(side.graph.ops) for slot, identity in enumerate(op.inputs)
    }
    tokens: Tokens = [0] * len(side.graph.ops)
    for index in range(len(tokens) - 1, -1, -1):
        op = side.graph.ops[index]
        uses: list[tuple[int, int]] = [
            (-1, output_index[output]) for output in op.outputs if output in output_index
        ]
        for output in op.outputs:
            uses += [(tokens[reader], slots[reader, output]) for reader in side.readers.get(output, ())]
        tokens[index] = intern(("future", side.exact[index], tuple(sorted(uses))))
    return tokens


def _surroundings(side: Facts, partner: Tokens, intern: Interner) -> list[int | None]:
    """Tokens that are equal for ops with MACs, equal facts and equal neighbors; None for others."""
    tokens: list[int | None] = []
    for index, token in enumerate(side.exact):
        if partner[index] >= 0 or not side.has_macs[index]:
            tokens.append(None)
            continue
        before = tuple(side.exact[neighbor] for neighbor in side.producers_of(index))
        after = tuple(sorted(side.exact[neighbor] for neighbor in side.readers_of(index)))
        tokens.append(intern(("surroundings", token, before, after)))
    return tokens


# The alignment is exact up to this number of edits (tokens in one sequence only). Beyond that, the longest
# alignment so far is kept and the search restarts after it, so that at most
# (2 x MOST_EDITS + 1) x (length of both) tokens are compared.
MOST_EDITS = 64


def aligned(a: Sequence[int], b: Sequence[int], most_edits: int = MOST_EDITS) -> list[tuple[int, int]]:
    """Indices of equal tokens in both sequences, in order; as many as possible if edits are few.

    The greedy algorithm of Myers (An O(ND) Difference Algorithm and Its Variations, 1986), in segments of at
    most `most_edits` edits.
    """
    shorter = min(len(a), len(b))
    head = 0
    while head < shorter and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < shorter - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    pairs = [(index, index) for index in range(head)]
    x, y, end_x, end_y = head, head, len(a) - tail, len(b) - tail
    while x < end_x and y < end_y:
        x, y, segment_pairs = _Segment(a, b, (x, y), (end_x, end_y)).run(most_edits)
        pairs += segment_pairs
    pairs += [(len(a) - left, len(b) - left) for left in range(tail, 0, -1)]
    return pairs


class _Segment:
    """One search from a start; on a diagonal, (index in `a`) - (index in `b`) is constant."""

    def __init__(
        self, a: Sequence[int], b: Sequence[int], start: tuple[int, int], end: tuple[int, int]
    ) -> None:
        self.a, self.b, self.start, self.end = a, b, start, end
        self.main = start[0] - start[1]
        # The furthest index in `a` on each diagonal, as if one token of `b` had been skipped at the start.
        self.reached = {self.main + 1: start[0]}
        self.history: list[dict[int, int]] = []

    def run(self, most_edits: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The position reached with at most `most_edits` edits, and the equal tokens on the path."""
        goal = self.end[0] - self.end[1]
        for edits in range(most_edits + 1):
            self.history.append(dict(self.reached))
            for diagonal in range(self.main - edits, self.main + edits + 1, 2):
                if self._advance(diagonal) == self.end[0] and diagonal == goal:
                    return self._trace_back(diagonal)
        parity = (self.main + most_edits) % 2
        ended = {k: x for k, x in self.reached.items() if k % 2 == parity}
        return self._trace_back(max(ended, key=lambda k: (2 * ended[k] - k, -abs(goal - k))))

    def _advance(self, diagonal: int) -> int | None:
        """The index in `a` on a diagonal after one more edit and all equal tokens that follow."""
        start = self._edit_start(self.reached, diagonal)
        if start is None:
            self.reached.pop(diagonal, None)
            return None
        a, b, (end_x, end_y) = self.a, self.b, self.end
        x, y = start, start - diagonal
        while x < end_x and y < end_y and a[x] == b[y]:
            x, y = x + 1, y + 1
        self.reached[diagonal] = x
        return x

    def _edit_start(self, reached: dict[int, int], diagonal: int) -> int | None:
        """The index in `a` after an edit that skips a token of `a` or of `b`, whichever is further."""
        skipped, added = reached.get(diagonal - 1), reached.get(diagonal + 1)
        if added is not None and added - diagonal > self.end[1]:
            added = None
        if skipped is not None and skipped < self.end[0] and (added is None or skipped + 1 > added):
            return skipped + 1
        return added

    def _trace_back(self, diagonal: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The end of the path to a diagonal, and its equal tokens in order."""
        x = self.reached[diagonal]
        end = (x, x - diagonal)
        pairs: list[tuple[int, int]] = []
        for before in reversed(self.history):
            start = self._edit_start(before, diagonal)
            assert start is not None  # the path passed here
            while x > start:
                x -= 1
                pairs.append((x, x - diagonal))
            came_down = start == before.get(diagonal + 1)
            diagonal, x = (diagonal + 1, x) if came_down else (diagonal - 1, x - 1)
        return end[0], end[1], pairs[::-1]


def increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs, sorted by first, with increasing seconds (patience sorting)."""
    lasts: list[int] = []  # the last second of the best chain per length
    last_indices: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(lasts, second)
        before.append(last_indices[length - 1] if length else -1)
        if length == len(lasts):
            lasts.append(second)
            last_indices.append(index)
        else:
            lasts[length], last_indices[length] = second, index
    chain = []
    index = last_indices[-1] if last_indices else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]
