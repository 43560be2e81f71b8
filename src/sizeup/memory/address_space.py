"""Address ranges that are occupied during intervals of time, for planners that take the lowest free offset.

A segment tree over time has two unions of address ranges in each node: those occupied during all of its time,
and those occupied at any part of it. A union merges ranges that touch, so that the unions of a dense plan are
short, and a look-up takes the logarithm of their length. Ranges with gaps between them that are too small are
skipped one by one: their number has no such bound, so all look-ups together have a limit of steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from sizeup.errors import LimitReached

MAX_STEPS = 4_000_000
"""The most look-ups in unions, and ranges skipped in them, of one memory plan."""


class _Union:
    """Address ranges that neither touch nor overlap, in ascending order."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start: int, end: int) -> bool:
        """Add a range, merged with those that it touches; whether it was not there before."""
        low = bisect_left(self.ends, start)
        if low < len(self.ends) and self.starts[low] <= start and end <= self.ends[low]:
            return False
        high = bisect_right(self.starts, end)
        if low < high:
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]
        return True


class AddressSpace:
    """What is occupied at which time; times are those of `firsts` and `lasts`."""

    def __init__(self, firsts: Iterable[int], lasts: Iterable[int]) -> None:
        times = sorted(set(chain(firsts, lasts)))
        self._leaf = {time: index for index, time in enumerate(times)}
        self._leaves = 1 << len(times).bit_length()
        # By node: occupied during all of its time but not of its parent's, and at a part of its time.
        self._always = defaultdict[int, _Union](_Union)
        self._ever = defaultdict[int, _Union](_Union)
        self._steps = 0

    def add(self, first: int, last: int, start: int, end: int) -> None:
        """Occupy an address range from the first to the last step."""
        for node in self._nodes(first, last):
            self._always[node].add(start, end)
            # What is occupied at a part of a node's time is occupied at a part of its parent's.
            while (node := node >> 1) and self._ever[node].add(start, end):
                pass

    def lowest_gap(self, first: int, last: int, size: int) -> int:
        """The lowest offset at which `size` bytes are free from the first to the last step.

        Raises LimitReached if the look-ups took too many steps.
        """
        unions = self._during(first, last)
        offset = steps = position = 0
        unsettled = len(unions)
        while unsettled:
            union = unions[position]
            position = (position + 1) % len(unions)
            index = bisect_right(union.ends, offset)
            unsettled -= 1
            steps += 1
            while index < len(union.starts) and union.starts[index] < offset + size:
                offset = union.ends[index]
                index += 1
                steps += 1
                unsettled = len(unions) - 1
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise LimitReached(f"the memory plan takes more than {MAX_STEPS:,} steps")
        return offset

    def end(self, first: int, last: int) -> int:
        """The end of the highest range that is occupied at any time from the first to the last step."""
        return max((union.ends[-1] for union in self._during(first, last)), default=0)

    def _during(self, first: int, last: int) -> list[_Union]:
        nodes = self._nodes(first, last)
        ends = (self._leaf[first] + self._leaves, self._leaf[last] + self._leaves)
        above = {end >> shift for end in ends for shift in range(self._leaves.bit_length())}
        unions = [self._always[node] for node in above.union(nodes) if node in self._always]
        return unions + [self._ever[node] for node in nodes if node in self._ever]

    def _nodes(self, first: int, last: int) -> list[int]:
        """The nodes whose times are together those from the first to the last step."""
        nodes = []
        low, high = self._leaf[first] + self._leaves, self._leaf[last] + self._leaves + 1
        while low < high:
            if low & 1:
                nodes.append(low)
                low += 1
            if high & 1:
                high -= 1
                nodes.append(high)
            low, high = low >> 1, high >> 1
        return nodes
