"""A number that is not known yet: it can be computed with, but neither cast nor compared."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

Sizes = Mapping[str, int]


class Symbol:
    """An expression of named sizes, built by + - * // and small powers only."""

    __slots__ = ("_evaluate",)

    def __init__(self, evaluate: Callable[[Sizes], int]) -> None:
        self._evaluate = evaluate

    @classmethod
    def named(cls, name: str) -> Symbol:
        return cls(lambda sizes: sizes[name])

    def at(self, sizes: Sizes) -> int:
        return self._evaluate(sizes)

    def _joined(self, other: Any, function: Callable[[int, int], int], *, swapped: bool = False) -> Symbol:
        if not isinstance(other, Symbol | int):
            raise TypeError("a dimension was joined with something that is no whole number")
        left, right = (other, self) if swapped else (self, other)
        return Symbol(lambda sizes: function(value_of(left, sizes), value_of(right, sizes)))

    def __add__(self, other: Any) -> Symbol:
        return self._joined(other, operator.add)

    def __radd__(self, other: Any) -> Symbol:
        return self._joined(other, operator.add, swapped=True)

    def __sub__(self, other: Any) -> Symbol:
        return self._joined(other, operator.sub)

    def __rsub__(self, other: Any) -> Symbol:
        return self._joined(other, operator.sub, swapped=True)

    def __mul__(self, other: Any) -> Symbol:
        return self._joined(other, operator.mul)

    def __rmul__(self, other: Any) -> Symbol:
        return self._joined(other, operator.mul, swapped=True)

    def __floordiv__(self, other: Any) -> Symbol:
        return self._joined(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Symbol:
        return self._joined(other, operator.floordiv, swapped=True)

    def __pow__(self, exponent: int) -> Symbol:
        if type(exponent) is not int or not 0 < exponent < 4:
            raise TypeError("a dimension is raised to small powers only")
        return Symbol(lambda sizes: self.at(sizes) ** exponent)

    def __eq__(self, other: object) -> bool:
        # Broadcasting compares with 1; a symbolic dimension is not 1.
        if type(other) is int and other == 1:
            return False
        return self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("a dimension was cast or compared")

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __int__ = __index__ = __float__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = _refuse


def value_of(number: Symbol | int, sizes: Sizes) -> int:
    """What a result is at these sizes, be it symbolic or plain."""
    return number.at(sizes) if isinstance(number, Symbol) else number
