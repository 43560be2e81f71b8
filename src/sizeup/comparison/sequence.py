"""Sequences of tokens put side by side, in time that grows with their length and not with its square."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

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
