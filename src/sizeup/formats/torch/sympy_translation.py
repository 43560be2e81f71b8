"""Translate torch's symbolic sizes (sympy expressions) exactly to our expressions, or raise NoClosedForm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]  # it has no types
from torch.utils._sympy import functions as sizes

from sizeup.symbolic import Expression, Guard, NoClosedForm, Number, largest, quotient, size, smallest

# A sympy number as (numerator, positive integer denominator).
_Ratio: TypeAlias = tuple[Number, int]
# Floats with a larger denominator are rounded decimals, so their products are not exact.
_MAX_DENOMINATOR = 2**20


class Translator:
    """Translates sizes and guards over the symbols of one trace."""

    def __init__(self, names: Mapping[Any, str]) -> None:
        self._names = names  # by sympy symbol
        self._cache: dict[Any, _Ratio] = {}

    def is_closed(self, expression: Any) -> bool:
        """Return whether an expression depends on symbolic dimensions only, not on data."""
        return all(symbol in self._names for symbol in expression.free_symbols)

    def number(self, expression: Any) -> Number:
        """Translate an integer expression."""
        top, bottom = self._ratio(expression)
        if bottom != 1:
            raise NoClosedForm(f"{expression} is not an integer")
        return top

    def guard(self, expression: Any) -> Guard | None:
        """Translate a condition; None if it is always true."""
        if expression in (sympy.true, True):
            return None
        if isinstance(expression, sympy.Not):
            inner = self.guard(expression.args[0])
            if inner is not None:
                return inner.negated()
        elif isinstance(expression, sympy.And | sympy.Or):
            guards_or_none = [self.guard(part) for part in expression.args]
            parts = tuple(part for part in guards_or_none if part is not None)
            if len(parts) == len(guards_or_none):
                return Guard("and" if isinstance(expression, sympy.And) else "or", parts=parts)
        elif isinstance(expression, sympy.core.relational.Relational):
            return self._relation(expression)
        raise NoClosedForm(f"unsupported condition {expression}")

    def _relation(self, expression: Any) -> Guard:
        (left, under_left), (right, under_right) = map(self._ratio, expression.args)
        difference = left * under_right - right * under_left
        guards: Mapping[type, Callable[[], Guard]] = {
            sympy.Eq: lambda: Guard("==", difference),
            sympy.Ne: lambda: Guard("!=", difference),
            sympy.Ge: lambda: Guard(">=", difference),
            sympy.Gt: lambda: Guard(">=", difference - 1),
            sympy.Le: lambda: Guard(">=", -difference),
            sympy.Lt: lambda: Guard(">=", -difference - 1),
        }
        return guards[type(expression)]()

    def _ratio(self, expression: Any) -> _Ratio:
        ratio = self._cache.get(expression)
        if ratio is None:
            ratio = self._cache[expression] = self._translate(expression)
        return ratio

    def _translate(self, expression: Any) -> _Ratio:
        if isinstance(expression, sympy.Symbol):
            if expression not in self._names:
                raise NoClosedForm(f"{expression} depends on data")
            return size(self._names[expression]), 1
        if isinstance(expression, sympy.Rational | sympy.Float):
            value = Fraction(float(expression) if isinstance(expression, sympy.Float) else str(expression))
            if value.denominator > _MAX_DENOMINATOR:
                raise NoClosedForm(f"{expression} is a rounded number")
            return value.numerator, value.denominator
        translate = _RULES.get(type(expression))
        if translate is None:
            raise NoClosedForm(f"unsupported function {type(expression).__name__} in {expression}")
        return translate([self._ratio(argument) for argument in expression.args])


def _sum(parts: list[_Ratio]) -> _Ratio:
    return reduce(lambda a, b: _reduced(a[0] * b[1] + b[0] * a[1], a[1] * b[1]), parts)


def _product(parts: list[_Ratio]) -> _Ratio:
    return reduce(lambda a, b: _reduced(a[0] * b[0], a[1] * b[1]), parts)


def _reduced(top: Number, bottom: int) -> _Ratio:
    floor = quotient(top, bottom)
    is_exact = bottom == 1 or _is_zero(floor * bottom - top)
    return (floor, 1) if is_exact else (top, bottom)


def _is_zero(number: Number) -> bool:
    return not isinstance(number, Expression) and number == 0


def _power(parts: list[_Ratio]) -> _Ratio:
    (top, bottom), exponent = parts[0], _integer(parts[1])
    if isinstance(exponent, Expression) or exponent < 0:
        raise NoClosedForm("an exponent is not a non-negative integer")
    return top**exponent, bottom**exponent


def _integer(part: _Ratio) -> Number:
    if part[1] != 1:
        raise NoClosedForm("a fraction instead of an integer")
    return part[0]


def _floor_division(parts: list[_Ratio]) -> _Ratio:
    left, right = map(_integer, parts)
    return quotient(left, right), 1


def _ceiling_division(parts: list[_Ratio]) -> _Ratio:
    left, right = map(_integer, parts)
    return -quotient(-left, right), 1


def _remainder(parts: list[_Ratio]) -> _Ratio:
    left, right = map(_integer, parts)
    return left - quotient(left, right) * right, 1


def _true_division(parts: list[_Ratio]) -> _Ratio:
    (top, bottom), (other, under) = parts
    if isinstance(other, Expression) or other <= 0:
        raise NoClosedForm("a float division by a symbolic dimension")
    return _reduced(top * under, bottom * other)


def _floor(parts: list[_Ratio]) -> _Ratio:
    # Exact for floats too: rounding a quotient of sizes never reaches the next integer.
    return quotient(*parts[0]), 1


def _ceiling(parts: list[_Ratio]) -> _Ratio:
    return -quotient(-parts[0][0], parts[0][1]), 1


def _modular_indexing(parts: list[_Ratio]) -> _Ratio:
    base, divisor, modulus = map(_integer, parts)
    left = quotient(base, divisor)
    return left - quotient(left, modulus) * modulus, 1


_RULES: dict[type, Callable[[list[_Ratio]], _Ratio]] = {
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Pow: _power,
    sympy.Mod: _remainder,
    sympy.floor: _floor,
    sympy.ceiling: _ceiling,
    sympy.Max: lambda parts: (largest(map(_integer, parts)), 1),
    sympy.Min: lambda parts: (smallest(map(_integer, parts)), 1),
    sizes.FloorDiv: _floor_division,
    sizes.CleanDiv: _floor_division,
    sizes.CeilDiv: _ceiling_division,
    sizes.Mod: _remainder,
    sizes.PythonMod: _remainder,
    sizes.ModularIndexing: _modular_indexing,
    sizes.IntTrueDiv: _true_division,
    sizes.FloatTrueDiv: _true_division,
    sizes.FloorToInt: _floor,
    sizes.CeilToInt: _ceiling,
    # Sizes are not negative, so truncation equals floor.
    sizes.TruncToInt: _floor,
    sizes.ToFloat: lambda parts: parts[0],
    sizes.Identity: lambda parts: parts[0],
    sizes.PowByNatural: _power,
    sizes.Max: lambda parts: (largest(map(_integer, parts)), 1),
    sizes.Min: lambda parts: (smallest(map(_integer, parts)), 1),
}
