"""CPU time of an action, and what it would have been on an undisturbed core."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# CPU seconds of `_additions` on an undisturbed core of the machine kind that limits are stated for.
_UNDISTURBED = 0.078


def cpu_seconds(action: Callable[[], object]) -> float:
    """The CPU time of one call in this process."""
    start = time.process_time()
    action()
    return time.process_time() - start


@dataclass
class Taken:
    """CPU seconds of this process and of the children that ended, divided by how slow the core was."""

    seconds: float = 0.0


@contextmanager
def undisturbed() -> Iterator[Taken]:
    """Times the block as an undisturbed core would take it.

    Virtual machines share their cores: the same loop takes up to four times as long while others are busy.
    So the time is divided by what plain additions right before and after the block show.
    """
    taken = Taken()
    before, start = slowdown(), _now()
    yield taken
    seconds = _now() - start
    taken.seconds = seconds / ((before + slowdown()) / 2)


def slowdown() -> float:
    """How many times slower plain additions are at the moment than on an undisturbed core; at least 1."""
    return max(1.0, cpu_seconds(_additions) / _UNDISTURBED)


def _now() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _additions() -> None:
    total = 0
    for number in range(2_000_000):
        total += number
