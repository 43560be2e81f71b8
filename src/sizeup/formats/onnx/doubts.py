"""Operators of which ONNX's inference tells other shapes than those that runtimes make.

Found by running random operators in ONNX Runtime (tests/formats/onnx/drawn): there our own rules decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from onnx import TensorProto

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.flow import Frame
from sizeup.formats.onnx.rules import RULES, Spot, shapes_of
from sizeup.symbolic import NotClosed, Sides

_Doubt: TypeAlias = Callable[[Node, Frame], bool]

_MOST = 2**62
_WHOLE = frozenset({TensorProto.INT16, TensorProto.INT32, TensorProto.INT64})


def _always(_node: Node, _frame: Frame) -> bool:
    return True


def _walks_backwards(node: Node, frame: Frame) -> bool:
    """A start or an end outside of what there is, moved to another place than by the runtime."""
    if len(node.inputs) < 5 or not node.inputs[4]:
        return False
    steps = frame.value(node.inputs[4])
    return steps is None or steps.dtype.kind != "i" or bool((steps < 0).any())


def _has_axes_out_of_order(node: Node, _frame: Frame) -> bool:
    axes = node.integers("axes")
    return list(axes) != sorted(axes)


def _keeps_the_size(node: Node, _frame: Frame) -> bool:
    return node.text("auto_pad", "NOTSET").startswith("SAME")


def _resizes(node: Node, _frame: Frame) -> bool:
    """A product with a fraction is rounded by other digits than the runtime's; wanted sizes are right.

    But where they shall keep the aspect ratio of axes counted from the end, ONNX Runtime (1.31) changes
    nothing, against the standard: whoever runs it decides.
    """
    keeps = node.text("keep_aspect_ratio_policy", "stretch") != "stretch"
    return len(node.inputs) < 4 or not node.inputs[3] or (keeps and min(node.integers("axes"), default=0) < 0)


def _counts_fractions(node: Node, frame: Frame) -> bool:
    return bool(node.inputs) and frame.type(node.inputs[0]).element not in _WHOLE


def _changes_the_count(node: Node, frame: Frame) -> bool:
    """A shape with another number of elements, which runtimes refuse and ONNX's inference passes on."""
    return len(node.inputs) > 1 and frame.value(node.inputs[1]) is not None and bool(refused(node, frame))


def _has_no_place(node: Node, frame: Frame) -> bool:
    """A window larger than what it looks at, which runtimes refuse; ONNX's inference may tell one place."""
    return bool(refused(node, frame))


_DOUBTS: dict[str, _Doubt] = {
    "Conv": _has_no_place,
    "ConvInteger": _has_no_place,
    "QLinearConv": _has_no_place,
    # In ceil mode a last window that starts outside is counted; gaps and windows too large go wrong, too.
    "MaxPool": _always,
    "AveragePool": _always,
    "LpPool": _always,
    "com.microsoft::QLinearAveragePool": _always,
    "com.microsoft::NhwcMaxPool": _always,
    "ConvTranspose": _keeps_the_size,
    "Resize": _resizes,
    "Upsample": _always,
    "Reshape": _changes_the_count,
    "Slice": _walks_backwards,
    "Squeeze": _has_axes_out_of_order,
    "Range": _counts_fractions,
}


def has_doubts(node: Node) -> bool:
    """Whether ONNX's inference is wrong about some operators of this name."""
    return node.op in _DOUBTS


def is_doubtful(node: Node, frame: Frame) -> bool:
    """Whether ONNX's inference may be wrong about what an operator makes."""
    doubt = _DOUBTS.get(node.op)
    return doubt is not None and doubt(node, frame)


def ruled(node: Node, frame: Frame) -> list[Sides] | None:
    """The shapes of what an operator makes by our own rule; None where it has none, or not all is known."""
    return own_shapes(node, frame) if node.op in RULES else None


def own_shapes(node: Node, frame: Frame) -> list[Sides] | None:
    """The same, also of elementwise operators, which have one rule in common."""
    shapes = [frame.type(name).shape if name else None for name in node.inputs]
    try:
        found = shapes_of(Spot(node, shapes, _Values(node, frame)))
    except (NotClosed, ValueError, LookupError, ArithmeticError, TypeError):
        return None
    # Numbers from a file that lies make sides that nothing has.
    return found if all(min(each) >= 0 and max(each) < _MOST for each in found if each) else None


class _Values(Sequence[Array | None]):
    """The small tensors that an operator reads, each looked up when its rule asks for it."""

    __slots__ = ("_frame", "_node")

    def __init__(self, node: Node, frame: Frame) -> None:
        self._node = node
        self._frame = frame

    def __len__(self) -> int:
        return len(self._node.inputs)

    def __getitem__(self, index: Any) -> Any:
        name = self._node.inputs[index]
        return self._frame.value(name) if name else None


def refused(node: Node, frame: Frame) -> str:
    """Why our own rule refuses what an operator reads; empty if it does not, or if a shape is unknown."""
    shapes = [frame.type(name).shape if name else () for name in node.inputs]
    if node.op not in RULES or None in shapes:
        return ""
    try:
        shapes_of(Spot(node, shapes, _Values(node, frame)))
    except NotClosed as error:
        return str(error)
    except (ValueError, LookupError, ArithmeticError, TypeError):
        pass
    return ""
