"""An operator where a dimension is free, and the table of rules for the shapes of what it makes.

Comparisons of sizes are decided by an example and become conditions (`sizeup.symbolic.assuming`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.rules.values import numbers
from sizeup.ops import kind_of, rule_of
from sizeup.symbolic import Expression, NotClosed, Sides, broadcast


class Spot(NamedTuple):
    """An operator with the shapes and the small tensors that it reads; None where one is not known."""

    node: Node
    shapes: Sequence[Sides | None]
    values: Sequence[Array | None]

    def shape(self, index: int = 0) -> Sides:
        """The shape of an input that must be known."""
        found = self.shapes[index] if index < len(self.shapes) else None
        if found is None:
            raise NotClosed(f"the shape of its input {index} is not known")
        return found

    def numbers(self, index: int) -> list[Any]:
        """The numbers of an input that decides a shape."""
        return numbers(self.values[index] if index < len(self.values) else None, f"its input {index}")

    def plain_numbers(self, index: int) -> list[int]:
        """The same, where they may not depend on a free dimension: axes and the like."""
        found = self.numbers(index)
        if any(isinstance(each, Expression) for each in found):
            raise NotClosed(f"its input {index} depends on a free dimension")
        return found

    def given(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def axes(self, place: int) -> list[int]:
        """Axes, which older operators have as an attribute and newer ones as an input."""
        return self.plain_numbers(place) if self.given(place) else list(self.node.integers("axes"))


Rule: TypeAlias = Callable[[Spot], list[Sides]]
RULES: dict[str, Rule] = {}


def shapes_of(spot: Spot) -> list[Sides]:
    """The shapes of an operator's outputs, as far as it has a rule here."""
    rule = RULES.get(spot.node.op)
    if rule is None:
        kind = kind_of("onnx", spot.node.op)
        known = None if kind is None else rule_of(kind)
        if known is None or known.family != "elementwise" or "::" in spot.node.op:
            raise NotClosed("its shape is not known where a dimension is free")
        rule = _broadcast_all
    return rule(spot)


def shapes(names: str) -> Callable[[Rule], Rule]:
    """Register a function for the shapes of ONNX's operators of these names."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def _broadcast_all(spot: Spot) -> list[Sides]:
    given = [spot.shape(index) for index, name in enumerate(spot.node.inputs) if name]
    made = given[0] if given else ()
    for shape in given[1:]:
        made = broadcast(made, shape)
    return [made]
