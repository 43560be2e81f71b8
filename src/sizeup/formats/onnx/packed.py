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
    dtype = DTYPES[f"uint{bits_of(node)}"]
    if node.op in _MATMUL:
        return matrix_of(node, constant.elements), dtype
    *front, last = constant.dims
    return (*front, last * (8 // bits_of(node))), dtype


def bits_of(node: Node) -> int:
    """Bits of a packed number."""
    bits = node.integer("bits", 4)
    widths = (2, 4, 8) if node.op == _GATHER else (4,) if node.op.endswith("Bnb4") else range(2, 9)
    if bits not in widths:
        node.refuse(f"attribute bits is {bits}; it must be one of {', '.join(map(str, widths))}")
    return bits


def matrix_of(node: Node, elements: int | None) -> tuple[int, int]:
    """Columns N and rows K of a packed matrix, which must be what its packed elements hold."""
    columns, rows = node.size("N"), node.size("K")
    needed = -(-columns * rows // 2)
    if node.op.endswith("NBits"):
        block = node.size("block_size")
        needed = columns * -(-rows // block) * -(-block * bits_of(node) // 8)
    if elements is not None and elements != needed:
        node.refuse(f"N={columns} and K={rows} need {needed:,} bytes of weights; there are {elements:,}")
    return columns, rows
