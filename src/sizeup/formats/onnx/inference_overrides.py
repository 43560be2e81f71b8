"""Operators for which ONNX's shape inference differs from ONNX Runtime; sizeup's own rules decide instead.

The differences were found by running random operators in ONNX Runtime (tests/formats/onnx/drawn).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from onnx import TensorProto

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.control_flow import Frame
from sizeup.formats.onnx.shape_rules import InferenceContext, rule_of, shapes_of
from sizeup.ops import names_of
from sizeup.ops.handlers import Handlers
from sizeup.symbolic import NoClosedForm, SymbolicShape

_Condition: TypeAlias = Callable[[Node, Frame], bool]

_MAX_SIZE = 2**62
_INTEGERS = frozenset({TensorProto.INT16, TensorProto.INT32, TensorProto.INT64})


_CONDITIONS = Handlers[_Condition]()


@_CONDITIONS(*names_of("onnx", "pool"), "com.microsoft::NhwcMaxPool", "Upsample")
def _always(_node: Node, _frame: Frame) -> bool:
    """Pools are wrong in ceil mode (a last window that starts outside counts), with dilations, and for large
    windows."""
    return True


@_CONDITIONS("Slice")
def _has_negative_steps(node: Node, frame: Frame) -> bool:
    """With negative steps, a start or an end out of bounds is clamped differently from the runtime."""
    if len(node.inputs) < 5 or not node.inputs[4]:
        return False
    steps = frame.value(node.inputs[4])
    return steps is None or steps.dtype.kind != "i" or bool((steps < 0).any())


@_CONDITIONS("Squeeze")
def _has_unsorted_axes(node: Node, _frame: Frame) -> bool:
    axes = node.integers("axes")
    return list(axes) != sorted(axes)


@_CONDITIONS("ConvTranspose")
def _has_same_padding(node: Node, _frame: Frame) -> bool:
    return node.text("auto_pad", "NOTSET").startswith("SAME")


@_CONDITIONS("Resize")
def _has_inexact_sizes(node: Node, _frame: Frame) -> bool:
    """Products with a scale are rounded differently from the runtime; explicit sizes are exact.

    With explicit sizes, an aspect ratio policy and negative axes, ONNX Runtime (1.31) does not resize, which
    deviates from the standard.
    """
    keeps_ratio = node.text("keep_aspect_ratio_policy", "stretch") != "stretch"
    return (
        len(node.inputs) < 4
        or not node.inputs[3]
        or (keeps_ratio and min(node.integers("axes"), default=0) < 0)
    )


@_CONDITIONS("Range")
def _has_float_bounds(node: Node, frame: Frame) -> bool:
    return bool(node.inputs) and frame.type(node.inputs[0]).element not in _INTEGERS


@_CONDITIONS("Reshape")
def _has_wrong_element_count(node: Node, frame: Frame) -> bool:
    """Runtimes reject a shape with another number of elements, ONNX's inference accepts it."""
    return len(node.inputs) > 1 and frame.value(node.inputs[1]) is not None and bool(rejection(node, frame))


@_CONDITIONS("Conv", "ConvInteger", "QLinearConv")
def _is_rejected(node: Node, frame: Frame) -> bool:
    """Runtimes reject a window larger than its input, ONNX's inference may accept it."""
    return bool(rejection(node, frame))


def has_override(node: Node) -> bool:
    """Whether ONNX's inference is wrong for some nodes with this operator."""
    return node.op in _CONDITIONS


def needs_override(node: Node, frame: Frame) -> bool:
    """Whether ONNX's inference may be wrong for this node."""
    condition = _CONDITIONS.get(node.op)
    return condition is not None and condition(node, frame)


def rule_shapes(node: Node, frame: Frame) -> list[SymbolicShape] | None:
    """The output shapes by the node's own shape rule; None if it has none, or an input is unknown."""
    return own_shapes(node, frame) if rule_of(node.op) else None


def own_shapes(node: Node, frame: Frame) -> list[SymbolicShape] | None:
    """As `rule_shapes`, and also for elementwise operators, which share one rule."""
    input_shapes = [frame.type(name).shape if name else None for name in node.inputs]
    try:
        shapes = shapes_of(InferenceContext(node, input_shapes, _Values(node, frame)))
    except (NoClosedForm, ValueError, LookupError, ArithmeticError, TypeError):
        return None
    # Corrupt files can yield negative or huge sizes.
    return shapes if all(min(shape) >= 0 and max(shape) < _MAX_SIZE for shape in shapes if shape) else None


class _Values(Sequence[Array | None]):
    """The small tensors that a node reads, looked up lazily."""

    __slots__ = ("_frame", "_node")

    def __init__(self, node: Node, frame: Frame) -> None:
        self._node = node
        self._frame = frame

    def __len__(self) -> int:
        return len(self._node.inputs)

    def __getitem__(self, index: Any) -> Any:
        name = self._node.inputs[index]
        return self._frame.value(name) if name else None


def rejection(node: Node, frame: Frame) -> str:
    """Why the shape rule rejects the inputs of a node; empty if it does not, or if a shape is unknown."""
    shapes = [frame.type(name).shape if name else () for name in node.inputs]
    if rule_of(node.op) is None or None in shapes:
        return ""
    try:
        shapes_of(InferenceContext(node, shapes, _Values(node, frame)))
    except NoClosedForm as error:
        return str(error)
    except (ValueError, LookupError, ArithmeticError, TypeError):
        pass
    return ""
