"""The table of shape rules, and the context in which they run.

Comparisons of symbolic sizes are decided by an example and recorded as guards (`sizeup.symbolic.assuming`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.operators import operator_of
from sizeup.formats.onnx.shape_rules.values import numbers
from sizeup.ops import cost_rule_of, op_kind_of, table_version
from sizeup.ops.handlers import Handlers
from sizeup.ops.traits import Trait
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
RULES = Handlers[Rule]()
_BY_TRAIT: dict[str, Rule] = {}


def by_trait(trait: Trait) -> Callable[[Rule], Rule]:
    """Register the shape rule of all operators of the standard domain whose op kind has a trait."""

    def register(rule: Rule) -> Rule:
        _BY_TRAIT[trait] = rule
        return rule

    return register


def shapes_of(context: InferenceContext) -> list[SymbolicShape]:
    """The output shapes of a node; raises NoClosedForm if it has no shape rule."""
    rule = rule_of(context.node.op) or _by_kind(context.node.op, table_version())[1]
    if rule is None:
        raise NoClosedForm("it has no shape rule for symbolic dimensions")
    return rule(context)


def rule_of(name: str) -> Rule | None:
    """The shape rule of an operator; None also for elementwise operators, which share one."""
    if name in RULES:
        return RULES[name]
    if operator_of(name).keeps_shape:
        return _like_first
    return _by_kind(name, table_version())[0]


@cache
def _by_kind(name: str, _version: int) -> tuple[Rule | None, Rule | None]:
    """The shape rule by the traits of the op kind, and the one by its family."""
    cost_rule = None if "::" in name else cost_rule_of(op_kind_of("onnx", name) or "")
    if cost_rule is None:
        return None, None
    by_trait = next((rule for trait, rule in _BY_TRAIT.items() if trait in cost_rule.traits), None)
    return by_trait, _broadcast_all if cost_rule.family == "elementwise" else None


@by_trait("keeps_shape")
def _like_first(context: InferenceContext) -> list[SymbolicShape]:
    return [context.shape()]


def _broadcast_all(context: InferenceContext) -> list[SymbolicShape]:
    inputs = [context.shape(index) for index, name in enumerate(context.node.inputs) if name]
    output = inputs[0] if inputs else ()
    for shape in inputs[1:]:
        output = broadcast(output, shape)
    return [output]
