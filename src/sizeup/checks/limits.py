"""Limits and the amounts compared with them, and parsers for amounts in budget files."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sizeup import units
from sizeup.backends.memory_need import MemoryNeed, MemoryPart
from sizeup.errors import BudgetError, SizeupError
from sizeup.targets import quantities
from sizeup.units import quoted

Unit = Literal["bytes", "seconds", "joules", "count", "share"]
# A need within this share of its limit is near it.
_NEAR = 0.1


@dataclass(frozen=True, slots=True)
class Contribution:
    """A layer or tensor that is among the largest contributions to an amount."""

    name: str
    amount: float | None  # None if it depends on data


@dataclass(frozen=True, slots=True)
class Growth:
    """Amounts before and now, as a growth limit compares them."""

    unit: Unit
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit, and the need of a model as a lower and an upper bound.

    A bound is None if it is not known; `unknown` then has the reasons.
    """

    name: str
    unit: Unit
    maximum: float | None  # the limit itself
    need_low: float | None
    need_high: float | None
    expected: float | None = None  # between the bounds, if one value is most likely
    source: str = ""  # the device, option or budget that sets the limit
    unknown: tuple[str, ...] = ()
    parts: tuple[MemoryPart, ...] = ()
    assumptions: tuple[str, ...] = ()
    largest: tuple[Contribution, ...] = ()
    reserve: float = 0.0  # part of the limit that other software may take
    growth: Growth | None = None  # of a growth limit if the amounts are known
    is_applicable: bool = True  # False for the latency of a model that does not fit

    @property
    def need(self) -> float | None:
        """The one amount to show: a lower bound without an upper one, else the expected or upper one."""
        if self.need_high is None and self.need_low is not None:
            return self.need_low
        return self.need_high if self.expected is None else self.expected

    @property
    def fits(self) -> bool | None:
        """Whether the need is within the limit; None if undetermined."""
        if self.maximum is None:
            return None
        if self.need_low is not None and self.need_low > self.maximum:
            return False
        return True if self.need_high is not None and self.need_high + self.reserve <= self.maximum else None

    @property
    def available(self) -> float | None:
        """The limit minus the reserve; of an exceeded limit, the limit itself."""
        return None if self.maximum is None else self.maximum - (0 if self.fits is False else self.reserve)

    @property
    def headroom(self) -> float | None:
        """What is available minus the need; None if either is unknown."""
        return None if self.available is None or self.need is None else self.available - self.need

    @property
    def is_near(self) -> bool:
        """Whether less than 10 % of the limit is left, or whether it fits is undetermined."""
        if self.maximum is None or self.headroom is None:
            return False
        return self.fits is None or 0 <= self.headroom < _NEAR * self.maximum

    def format(self, value: float) -> str:
        """An amount as text, with the unit of this limit."""
        return units.quantity(self.unit, value)


def limit_of(space: MemoryNeed, largest: tuple[Contribution, ...] = ()) -> Limit:
    """A memory of a target as a limit."""
    return Limit(
        space.name,
        "bytes",
        space.limit_bytes,
        space.low_bytes if space.parts else None,
        space.high_bytes,
        None,
        space.source,
        space.unknown,
        space.parts,
        space.assumptions,
        largest,
        space.reserve_bytes,
    )


def verdict(limits: tuple[Limit, ...], refused: str | None = None) -> bool | None:
    """The fit verdict over all limits: no if one is exceeded, else undetermined if one is, else yes."""
    answers = [limit.fits for limit in limits]
    if refused or False in answers:
        return False
    return None if None in answers else True


QUANTITIES = {
    "bytes": quantities.SIZE,
    "seconds": quantities.TIME,
    "joules": quantities.ENERGY,
    "count": quantities.COUNT,
}
# Measures of single layers that a budget can limit.
LAYER_MEASURES: dict[str, Unit] = {
    "macs": "count",
    "params": "count",
    "memory": "bytes",
    "latency": "seconds",
}
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")
_LONGEST = 40


def parse_limit(value: float | str | None, quantity: quantities.Quantity, name: str) -> float | None:
    """The value of a user's limit; an error names the spelling of a unit that is known by another one."""
    try:
        return quantities.parse_limit(value, quantity, name)
    except SizeupError as error:
        spellings = _spellings(value, quantity) if isinstance(value, str) else []
        message, is_unknown, _ = str(error).partition("; use e.g. ")
        if not spellings or not is_unknown:
            raise
        raise SizeupError(f"{message}; use {' or '.join(spellings)}") from None


def _spellings(text: str, quantity: quantities.Quantity) -> list[str]:
    """The amounts that may be meant: 4MB and 4MiB for `4mb`."""
    match = _WITH_UNIT.fullmatch(text.strip())
    if match is None or len(text) > _LONGEST:
        return []
    meant = match[2].lower()
    by_scale = {
        scale: f"{match[1]}{unit}"
        for unit, scale in quantity.scales.items()
        if meant in (unit.lower(), unit.lower().replace("i", ""), unit.lower().removesuffix("b"))
        or f"{meant}b" == unit.lower().replace("i", "")
    }
    return [by_scale[scale] for scale in sorted(by_scale)]


def parse_amount(value: Any, unit: Unit, location: str) -> float:
    """The amount of a limit in a budget file: a text with its unit, or a number in base units."""
    quantity = QUANTITIES[unit]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BudgetError(
            f"{location} is {quoted(value)}, not {quantity.description} such as {quantity.example!r}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise BudgetError(f"{location} is {value}, not {quantity.description} such as {quantity.example!r}")
    if isinstance(value, str) and not value.strip():
        raise BudgetError(f"{location} is empty, not {quantity.description} such as {quantity.example!r}")
    try:
        amount = parse_limit(value, quantity, location)
    except SizeupError as error:
        raise BudgetError(str(error)) from None
    assert amount is not None
    return amount


def parse_share(value: Any, location: str) -> float:
    """A share from a text such as "5%"."""
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or len(match[1]) > _LONGEST:
        raise BudgetError(f"{location} is {quoted(value)}, not a share such as '5%'")
    # Rounded once, as a growth is, so that growth by exactly this share is allowed.
    return float(Fraction(match[1]) / 100)
