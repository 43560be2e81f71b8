"""How many models go into one task: so many that a task takes a few seconds, and fewer towards the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from sizeup.sweeps.models import Model

Portion: TypeAlias = tuple[Model, ...]

_SECONDS = 4.0  # that a task is to take
_MOST = 16  # models of one, however little they take
_AHEAD = 16  # models for each core that are looked at before they are due
# A core that is done early waits for the others at most as long as a share of what was left takes.
_SHARES = 4
_WEIGHT = 0.2  # of the newest time in the mean


class Portions:
    """Takes models from a list that may have no end, a few at a time."""

    def __init__(self, models: Iterator[Model], cores: int) -> None:
        self._models, self._cores = models, cores
        self._ahead: deque[Model] = deque()
        self._alone: deque[Model] = deque()
        self._error: Exception | None = None
        self._mean: float | None = None

    def take(self) -> Portion:
        """The models of the next task; empty where there are no more."""
        if self._alone:
            return (self._alone.popleft(),)
        self._look_ahead()
        count = min(self._wanted(), -(-len(self._ahead) // (_SHARES * self._cores)))
        return tuple(self._ahead.popleft() for _ in range(count))

    def heard(self, seconds: float) -> None:
        """A model took so long; the first are tried one by one, until that is known."""
        mean = seconds if self._mean is None else self._mean
        self._mean = mean + _WEIGHT * (seconds - mean)

    def give_back(self, portion: Portion) -> None:
        """Models whose task came to nothing, each of which is to have one of its own."""
        self._alone.extend(portion)

    def close(self) -> None:
        """Raise what kept the list from going on, now that all before it is done."""
        if self._error is not None:
            raise self._error

    def _wanted(self) -> int:
        if self._mean is None:
            return 1
        return max(1, min(_MOST, int(_SECONDS / self._mean))) if self._mean > 0 else _MOST

    def _look_ahead(self) -> None:
        while self._error is None and len(self._ahead) < _AHEAD * self._cores:
            try:
                model = next(self._models, None)
            except Exception as error:  # what was named before is evaluated first
                self._error = error
                return
            if model is None:
                return
            self._ahead.append(model)
