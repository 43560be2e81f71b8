"""How long a sweep still takes, by what models of the same format and file size took."""

from __future__ import annotations

import math
from collections import Counter, deque
from statistics import median

from sizeup.sweeps.models import SizeClass

_NEWEST = 9  # times of a class that count
# From one size to another seconds grow with the square root of the bytes: in proportion for files of many
# operators, hardly for files of large weights.
_SLOPE = 0.5


class Remaining:
    """Counts planned models by class, and estimates the seconds of those that are not done yet."""

    def __init__(self, planned: Counter[SizeClass]) -> None:
        self._left = planned.copy()
        self._newest: dict[SizeClass, deque[float]] = {}
        self._medians: dict[SizeClass, float] = {}
        self._first: dict[SizeClass, float] = {}  # of models that waited for imports, until there are others
        self._busy, self._begin = 0.0, math.inf

    def add(self, size_class: SizeClass, seconds: float | None, now: float, is_first: bool = False) -> None:
        """A model is done, in so many seconds; None if its rows were there already."""
        self._left[size_class] -= 1
        if seconds is None:
            return
        self._busy += seconds
        self._begin = min(self._begin, now - seconds)
        if is_first:
            self._first[size_class] = seconds
            return
        newest = self._newest.setdefault(size_class, deque(maxlen=_NEWEST))
        newest.append(seconds)
        self._medians[size_class] = median(newest)

    def seconds(self, now: float) -> float | None:
        """Seconds from now to the end; None before the first measurement."""
        if not self._medians and not self._first:
            return None
        left = {each: count for each, count in self._left.items() if count > 0}
        costs = {each: self._expected(each) for each in left}
        # Models that are evaluated in parallel; what it took to start is no part of what is left.
        at_once = max(self._busy, 1e-9) / max(now - self._begin, 1e-9)
        together = sum(cost * left[each] for each, cost in costs.items()) / at_once
        return max(together, *costs.values(), 0.0)

    def _expected(self, size_class: SizeClass) -> float:
        """The seconds of one model: those of the nearest measured size, of its format if there is one."""
        kind, bits = size_class
        known = self._medians or self._first
        alike = [each for each in known if each[0] == kind] or known
        nearest = min(alike, key=lambda each: abs(each[1] - bits))
        return float(known[nearest] * 2 ** (_SLOPE * (bits - nearest[1])))
