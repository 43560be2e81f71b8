"""Which integers stand for real numbers, and with which scale and zero point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sizeup.errors import LoadError
from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.flow import Frame
from sizeup.graph import Quant


class Scaled(NamedTuple):
    """An input (or the first output) of an operator, with the inputs that hold its scale and zero point."""

    place: int
    scale: int | None
    zero_point: int | None
    is_output: bool = False
    axis: int | None = None


def _output(scale: int | None, zero_point: int | None) -> Scaled:
    return Scaled(0, scale, zero_point, is_output=True)


_PAIR = (Scaled(0, 1, 2), Scaled(3, 4, 5), _output(6, 7))
_ONE = (Scaled(0, 1, 2), _output(3, 4))
_CONV = (Scaled(0, 1, 2), Scaled(3, 4, 5, axis=0), Scaled(8, None, None), _output(6, 7))
_SCALED: dict[str, tuple[Scaled, ...]] = {
    "QLinearConv": _CONV,
    "QLinearMatMul": _PAIR,
    "ConvInteger": (Scaled(0, None, 2), Scaled(1, None, 3)),
    "MatMulInteger": (Scaled(0, None, 2), Scaled(1, None, 3)),
    "QuantizeLinear": (_output(1, 2),),
    "DequantizeLinear": (Scaled(0, 1, 2),),
    "DynamicQuantizeLinear": (_output(None, None),),
    "com.microsoft::QLinearConv": _CONV,
    "com.microsoft::QuantizeLinear": (_output(1, 2),),
    "com.microsoft::DequantizeLinear": (Scaled(0, 1, 2),),
    "com.microsoft::QGemm": (Scaled(0, 1, 2), Scaled(3, 4, 5), Scaled(6, None, None), _output(7, 8)),
    "com.microsoft::QLinearAdd": _PAIR,
    "com.microsoft::QLinearMul": _PAIR,
    "com.microsoft::QLinearSigmoid": _ONE,
    "com.microsoft::QLinearLeakyRelu": _ONE,
    "com.microsoft::QLinearSoftmax": _ONE,
    "com.microsoft::QLinearAveragePool": _ONE,
    "com.microsoft::QLinearGlobalAveragePool": _ONE,
    "com.microsoft::QLinearReduceMean": _ONE,
    "com.microsoft::QLinearWhere": (Scaled(1, 2, 3), Scaled(4, 5, 6), _output(7, 8)),
    "com.microsoft::DynamicQuantizeMatMul": (Scaled(1, 2, 3),),
    "com.microsoft::MatMulIntegerToFloat": (Scaled(0, 2, 4), Scaled(1, 3, 5)),
    "com.microsoft::DynamicQuantizeLSTM": (Scaled(1, 8, 9), Scaled(2, 10, 11)),
    "com.microsoft::QAttention": (Scaled(0, 3, 6), Scaled(1, 4, 7)),
    "com.microsoft::MatMulNBits": (Scaled(1, 2, 3),),
    "com.microsoft::MatMulBnb4": (Scaled(1, 2, None),),
    "com.microsoft::GatherBlockQuantized": (Scaled(0, 2, 3),),
}
_CONCAT = "com.microsoft::QLinearConcat"
# A scale that is computed during the run, or that is not kept in one array.
_OPEN = np.zeros(0, np.float32)
_ZERO = np.zeros(1, np.int64)
# One for each row of the largest vocabularies; beyond that they belong to blocks.
_MOST_SCALES = 2**20


def scaled(node: Node) -> tuple[Scaled, ...]:
    """The quantised values around an operator."""
    if node.op == _CONCAT:
        return (_output(0, 1), *(Scaled(at, at + 1, at + 2) for at in range(2, len(node.inputs), 3)))
    return _SCALED.get(node.op, ())


def settings(node: Node) -> Iterator[int]:
    """The inputs that are scales and zero points."""
    for each in scaled(node):
        yield from (index for index in (each.scale, each.zero_point) if index is not None)


def quants(frame: Frame) -> dict[str, Quant]:
    """The quantisation of every name in a block of which an operator tells it."""
    found: dict[str, Quant] = {}
    for node in frame.block.nodes:
        for each in scaled(node):
            names = node.outputs if each.is_output else node.inputs
            if each.place < len(names) and names[each.place]:
                found.setdefault(names[each.place], _quant(node, each, frame))
    return found


def _quant(node: Node, each: Scaled, frame: Frame) -> Quant:
    scale, zero_point = _numbers(node, each.scale, frame), _numbers(node, each.zero_point, frame)
    if scale is None or scale.ndim > 1:  # more than one axis: the scales belong to blocks
        return Quant(_OPEN, _ZERO)
    axis = None
    if scale.size > 1:
        axis = node.integer("axis", 1) if each.axis is None else each.axis
        axis += len(frame.type(node.inputs[each.place]).dims or ()) if axis < 0 else 0
    return Quant(scale.reshape(-1), _ZERO if zero_point is None else zero_point.reshape(-1), axis)


def _numbers(node: Node, index: int | None, frame: Frame) -> Array | None:
    name = node.inputs[index] if index is not None and index < len(node.inputs) else ""
    constant = frame.constant(name) if name else None
    if constant is None or constant.elements > _MOST_SCALES:
        return None
    try:
        return constant.read()
    except LoadError:  # its file is not there
        return None
