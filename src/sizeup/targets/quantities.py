"""Parses quantities: a number and its unit, such as "216 MHz" or "320 KiB"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sizeup.errors import SizeupError
from sizeup.units import quoted

_NUMBER = r"(?P<number>\d+(?:\.\d+)?)"
_WRITTEN = re.compile(rf"{_NUMBER} ?(?P<unit>[^\d\s].*)")
_BARE = re.compile(_NUMBER)
_LONGEST = 40  # characters of a value in a message
_BUS = re.compile(rf"(?P<bits>\d+) bit x {_NUMBER} MT/s")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A physical quantity with its units and the plausible range of its values, in the unit of scale 1."""

    description: str
    example: str
    scales: Mapping[str, float]
    least: float
    most: float
    limit: str = ""  # an example of a limit that a user sets
    needs_unit_below: float = 0.0  # in a limit given as text: a smaller number may be meant in a larger unit
    is_whole: bool = False  # its values are integers, such as bytes: a decimal is not rounded before the unit


_TIERS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}

CLOCK = Quantity(
    "a clock", "216 MHz", {f"{tier}Hz": scale for tier, scale in list(_TIERS.items())[:4]}, 1e3, 2e10
)
# KiB are powers of 1024, KB powers of 1000.
SIZE = Quantity(
    "a size",
    "320 KiB",
    {
        "B": 1,
        **{f"{tier}iB": 1 << 10 * power for power, tier in enumerate("KMGT", 1)},
        **{f"{tier}B": scale for tier, scale in list(_TIERS.items())[1:5]},
        "KB": 1e3,
    },
    1,
    2**50,
    "320KiB",
    1024,
    is_whole=True,
)
BANDWIDTH = Quantity(
    "a bandwidth in powers of 1000",
    "34.1 GB/s",
    {f"{tier}B/s": scale for tier, scale in _TIERS.items()},
    1e3,
    1e16,
)
POWER = Quantity("a power", "5 W", {"uW": 1e-6, "mW": 1e-3, "W": 1.0, "kW": 1e3}, 1e-7, 1e5)
TIME = Quantity("a time", "5 us", {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}, 1e-10, 10, "20ms", math.inf)
ENERGY = Quantity(
    "an energy",
    "3 mJ",
    {"nJ": 1e-9, "uJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3},
    1e-12,
    1e9,
    "3mJ",
    math.inf,
)
COUNT = Quantity("a count", "20 M", {tier: scale for tier, scale in _TIERS.items() if tier}, 0, 1e24, "20M")
# Vendors count a MAC as two operations.
RATE = Quantity(
    "a rate",
    "26 TOPS",
    {
        f"{tier}{unit}": scale * macs
        for tier, scale in _TIERS.items()
        for unit, macs in {"MAC/s": 1.0, "OPS": 0.5, "FLOPS": 0.5}.items()
    },
    1e3,
    1e19,
)


def parse(text: str, quantity: Quantity) -> float:
    """The value of a text in Hz, bytes, bytes/s, W, s, J or MAC/s.

    Raises ValueError if the text has no known unit or the value is out of range.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None or match["unit"] not in quantity.scales:
        known = ", ".join(quantity.scales)
        raise ValueError(
            f"{quoted(text)} is not {quantity.description} such as {quantity.example!r} (units: {known})"
        )
    number, scale = match["number"], quantity.scales[match["unit"]]
    try:
        value = float(Fraction(number) * int(scale)) if quantity.is_whole else float(number) * scale
    except OverflowError:  # of integers; products of floats are infinite
        value = math.inf
    return _plausible(value, text, quantity)


def parse_limit(value: float | str | None, quantity: Quantity, name: str) -> float | None:
    """The value of a user's limit, from a text with its unit or a plain number; None stays None.

    A text that is a time, an energy or a small size needs a unit: "20" may be meant as 20 ms. Raises
    SizeupError with the option or setting `name` if it is not a number, or negative or infinite; any finite
    amount is plausible.
    """
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    location = f"{name} {_shown(text if text else value)}"
    if _BARE.fullmatch(text) and _needs_unit(float(text), quantity):
        raise SizeupError(f"{location}: give a unit, e.g. {_shown(text)}{_unit(quantity.limit)}")
    try:
        wide = replace(quantity, least=0.0, most=math.inf)
        amount = float(value) if text.isdecimal() or not isinstance(value, str) else parse(text, wide)
    except (TypeError, ValueError, OverflowError):
        description = quantity.description.partition(" in ")[0]
        raise SizeupError(f"{location}: not {description}; use e.g. {quantity.limit}") from None
    if not 0 <= amount < math.inf:
        raise SizeupError(f"{location} is not a limit; it must be 0 or a positive, finite number")
    return amount


def _needs_unit(number: float, quantity: Quantity) -> bool:
    """Whether a number without a unit may be meant in another one; 0 bytes are 0 in every unit."""
    return number < quantity.needs_unit_below and (number > 0 or not quantity.is_whole)


def _shown(value: float | str) -> str:
    """A value as it was typed, or quoted if it is empty, long or not printable."""
    is_plain = isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= _LONGEST
    return str(value) if is_plain else quoted(value)


def _unit(text: str) -> str:
    return text.lstrip("0123456789")


def bus_bandwidth(text: str) -> float:
    """The bytes per second of a memory bus such as "64 bit x 4266 MT/s"."""
    match = _BUS.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a memory bus such as '64 bit x 4266 MT/s'")
    return _plausible(int(match["bits"]) / 8 * float(match["number"]) * 1e6, text, BANDWIDTH)


def _plausible(value: float, text: str, quantity: Quantity) -> float:
    if not quantity.least <= value <= quantity.most:
        unit = next((unit for unit, scale in quantity.scales.items() if scale == 1), "")
        limits = f"{quantity.least:g} to {quantity.most:g} {unit}".rstrip()
        raise ValueError(f"{quoted(text)} is out of range for {quantity.description} ({limits})")
    return value
