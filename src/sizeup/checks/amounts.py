"""Amounts as a file of budgets writes them."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from sizeup.checks.limits import Unit
from sizeup.errors import BudgetError, SizeupError
from sizeup.targets import quantities
from sizeup.units import quoted

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
