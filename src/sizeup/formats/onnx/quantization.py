"""Quantization parameters of the values in a block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sizeup.errors import LoadError
from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.control_flow import Frame
from sizeup.graph import Quant


class QuantizedValue(NamedTuple):
    """A quantized input (or first output) of a node, with the inputs that are its scale and zero point."""

    position: int
    scale: int | None
    zero_point: int | None
    is_output: bool = False
    axis: int | None = None


def _output(scale: int | None, zero_point: int | None) -> QuantizedValue:
    return QuantizedValue(0, scale, zero_point, is_output=True)


_PAIR = (QuantizedValue(0, 1, 2), QuantizedValue(3, 4, 5), _output(6, 7))
_ONE = (QuantizedValue(0, 1, 2), _output(3, 4))
_CONV = (
    QuantizedValue(0, 1, 2),
    QuantizedValue(3, 4, 5, axis=0),
    QuantizedValue(8, None, None),
    _output(6, 7),
)
_SCALED: dict[str, tuple[QuantizedValue, ...]] = {
    "QLinearConv": _CONV,
    "QLinearMatMul": _PAIR,
    "ConvInteger": (QuantizedValue(0, None, 2), QuantizedValue(1, None, 3)),
    "MatMulInteger": (QuantizedValue(0, None, 2), QuantizedValue(1, None, 3)),
    "QuantizeLinear": (_output(1, 2),),
    "DequantizeLinear": (QuantizedValue(0, 1, 2),),
    "DynamicQuantizeLinear": (_output(None, None),),
    "com.microsoft::QLinearConv": _CONV,
    "com.microsoft::QuantizeLinear": (_output(1, 2),),
    "com.microsoft::DequantizeLinear": (QuantizedValue(0, 1, 2),),
    "com.microsoft::QGemm": (
        QuantizedValue(0, 1, 2),
        QuantizedValue(3, 4, 5),
        QuantizedValue(6, None, None),
        _output(7, 8),
    ),
    "com.microsoft::QLinearAdd": _PAIR,
    "com.microsoft::QLinearMul": _PAIR,
    "com.microsoft::QLinearSigmoid": _ONE,
    "com.microsoft::QLinearLeakyRelu": _ONE,
    "com.microsoft::QLinearSoftmax": _ONE,
    "com.microsoft::QLinearAveragePool": _ONE,
    "com.microsoft::QLinearGlobalAveragePool": _ONE,
    "com.microsoft::QLinearReduceMean": _ONE,
    "com.microsoft::QLinearWhere": (QuantizedValue(1, 2, 3), QuantizedValue(4, 5, 6), _output(7, 8)),
    "com.microsoft::DynamicQuantizeMatMul": (QuantizedValue(1, 2, 3),),
    "com.microsoft::MatMulIntegerToFloat": (QuantizedValue(0, 2, 4), QuantizedValue(1, 3, 5)),
    "com.microsoft::DynamicQuantizeLSTM": (QuantizedValue(1, 8, 9), QuantizedValue(2, 10, 11)),
    "com.microsoft::QAttention": (QuantizedValue(0, 3, 6), QuantizedValue(1, 4, 7)),
    "com.microsoft::MatMulNBits": (QuantizedValue(1, 2, 3),),
    "com.microsoft::MatMulBnb4": (QuantizedValue(1, 2, None),),
    "com.microsoft::GatherBlockQuantized": (QuantizedValue(0, 2, 3),),
}
_CONCAT = "com.microsoft::QLinearConcat"
# Stands for a scale that is computed during inference, or is not one-dimensional.
_UNKNOWN_SCALE = np.zeros(0, np.float32)
_ZERO = np.zeros(1, np.int64)
# Enough for one scale per row of the largest vocabularies; more scales belong to blocks.
_MAX_SCALES = 2**20


def quantized_values(node: Node) -> tuple[QuantizedValue, ...]:
    """The quantized inputs and outputs of a node."""
    if node.op == _CONCAT:
        return (_output(0, 1), *(QuantizedValue(i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)))
    return _SCALED.get(node.op, ())


def quantization_inputs(node: Node) -> Iterator[int]:
    """The indices of inputs that are scales and zero points."""
    for value in quantized_values(node):
        yield from (index for index in (value.scale, value.zero_point) if index is not None)


def quants(frame: Frame) -> dict[str, Quant]:
    """The quantization of the names in a block, as far as a node specifies it."""
    quants: dict[str, Quant] = {}
    for node in frame.block.nodes:
        for value in quantized_values(node):
            names = node.outputs if value.is_output else node.inputs
            if value.position < len(names) and names[value.position]:
                quants.setdefault(names[value.position], _quant(node, value, frame))
    return quants


def _quant(node: Node, value: QuantizedValue, frame: Frame) -> Quant:
    scale, zero_point = _constant(node, value.scale, frame), _constant(node, value.zero_point, frame)
    if scale is None or scale.ndim > 1:  # more than one axis: the scales belong to blocks
        return Quant(_UNKNOWN_SCALE, _ZERO)
    axis = None
    if scale.size > 1:
        axis = node.integer("axis", 1) if value.axis is None else value.axis
        axis += len(frame.type(node.inputs[value.position]).dims or ()) if axis < 0 else 0
    return Quant(scale.reshape(-1), _ZERO if zero_point is None else zero_point.reshape(-1), axis)


def _constant(node: Node, index: int | None, frame: Frame) -> Array | None:
    name = node.inputs[index] if index is not None and index < len(node.inputs) else ""
    constant = frame.constant(name) if name else None
    if constant is None or constant.elements > _MAX_SCALES:
        return None
    try:
        return constant.read()
    except LoadError:  # its external file is missing
        return None
