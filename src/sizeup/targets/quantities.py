"""Quantities as people write them in a file: a number and its unit, such as "216 MHz" or "320 KiB"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sizeup.errors import SizeupError
from sizeup.units import quoted

_NUMBER = r"(?P<number>\d+(?:\.\d+)?)"
_WRITTEN = re.compile(rf"{_NUMBER} ?(?P<unit>[^\d\s].*)")
_BUS = re.compile(rf"(?P<bits>\d+) bit x {_NUMBER} MT/s")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a unit measures; numbers outside of `least` to `most` are taken for slips of the pen."""

    what: str
    example: str
    scales: Mapping[str, float]
    least: float
    most: float


_TIERS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}

CLOCK = Quantity(
    "a clock", "216 MHz", {f"{tier}Hz": scale for tier, scale in list(_TIERS.items())[:4]}, 1e3, 2e10
)
SIZE = Quantity(
    "a size in powers of 1024",
    "320 KiB",
    {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    1,
    2**50,
)
BANDWIDTH = Quantity(
    "a bandwidth in powers of 1000",
    "34.1 GB/s",
    {f"{tier}B/s": scale for tier, scale in _TIERS.items()},
    1e3,
    1e16,
)
POWER = Quantity("a power", "5 W", {"uW": 1e-6, "mW": 1e-3, "W": 1.0, "kW": 1e3}, 1e-7, 1e5)
TIME = Quantity("a time", "5 us", {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}, 1e-10, 10)
ENERGY = Quantity("an energy", "3 mJ", {"nJ": 1e-9, "uJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3}, 1e-12, 1e9)
COUNT = Quantity("a count", "20 M", {tier: scale for tier, scale in _TIERS.items() if tier}, 0, 1e24)
# Makers count the multiplication and the addition of a MAC as two operations.
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
    """The number behind a text, in Hz, bytes, bytes/s, W, s or MAC/s; ValueError says what is wrong."""
    match = _WRITTEN.fullmatch(text)
    if match is None or match["unit"] not in quantity.scales:
        known = ", ".join(quantity.scales)
        raise ValueError(
            f"{quoted(text)} is not {quantity.what} such as {quantity.example!r} (units: {known})"
            f"{_binary(match, quantity)}"
        )
    return _plausible(float(match["number"]) * quantity.scales[match["unit"]], text, quantity)


def _binary(match: re.Match[str] | None, quantity: Quantity) -> str:
    """What to write for a size in KB or MB, which may mean powers of 1000 or of 1024."""
    unit = "" if match is None else f"{match['unit'][0].upper()}iB"
    if match is None or unit not in quantity.scales or match["unit"].upper() != f"{unit[0]}B":
        return ""
    return f"; for powers of 1024 write '{match['number']}{unit}'"


def asked(given: float | str | None, quantity: Quantity) -> float | None:
    """An amount that a user sets, from a text with its unit or a plain number; None stays None.

    Raises SizeupError where it is none; what people wish for knows no limits of hardware.
    """
    if given is None:
        return None
    try:
        text = given.strip() if isinstance(given, str) else ""
        wide = replace(quantity, least=0.0, most=math.inf)
        amount = float(given) if text.isdecimal() or not text else parse(text, wide)
    except (ValueError, OverflowError) as error:
        raise SizeupError(str(error)) from None
    if not 0 <= amount < math.inf:
        raise SizeupError(f"{quoted(given)} is no amount that a budget could have")
    return amount


def bus_bandwidth(text: str) -> float:
    """The bytes per second of a memory bus such as "64 bit x 4266 MT/s"."""
    match = _BUS.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a memory bus such as '64 bit x 4266 MT/s'")
    return _plausible(int(match["bits"]) / 8 * float(match["number"]) * 1e6, text, BANDWIDTH)


def _plausible(value: float, text: str, quantity: Quantity) -> float:
    if not quantity.least <= value <= quantity.most:
        raise ValueError(f"{quoted(text)} cannot be {quantity.what}: no such hardware exists")
    return value
