"""Limits: amounts as users write them, parts of a memory, one limit with what was found against it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sizeup import units
from sizeup.errors import BudgetError, SizeupError
from sizeup.targets import quantities
from sizeup.units import quoted

Unit = Literal["bytes", "seconds", "joules", "count", "share"]
# What is within this share of its limit is near it: a little more of anything, and it does not fit.
_NEAR = 0.1


@dataclass(frozen=True, slots=True)
class Large:
    """One of those that make most of an amount: a layer or a tensor."""

    name: str
    amount: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The two amounts that a growth limit compares."""

    unit: Unit
    before: float
    now: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit and what a model needs, from below and from above; the reason where either is not known."""

    name: str
    unit: Unit
    most: float | None  # the limit itself
    least_need: float | None
    most_need: float | None
    expected: float | None = None  # within the two, where something is more likely than the rest
    of: str = ""  # whose limit it is
    unknown: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    assumptions: tuple[str, ...] = ()
    largest: tuple[Large, ...] = ()
    reserve: float = 0.0  # of the limit, which something else may take
    growth: Growth | None = None  # of a growth limit whose amounts are known

    @property
    def need(self) -> float | None:
        """The one figure to show: what is expected, or suffices, or at least is needed."""
        if self.expected is not None:
            return self.expected
        return self.least_need if self.most_need is None else self.most_need

    @property
    def fits(self) -> bool | None:
        """Whether it is kept; None where that cannot be told."""
        if self.most is None:
            return None
        if self.least_need is not None and self.least_need > self.most:
            return False
        return True if self.most_need is not None and self.most_need + self.reserve <= self.most else None

    @property
    def headroom(self) -> float | None:
        """The limit less the need; None if either is unknown. `fits` also counts the reserve."""
        return None if self.most is None or self.need is None else self.most - self.need

    @property
    def is_near(self) -> bool:
        """Whether it is kept with less than a tenth to spare, or may not be kept."""
        if self.most is None or self.headroom is None:
            return False
        return self.fits is None or 0 <= self.headroom - self.reserve < _NEAR * self.most

    def say(self, value: float) -> str:
        """An amount of this limit for people."""
        return units.quantity(self.unit, value)


def limit_of(space: Space, largest: tuple[Large, ...] = ()) -> Limit:
    """A memory of a target as one limit among others."""
    return Limit(
        space.name,
        "bytes",
        space.limit_bytes,
        space.least_bytes,
        space.most_bytes,
        None,
        space.where,
        space.unknown,
        space.parts,
        space.assumptions,
        largest,
        space.reserve_bytes,
    )


def verdict(limits: tuple[Limit, ...], refused: str | None = None) -> bool | None:
    """Of all limits together: one that is not kept decides, then one of which nobody can tell."""
    answers = [each.fits for each in limits]
    if refused or False in answers:
        return False
    return None if None in answers else True


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


QUANTITIES = {
    "bytes": quantities.SIZE,
    "seconds": quantities.TIME,
    "joules": quantities.ENERGY,
    "count": quantities.COUNT,
}
# What may be limited of single layers.
LAYER_MEASURES: dict[str, Unit] = {
    "macs": "count",
    "params": "count",
    "memory": "bytes",
    "latency": "seconds",
}
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")
_LONGEST = 40


def amount_in(given: Any, unit: Unit, where: str) -> float:
    """A limit from a file: a text with its unit, or a number of bytes, seconds, joules or things."""
    quantity = QUANTITIES[unit]
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise BudgetError(f"{where} is {quoted(given)}, not {quantity.what} such as {quantity.example!r}")
    if isinstance(given, float) and not math.isfinite(given):
        raise BudgetError(f"{where} is {given}, not {quantity.what} such as {quantity.example!r}")
    if isinstance(given, str) and not given.strip():
        raise BudgetError(f"{where} is empty, not {quantity.what} such as {quantity.example!r}")
    try:
        found = quantities.asked(given, quantity)
    except SizeupError as error:
        raise BudgetError(f"{where}: {error}") from None
    assert found is not None
    return found


def share_in(given: Any, where: str) -> float:
    """How much more is allowed, from a text such as "5%"."""
    match = _PERCENT.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None or len(match[1]) > _LONGEST:
        raise BudgetError(f"{where} is {quoted(given)}, not a share such as '5%'")
    # Rounded once, as a growth is: what grew by precisely so much is allowed.
    return float(Fraction(match[1]) / 100)
