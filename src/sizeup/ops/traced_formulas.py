"""Traced numbers: a cost rule run on them yields its formula as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from sizeup.graph import ABSENT, Graph, Op, Shape
from sizeup.ops.cost_rule import Call, UnknownShape, Value, has_complex_operands

_Symbol = Literal["+", "-", "x", "//", "^"]
_PRECEDENCE: dict[_Symbol, int] = {"+": 1, "-": 1, "x": 2, "//": 2, "^": 3}
_ATOM = 4  # a single number or name


class TracedInt(int):
    """An int that carries its formula as text.

    Operations other than + - * // and ** return a plain int, without a formula.
    """

    text: str
    symbol: _Symbol | None

    @classmethod
    def named(cls, name: str, value: int) -> TracedInt:
        """A named number of the op: a dimension, an element count or an attribute."""
        return cls._create(value, f"{name} {value:,}", None)

    @classmethod
    def _create(cls, value: int, text: str, symbol: _Symbol | None) -> TracedInt:
        number = cls(value)
        number.text = text
        number.symbol = symbol
        return number

    def __add__(self, other: int) -> Any:
        return _combine(self, "+", other, int(self) + other)

    def __radd__(self, other: int) -> Any:
        return _combine(other, "+", self, other + int(self))

    def __sub__(self, other: int) -> Any:
        return _combine(self, "-", other, int(self) - other)

    def __rsub__(self, other: int) -> Any:
        return _combine(other, "-", self, other - int(self))

    def __mul__(self, other: int) -> Any:
        return _combine(self, "x", other, int(self) * other)

    def __rmul__(self, other: int) -> Any:
        return _combine(other, "x", self, other * int(self))

    def __floordiv__(self, other: int) -> Any:
        return _combine(self, "//", other, int(self) // other)

    def __rfloordiv__(self, other: int) -> Any:
        return _combine(other, "//", self, other // int(self))

    # The overloads of int distinguish negative exponents, which return floats.
    def __pow__(self, other: int, modulo: None = None) -> Any:  # type: ignore[override]
        return _combine(self, "^", other, int(self) ** other)


def _combine(left: Any, symbol: _Symbol, right: Any, value: Any) -> Any:
    if not isinstance(left, int) or not isinstance(right, int) or not isinstance(value, int):
        return value
    # sum() starts from 0 and math.prod() from 1: these are not part of the formula.
    neutral = {"+": 0, "x": 1}.get(symbol)
    if left == neutral and not isinstance(left, TracedInt):
        return right
    if right == neutral and not isinstance(right, TracedInt):
        return left
    text = f"{_operand(left, symbol)} {symbol} {_operand(right, symbol, is_right=True)}"
    return TracedInt._create(int(value), text, symbol)


def _operand(value: int, symbol: _Symbol, *, is_right: bool = False) -> str:
    if not isinstance(value, TracedInt):
        return f"{value:,}"
    precedence = _ATOM if value.symbol is None else _PRECEDENCE[value.symbol]
    # a x (b x c) is written a x b x c. Products mixed with quotients need brackets on either side.
    is_associative = symbol == value.symbol and symbol in ("+", "x")
    is_mixed = (
        precedence == _PRECEDENCE[symbol]
        and not is_associative
        and (is_right or "//" in (symbol, value.symbol))
    )
    return f"({value.text})" if precedence < _PRECEDENCE[symbol] or is_mixed else value.text


class _TracedValue(Value):
    __slots__ = ("_name",)

    def __init__(self, name: str, shape: Shape | None) -> None:
        super().__init__(shape)
        self._name = name

    @property
    def shape(self) -> Shape:
        return tuple(
            TracedInt.named(f"{self._name}[{axis}]", size) for axis, size in enumerate(super().shape)
        )

    @property
    def elements(self) -> int:
        if self._shape is None:
            raise UnknownShape
        return TracedInt.named(f"{self._name} elements", math.prod(self._shape))


def traced_call(graph: Graph, op: Op) -> Call:
    """The op in the form that cost rules take, with traced numbers."""
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
        is_complex=has_complex_operands(graph, op),
    )


def _traced_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: TracedInt.named(name, value)
        if isinstance(value, int) and not isinstance(value, bool)
        else value
        for name, value in attrs.items()
    }
