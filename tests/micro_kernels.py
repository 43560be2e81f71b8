"""Models of one operator each, for every row of the table of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from formats.tflite.factory import File, Subgraph, options, quantized
from ops.rows import ROWS
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.ops import op_kind_of

WIDTHS = {"FLOAT32": 4, "INT32": 4, "INT16": 2, "INT8": 1, "INT64": 8, "BOOL": 1, "UINT8": 1}
"""Bytes of an element."""


class Value(NamedTuple):
    """A tensor of a model under test."""

    shape: tuple[int, ...]
    kind: str = "FLOAT32"
    content: Any = None  # of a constant
    scales: int = 1
    variable: bool = False
    # Kernels check both: the cell of an LSTM has a power of two, softmax and its like a fixed scale.
    scale: float = 2.0**-11
    zero: int = 0
    axis: int = 0  # of several scales
    is_scaled: bool = False  # also if it is of a dtype that mostly is not


class Case(NamedTuple):
    """One operator on those tensors; `note` tells cases of one operator apart."""

    name: str
    inputs: Sequence[Value | None]
    outputs: Sequence[Value]
    settings: Any = None
    note: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}-{self.note}" if self.note else self.name

    def pack(self) -> bytes:
        """A model of this operator alone."""
        file = File()
        given = [
            -1 if value is None else _add(file.main, f"in{n}", value) for n, value in enumerate(self.inputs)
        ]
        made = [_add(file.main, f"out{n}", value) for n, value in enumerate(self.outputs)]
        file.main.op(self.name, given, made, self.settings)
        fed = [
            identity
            for identity, value in zip(given, self.inputs, strict=True)
            if value is not None and value.content is None and not value.variable
        ]
        file.main.ends(fed, made)
        return file.pack()


def _add(subgraph: Subgraph, name: str, value: Value) -> int:
    fields: dict[str, Any] = {"isVariable": value.variable}
    if value.kind in ("INT8", "INT16", "INT4") or value.is_scaled:
        scales, zeros = [value.scale] * value.scales, [value.zero] * value.scales
        fields["quantization"] = quantized(scales, zeros, value.axis)
    return subgraph.tensor(name, value.shape, value.kind, value.content, **fields)


def _weights(*shape: int, kind: str = "FLOAT32", scales: int = 1) -> Value:
    size = int(np.prod(shape))
    content = b"\0" * ((size + 1) // 2 if kind == "INT4" else size * WIDTHS[kind])
    return Value(shape, kind, content, scales)


def integers(*numbers: int) -> Value:
    """A constant vector of 32-bit integers."""
    return Value((len(numbers),), "INT32", np.array(numbers, np.int32))


def _int8(*shape: int) -> Value:
    return Value(shape, "INT8")


def _int16(*shape: int) -> Value:
    return Value(shape, "INT16")


def _float(*shape: int) -> Value:
    return Value(shape)


_CONV = options("Conv2DOptions", strideH=1, strideW=1, padding=0)
_DEPTHWISE = options("DepthwiseConv2DOptions", strideH=1, strideW=1, padding=0, depthMultiplier=1)
_TRANSPOSED = options("TransposeConvOptions", strideH=2, strideW=2, padding=0)
_POOL = options("Pool2DOptions", strideH=1, strideW=1, filterHeight=2, filterWidth=2, padding=1)
_DENSE = options("FullyConnectedOptions")


def _matmul(left: bool, right: bool) -> Any:
    return options("BatchMatMulOptions", adjX=left, adjY=right)


def _lstm(kind: str, cell: str, bias: str) -> Case:
    matrices = [_weights(5, 3, kind=kind)] * 4 + [_weights(5, 5, kind=kind)] * 4
    biases = [_weights(5, kind=bias)] * 4
    states = [Value((2, 5), kind, None, 1, True), Value((2, 5), cell, None, 1, True)]
    inputs = [Value((2, 7, 3), kind), *matrices, None, None, None, *biases, None, None, *states, *[None] * 4]
    return Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [Value((2, 7, 5), kind)],
        options("UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4),
        kind,
    )


def _svdf(kind: str, other: str, bias: str) -> Case:
    state = Value((2, 40), other, None, 1, True)
    inputs = [
        Value((2, 3), kind),
        _weights(8, 3, kind=kind),
        _weights(8, 5, kind=other),
        _weights(4, kind=bias),
        state,
    ]
    return Case("SVDF", inputs, [Value((2, 4), kind)], options("SVDFOptions", rank=2), f"{kind}-{other}")


def _binary(name: str, kind: str, settings: Any = None, result: str | None = None) -> Case:
    value = Value((2, 9), kind)
    return Case(name, [value, value], [Value((2, 9), result or kind)], settings, kind)


def _unary(name: str, kind: str = "FLOAT32", settings: Any = None) -> Case:
    return Case(name, [Value((2, 9), kind)], [Value((2, 9), kind)], settings, kind)


def _reduction(name: str, kind: str) -> Case:
    keep = options("ReducerOptions", keepDims=True)
    return Case(name, [Value((1, 4, 5, 6), kind), integers(1, 2)], [Value((1, 1, 1, 6), kind)], keep, kind)


Sizes = tuple[int, int, int, int, int, int, int, int, str]
"""Height, width, channels, rows and columns of the filter, filters, two strides, and "same" or "valid"."""


def convolution(name: str, sizes: Sizes, kind: str = "INT8") -> Case:
    """A CONV_2D or DEPTHWISE_CONV_2D of integers."""
    height, width, channels, rows, columns, filters, *strides, padding = sizes
    code = ("same", "valid").index(padding)
    axes = zip((height, width), (rows, columns), strides, strict=True)
    result = [-(-(size - code * (filter - 1)) // stride) for size, filter, stride in axes]
    fields = {"strideH": strides[0], "strideW": strides[1], "padding": code}
    shape, settings = (filters, rows, columns, channels), options("Conv2DOptions", **fields)
    if name == "DEPTHWISE_CONV_2D":
        shape = (1, rows, columns, filters)
        settings = options("DepthwiseConv2DOptions", **fields, depthMultiplier=filters // channels)
    bias = _weights(filters, kind="INT32" if kind == "INT8" else "INT64")
    data, made = Value((1, height, width, channels), kind), Value((1, *result, filters), kind)
    return Case(name, [data, _weights(*shape, kind="INT8"), bias], [made], settings)


def _decoding() -> Case:
    """32 numbers of 4 bits, looked up in one table of 16; the header is that of tables, version 1."""
    header = bytes([0, 1, 0, 0, 1, 4, 16, *[0] * 9])
    ancillary = Value((32,), "UINT8", header + bytes(16))
    return Case("TFLM_DECODE", [_weights(16, kind="UINT8"), ancillary], [_int8(32)])


CASES = [
    _decoding(),
    Case("CONV_2D", [_float(1, 6, 6, 3), _weights(7, 3, 3, 3), _weights(7)], [_float(1, 6, 6, 7)], _CONV),
    Case(
        "CONV_2D",
        [_int8(1, 6, 6, 3), _weights(7, 3, 3, 3, kind="INT4", scales=7), _weights(7, kind="INT32")],
        [_int8(1, 6, 6, 7)],
        _CONV,
        "four bits",
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        [_int8(1, 6, 6, 5), _weights(1, 3, 3, 5, kind="INT8"), _weights(5, kind="INT32")],
        [_int8(1, 6, 6, 5)],
        _DEPTHWISE,
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        [_int8(1, 6, 6, 5), _weights(1, 3, 3, 5, kind="INT4"), _weights(5, kind="INT32")],
        [_int8(1, 6, 6, 5)],
        _DEPTHWISE,
        "four bits",
    ),
    Case(
        "TRANSPOSE_CONV",
        [integers(1, 6, 6, 7), _weights(7, 2, 2, 3, kind="INT8", scales=7), _int8(1, 3, 3, 3)],
        [_int8(1, 6, 6, 7)],
        _TRANSPOSED,
        "int8",
    ),
    Case(
        "TRANSPOSE_CONV",
        [
            integers(1, 6, 6, 7),
            _weights(7, 2, 2, 3, kind="INT8"),
            _int16(1, 3, 3, 3),
            _weights(7, kind="INT16"),
        ],
        [_int16(1, 6, 6, 7)],
        _TRANSPOSED,
        "int16 with bias",
    ),
    Case(
        "TRANSPOSE_CONV",
        [integers(1, 6, 6, 7), _weights(7, 2, 2, 3), _float(1, 3, 3, 3)],
        [_float(1, 6, 6, 7)],
        _TRANSPOSED,
        "float",
    ),
    Case("FULLY_CONNECTED", [_float(2, 9), _weights(5, 9), _weights(5)], [_float(2, 5)], _DENSE, "float"),
    *(
        Case(
            "FULLY_CONNECTED",
            [_int8(2, 9), _weights(count, 9, kind="INT8", scales=count), _weights(count, kind="INT32")],
            [_int8(2, count)],
            _DENSE,
            note,
        )
        for count, note in ((5, "per channel"), (2, "two channels"))
    ),
    Case(
        "FULLY_CONNECTED",
        [_int8(2, 9), _weights(5, 9, kind="INT4"), _weights(5, kind="INT32")],
        [_int8(2, 5)],
        _DENSE,
        "four bits",
    ),
    Case(
        "BATCH_MATMUL", [_float(2, 3, 4), _float(2, 4, 5)], [_float(2, 3, 5)], _matmul(False, False), "plain"
    ),
    Case(
        "BATCH_MATMUL", [_float(2, 4, 3), _float(2, 5, 4)], [_float(2, 3, 5)], _matmul(True, True), "adjoint"
    ),
    Case("BATCH_MATMUL", [_int8(4, 4), _int8(4, 4)], [_int8(4, 4)], _matmul(False, True), "square int8"),
    _lstm("INT8", "INT16", "INT32"),
    _lstm("FLOAT32", "FLOAT32", "FLOAT32"),
    _svdf("INT8", "INT16", "INT32"),
    _svdf("INT8", "INT8", "INT32"),
    _svdf("FLOAT32", "FLOAT32", "FLOAT32"),
    Case("AVERAGE_POOL_2D", [_int8(1, 4, 4, 3)], [_int8(1, 3, 3, 3)], _POOL),
    Case("MAX_POOL_2D", [_float(1, 4, 4, 3)], [_float(1, 3, 3, 3)], _POOL),
    Case("L2_POOL_2D", [_float(1, 4, 4, 3)], [_float(1, 3, 3, 3)], _POOL),
    _unary("SOFTMAX", "FLOAT32", options("SoftmaxOptions", beta=1.0)),
    Case(
        "SOFTMAX",
        [_int16(2, 9)],
        [Value((2, 9), "INT16", scale=2.0**-15)],
        options("SoftmaxOptions", beta=1.0),
        "int16",
    ),
    _unary("LOG_SOFTMAX"),
    Case("LOG_SOFTMAX", [_int8(2, 9)], [Value((2, 9), "INT8", scale=16 / 256, zero=127)], None, "int8"),
    _unary("L2_NORMALIZATION", "FLOAT32", options("L2NormOptions")),
    Case("CUMSUM", [_float(2, 9), integers(1)], [_float(2, 9)], options("CumsumOptions"), "float"),
    Case("CUMSUM", [_int8(2, 9), integers(1)], [_int8(2, 9)], options("CumsumOptions"), "int8"),
    *(_reduction(name, kind) for name in ("MEAN", "SUM") for kind in ("FLOAT32", "INT8", "INT16")),
    Case(
        "SUM", [_float(1, 2, 3, 4), integers(0, 1, 2, 3)], [_float()], options("ReducerOptions"), "all axes"
    ),
    *(_reduction(name, kind) for name in ("REDUCE_MAX", "REDUCE_MIN") for kind in ("FLOAT32", "INT8")),
    Case(
        "REDUCE_ALL", [Value((2, 9), "BOOL"), integers(1)], [Value((2,), "BOOL")], options("ReducerOptions")
    ),
    _binary("ADD", "INT8", options("AddOptions")),
    _binary("SUB", "FLOAT32", options("SubOptions")),
    _binary("MUL", "INT8", options("MulOptions")),
    _binary("DIV", "FLOAT32", options("DivOptions")),
    Case("ADD_N", [_float(2, 9)] * 5, [_float(2, 9)], None, "float"),
    Case("ADD_N", [_int8(2, 9)] * 3, [_int8(2, 9)], None, "int8"),
    *(
        _binary(name, "FLOAT32")
        for name in ("MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE")
    ),
    *(
        _binary(name, "FLOAT32", None, "BOOL")
        for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    ),
    _binary("LOGICAL_AND", "BOOL"),
    _binary("LOGICAL_OR", "BOOL"),
    _unary("LOGICAL_NOT", "BOOL"),
    Case("PRELU", [_float(1, 3, 3, 5), _weights(1, 1, 5)], [_float(1, 3, 3, 5)]),
    *(
        _unary(name)
        for name in (
            "RELU",
            "RELU6",
            "ELU",
            "HARD_SWISH",
            "LOGISTIC",
            "TANH",
            "ABS",
            "RSQRT",
            "CEIL",
            "COS",
            "EXP",
        )
    ),
    *(_unary(name) for name in ("FLOOR", "LOG", "NEG", "ROUND", "SIN", "SQRT", "SQUARE", "ZEROS_LIKE")),
    *(_unary(name, "INT8") for name in ("RELU", "RELU6", "ELU", "HARD_SWISH", "ABS")),
    Case("LOGISTIC", [_int8(2, 9)], [Value((2, 9), "INT8", scale=1 / 256, zero=-128)], None, "int8"),
    Case("TANH", [_int8(2, 9)], [Value((2, 9), "INT8", scale=1 / 128)], None, "int8"),
    _unary("LEAKY_RELU", "FLOAT32", options("LeakyReluOptions", alpha=0.5)),
    Case("QUANTIZE", [_float(2, 9)], [_int8(2, 9)]),
    Case("DEQUANTIZE", [_int8(2, 9)], [_float(2, 9)]),
    Case("SELECT_V2", [Value((2, 9), "BOOL"), _float(2, 9), _float(2, 9)], [_float(2, 9)]),
    Case(
        "CONCATENATION", [_int8(2, 9), _int8(2, 7)], [_int8(2, 16)], options("ConcatenationOptions", axis=1)
    ),
    Case(
        "STRIDED_SLICE",
        [_float(2, 9), integers(0, 1), integers(2, 5), integers(1, 1)],
        [_float(2, 4)],
        options("StridedSliceOptions"),
    ),
    Case("SLICE", [_float(2, 9), integers(0, 1), integers(2, 4)], [_float(2, 4)]),
    Case(
        "PAD", [_float(2, 9), Value((2, 2), "INT32", np.array([[0, 0], [1, 1]], np.int32))], [_float(2, 11)]
    ),
    Case(
        "PADV2",
        [_float(2, 9), Value((2, 2), "INT32", np.array([[0, 0], [1, 1]], np.int32)), _weights(1)],
        [_float(2, 11)],
    ),
    Case(
        "MIRROR_PAD",
        [_float(2, 9), Value((2, 2), "INT32", np.array([[0, 0], [1, 1]], np.int32))],
        [_float(2, 11)],
        options("MirrorPadOptions"),
    ),
    Case(
        "MIRROR_PAD",
        [_float(1, 2, 2, 9), Value((4, 2), "INT32", np.array([[0, 0]] * 3 + [[1, 1]], np.int32))],
        [_float(1, 2, 2, 11)],
        options("MirrorPadOptions"),
        "four axes",
    ),
    Case(
        "SPACE_TO_BATCH_ND",
        [_float(1, 4, 4, 3), integers(2, 2), Value((2, 2), "INT32", np.zeros((2, 2), np.int32))],
        [_float(4, 2, 2, 3)],
    ),
    Case(
        "BATCH_TO_SPACE_ND",
        [_float(4, 2, 2, 3), integers(2, 2), Value((2, 2), "INT32", np.zeros((2, 2), np.int32))],
        [_float(1, 4, 4, 3)],
    ),
    Case(
        "RESHAPE",
        [_float(2, 9), integers(-1, 3)],
        [_float(6, 3)],
        options("ReshapeOptions", newShape=[-1, 3]),
    ),
    Case("SQUEEZE", [_float(1, 9)], [_float(9)], options("SqueezeOptions", squeezeDims=[0])),
    Case("EXPAND_DIMS", [_float(2, 9), integers(0)], [_float(1, 2, 9)], options("ExpandDimsOptions")),
    Case(
        "CAST", [_float(2, 9)], [Value((2, 9), "INT32")], options("CastOptions", inDataType=0, outDataType=2)
    ),
    Case("SHAPE", [_float(2, 9)], [Value((2,), "INT32")], options("ShapeOptions", outType=2)),
    Case("PACK", [_float(9), _float(9)], [_float(2, 9)], options("PackOptions", valuesCount=2, axis=0)),
    Case("UNPACK", [_float(2, 9)], [_float(9), _float(9)], options("UnpackOptions", num=2, axis=0)),
    Case(
        "SPLIT",
        [integers(1), _float(2, 8)],
        [_float(2, 4), _float(2, 4)],
        options("SplitOptions", numSplits=2),
    ),
    Case(
        "SPLIT_V",
        [_float(2, 8), integers(3, 5), integers(1)],
        [_float(2, 3), _float(2, 5)],
        options("SplitVOptions", numSplits=2),
    ),
    Case(
        "ARG_MAX",
        [_float(2, 9), integers(1)],
        [Value((2,), "INT32")],
        options("ArgMaxOptions", outputType=2),
    ),
    Case(
        "ARG_MIN",
        [_float(2, 9), integers(1)],
        [Value((2,), "INT32")],
        options("ArgMinOptions", outputType=2),
    ),
    Case(
        "RESIZE_BILINEAR",
        [_float(1, 4, 4, 3), integers(8, 8)],
        [_float(1, 8, 8, 3)],
        options("ResizeBilinearOptions"),
    ),
    Case(
        "RESIZE_NEAREST_NEIGHBOR",
        [_float(1, 4, 4, 3), integers(8, 8)],
        [_float(1, 8, 8, 3)],
        options("ResizeNearestNeighborOptions"),
    ),
    Case("GATHER", [_float(5, 9), integers(1, 3)], [_float(2, 9)], options("GatherOptions", axis=0)),
    Case(
        "GATHER",
        [_float(3, 5, 9), Value((3, 2), "INT32", np.zeros((3, 2), np.int32))],
        [_float(3, 2, 9)],
        options("GatherOptions", axis=1, batchDims=1),
        "batch dimensions",
    ),
    Case("GATHER_ND", [_float(5, 9), Value((2, 1), "INT32", np.zeros((2, 1), np.int32))], [_float(2, 9)]),
    Case(
        "DEPTH_TO_SPACE",
        [_float(1, 2, 2, 8)],
        [_float(1, 4, 4, 2)],
        options("DepthToSpaceOptions", blockSize=2),
    ),
    Case(
        "SPACE_TO_DEPTH",
        [_float(1, 4, 4, 2)],
        [_float(1, 2, 2, 8)],
        options("SpaceToDepthOptions", blockSize=2),
    ),
    Case("EMBEDDING_LOOKUP", [integers(1, 3), _weights(5, 9)], [_float(2, 9)], note="float"),
    Case("EMBEDDING_LOOKUP", [integers(1, 3), _weights(5, 9, kind="INT8")], [_int8(2, 9)], note="int8"),
    Case("TRANSPOSE", [_float(2, 9), integers(1, 0)], [_float(9, 2)]),
    Case("BROADCAST_TO", [_float(1, 9), integers(3, 9)], [_float(3, 9)]),
    Case("BROADCAST_ARGS", [integers(1, 9), integers(3, 9)], [Value((2,), "INT32")]),
    Case("FILL", [integers(2, 9), Value((), "FLOAT32", np.zeros((), np.float32))], [_float(2, 9)]),
    Case("REVERSE_V2", [_float(2, 9), integers(1)], [_float(2, 9)]),
    Case("DYNAMIC_UPDATE_SLICE", [_float(4, 9), _float(1, 9), integers(1, 0)], [_float(4, 9)]),
]


def _of_op_kind(name: str) -> Case:
    """The operator on floats of the shapes of its op kind, without options."""
    row = next(row for row in ROWS if row.kind == op_kind_of("tflite", name))
    inputs = [None if shape is None else Value(shape) for shape in row.inputs]
    return Case(name, inputs, [Value(shape) for shape in row.outputs])


# Operators without a case above that other models cover, as they need several operators or options.
ELSEWHERE = {
    *("IF", "WHILE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"),
    *(name for name, kernel in KERNELS.items() if name.startswith("Signal") and kernel.memory is not None),
}
SIZED = {name for name, kernel in KERNELS.items() if kernel.memory is not None and not kernel.needs_npu}
CASES += [_of_op_kind(name) for name in sorted(SIZED - ELSEWHERE - {case.name for case in CASES})]
