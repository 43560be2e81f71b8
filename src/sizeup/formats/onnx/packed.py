"""Weights that are packed into bytes: the numbers that they really hold."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import TensorProto

from sizeup.dtypes import DTYPES, DType
from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Stored
from sizeup.formats.onnx.frames import Frame
from sizeup.graph import Shape

_MATMUL = frozenset({"com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4"})
_GATHER = "com.microsoft::GatherBlockQuantized"


def packed_weights(frames: Iterable[Frame]) -> dict[int, tuple[Shape, DType]]:
    """Shape and number type of packed constants, by the constant's identity."""
    found: dict[int, tuple[Shape, DType]] = {}
    for frame in frames:
        for node in frame.block.nodes:
            place = 1 if node.op in _MATMUL else 0 if node.op == _GATHER else None
            if place is None or place >= len(node.inputs):
                continue
            constant = frame.constant(node.inputs[place])
            if constant is not None and constant.element == TensorProto.UINT8:
                found[id(constant)] = _unpacked(node, constant)
    return found


def _unpacked(node: Node, constant: Stored) -> tuple[Shape, DType]:
    bits = node.integer("bits", 4) or 4
    dtype = DTYPES.get(f"uint{bits}", DTYPES["uint8"])
    if node.op in _MATMUL:
        return (node.integer("N"), node.integer("K")), dtype
    *front, last = constant.dims
    return (*front, last * (8 // bits)), dtype
