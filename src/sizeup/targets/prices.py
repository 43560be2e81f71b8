"""Prices of devices per hour, as users and cluster files write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sizeup.errors import SizeupError
from sizeup.units import quoted

_PRICE = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,20})?)(?: ?([A-Z]{3})(?:/h)?)?")
_LEAST, _MOST = 1e-9, 1e9


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one device per hour."""

    amount: float
    currency: str  # empty if not given


def price_of(text: str) -> Price | None:
    """The price of a text such as `2.50`, `2.50USD` or `2.50 USD/h`; None if it is none."""
    match = _PRICE.fullmatch(text)
    return None if match is None else Price(float(match[1]), match[2] or "")


def parse_price(price: float | str | None) -> Price | None:
    """The price of a number or a text; raises SizeupError unless it is from 1e-9 to 1,000,000,000."""
    if price is None:
        return None
    is_number = isinstance(price, int | float) and not isinstance(price, bool)
    is_number = is_number and _LEAST <= price <= _MOST  # type: ignore[operator]
    parsed = Price(float(price), "") if is_number else price_of(str(price))
    if parsed is None or not _LEAST <= parsed.amount <= _MOST:
        raise SizeupError(f"price {quoted(price)}: give a price per GPU and hour, such as 2.50 or 2.50USD")
    return parsed
