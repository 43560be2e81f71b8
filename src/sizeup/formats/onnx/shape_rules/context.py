"""The table of shape rules, and the context in which they run.

Comparisons of symbolic sizes are decided by an example and recorded as guards (`sizeup.symbolic.assuming`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.shape_rules.values import numbers
from sizeup.ops import cost_rule_of, op_kind_of
from sizeup.symbolic import Expression, NoClosedForm, SymbolicShape, broadcast


class InferenceContext(NamedTuple):
    """A node with the shapes of its inputs and their values if small; None if unknown."""

    node: Node
    shapes: Sequence[SymbolicShape | None]
    values: Sequence[Array | None]

    def shape(self, index: int = 0) -> SymbolicShape:
        """The shape of an input; raises NoClosedForm if unknown."""
        shape = self.shapes[index] if index < len(self.shapes) else None
        if shape is None:
            raise NoClosedForm(f"the shape of its input {index} is unknown")
        return shape

    def numbers(self, index: int) -> list[Any]:
        """The values of an input that determines a shape; raises NoClosedForm if unknown."""
        return numbers(self.values[index] if index < len(self.values) else None, f"its input {index}")

    def plain_numbers(self, index: int) -> list[int]:
        """As `numbers`, for axes and steps; raises NoClosedForm if one depends on a symbolic dimension."""
        plain = self.numbers(index)
        if any(isinstance(number, Expression) for number in plain):
            raise NoClosedForm(f"its input {index} depends on a symbolic dimension")
        return plain

    def has_input(self, index: int) -> bool:
        """Whether an optional input is present."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def axes(self, index: int) -> list[int]:
        """Axes, which are an attribute in older opsets and an input in newer ones."""
        return self.plain_numbers(index) if self.has_input(index) else list(self.node.integers("axes"))


Rule: TypeAlias = Callable[[InferenceContext], list[SymbolicShape]]
RULES: dict[str, Rule] = {}


def shapes_of(context: InferenceContext) -> list[SymbolicShape]:
    """The output shapes of a node; raises NoClosedForm if it has no shape rule."""
    rule = RULES.get(context.node.op)
    if rule is None:
        op_kind = op_kind_of("onnx", context.node.op)
        cost_rule = None if op_kind is None else cost_rule_of(op_kind)
        if cost_rule is None or cost_rule.family != "elementwise" or "::" in context.node.op:
            raise NoClosedForm("it has no shape rule for symbolic dimensions")
        rule = _broadcast_all
    return rule(context)


def shapes(names: str) -> Callable[[Rule], Rule]:
    """Register the shape rule of the operators with these names."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def _broadcast_all(context: InferenceContext) -> list[SymbolicShape]:
    inputs = [context.shape(index) for index, name in enumerate(context.node.inputs) if name]
    output = inputs[0] if inputs else ()
    for shape in inputs[1:]:
        output = broadcast(output, shape)
    return [output]
