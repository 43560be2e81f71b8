"""Shape inference for common operators of ONNX Runtime, which ONNX's inference does not know.

An operator that extends a standard one is inferred as that standard operator. The others have functions here.
Dimensions that are not certain remain unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

from onnx import NodeProto, TensorProto

from sizeup.dtypes import DTYPES, DType
from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import StoredTensor
from sizeup.formats.onnx.control_flow import Frame
from sizeup.formats.onnx.operators import operator_of
from sizeup.formats.onnx.value_types import Dims, ValueType, tensor_type, unknown_type
from sizeup.graph import Shape

_Types: TypeAlias = list[ValueType]
_Outputs: TypeAlias = Callable[[Node, _Types], _Types]

_DOMAIN = "com.microsoft::"
_OUTPUTS: dict[str, _Outputs] = {}
_FUSED = ("activation", "channels_last")


def equivalent_of(node: Node, types: _Types) -> _Types | NodeProto | None:
    """The output types of an ONNX Runtime operator, or a standard node with the same types, or None."""
    output_types = _OUTPUTS.get(node.op)
    if output_types is not None:
        return output_types(node, types + [unknown_type()] * (12 - len(types)))
    row = operator_of(node.op)
    if row.same_type:
        return [types[0] if types else unknown_type()]
    if row.standard is None or node.integer("channels_last"):
        return None
    standard, indices = row.standard
    names = [
        node.inputs[index] if index < len(node.inputs) else ""
        for index in indices or range(2, len(node.inputs), 3)
    ]
    while names and not names[-1]:
        names.pop()
    attributes = [attribute for attribute in node.proto.attribute if not attribute.name.startswith(_FUSED)]
    return NodeProto(op_type=standard, input=names, output=node.outputs, attribute=attributes)


def _shaped(names: str) -> Callable[[_Outputs], _Outputs]:
    """Register a function for ONNX Runtime operators; a '.' prefix means the standard ONNX domain."""

    def register(function: _Outputs) -> _Outputs:
        for name in names.split():
            _OUTPUTS[name[1:] if name.startswith(".") else _DOMAIN + name] = function
        return function

    return register


@_shaped("SkipGroupNorm")
def _two_like_first(_: Node, types: _Types) -> _Types:
    return [types[0], types[0]]


@_shaped("SkipLayerNormalization SkipSimplifiedLayerNormalization .SimplifiedLayerNormalization")
def _norm(_: Node, types: _Types) -> _Types:
    """The normalized tensor, mean and deviation per row, and the sum before normalization."""
    data = types[0]
    row = tensor_type(TensorProto.FLOAT, None if not data.dims else (*data.dims[:-1], 1))
    return [data, row, row, data]


@_shaped("BiasSplitGelu")
def _halved(_: Node, types: _Types) -> _Types:
    dims = types[0].dims
    if not dims or dims[-1] is None:
        return []
    return [tensor_type(types[0].element, (*dims[:-1], dims[-1] // 2))]


@_shaped("QuantizeLinear")
def _quantized(_: Node, types: _Types) -> _Types:
    return [tensor_type(types[2].element or TensorProto.UINT8, types[0].dims)]


@_shaped("DequantizeLinear")
def _dequantized(_: Node, types: _Types) -> _Types:
    return [tensor_type(types[1].element, types[0].dims)]


@_shaped("FusedMatMul TransposeMatMul")
def _product(node: Node, types: _Types) -> _Types:
    left = _transposed(types[0].dims, node.integer("transA"), node.integer("transBatchA"))
    right = _transposed(types[1].dims, node.integer("transB"), node.integer("transBatchB"))
    return [tensor_type(types[0].element, _matmul(left, right))]


@_shaped("MatMulIntegerToFloat")
def _product_of_integers(_: Node, types: _Types) -> _Types:
    return [tensor_type(types[2].element, _matmul(types[0].dims, types[1].dims))]


@_shaped("MatMulNBits MatMulBnb4")
def _product_with_packed(node: Node, types: _Types) -> _Types:
    dims, packed = types[0].dims, types[1]
    stored = None if packed.shape is None or packed.element != TensorProto.UINT8 else math.prod(packed.shape)
    columns, rows = matrix_of(node, stored)
    if not dims or dims[-1] not in (None, rows):  # a mismatch that runtimes reject
        return []
    return [tensor_type(types[0].element, (*dims[:-1], columns))]


@_shaped("GatherBlockQuantized")
def _gathered(node: Node, types: _Types) -> _Types:
    table, indices = types[0].dims, types[1].dims
    if not table or indices is None:
        return []
    if types[0].element == TensorProto.UINT8 and table[-1] is not None:
        # Each byte packs several elements along the last axis.
        table = (*table[:-1], table[-1] * (8 // bits_of(node)))
    axis = node.integer("gather_axis") % len(table)
    return [tensor_type(types[2].element, (*table[:axis], *indices, *table[axis + 1 :]))]


@_shaped("EmbedLayerNormalization")
def _embedded(_: Node, types: _Types) -> _Types:
    indices, table = types[0].dims, types[2].dims
    if not indices or not table:
        return []
    summed = tensor_type(types[2].element, (*indices, table[-1]))
    return [summed, tensor_type(TensorProto.INT32, indices[:1]), summed]


@_shaped("DynamicQuantizeLSTM")
def _lstm(node: Node, types: _Types) -> _Types:
    data, recurrent = types[0].dims, types[2].dims
    if data is None or recurrent is None or len(data) != 3 or len(recurrent) != 3:
        return []
    state = (recurrent[0], data[1], recurrent[1])
    final = tensor_type(types[0].element, state)
    return [tensor_type(types[0].element, (data[0], *state)), final, final]


@_shaped("Attention")
def _attention(node: Node, types: _Types) -> _Types:
    return _projected(node, types, types[0].element)


@_shaped("QAttention")
def _quantized_attention(node: Node, types: _Types) -> _Types:
    return _projected(node, types, types[3].element)


def _projected(node: Node, types: _Types, element: int) -> _Types:
    data, weights = types[0].dims, types[1].dims
    if data is None or weights is None or len(data) != 3 or len(weights) != 2 or weights[1] is None:
        return []
    sizes = widths_of(node, weights[1])
    output = tensor_type(element, (*data[:2], sizes[2] if len(sizes) == 3 else weights[1] // 3))
    heads, cache = node.size("num_heads"), 4 if node.op.endswith("::Attention") else 8
    if len(sizes) == 3 or node.integer("past_present_share_buffer"):
        return [output]
    length = _sum(data[1], _cache_length(node, types, cache))
    return [output, tensor_type(element, (2, data[0], heads, length, weights[1] // 3 // heads))]


@_shaped("MultiHeadAttention")
def _multi_head(node: Node, types: _Types) -> _Types:
    query, key, value = (type_.dims for type_ in types[:3])
    heads = node.size("num_heads")
    if query is None or len(query) not in (3, 5):
        return []
    if len(query) == 5:  # (batch, length, heads, 3, size)
        return [tensor_type(types[0].element, (*query[:2], _times(query[2], query[4])))]
    if key is not None and len(key) == 5:  # (batch, length, heads, 2, size)
        return [tensor_type(types[0].element, (*query[:2], _times(key[2], key[4])))]
    if value is None or len(value) not in (3, 4):
        return []
    width = value[2] if len(value) == 3 else _times(value[1], value[3])
    output = tensor_type(types[0].element, (*query[:2], width))
    if len(value) == 4 or query[2] is None or width is None:
        return [output]
    # With the ninth input the runtime writes to a shared cache, whose length is not known here.
    shares = len(node.inputs) > 8 and bool(node.inputs[8])
    length = None if shares else _sum(value[1], _cache_length(node, types, 6))
    sizes = (query[2] // heads, width // heads)
    return [output, *(tensor_type(types[0].element, (query[0], heads, length, size)) for size in sizes)]


@_shaped("GroupQueryAttention")
def _group_query(node: Node, types: _Types) -> _Types:
    query, packed = types[0].dims, len(node.inputs) < 2 or not node.inputs[1]
    heads, kv_heads = node.size("num_heads"), node.size("kv_num_heads")
    if query is None or len(query) != 3 or query[2] is None:
        return []
    size = query[2] // (heads + 2 * kv_heads if packed else heads)
    # With a cache the output length depends on whether the runtime shares its buffer.
    length = None if len(node.inputs) > 3 and node.inputs[3] else query[1]
    cache = tensor_type(types[0].element, (query[0], kv_heads, length, size))
    return [tensor_type(types[0].element, (*query[:2], heads * size)), cache, cache]


def widths_of(node: Node, projected: int) -> tuple[int, ...]:
    """The widths of queries, keys and values if they differ; empty if each is a third."""
    widths = node.sizes("qkv_hidden_sizes")
    if widths and (len(widths) != 3 or sum(widths) != projected):
        node.refuse(f"qkv_hidden_sizes {widths} do not match the {projected} columns of its weights")
    if not widths and projected % 3:
        node.refuse(f"its weights have {projected} columns, which is not a multiple of 3")
    return widths


def _cache_length(node: Node, types: _Types, index: int) -> int | None:
    """The length of a cache (..., length, size); 0 without a cache, None if unknown."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return 0
    dims = types[index].dims
    return dims[-2] if dims is not None and len(dims) > 1 else None


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _times(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first * second


def _transposed(dims: Dims, last_two: int, batch: int) -> Dims:
    """Dimensions after the transpositions of a fused product."""
    if dims is None or len(dims) < 2:
        return dims
    if batch:
        dims = (*dims[1:-1], dims[0], dims[-1])
    return (*dims[:-2], dims[-1], dims[-2]) if last_two else dims


def _matmul(left: Dims, right: Dims) -> Dims:
    if not left or not right:
        return None
    inner = {left[-1], right[-2] if len(right) > 1 else right[0]} - {None}
    if len(inner) > 1:  # a mismatch that runtimes reject
        return None
    rows = left[-2:-1]
    columns = right[-1:] if len(right) > 1 else ()
    return (*_broadcast(left[:-2], right[:-2]), *rows, *columns)


def _broadcast(first: tuple[int | None, ...], second: tuple[int | None, ...]) -> tuple[int | None, ...]:
    rank = max(len(first), len(second))
    first = (1,) * (rank - len(first)) + first
    second = (1,) * (rank - len(second)) + second
    # An unknown dimension next to one larger than 1 must equal it or broadcast to it.
    return tuple(
        b if a == 1 else a if b == 1 else (a if b is None else b) for a, b in zip(first, second, strict=True)
    )


_MATMUL = frozenset({"com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4"})
_GATHER = "com.microsoft::GatherBlockQuantized"


def packed_weights(frames: Iterable[Frame]) -> dict[int, tuple[Shape, DType]]:
    """The unpacked shape and dtype of packed constants, by the id of the constant."""
    types: dict[int, tuple[Shape, DType]] = {}
    for frame in frames:
        for node in frame.block.nodes:
            index = 1 if node.op in _MATMUL else 0 if node.op == _GATHER else None
            if index is None or index >= len(node.inputs):
                continue
            constant = frame.constant(node.inputs[index])
            if constant is not None and constant.element == TensorProto.UINT8:
                types[id(constant)] = _unpacked(node, constant)
    return types


def _unpacked(node: Node, constant: StoredTensor) -> tuple[Shape, DType]:
    dtype = DTYPES[f"uint{bits_of(node)}"]
    if node.op in _MATMUL:
        return matrix_of(node, constant.elements), dtype
    *front, last = constant.dims
    return (*front, last * (8 // bits_of(node))), dtype


def bits_of(node: Node) -> int:
    """Bits per packed element."""
    bits = node.integer("bits", 4)
    widths = (2, 4, 8) if node.op == _GATHER else (4,) if node.op.endswith("Bnb4") else range(2, 9)
    if bits not in widths:
        node.refuse(f"attribute bits is {bits}; it must be one of {', '.join(map(str, widths))}")
    return bits


def matrix_of(node: Node, elements: int | None) -> tuple[int, int]:
    """Columns N and rows K of a packed matrix; raises CorruptModel if its stored size does not match."""
    columns, rows = node.size("N"), node.size("K")
    needed = -(-columns * rows // 2)
    if node.op.endswith("NBits"):
        block = node.size("block_size")
        needed = columns * -(-rows // block) * -(-block * bits_of(node) // 8)
    if elements is not None and elements != needed:
        node.refuse(f"N={columns} and K={rows} need {needed:,} bytes of weights; it has {elements:,}")
    return columns, rows
