"""An operator whose numbers remember their names, so that a rule run on it tells its own formula."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from sizeup.graph import ABSENT, Graph, Op, Shape
from sizeup.ops.rule import Call, UnknownShape, Value

_Symbol = Literal["+", "-", "x", "//", "^"]
# How tightly a piece of text binds; a single number or name binds tightest.
_STRENGTH: dict[_Symbol, int] = {"+": 1, "-": 1, "x": 2, "//": 2, "^": 3}
_ATOM = 4


class Traced(int):
    """An int that remembers in words how it came about.

    Whatever a rule does beyond + - * // and ** gives a plain int: the trail ends, the number stays.
    """

    text: str
    symbol: _Symbol | None

    @classmethod
    def named(cls, name: str, value: int) -> Traced:
        """A number that comes straight from the operator."""
        return cls._made(value, f"{name} {value:,}", None)

    @classmethod
    def _made(cls, value: int, text: str, symbol: _Symbol | None) -> Traced:
        made = cls(value)
        made.text = text
        made.symbol = symbol
        return made

    def __add__(self, other: int) -> Any:
        return _joined(self, "+", other, int(self) + other)

    def __radd__(self, other: int) -> Any:
        return _joined(other, "+", self, other + int(self))

    def __sub__(self, other: int) -> Any:
        return _joined(self, "-", other, int(self) - other)

    def __rsub__(self, other: int) -> Any:
        return _joined(other, "-", self, other - int(self))

    def __mul__(self, other: int) -> Any:
        return _joined(self, "x", other, int(self) * other)

    def __rmul__(self, other: int) -> Any:
        return _joined(other, "x", self, other * int(self))

    def __floordiv__(self, other: int) -> Any:
        return _joined(self, "//", other, int(self) // other)

    def __rfloordiv__(self, other: int) -> Any:
        return _joined(other, "//", self, other // int(self))

    # int's own overloads tell negative exponents, which give floats, from the rest.
    def __pow__(self, other: int, modulo: None = None) -> Any:  # type: ignore[override]
        return _joined(self, "^", other, int(self) ** other)


def _joined(left: Any, symbol: _Symbol, right: Any, value: Any) -> Any:
    if not isinstance(left, int) or not isinstance(right, int) or not isinstance(value, int):
        return value
    # sum() starts from 0 and math.prod() from 1: neither belongs to the formula.
    neutral = {"+": 0, "x": 1}.get(symbol)
    if left == neutral and not isinstance(left, Traced):
        return right
    if right == neutral and not isinstance(right, Traced):
        return left
    text = f"{_operand(left, symbol)} {symbol} {_operand(right, symbol, is_right=True)}"
    return Traced._made(int(value), text, symbol)


def _operand(value: int, symbol: _Symbol, *, is_right: bool = False) -> str:
    if not isinstance(value, Traced):
        return f"{value:,}"
    strength = _ATOM if value.symbol is None else _STRENGTH[value.symbol]
    # a x (b x c) reads as a x b x c; products and quotients mixed need brackets on either side.
    chained = symbol == value.symbol and symbol in ("+", "x")
    mixed = strength == _STRENGTH[symbol] and not chained and (is_right or "//" in (symbol, value.symbol))
    enclosed = strength < _STRENGTH[symbol] or mixed
    return f"({value.text})" if enclosed else value.text


class _TracedValue(Value):
    __slots__ = ("_name",)

    def __init__(self, name: str, shape: Shape | None) -> None:
        super().__init__(shape)
        self._name = name

    @property
    def shape(self) -> Shape:
        return tuple(Traced.named(f"{self._name}[{axis}]", size) for axis, size in enumerate(super().shape))

    @property
    def elements(self) -> int:
        if self._shape is None:
            raise UnknownShape
        return Traced.named(f"{self._name} elements", math.prod(self._shape))


def traced_call(graph: Graph, op: Op) -> Call:
    """The view of an operator that its rule computes from, every number carrying its name."""
    tensors = graph.tensors
    several = len(op.outputs) > 1
    return Call(
        [
            None if identity == ABSENT else _TracedValue(f"input {index}", tensors[identity].shape)
            for index, identity in enumerate(op.inputs)
        ],
        [
            _TracedValue(f"output {index}" if several else "output", tensors[identity].shape)
            for index, identity in enumerate(op.outputs)
        ],
        _traced_attributes(op.attrs),
    )


def _traced_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: Traced.named(name, value) if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in attrs.items()
    }
