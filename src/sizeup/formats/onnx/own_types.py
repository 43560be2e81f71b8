"""Types of common operators by our own rules alone.

Asking ONNX's inference about a single operator takes ten times as long, which decides how long a large model
takes in which shapes are computed: there ONNX's inference over the whole graph ends at the first of them.
Only operators whose rule refuses what ONNX's inference refuses are listed.
"""

from __future__ import annotations

from onnx import TensorProto

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.doubts import own_shapes
from sizeup.formats.onnx.frames import Frame
from sizeup.formats.onnx.value_types import ValueType, make
from sizeup.ops.rule import names

# Their output is of the type of their one input.
_SAME = frozenset(
    names(
        "Relu LeakyRelu Sigmoid Tanh Neg Abs Exp Log Sqrt Erf Floor Ceil Reciprocal Elu Selu HardSigmoid"
        " HardSwish Softplus Softsign Sin Cos Gelu Identity Softmax LogSoftmax"
    )
)
# Their outputs have the number type of their first input.
_LIKE_THE_FIRST = frozenset(
    names(
        "Clip Add Sub Mul Div Pow BatchNormalization LayerNormalization InstanceNormalization Conv MatMul"
        " Gemm MaxPool AveragePool GlobalAveragePool GlobalMaxPool Reshape Flatten Transpose Concat Split"
        " Slice Gather Unsqueeze Squeeze Expand"
    )
)
_FIXED = {
    **dict.fromkeys(("Shape", "Size"), TensorProto.INT64),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), TensorProto.BOOL),
}
_SEVERAL_OUTPUTS = frozenset({"Split"})
# Older operators take what is an input today from attributes, or broadcast otherwise.
OLDEST = 7


def own_types(node: Node, frame: Frame) -> list[ValueType] | None:
    """The types of an operator's outputs; None if it is not listed, or not all that it needs is known."""
    if not node.inputs or (len(node.outputs) > 1 and node.op not in _SEVERAL_OUTPUTS):
        return None
    if node.op in _SAME:
        same = frame.type(node.inputs[0])
        return [same] if same.shape is not None and same.element else None
    element: int = _FIXED.get(node.op, 0)
    if node.op in _LIKE_THE_FIRST:
        element = frame.type(node.inputs[0]).element
    elif node.op == "Cast":
        element = node.integer("to")
    if not element:
        return None
    shapes = own_shapes(node, frame)
    if shapes is None or len(shapes) != len(node.outputs):
        return None
    return [make(element, shape) for shape in shapes]
