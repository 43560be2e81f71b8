"""How much CPU time a file may take that decides by itself how large its model is."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace

from sizeup.errors import LoadError

VARIABLE = "SIZEUP_HF_SECONDS"
# The largest known configurations take 12 s on a server, and longer elsewhere.
_DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """CPU seconds of one thread in which `where` has to be built and recorded."""

    where: str
    total: float
    left: float

    def start(self) -> Clock:
        """A clock that runs from now on."""
        return Clock(self)


class Clock:
    """The CPU time of this thread since it was made, compared with a limit each time that it is asked."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self._started = time.thread_time()

    def check(self) -> None:
        """Raise LoadError if the time is up."""
        limit = self._limit
        if time.thread_time() - self._started > limit.left:
            raise LoadError(
                f"{limit.where}: building the model takes more than {limit.total:g} s of CPU time;"
                f" if you trust the file, set {VARIABLE}={math.ceil(20 * limit.total)} to allow more"
            )

    def rest(self) -> TimeLimit:
        """The limit without the time that has passed, for the next step."""
        spent = time.thread_time() - self._started
        return replace(self._limit, left=self._limit.left - spent)


def time_limit(where: str) -> TimeLimit:
    """The limit that the environment variable sets, or the default."""
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise LoadError(f"{VARIABLE} is {text!r}; set it to a positive number of seconds, such as 60")
    return TimeLimit(where, seconds, seconds)
