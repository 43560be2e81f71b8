"""TFLite Micro's planner: the largest first, each at the lowest address that is free while it is in use."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

ONLINE = -1
"""The offset of a buffer that the interpreter is to place itself."""


def place(
    sizes: Sequence[int], firsts: Sequence[int], lasts: Sequence[int], offline: Sequence[int] | None = None
) -> list[int]:
    """The offset of every buffer, in use from its first to its last step.

    Offsets given `offline` are taken as they are, also where they overlap. Of equally large buffers the
    one added last is placed first, because the interpreter fills its list from the end before it sorts.
    The work grows with the pairs of buffers that are in use at once.
    """
    offsets = list(offline) if offline is not None else [ONLINE] * len(sizes)
    placed = _Placed(max(lasts, default=0) + 1)
    online = []
    for buffer, offset in enumerate(offsets):
        if offset == ONLINE:
            online.append(buffer)
        else:
            placed.add(firsts[buffer], lasts[buffer], offset, offset + sizes[buffer])
    for buffer in sorted(online, key=lambda each: (-sizes[each], -each)):
        first, last = firsts[buffer], lasts[buffer]
        offset = _lowest_gap(placed.during(first, last), sizes[buffer])
        offsets[buffer] = offset
        placed.add(first, last, offset, offset + sizes[buffer])
    return offsets


def _lowest_gap(taken: list[tuple[int, int]], size: int) -> int:
    candidate = 0
    for start, end in sorted(taken):
        if start - candidate >= size:
            break
        candidate = max(candidate, end)
    return candidate


class _Placed:
    """Address ranges by the time in which they are taken.

    What is taken at some time during a span was taken at its beginning or begins within it. The former is
    looked up in a binary tree over time, in which a range hangs at the few nodes that make up its time.
    """

    def __init__(self, steps: int) -> None:
        self._leaves = 1 << max(steps - 1, 0).bit_length()
        self._tree: list[list[tuple[int, int]]] = [[] for _ in range(2 * self._leaves)]
        self._beginnings: list[tuple[int, int, int]] = []  # (first step, start, end), sorted

    def add(self, first: int, last: int, start: int, end: int) -> None:
        """Take an address range from the first to the last step."""
        insort(self._beginnings, (first, start, end))
        low, high = first + self._leaves, last + self._leaves + 1
        while low < high:
            if low & 1:
                self._tree[low].append((start, end))
                low += 1
            if high & 1:
                high -= 1
                self._tree[high].append((start, end))
            low, high = low >> 1, high >> 1

    def during(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges that are taken at any time from the first to the last step."""
        found = []
        node = first + self._leaves
        while node:
            found += self._tree[node]
            node >>= 1
        begin = bisect_left(self._beginnings, (first + 1, -1, -1))
        end = bisect_left(self._beginnings, (last + 1, -1, -1))
        found += [(start, stop) for _, start, stop in self._beginnings[begin:end]]
        return found
