"""Exact quotients of numbers that may be symbolic."""

from __future__ import annotations

from math import gcd
from typing import Any

from sizeup.symbolic.decisions import decide
from sizeup.symbolic.expression import (
    Expression,
    Number,
    exact_quotient,
    simplify,
    terms_of,
    without_common,
)


class Ratio:
    """A number divided by a positive one, reduced as far as possible.

    It supports + * / and comparisons, which are decided as those of expressions are.
    """

    __slots__ = ("denominator", "numerator")

    def __init__(self, top: Number, bottom: Number = 1) -> None:
        self.numerator, self.denominator = _lowest(top, bottom)

    def __repr__(self) -> str:
        return f"<{self.numerator} / {self.denominator}>"

    def __hash__(self) -> int:
        return hash((self.numerator, self.denominator))

    def __add__(self, other: Any) -> Ratio:
        right = as_ratio(other)
        if _is_same(self.denominator, right.denominator):
            return Ratio(self.numerator + right.numerator, self.denominator)
        return Ratio(
            self.numerator * right.denominator + right.numerator * self.denominator,
            self.denominator * right.denominator,
        )

    __radd__ = __add__

    def __mul__(self, other: Any) -> Ratio:
        right = as_ratio(other)
        return Ratio(self.numerator * right.numerator, self.denominator * right.denominator)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Ratio:
        right = as_ratio(other)
        return Ratio(self.numerator * right.denominator, self.denominator * right.numerator)

    def _difference(self, other: Any) -> Number:
        """A number with the sign of the difference: denominators are positive."""
        right = as_ratio(other)
        return self.numerator * right.denominator - right.numerator * self.denominator

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float | Expression | Ratio) and decide("==", self._difference(other))

    def __ge__(self, other: Any) -> bool:
        return decide(">=", self._difference(other))

    def __gt__(self, other: Any) -> bool:
        return decide(">=", self._difference(other) - 1)

    def __le__(self, other: Any) -> bool:
        return decide(">=", -self._difference(other))

    def __lt__(self, other: Any) -> bool:
        return decide(">=", -self._difference(other) - 1)


def as_ratio(number: Any) -> Ratio:
    """An int, an expression or a float as a ratio."""
    if isinstance(number, Ratio):
        return number
    if isinstance(number, int | Expression):
        return Ratio(number)
    return Ratio(*float(number).as_integer_ratio())


def divide(left: Number, right: Number) -> Any:
    """left / right: a float of ints, a ratio if one of them is symbolic."""
    if isinstance(left, Expression) or isinstance(right, Expression):
        return Ratio(left, right)
    return left / right


def _is_same(left: Number, right: Number) -> bool:
    return left.same(right) if isinstance(left, Expression) else isinstance(right, int) and left == right


def _lowest(top: Number, bottom: Number) -> tuple[Number, Number]:
    if isinstance(bottom, int):
        if bottom == 1:
            return top, bottom
        if bottom <= 0:
            raise ZeroDivisionError("the divisor of a ratio must be positive")
        shared = gcd(bottom, *terms_of(top).values())
        return simplify(
            {monomial: times // shared for monomial, times in terms_of(top).items()}
        ), bottom // shared
    quotient = exact_quotient(top, bottom)
    return (quotient, 1) if quotient is not None else without_common(top, bottom)
