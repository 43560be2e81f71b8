"""Quantization parameters of the values in a block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sizeup.errors import LoadError
from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.control_flow import Frame
from sizeup.formats.onnx.operators import QuantizedValue, operator_of, scaled_output
from sizeup.graph import Quant

_CONCAT = "com.microsoft::QLinearConcat"
# Stands for a scale that is computed during inference, or is not one-dimensional.
_UNKNOWN_SCALE = np.zeros(0, np.float32)
_ZERO = np.zeros(1, np.int64)
# Enough for one scale per row of the largest vocabularies; more scales belong to blocks.
_MAX_SCALES = 2**20


def quantized_values(node: Node) -> tuple[QuantizedValue, ...]:
    """The quantized inputs and outputs of a node."""
    if node.op == _CONCAT:
        return (
            scaled_output(0, 1),
            *(QuantizedValue(i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)),
        )
    return operator_of(node.op).quantized


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
