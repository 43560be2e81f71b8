"""Every operator with a lowering, against MACs and parameters computed by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from formats.onnx.making import INT8, INT32, INT64, UINT8, count, model, node, numbers, value, weight
from sizeup.formats.onnx import load
from sizeup.graph import ABSENT


@dataclass
class Row:
    """One operator `y = op(...)` on inputs and constants of given shapes, and what it must cost."""

    op: str
    inputs: str
    given: dict[str, tuple[int, ...]]
    constants: dict[str, tuple[int, ...]]
    macs: int
    params: int
    attributes: dict[str, Any] = field(default_factory=dict)
    elementwise: int | None = None
    opset: int = 21
    types: dict[str, Any] = field(default_factory=dict)
    outputs: str = "y"
    kind: str = ""

    def __str__(self) -> str:
        text = " ".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op} {text} {list(self.given.values())}"

    def model(self) -> onnx.ModelProto:
        elements: dict[Any, int] = {np.int8: INT8, np.uint8: UINT8, np.int32: INT32, np.int64: INT64}
        inputs = [
            value(name, shape, elements.get(self.types.get(name), TensorProto.FLOAT))
            for name, shape in self.given.items()
        ]
        constants = [
            weight(name, *shape, dtype=self.types.get(name, np.float32))
            for name, shape in self.constants.items()
        ]
        made = node(self.op, self.inputs, self.outputs, **self.attributes)
        return model([made], inputs, self.outputs.replace("-", ""), constants, opset=self.opset)


SCALAR: tuple[int, ...] = ()
CONV = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
QUANTIZED = {
    "xs": SCALAR,
    "xz": SCALAR,
    "ws": SCALAR,
    "wz": SCALAR,
    "ys": SCALAR,
    "yz": SCALAR,
}
QUANTIZED_TYPES = {"x": np.uint8, "w": np.int8, "xz": np.uint8, "wz": np.int8, "yz": np.uint8}

ROWS = [
    # 8 x 8 positions of 16 filters with 3 x 9 taps; 16 x 27 weights and 16 biases.
    Row("Conv", "x w b", {"x": (1, 3, 8, 8)}, {"w": (16, 3, 3, 3), "b": (16,)}, 64 * 16 * 27, 448, CONV),
    # Two groups: each filter sees half of the 4 channels. Stride 2 leaves 4 x 4 positions.
    Row(
        "Conv",
        "x w",
        {"x": (2, 4, 8, 8)},
        {"w": (6, 2, 3, 3)},
        2 * 16 * 6 * 18,
        108,
        {**CONV, "group": 2, "strides": [2, 2]},
        elementwise=0,
    ),
    # Depthwise over a line: 10 outputs of 5 channels with 3 taps.
    Row("Conv", "x w", {"x": (1, 5, 12)}, {"w": (5, 1, 3)}, 50 * 3, 15, {"group": 5}),
    # Three dimensions: 2 x 2 x 2 positions, 4 filters of 3 x 27 taps.
    Row("Conv", "x w", {"x": (1, 3, 4, 4, 4)}, {"w": (4, 3, 3, 3, 3)}, 8 * 4 * 81, 324),
    Row(
        "ConvInteger",
        "x w xz wz",
        {"x": (1, 3, 8, 8)},
        {"w": (16, 3, 3, 3), "xz": SCALAR, "wz": SCALAR},
        64 * 16 * 27,
        432,
        CONV,
        elementwise=0,
        types=QUANTIZED_TYPES,
    ),
    Row(
        "QLinearConv",
        "x xs xz w ws wz ys yz b",
        {"x": (1, 3, 8, 8)},
        {"w": (16, 3, 3, 3), "b": (16,), **QUANTIZED},
        64 * 16 * 27,
        448,
        CONV,
        elementwise=64 * 16,
        types={**QUANTIZED_TYPES, "b": np.int32},
    ),
    Row(
        "com.microsoft::QLinearConv",
        "x xs xz w ws wz ys yz",
        {"x": (1, 3, 8, 8)},
        {"w": (16, 3, 3, 3), **QUANTIZED},
        64 * 16 * 27,
        432,
        CONV,
        elementwise=0,
        types=QUANTIZED_TYPES,
    ),
    # 64 x 48 weights of 4 bits, two to a byte, with a scale for every 16.
    Row(
        "com.microsoft::MatMulBnb4",
        "x w s",
        {"x": (5, 64)},
        {"w": (1536,), "s": (192,)},
        5 * 48 * 64,
        48 * 64,
        {"K": 64, "N": 48, "block_size": 16, "quant_type": 1},
        types={"w": np.uint8},
    ),
    # A fused convolution: bias and activation add one operation each for 1,024 outputs.
    Row(
        "com.microsoft::FusedConv",
        "x w b",
        {"x": (1, 3, 8, 8)},
        {"w": (16, 3, 3, 3), "b": (16,)},
        64 * 16 * 27,
        448,
        {**CONV, "activation": "Relu"},
        elementwise=2 * 1024,
    ),
    # 64 inputs of 3 channels are spread over 16 filters of 9 taps; with two groups over half of them.
    Row(
        "ConvTranspose",
        "x w",
        {"x": (1, 3, 8, 8)},
        {"w": (3, 16, 3, 3)},
        64 * 3 * 144,
        432,
        {"strides": [2, 2]},
    ),
    Row("ConvTranspose", "x w", {"x": (1, 4, 8, 8)}, {"w": (4, 3, 3, 3)}, 64 * 4 * 27, 108, {"group": 2}),
    # 6 x 6 positions, 8 filters of 4 x 9 taps; 36 x 36 samples of 7 operations, one more for the mask.
    Row(
        "DeformConv",
        "x w o b m",
        {"x": (1, 4, 8, 8), "o": (1, 18, 6, 6), "m": (1, 9, 6, 6)},
        {"w": (8, 4, 3, 3), "b": (8,)},
        36 * 8 * 36,
        296,
        {"kernel_shape": [3, 3]},
        elementwise=8 * 36 * 36 + 36 * 8,
    ),
    Row("MatMul", "x w", {"x": (2, 5, 7)}, {"w": (7, 3)}, 2 * 5 * 3 * 7, 21),
    Row("MatMul", "a b", {"a": (4, 1, 5, 7), "b": (3, 7, 2)}, {}, 4 * 3 * 5 * 2 * 7, 0),
    # One-dimensional operands: a row times a matrix, a matrix times a column, a dot product.
    Row("MatMul", "a b", {"a": (7,), "b": (7, 3)}, {}, 21, 0),
    Row("MatMul", "a b", {"a": (4, 7), "b": (7,)}, {}, 28, 0),
    Row("MatMul", "a b", {"a": (7,), "b": (7,)}, {}, 7, 0),
    # Gemm with the first operand as it is and transposed: 4 x 6 outputs over 5.
    Row("Gemm", "a w c", {"a": (4, 5)}, {"w": (6, 5), "c": (6,)}, 120, 36, {"transB": 1}, elementwise=24),
    Row("Gemm", "a w", {"a": (5, 4)}, {"w": (5, 6)}, 120, 30, {"transA": 1}, elementwise=0),
    Row(
        "MatMulInteger",
        "x w xz wz",
        {"x": (2, 5, 7)},
        {"w": (7, 3), "xz": SCALAR, "wz": SCALAR},
        210,
        21,
        elementwise=0,
        types=QUANTIZED_TYPES,
    ),
    Row(
        "QLinearMatMul",
        "x xs xz w ws wz ys yz",
        {"x": (2, 5, 7)},
        {"w": (7, 3), **QUANTIZED},
        210,
        21,
        elementwise=0,
        types=QUANTIZED_TYPES,
    ),
    Row(
        "com.microsoft::FusedMatMul",
        "a b",
        {"a": (2, 7, 5), "b": (2, 7, 3)},
        {},
        2 * 5 * 3 * 7,
        0,
        {"transA": 1},
    ),
    Row(
        "com.microsoft::FusedMatMul",
        "a b",
        {"a": (2, 5, 7), "b": (2, 3, 7)},
        {},
        2 * 5 * 3 * 7,
        0,
        {"transB": 1},
    ),
    # transBatchA: rows lead, the batch lies between; with transA too, the summed axis leads.
    Row(
        "com.microsoft::FusedMatMul", "a b", {"a": (5, 2, 7), "b": (2, 7, 3)}, {}, 210, 0, {"transBatchA": 1}
    ),
    Row(
        "com.microsoft::FusedMatMul",
        "a b",
        {"a": (7, 2, 5), "b": (2, 7, 3)},
        {},
        210,
        0,
        {"transBatchA": 1, "transA": 1},
    ),
    Row(
        "com.microsoft::FusedGemm",
        "a w c",
        {"a": (4, 5)},
        {"w": (5, 6), "c": (6,)},
        120,
        36,
        {"activation": "Relu"},
        elementwise=48,
    ),
    Row(
        "com.microsoft::DynamicQuantizeMatMul",
        "x w ws wz b",
        {"x": (2, 5, 7)},
        {"w": (7, 3), "ws": (3,), "wz": (3,), "b": (3,)},
        210,
        24,
        elementwise=30,
        types={"w": np.int8, "wz": np.int8},
    ),
    Row(
        "com.microsoft::MatMulIntegerToFloat",
        "x w xs ws xz wz b",
        {"x": (2, 5, 7)},
        {"w": (7, 3), "xs": SCALAR, "ws": (3,), "xz": SCALAR, "wz": (3,), "b": (3,)},
        210,
        24,
        elementwise=30,
        types={"x": np.uint8, "w": np.int8, "xz": np.uint8, "wz": np.int8},
    ),
    # 64 x 48 weights of 4 bits in blocks of 16: 48 x 4 x 8 bytes hold 3,072 numbers.
    Row(
        "com.microsoft::MatMulNBits",
        "x w s z",
        {"x": (5, 64)},
        {"w": (48, 4, 8), "s": (192,), "z": (96,)},
        5 * 48 * 64,
        48 * 64,
        {"K": 64, "N": 48, "bits": 4, "block_size": 16},
        types={"w": np.uint8, "z": np.uint8},
    ),
    Row("Einsum", "x w", {"x": (2, 5, 7)}, {"w": (7, 3)}, 210, 21, {"equation": "bld,de->ble"}),
    # An ellipsis takes all axes before the last two; spaces mean nothing; the result may be implicit.
    Row(
        "Einsum",
        "a b",
        {"a": (2, 3, 4, 5), "b": (2, 3, 5, 6)},
        {},
        6 * 4 * 5 * 6,
        0,
        {"equation": "...ij, ...jk -> ...ik"},
    ),
    Row("Einsum", "a b", {"a": (4, 5), "b": (5, 6)}, {}, 120, 0, {"equation": "ij,jk"}),
    Row("Einsum", "a b", {"a": (3, 4, 5), "b": (5, 6)}, {}, 360, 0, {"equation": "...ij,jk"}),
    # Three operands from the left: (4 x 5)(5 x 6), then (4 x 6)(6 x 7).
    Row(
        "Einsum",
        "a b c",
        {"a": (4, 5), "b": (5, 6), "c": (6, 7)},
        {},
        120 + 168,
        0,
        {"equation": "ij,jk,kl->il"},
    ),
    # A trace sums 4 numbers of 16 and multiplies nothing.
    Row("Einsum", "a", {"a": (4, 4)}, {}, 0, 0, {"equation": "ii->"}),
    # Attention of 4 heads of 8: scores 6 x 6 x 8, and as much for the values, in each head.
    Row(
        "Attention",
        "q k v",
        {"q": (2, 4, 6, 8), "k": (2, 4, 6, 8), "v": (2, 4, 6, 8)},
        {},
        2 * 4 * 36 * 16,
        0,
        opset=23,
    ),
    Row(
        "Attention",
        "q k v",
        {"q": (2, 6, 32), "k": (2, 9, 32), "v": (2, 9, 64)},
        {},
        2 * 4 * 6 * 9 * (8 + 16),
        0,
        {"q_num_heads": 4, "kv_num_heads": 4},
        elementwise=6 * 2 * 4 * 6 * 9,
        opset=23,
    ),
    # Grouped queries: 8 heads share 2 pairs of keys and values; every query still meets every key.
    Row(
        "Attention",
        "q k v",
        {"q": (1, 6, 64), "k": (1, 6, 16), "v": (1, 6, 16)},
        {},
        8 * 36 * 16,
        0,
        {"q_num_heads": 8, "kv_num_heads": 2},
        opset=23,
    ),
    # Ten keys from earlier steps before the one of this step.
    Row(
        "Attention",
        "q k v - pk pv",
        {"q": (1, 4, 1, 8), "k": (1, 4, 1, 8), "v": (1, 4, 1, 8), "pk": (1, 4, 10, 8), "pv": (1, 4, 10, 8)},
        {},
        4 * 11 * 16,
        0,
        opset=23,
        outputs="y presentk presentv",
    ),
    Row(
        "com.microsoft::MultiHeadAttention",
        "q k v b",
        {"q": (2, 6, 32), "k": (2, 9, 32), "v": (2, 9, 64)},
        {"b": (128,)},
        2 * 4 * 6 * 9 * (8 + 16),
        128,
        {"num_heads": 4},
    ),
    # Queries, keys and values packed as (batch, length, heads, 3, size).
    Row(
        "com.microsoft::MultiHeadAttention",
        "q",
        {"q": (2, 6, 4, 3, 8)},
        {},
        2 * 4 * 36 * 16,
        0,
        {"num_heads": 4},
    ),
    Row(
        "com.microsoft::MultiHeadAttention",
        "q k",
        {"q": (2, 6, 32), "k": (2, 9, 4, 2, 8)},
        {},
        2 * 4 * 54 * 16,
        0,
        {"num_heads": 4},
    ),
    Row(
        "com.microsoft::MultiHeadAttention",
        "q k v",
        {"q": (2, 6, 32), "k": (2, 4, 9, 8), "v": (2, 4, 9, 8)},
        {},
        2 * 4 * 54 * 16,
        0,
        {"num_heads": 4},
    ),
    Row(
        "com.microsoft::MultiHeadAttention",
        "q k v - - - pk pv",
        {"q": (2, 1, 32), "k": (2, 1, 32), "v": (2, 1, 32), "pk": (2, 4, 7, 8), "pv": (2, 4, 7, 8)},
        {},
        2 * 4 * 8 * 16,
        0,
        {"num_heads": 4},
        outputs="y presentk presentv",
    ),
    Row(
        "com.microsoft::GroupQueryAttention",
        "q k v pk pv n t",
        {
            "q": (1, 3, 64),
            "k": (1, 3, 16),
            "v": (1, 3, 16),
            "pk": (1, 2, 7, 8),
            "pv": (1, 2, 7, 8),
            "n": (1,),
            "t": SCALAR,
        },
        {},
        8 * 3 * 10 * 16,
        0,
        {"num_heads": 8, "kv_num_heads": 2},
        types={"n": np.int32, "t": np.int32},
    ),
    # Packed: 8 + 2 + 2 heads of 8 side by side.
    Row(
        "com.microsoft::GroupQueryAttention",
        "q - - - - n t",
        {"q": (2, 3, 96), "n": (2,), "t": SCALAR},
        {},
        2 * 8 * 9 * 16,
        0,
        {"num_heads": 8, "kv_num_heads": 2},
        types={"n": np.int32, "t": np.int32},
    ),
    # 6 tokens of 32 through 32 x 96, then 4 heads of 8 over 6 tokens; 96 biases.
    Row(
        "com.microsoft::Attention",
        "x w b",
        {"x": (2, 6, 32)},
        {"w": (32, 96), "b": (96,)},
        2 * 6 * (32 * 96 + 6 * 64),
        32 * 96 + 96,
        {"num_heads": 4},
        elementwise=6 * 2 * 4 * 36 + 2 * 6 * 96,
    ),
    Row(
        "com.microsoft::Attention",
        "x w b - past",
        {"x": (2, 1, 32), "past": (2, 2, 4, 5, 8)},
        {"w": (32, 96), "b": (96,)},
        2 * (32 * 96 + 6 * 64),
        32 * 96 + 96,
        {"num_heads": 4},
        outputs="y present",
    ),
    Row(
        "com.microsoft::QAttention",
        "x w b xs ws - xz wz",
        {"x": (2, 6, 32)},
        {"w": (32, 96), "b": (96,), "xs": SCALAR, "ws": SCALAR, "xz": SCALAR, "wz": SCALAR},
        2 * 6 * (32 * 96 + 6 * 64),
        32 * 96 + 96,
        {"num_heads": 4},
        types={"x": np.uint8, "w": np.int8, "xz": np.uint8, "wz": np.int8},
    ),
    # 10 steps of 2 sequences: 4 gates of 16 units over 8 features and 16 units; 2 x 64 biases.
    Row(
        "LSTM",
        "x w r b",
        {"x": (10, 2, 8)},
        {"w": (1, 64, 8), "r": (1, 64, 16), "b": (1, 128)},
        20 * 64 * 24,
        64 * 24 + 128,
        {"hidden_size": 16},
        elementwise=17 * 20 * 16,
    ),
    # Both directions double it; batch first changes nothing. Initial states are no parameters.
    Row(
        "LSTM",
        "x w r - - h c",
        {"x": (2, 10, 8)},
        {"w": (2, 64, 8), "r": (2, 64, 16), "h": (2, 2, 16), "c": (2, 2, 16)},
        20 * 128 * 24,
        128 * 24,
        {"hidden_size": 16, "direction": "bidirectional", "layout": 1},
    ),
    Row(
        "GRU",
        "x w r",
        {"x": (10, 2, 8)},
        {"w": (1, 48, 8), "r": (1, 48, 16)},
        20 * 48 * 24,
        48 * 24,
        {"hidden_size": 16},
    ),
    Row(
        "RNN",
        "x w r",
        {"x": (10, 2, 8)},
        {"w": (2, 16, 8), "r": (2, 16, 16)},
        20 * 32 * 24,
        32 * 24,
        {"hidden_size": 16, "direction": "bidirectional"},
        outputs="- y",
    ),
    Row(
        "com.microsoft::DynamicQuantizeLSTM",
        "x w r b - - - - ws wz rs rz",
        {"x": (10, 2, 8)},
        {
            "w": (1, 8, 64),
            "r": (1, 16, 64),
            "b": (1, 128),
            "ws": (1,),
            "wz": (1,),
            "rs": (1,),
            "rz": (1,),
        },
        20 * 64 * 24,
        64 * 24 + 128,
        {"hidden_size": 16},
        elementwise=17 * 20 * 16,
        types={"w": np.int8, "r": np.int8, "wz": np.int8, "rz": np.int8},
    ),
    # Pools: 4 x 4 outputs of 3 channels and 9 taps; a global one visits every number once.
    Row("MaxPool", "x", {"x": (1, 3, 8, 8)}, {}, 0, 0, {**CONV, "strides": [2, 2]}, elementwise=48 * 9),
    Row("AveragePool", "x", {"x": (1, 3, 8, 8)}, {}, 0, 0, {**CONV, "strides": [2, 2]}, elementwise=48 * 9),
    Row("LpPool", "x", {"x": (1, 3, 8, 8)}, {}, 0, 0, {**CONV, "strides": [2, 2]}, elementwise=48 * 9),
    Row("GlobalAveragePool", "x", {"x": (1, 3, 8, 8)}, {}, 0, 0, elementwise=192),
    # A grid of 4 x 4 points, 3 channels: 4 taps cost 7 operations, 16 cost 31, a nearest one none.
    Row(
        "GridSample",
        "x g",
        {"x": (1, 3, 8, 8), "g": (1, 4, 4, 2)},
        {},
        0,
        0,
        {"mode": "linear"},
        elementwise=48 * 7,
    ),
    Row(
        "GridSample",
        "x g",
        {"x": (1, 3, 8, 8), "g": (1, 4, 4, 2)},
        {},
        0,
        0,
        {"mode": "cubic"},
        elementwise=48 * 31,
    ),
    Row(
        "GridSample",
        "x g",
        {"x": (1, 3, 8, 8), "g": (1, 4, 4, 2)},
        {},
        0,
        0,
        {"mode": "nearest"},
        elementwise=0,
    ),
    Row(
        "GridSample",
        "x g",
        {"x": (1, 3, 8, 8), "g": (1, 4, 4, 2)},
        {},
        0,
        0,
        {"mode": "bilinear"},
        elementwise=48 * 7,
        opset=16,
    ),
    # 5 regions of 2 x 2 bins with 2 x 2 samples of 4 taps: 2 x 16 - 1 operations each.
    Row(
        "RoiAlign",
        "x r i",
        {"x": (1, 3, 8, 8), "r": (5, 4), "i": (5,)},
        {},
        0,
        0,
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
        elementwise=5 * 3 * 4 * 31,
        types={"i": np.int64},
    ),
    # A window of 5, then square, scale, shift, power, quotient less one sum.
    Row("LRN", "x", {"x": (1, 8, 4, 4)}, {}, 0, 0, {"size": 5}, elementwise=128 * (5 + 4)),
    Row("Split", "x", {"x": (4, 6)}, {}, 0, 0, {"num_outputs": 2, "axis": 1}, elementwise=0, outputs="y z"),
    Row(
        "ScatterND",
        "x i u",
        {"x": (8, 4), "i": (3, 1), "u": (3, 4)},
        {},
        0,
        0,
        elementwise=0,
        types={"i": np.int64},
    ),
    Row(
        "ScatterND",
        "x i u",
        {"x": (8, 4), "i": (3, 1), "u": (3, 4)},
        {},
        0,
        0,
        {"reduction": "add"},
        elementwise=12,
        types={"i": np.int64},
    ),
    # Eight channels of 4 x 4: mean, variance and scaling are 2 operations once folded; 4 x 8 numbers are
    # kept, of which scale and shift are trained.
    Row(
        "BatchNormalization",
        "x s b m v",
        {"x": (1, 8, 4, 4)},
        {"s": (8,), "b": (8,), "m": (8,), "v": (8,)},
        0,
        16,
        elementwise=2 * 128,
    ),
    Row("LayerNormalization", "x s b", {"x": (2, 5, 8)}, {"s": (8,), "b": (8,)}, 0, 16, elementwise=7 * 80),
    Row(
        "InstanceNormalization", "x s b", {"x": (2, 8, 5)}, {"s": (8,), "b": (8,)}, 0, 16, elementwise=7 * 80
    ),
    Row(
        "com.microsoft::SkipLayerNormalization",
        "x k s b",
        {"x": (2, 5, 8), "k": (2, 5, 8)},
        {"s": (8,), "b": (8,)},
        0,
        16,
        elementwise=8 * 80,
    ),
    Row(
        "com.microsoft::SkipSimplifiedLayerNormalization",
        "x k s",
        {"x": (2, 5, 8), "k": (2, 5, 8)},
        {"s": (8,)},
        0,
        8,
        elementwise=5 * 80,
    ),
    Row("SimplifiedLayerNormalization", "x s", {"x": (2, 5, 8)}, {"s": (8,)}, 0, 8, elementwise=4 * 80),
    Row("com.microsoft::BiasGelu", "x b", {"x": (2, 5, 8)}, {"b": (8,)}, 0, 8, elementwise=2 * 80),
    Row("com.microsoft::FastGelu", "x", {"x": (2, 5, 8)}, {}, 0, 0, elementwise=80),
    Row(
        "com.microsoft::QLinearAdd",
        "x xs xz w ws wz ys yz",
        {"x": (2, 5, 8)},
        {"w": (8,), **QUANTIZED},
        0,
        8,
        elementwise=80,
        types={**QUANTIZED_TYPES, "w": np.uint8, "wz": np.uint8},
    ),
    Row(
        "com.microsoft::QLinearConcat",
        "ys yz x xs xz w ws wz",
        {"x": (2, 5)},
        {"w": (2, 8), **QUANTIZED},
        0,
        16,
        {"axis": 1},
        elementwise=0,
        types={**QUANTIZED_TYPES, "w": np.uint8, "wz": np.uint8},
    ),
    Row(
        "com.microsoft::QLinearAveragePool",
        "x xs xz ys yz",
        {"x": (1, 3, 8, 8)},
        dict.fromkeys(("xs", "xz", "ys", "yz"), SCALAR),
        0,
        0,
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        elementwise=48 * 4,
        types=QUANTIZED_TYPES,
    ),
    Row(
        "com.microsoft::QLinearLeakyRelu",
        "x xs xz ys yz",
        {"x": (2, 5, 8)},
        dict.fromkeys(("xs", "xz", "ys", "yz"), SCALAR),
        0,
        0,
        elementwise=80,
        types=QUANTIZED_TYPES,
    ),
    Row("com.microsoft::Trilu", "x", {"x": (2, 5, 5)}, {}, 0, 0, elementwise=50),
    # 2 sequences of 5 tokens; tables of 20, 10 and 2 rows of 8; scale and shift.
    Row(
        "com.microsoft::EmbedLayerNormalization",
        "i s w p g ga be",
        {"i": (2, 5), "s": (2, 5)},
        {"w": (20, 8), "p": (10, 8), "g": (2, 8), "ga": (8,), "be": (8,)},
        0,
        32 * 8 + 16,
        elementwise=9 * 80,
        types={"i": np.int32, "s": np.int32},
        outputs="y mask",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_operator_costs_what_was_worked_out_by_hand(row: Row) -> None:
    cost = count(row.model())
    assert cost.known.all(), cost.reasons
    assert (cost.total_macs, cost.total_params) == (row.macs, row.params)
    if row.elementwise is not None:
        assert cost.total_elementwise == row.elementwise


@pytest.mark.parametrize(
    ("sizes", "mode", "operations"),
    [
        ((1, 3, 16, 16), "nearest", 0),
        ((1, 3, 16, 16), "linear", 768 * 7),  # two axes change: 4 taps
        ((1, 3, 8, 16), "linear", 384 * 3),  # one axis changes: 2 taps
        ((1, 3, 16, 16), "cubic", 768 * 31),
    ],
)
def test_resize_counts_the_taps_of_its_mode(sizes: tuple[int, ...], mode: str, operations: int) -> None:
    resize = node("Resize", "x - - s", "y", mode=mode)
    cost = count(model([resize], [value("x", (1, 3, 8, 8))], "y", [numbers("s", sizes)]))
    assert cost.total_elementwise == operations


def test_packed_weights_take_the_bytes_that_they_are_stored_in() -> None:
    attributes = {"K": 64, "N": 48, "bits": 4, "block_size": 16}
    packed = node("com.microsoft::MatMulNBits", "x w s", "y", **attributes)
    constants = [weight("w", 48, 4, 8, dtype=np.uint8), weight("s", 192)]
    graph = load(model([packed], [value("x", (5, 64))], "y", constants))
    held = next(each for each in graph.tensors if each.name == "w")
    assert held.shape == (48, 64)
    assert held.dtype.name == "uint4"
    assert held.data is not None
    assert held.data.stored_bytes == 48 * 4 * 8 == 48 * 64 // 2
    assert count(model([packed], [value("x", (5, 64))], "y", constants)).bytes_at().weights == 48 * 64 // 2


def test_inputs_come_in_the_order_that_rules_expect() -> None:
    row = next(each for each in ROWS if each.op == "QLinearConv")
    graph = load(row.model())
    names = [graph.tensors[each].name for each in graph.ops[0].inputs]
    assert names == ["x", "w", "b", "xs", "xz", "ws", "wz", "ys", "yz"]
    row = next(each for each in ROWS if each.op == "ConvInteger")
    graph = load(row.model())
    assert graph.ops[0].inputs[2] == ABSENT
    assert [graph.tensors[each].name for each in graph.ops[0].inputs[3:]] == ["xz", "wz"]


def test_convolution_tells_its_window() -> None:
    made = node("Conv", "x w", "y", strides=[2, 1], dilations=[1, 2], group=2)
    graph = load(model([made], [value("x", (1, 4, 9, 9))], "y", [weight("w", 6, 2, 3, 3)]))
    attrs = graph.ops[0].attrs
    assert (attrs["groups"], attrs["kernel"], attrs["stride"], attrs["dilation"]) == (
        2,
        (3, 3),
        (2, 1),
        (1, 2),
    )


def test_unknown_operator_is_reported_not_free() -> None:
    made = [node("my.domain::Fancy", "x", "a"), node("DFT", "x", "y")]
    cost = count(model(made, [value("x", (1, 8, 1))], "a y"))
    assert not cost.known.any()
    assert [op.kind for op in cost.graph.ops] == ["my.domain::Fancy", "DFT"]
    assert cost.reasons[0] == "no cost rule for my.domain::Fancy"
