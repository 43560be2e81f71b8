"""What is needed of one memory against what is there, from below and from above."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = {"ram": "RAM"}


@dataclass(frozen=True, slots=True)
class Part:
    """One of those that share a memory; `most_bytes` is None where nothing says how much it may take."""

    name: str
    least_bytes: int
    most_bytes: int | None
    how: str  # where the number is from, or what is assumed

    @property
    def is_exact(self) -> bool:
        """Whether it takes precisely this."""
        return self.least_bytes == self.most_bytes


@dataclass(frozen=True, slots=True)
class Space:
    """A memory of a device, and all that a model and its runtime take of it.

    Both the limit and the need may be unknown, for the reasons that `unknown` gives.
    """

    name: str  # 'ram' or 'flash'
    limit_bytes: int | None
    parts: tuple[Part, ...]
    reserve_bytes: int = 0  # of the limit, which something else may take
    where: str = ""  # what the limit is of
    unknown: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What people call it."""
        return WORDS.get(self.name, self.name)

    @property
    def least_bytes(self) -> int:
        """What is certainly needed."""
        return sum(part.least_bytes for part in self.parts)

    @property
    def most_bytes(self) -> int | None:
        """What suffices; None where nothing says so."""
        known = [part.most_bytes for part in self.parts if part.most_bytes is not None]
        return sum(known) if len(known) == len(self.parts) else None

    @property
    def need_bytes(self) -> int:
        """What suffices, or where that is not known, what is certainly needed."""
        most = self.most_bytes
        return self.least_bytes if most is None else most

    @property
    def fits(self) -> bool | None:
        """Whether it has room for all; None where that cannot be told."""
        if self.limit_bytes is None:
            return None
        if self.least_bytes > self.limit_bytes:
            return False
        most = self.most_bytes
        return True if most is not None and most + self.reserve_bytes <= self.limit_bytes else None
