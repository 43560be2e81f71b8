"""Torch's symbolic sizes, which are sympy's expressions, as ours: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]  # it has no types
from torch.utils._sympy import functions as sizes

from sizeup.symbolic import Expression, Guard, NotClosed, Number, largest, quotient, size, smallest

# A number of sympy as (numerator, whole positive denominator).
_Ratio: TypeAlias = tuple[Number, int]
# Floats with a longer denominator are rounded decimals, whose products are rounded again.
_FINEST = 2**20


class Translator:
    """Translates sizes and conditions over the symbols of one tracing."""

    def __init__(self, names: Mapping[Any, str]) -> None:
        self._names = names  # of sympy's symbols
        self._known: dict[Any, _Ratio] = {}

    def knows(self, expression: Any) -> bool:
        """Whether it depends on free dimensions alone, not on data."""
        return all(each in self._names for each in expression.free_symbols)

    def number(self, expression: Any) -> Number:
        """A whole number."""
        top, bottom = self._ratio(expression)
        if bottom != 1:
            raise NotClosed(f"{expression} is no whole number")
        return top

    def condition(self, expression: Any) -> Guard | None:
        """A condition, or None for what is always true."""
        if expression in (sympy.true, True):
            return None
        if isinstance(expression, sympy.Not):
            inner = self.condition(expression.args[0])
            if inner is not None:
                return inner.negated()
        elif isinstance(expression, sympy.And | sympy.Or):
            found = [self.condition(each) for each in expression.args]
            parts = tuple(each for each in found if each is not None)
            if len(parts) == len(found):
                return Guard("and" if isinstance(expression, sympy.And) else "or", parts=parts)
        elif isinstance(expression, sympy.core.relational.Relational):
            return self._relation(expression)
        raise NotClosed(f"the condition {expression}")

    def _relation(self, expression: Any) -> Guard:
        (left, under_left), (right, under_right) = map(self._ratio, expression.args)
        difference = left * under_right - right * under_left
        made: Mapping[type, Callable[[], Guard]] = {
            sympy.Eq: lambda: Guard("==", difference),
            sympy.Ne: lambda: Guard("!=", difference),
            sympy.Ge: lambda: Guard(">=", difference),
            sympy.Gt: lambda: Guard(">=", difference - 1),
            sympy.Le: lambda: Guard(">=", -difference),
            sympy.Lt: lambda: Guard(">=", -difference - 1),
        }
        return made[type(expression)]()

    def _ratio(self, expression: Any) -> _Ratio:
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = self._translated(expression)
        return found

    def _translated(self, expression: Any) -> _Ratio:
        if isinstance(expression, sympy.Symbol):
            if expression not in self._names:
                raise NotClosed(f"{expression} depends on data")
            return size(self._names[expression]), 1
        if isinstance(expression, sympy.Rational | sympy.Float):
            value = Fraction(float(expression) if isinstance(expression, sympy.Float) else str(expression))
            if value.denominator > _FINEST:
                raise NotClosed(f"{expression} is a rounded number")
            return value.numerator, value.denominator
        rule = _RULES.get(type(expression))
        if rule is None:
            raise NotClosed(f"{type(expression).__name__} in {expression}")
        return rule([self._ratio(each) for each in expression.args])


def _sum(parts: list[_Ratio]) -> _Ratio:
    return reduce(lambda a, b: _reduced(a[0] * b[1] + b[0] * a[1], a[1] * b[1]), parts)


def _product(parts: list[_Ratio]) -> _Ratio:
    return reduce(lambda a, b: _reduced(a[0] * b[0], a[1] * b[1]), parts)


def _reduced(top: Number, bottom: int) -> _Ratio:
    whole = quotient(top, bottom)
    exact = bottom == 1 or _is_zero(whole * bottom - top)
    return (whole, 1) if exact else (top, bottom)


def _is_zero(number: Number) -> bool:
    return not isinstance(number, Expression) and number == 0


def _power(parts: list[_Ratio]) -> _Ratio:
    (top, bottom), exponent = parts[0], _whole(parts[1])
    if isinstance(exponent, Expression) or exponent < 0:
        raise NotClosed("a power that is no small whole number")
    return top**exponent, bottom**exponent


def _whole(part: _Ratio) -> Number:
    if part[1] != 1:
        raise NotClosed("a fraction where a whole number is expected")
    return part[0]


def _floor_of_quotient(parts: list[_Ratio]) -> _Ratio:
    left, right = map(_whole, parts)
    return quotient(left, right), 1


def _ceiling_of_quotient(parts: list[_Ratio]) -> _Ratio:
    left, right = map(_whole, parts)
    return -quotient(-left, right), 1


def _remainder(parts: list[_Ratio]) -> _Ratio:
    left, right = map(_whole, parts)
    return left - quotient(left, right) * right, 1


def _true_quotient(parts: list[_Ratio]) -> _Ratio:
    (top, bottom), (other, under) = parts
    if isinstance(other, Expression) or other <= 0:
        raise NotClosed("a quotient of floats by a free dimension")
    return _reduced(top * under, bottom * other)


def _floor(parts: list[_Ratio]) -> _Ratio:
    # Exact for floats too: a quotient of sizes is never rounded as far as the next whole number.
    return quotient(*parts[0]), 1


def _ceiling(parts: list[_Ratio]) -> _Ratio:
    return -quotient(-parts[0][0], parts[0][1]), 1


def _digits(parts: list[_Ratio]) -> _Ratio:
    base, divisor, modulus = map(_whole, parts)
    left = quotient(base, divisor)
    return left - quotient(left, modulus) * modulus, 1


_RULES: dict[type, Callable[[list[_Ratio]], _Ratio]] = {
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Pow: _power,
    sympy.Mod: _remainder,
    sympy.floor: _floor,
    sympy.ceiling: _ceiling,
    sympy.Max: lambda parts: (largest(map(_whole, parts)), 1),
    sympy.Min: lambda parts: (smallest(map(_whole, parts)), 1),
    sizes.FloorDiv: _floor_of_quotient,
    sizes.CleanDiv: _floor_of_quotient,
    sizes.CeilDiv: _ceiling_of_quotient,
    sizes.Mod: _remainder,
    sizes.PythonMod: _remainder,
    sizes.ModularIndexing: _digits,
    sizes.IntTrueDiv: _true_quotient,
    sizes.FloatTrueDiv: _true_quotient,
    sizes.FloorToInt: _floor,
    sizes.CeilToInt: _ceiling,
    # Sizes are not negative, so that cutting off is rounding down.
    sizes.TruncToInt: _floor,
    sizes.ToFloat: lambda parts: parts[0],
    sizes.Identity: lambda parts: parts[0],
    sizes.PowByNatural: _power,
    sizes.Max: lambda parts: (largest(map(_whole, parts)), 1),
    sizes.Min: lambda parts: (smallest(map(_whole, parts)), 1),
}
