"""Random networks twice: as ONNX, channels first, and as a .tflite file that a converter could write of it.

How converters write operators is what onnx2tf 1.29.24 (with TensorFlow 2.19) and litert-torch 0.10.0 wrote of
such networks; tests/converted_twins.py has what files of the former need:

- Convolutions, also transposed ones, carry batch norm, bias and ReLU; other activations are operators.
- Padding that is not that of "same" (strides of 2 with a row on each side) is a PAD before the operator.
- onnx2tf changes inputs to channels last; litert-torch keeps them, with a TRANSPOSE at inputs, at outputs,
  before a flattening, and in pairs between an activation and a resize.
- Averages over an image are a MEAN, which keeps its axes or does not; a FULLY_CONNECTED takes either.
- Full-integer files have int8 ports, or float ones with QUANTIZE and DEQUANTIZE.
- Operators of branches are in another order than in the source: the branch of the last output comes first.

These are not drawn here, and only the files of the real converter have them: onnx2tf writes an average that
counts padding as one that does not with its edges multiplied (STRIDED_SLICE, MUL, CONCATENATION), a
HARD_SWISH after a product as two products and two MUL, and operators without int16 between DEQUANTIZE and
QUANTIZE; litert-torch writes every step of an LSTM as operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from formats.tflite.factory import File, options, quantized, schema

_FUSED = {"": "NONE", "relu": "RELU", "relu6": "RELU6"}
_SEPARATE = {
    "sigmoid": ("Sigmoid", "LOGISTIC"),
    "tanh": ("Tanh", "TANH"),
    "hardswish": ("HardSwish", "HARD_SWISH"),
    "leaky": ("LeakyRelu", "LEAKY_RELU"),
    "elu": ("Elu", "ELU"),
}
_TYPES = {"fp32": "FLOAT32", "int8": "INT8", "int16": "INT16"}
# Scale and zero point of outputs whose kernels need them.
_RANGES = {
    ("LOGISTIC", "INT8"): (1 / 256, -128),
    ("SOFTMAX", "INT8"): (1 / 256, -128),
    ("TANH", "INT8"): (1 / 128, 0),
    **{(name, "INT16"): (1 / 32768, 0) for name in ("LOGISTIC", "SOFTMAX", "TANH")},
}
_SCALE = 0.01
_MOVING = frozenset(
    {
        *("TRANSPOSE", "RESHAPE", "PAD", "MAX_POOL_2D", "AVERAGE_POOL_2D", "CONCATENATION"),
        *("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
    }
)
"""Operators whose outputs have the quantization of their inputs."""
_NUMBERS = {"FLOAT32": np.float32, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64}


class Style(NamedTuple):
    """What a converter chooses."""

    precision: str = "fp32"
    channels_first: bool = False  # inputs and outputs keep their layout, with a TRANSPOSE
    float_ports: bool = False  # of a network in integers
    explicit_pads: bool = False  # even where the padding is that of "same"
    keeps_axes: bool = True  # of means
    flattens: bool = True  # before a FULLY_CONNECTED, which takes any shape
    per_channel: bool = True  # scales of the weights of FULLY_CONNECTED
    multiplies: bool = False  # products with constants as BATCH_MATMUL
    shuffled: int = 0  # the seed of another order of the operators


class Value(NamedTuple):
    """A tensor of both networks; the shape has the channels last."""

    onnx: str
    tflite: int
    shape: tuple[int, ...]


@dataclass
class Twin:
    """A network under construction in both forms."""

    style: Style
    random: Random
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    ports: tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]] = field(
        default_factory=lambda: ([], [])
    )
    file: File = field(default_factory=File)
    ops: list[tuple[str, list[int], list[int], Any]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    # Both forms.

    def input(self, shape: tuple[int, ...]) -> Value:
        """An input; of four dimensions, the last are the channels."""
        name = self._port(0, shape)
        kind = "FLOAT32" if self.style.float_ports else self._kind
        given = shape
        if self.style.channels_first and len(shape) == 4:
            given = (shape[0], shape[3], shape[1], shape[2])
        identity = self._tensor(given, kind)
        self.inputs.append(identity)
        if kind != self._kind:
            identity = self._emit("QUANTIZE", [identity], given)
        if given != shape:
            identity = self._emit("TRANSPOSE", [identity, self._integers(0, 2, 3, 1)], shape)
        return Value(name, identity, shape)

    def output(self, value: Value) -> None:
        """Make a value an output."""
        name = self._port(1, value.shape)
        self.nodes.append(helper.make_node("Identity", [value.onnx], [name]))
        identity, shape = value.tflite, value.shape
        if self.style.channels_first and len(shape) == 4:
            shape = (shape[0], shape[3], shape[1], shape[2])
            identity = self._emit("TRANSPOSE", [identity, self._integers(0, 3, 1, 2)], shape)
        if self.style.float_ports and self._kind != "FLOAT32":
            identity = self._emit("DEQUANTIZE", [identity], shape, kind="FLOAT32")
        self.outputs.append(identity)

    def conv(
        self, x: Value, filters: int, kernel: int = 3, stride: int = 1, act: str = "", *,
        norm: bool = False, padded: bool = True, depthwise: bool = False,
    ) -> Value:  # fmt: skip
        """A convolution; a depthwise one has a multiple of the channels as filters."""
        channels = x.shape[3]
        pad = kernel // 2 if padded else 0
        sides = tuple((side + 2 * pad - kernel) // stride + 1 for side in x.shape[1:3])
        shape = (x.shape[0], *sides, filters)
        weights = self._weights((filters, 1 if depthwise else channels, kernel, kernel))
        name = self._node(
            "Conv", [x.onnx, weights, *([] if norm else [self._weights((filters,))])],
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
            group=channels if depthwise else 1,
        )  # fmt: skip
        identity, padding = self._padded(x, kernel, stride, pad, sides)
        operands = (
            [identity, *self._filter(identity, (1, kernel, kernel, filters), filters, 3)]
            if depthwise
            else [identity, *self._filter(identity, (filters, kernel, kernel, channels), filters, 0)]
        )
        steps = {"strideH": stride, "strideW": stride, "padding": padding}
        table = (
            options("DepthwiseConv2DOptions", depthMultiplier=filters // channels, **steps)
            if depthwise
            else options("Conv2DOptions", **steps)
        )
        source = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self._activated(name, source, operands, shape, table, act, norm=norm)

    def conv_transpose(
        self, x: Value, filters: int, kernel: int = 2, stride: int = 2, act: str = ""
    ) -> Value:
        """A transposed convolution whose output has `stride` times the rows of its input."""
        excess = kernel - stride
        shape = (x.shape[0], x.shape[1] * stride, x.shape[2] * stride, filters)
        before, after = excess // 2, excess - excess // 2
        weights_name = self._weights((x.shape[3], filters, kernel, kernel))
        name = self._node(
            "ConvTranspose", [x.onnx, weights_name, self._weights((filters,))],
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[before, before, after, after],
        )  # fmt: skip
        weights, bias = self._filter(x.tflite, (filters, kernel, kernel, x.shape[3]), filters, 0)
        table = options(
            "TransposeConvOptions", strideH=stride, strideW=stride, padding=1 if excess == 0 else 0
        )
        operands = [self._integers(*shape), weights, x.tflite, bias]
        return self._activated(name, "TRANSPOSE_CONV", operands, shape, table, act)

    def pool(
        self, x: Value, kernel: int, stride: int, *, average: bool = False, padded: bool = False
    ) -> Value:
        """A pooling; padding of an average counts."""
        pad = kernel // 2 if padded else 0
        sides = tuple((side + 2 * pad - kernel) // stride + 1 for side in x.shape[1:3])
        settings: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        settings |= {"count_include_pad": 1} if average else {}
        name = self._node("AveragePool" if average else "MaxPool", [x.onnx], **settings)
        if average and pad:
            identity, padding = self._pad(x, pad, pad), 1
        else:
            identity, padding = self._padded(x, kernel, stride, pad, sides)
        table = options(
            "Pool2DOptions",
            filterHeight=kernel,
            filterWidth=kernel,
            strideH=stride,
            strideW=stride,
            padding=padding,
        )
        shape = (x.shape[0], *sides, x.shape[3])
        return self._made(name, "AVERAGE_POOL_2D" if average else "MAX_POOL_2D", [identity], shape, table)

    def average(self, x: Value) -> Value:
        """The mean of each channel, with both axes of the image kept."""
        shape = (x.shape[0], 1, 1, x.shape[3])
        name = self._node("GlobalAveragePool", [x.onnx])
        kept = self.style.keeps_axes
        made = shape if kept else (x.shape[0], x.shape[3])
        identity = self._emit(
            "MEAN", [x.tflite, self._integers(1, 2)], made, options("ReducerOptions", keepDims=kept)
        )
        if not kept:
            identity = self._reshape(identity, shape)
        return Value(name, identity, shape)

    def act(self, x: Value, name: str) -> Value:
        """An activation that is an operator of its own."""
        source, operator = _SEPARATE[name]
        table = options("LeakyReluOptions", alpha=0.1) if name == "leaky" else None
        return self._made(self._node(source, [x.onnx]), operator, [x.tflite], x.shape, table)

    def add(self, x: Value, y: Value, act: str = "", *, multiplied: bool = False) -> Value:
        """A sum or product; the second operand may have one number per channel."""
        name = self._node("Mul" if multiplied else "Add", [x.onnx, y.onnx])
        source, table = ("MUL", "MulOptions") if multiplied else ("ADD", "AddOptions")
        return self._activated(name, source, [x.tflite, y.tflite], x.shape, options(table), act)

    def concat(self, *values: Value) -> Value:
        """A concatenation of channels."""
        first = values[0].shape
        shape = (*first[:-1], sum(value.shape[-1] for value in values))
        name = self._node("Concat", [value.onnx for value in values], axis=1)
        table = options("ConcatenationOptions", axis=len(first) - 1)
        first_range = self._quantization(values[0].tflite)
        operands = [
            value.tflite
            if self._kind == "FLOAT32" or self._quantization(value.tflite) == first_range
            else self._emit("QUANTIZE", [value.tflite], value.shape, like=values[0].tflite)
            for value in values
        ]
        return self._made(name, "CONCATENATION", operands, shape, table)

    def pad(self, x: Value, margin: int) -> Value:
        """Zeros around an image."""
        amounts = np.array([0, 0, margin, margin] * 2, np.int64)
        name = self._node("Pad", [x.onnx, self._constant(amounts)])
        shape = (x.shape[0], x.shape[1] + 2 * margin, x.shape[2] + 2 * margin, x.shape[3])
        return Value(name, self._pad(x, margin, margin), shape)

    def resize(self, x: Value, *, linear: bool = False) -> Value:
        """An image of twice the rows and columns."""
        shape = (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3])
        scales = self._constant(np.array([1, 1, 2, 2], np.float32))
        name = self._node("Resize", [x.onnx, "", scales], mode="linear" if linear else "nearest")
        source = "RESIZE_BILINEAR" if linear else "RESIZE_NEAREST_NEIGHBOR"
        table = options("ResizeBilinearOptions" if linear else "ResizeNearestNeighborOptions")
        return self._made(name, source, [x.tflite, self._integers(*shape[1:3])], shape, table)

    def norm(self, x: Value) -> Value:
        """A batch norm that no layer before it takes."""
        channels = x.shape[3]
        numbers = [self._constant(np.ones(channels, np.float32)) for _ in range(4)]
        name = self._node("BatchNormalization", [x.onnx, *numbers])
        identity = x.tflite
        for source in ("MUL", "ADD"):
            factor = self._tensor((channels,), self._kind, np.ones(channels))
            table = options("MulOptions" if source == "MUL" else "AddOptions")
            identity = self._emit(source, [identity, factor], x.shape, table)
        return Value(name, identity, x.shape)

    def flatten(self, x: Value) -> Value:
        """Rows of numbers; an image of more than one pixel is transposed before."""
        shape = (x.shape[0], prod(x.shape[1:]))
        name, identity = self._node("Flatten", [x.onnx]), x.tflite
        if len(x.shape) == 4 and max(x.shape[1:3]) > 1:
            transposed = (x.shape[0], x.shape[3], *x.shape[1:3])
            identity = self._emit("TRANSPOSE", [identity, self._integers(0, 3, 1, 2)], transposed)
        if self.style.flattens or shape[1] != x.shape[-1]:
            identity = self._reshape(identity, shape)
        return Value(name, identity, shape)

    def tokens(self, x: Value) -> Value:
        """The pixels of an image as rows."""
        batch, height, width, channels = x.shape
        shape = (batch, height * width, channels)
        name = self._node("Transpose", [x.onnx], perm=[0, 2, 3, 1])
        name = self._node("Reshape", [name, self._constant(np.array(shape, np.int64))])
        return Value(name, self._reshape(x.tflite, shape), shape)

    def dense(self, x: Value, size: int, act: str = "") -> Value:
        """A product with constant weights over the last axis."""
        length, is_flat = x.shape[-1], len(x.shape) == 2
        shape = (*x.shape[:-1], size)
        if is_flat:
            weights = self._weights((size, length))
            name = self._node("Gemm", [x.onnx, weights, self._weights((size,))], transB=1)
        else:
            name = self._node("MatMul", [x.onnx, self._weights((length, size))])
        if self.style.multiplies and not is_flat and self._kind == "FLOAT32":
            table = options("BatchMatMulOptions")
            right = self._constant_of((length, size), "FLOAT32")
            return self._activated(name, "BATCH_MATMUL", [x.tflite, right], shape, table, act, fused=False)
        operands = self._filter(x.tflite, (size, length), size if self.style.per_channel else 1, 0)
        table = options("FullyConnectedOptions", keepNumDims=not is_flat)
        operands = operands if is_flat else operands[:1]
        return self._activated(name, "FULLY_CONNECTED", [x.tflite, *operands], shape, table, act)

    def matmul(self, x: Value, y: Value) -> Value:
        """A product of two computed matrices, the second one transposed."""
        transposed = self._node("Transpose", [y.onnx], perm=[0, 2, 1])
        name = self._node("MatMul", [x.onnx, transposed])
        shape = (*x.shape[:-1], y.shape[1])
        if self.style.flattens:
            right = self._emit(
                "TRANSPOSE", [y.tflite, self._integers(0, 2, 1)], (y.shape[0], y.shape[2], y.shape[1])
            )
            return self._made(name, "BATCH_MATMUL", [x.tflite, right], shape, options("BatchMatMulOptions"))
        table = options("BatchMatMulOptions", adjY=True)
        return self._made(name, "BATCH_MATMUL", [x.tflite, y.tflite], shape, table)

    def softmax(self, x: Value) -> Value:
        """A softmax over the last axis of rows."""
        name = self._node("Softmax", [x.onnx], axis=-1)
        return self._made(name, "SOFTMAX", [x.tflite], x.shape, options("SoftmaxOptions", beta=1.0))

    def mean(self, x: Value) -> Value:
        """The mean of all rows."""
        shape = (x.shape[0], x.shape[2])
        name = self._node("ReduceMean", [x.onnx], axes=[1], keepdims=0)
        return self._made(name, "MEAN", [x.tflite, self._integers(1)], shape, options("ReducerOptions"))

    def lstm(self, x: Value, units: int) -> Value:
        """One direction over rows, batch last in ONNX; floats alone."""
        _, steps, length = x.shape
        name = self._node("Transpose", [x.onnx], perm=[1, 0, 2])
        operands = [self._weights((1, 4 * units, each)) for each in (length, units)]
        name = self._node("LSTM", [name, *operands, self._weights((1, 8 * units))], hidden_size=units)
        name = self._node("Squeeze", [name, self._constant(np.array([1], np.int64))])
        name = self._node("Transpose", [name], perm=[1, 0, 2])
        weights = [self._constant_of((units, each), "FLOAT32") for each in (length, units) for _ in range(4)]
        biases = [self._constant_of((units,), "FLOAT32") for _ in range(4)]
        states = [self.file.main.tensor("state", (1, units), isVariable=True) for _ in range(2)]
        inputs = [x.tflite, *weights, *[-1] * 3, *biases, -1, -1, *states, *[-1] * 4]
        table = options("UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4)
        return self._made(name, "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (1, steps, units), table)

    # The files.

    def onnx_model(self) -> onnx.ModelProto:
        """The network as ONNX."""
        graph = helper.make_graph(self.nodes, "twin", *self.ports, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def tflite_file(self) -> bytes:
        """The network as a converter could write it."""
        for op in self._ordered():
            self.file.main.op(*op)
        self.file.main.ends(self.inputs, self.outputs)
        return self.file.pack()

    def _ordered(self) -> list[tuple[str, list[int], list[int], Any]]:
        if not self.style.shuffled:
            return self.ops
        random, waiting, done = Random(self.style.shuffled), list(self.ops), list[Any]()
        made = {identity for op in self.ops for identity in op[2]}
        while waiting:
            ready = [op for op in waiting if made.isdisjoint(op[1])]
            done.append(random.choice(ready))
            waiting.remove(done[-1])
            made.difference_update(done[-1][2])
        return done

    # ONNX.

    def _port(self, side: int, shape: tuple[int, ...]) -> str:
        first = (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape
        name = f"{('x', 'y')[side]}{len(self.ports[side])}"
        self.ports[side].append(helper.make_tensor_value_info(name, TensorProto.FLOAT, first))
        return name

    def _node(self, source: str, inputs: Sequence[str], **attributes: Any) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(helper.make_node(source, inputs, [name], **attributes))
        return name

    def _constant(self, numbers: Any) -> str:
        self.count += 1
        self.constants.append(numpy_helper.from_array(numbers, f"c{self.count}"))
        return f"c{self.count}"

    def _weights(self, shape: tuple[int, ...]) -> str:
        return self._constant(np.full(shape, 0.01, np.float32))

    # .tflite

    @property
    def _kind(self) -> str:
        return _TYPES[self.style.precision]

    def _tensor(
        self, shape: Sequence[int], kind: str, data: Any = None, scales: int = 1, axis: int = 0,
        scale: float = _SCALE, zero_point: int = 0,
    ) -> int:  # fmt: skip
        numbers = None if data is None else np.asarray(data, _NUMBERS[kind])
        is_quantized = kind != "FLOAT32" and self.style.precision != "fp32" and scales > 0
        settings = (
            {"quantization": quantized([scale] * scales, [zero_point] * scales, axis)} if is_quantized else {}
        )
        return self.file.main.tensor(
            f"t{len(self.file.main.table.tensors)}", shape, kind, numbers, **settings
        )

    def _quantization(self, identity: int) -> tuple[float, int]:
        quantization = self.file.main.table.tensors[identity].quantization
        return (quantization.scale[0], quantization.zeroPoint[0]) if quantization else (_SCALE, 0)

    def _constant_of(self, shape: tuple[int, ...], kind: str, scales: int = 1, axis: int = 0) -> int:
        return self._tensor(shape, kind, np.ones(shape), scales, axis)

    def _integers(self, *numbers: int) -> int:
        return self._tensor((len(numbers),), "INT32", numbers, 0)

    def _filter(self, data: int, shape: tuple[int, ...], scales: int, axis: int) -> list[int]:
        """Weights and bias of an operator on data."""
        size = shape[axis]
        if self._kind == "FLOAT32":
            return [self._constant_of(each, "FLOAT32") for each in (shape, (size,))]
        bias = "INT32" if self._kind == "INT8" else "INT64"
        product = _SCALE * self._quantization(data)[0]
        return [
            self._constant_of(shape, "INT8", scales, axis),
            self._tensor((size,), bias, np.ones(size), scales, scale=product),
        ]

    def _emit(
        self, source: str, inputs: Sequence[int], shape: tuple[int, ...], table: Any = None, kind: str = "",
        like: int | None = None,
    ) -> int:  # fmt: skip
        scale, zero_point = _RANGES.get((source, self._kind), (_SCALE, 0))
        if source in _MOVING or like is not None:
            scale, zero_point = self._quantization(inputs[0] if like is None else like)
        output = self._tensor(shape, kind or self._kind, scale=scale, zero_point=zero_point)
        self.ops.append((source, list(inputs), [output], table))
        return output

    def _made(
        self, name: str, source: str, inputs: Sequence[int], shape: tuple[int, ...], table: Any
    ) -> Value:
        return Value(name, self._emit(source, inputs, shape, table), shape)

    def _activated(
        self, name: str, source: str, inputs: Sequence[int], shape: tuple[int, ...], table: Any, act: str,
        *, norm: bool = False, fused: bool = True,
    ) -> Value:  # fmt: skip
        """An operator with a fused activation, or one after it."""
        if norm:
            numbers = [self._constant(np.ones(shape[-1], np.float32)) for _ in range(4)]
            name = self._node("BatchNormalization", [name, *numbers])
        if act in _FUSED and fused:
            table.fusedActivationFunction = getattr(schema.ActivationFunctionType, _FUSED[act])
        value = self._made(name, source, inputs, shape, table)
        if act in _SEPARATE:
            return self.act(value, act)
        if act == "relu":
            name = self._node("Relu", [name])
        if act == "relu6":
            limits = [self._constant(np.array(limit, np.float32)) for limit in (0, 6)]
            name = self._node("Clip", [name, *limits])
        if act and not fused:
            return self._made(name, act.upper(), [value.tflite], shape, None)
        return value._replace(onnx=name)

    def _reshape(self, identity: int, shape: tuple[int, ...]) -> int:
        table = options("ReshapeOptions", newShape=list(shape))
        return self._emit("RESHAPE", [identity, self._integers(*shape)], shape, table)

    def _pad(self, x: Value, before: int, after: int) -> int:
        amounts = self._tensor((4, 2), "INT32", [(0, 0), (before, after), (before, after), (0, 0)], 0)
        shape = (x.shape[0], *(side + before + after for side in x.shape[1:3]), x.shape[3])
        return self._emit("PAD", [x.tflite, amounts], shape)

    def _padded(
        self, x: Value, kernel: int, stride: int, pad: int, sides: tuple[int, ...]
    ) -> tuple[int, int]:
        """The input of a window and its padding: 0 is "same", 1 is none."""
        if not pad:
            return x.tflite, 1
        needed = [
            max((count - 1) * stride + kernel - side, 0)
            for count, side in zip(sides, x.shape[1:3], strict=True)
        ]
        is_same = all(
            total == 2 * pad and count == -(-side // stride)
            for total, count, side in zip(needed, sides, x.shape[1:3], strict=True)
        )
        if is_same and not self.style.explicit_pads:
            return x.tflite, 0
        return self._pad(x, pad, pad), 1


def _act(twin: Twin, *, fused: bool = False) -> str:
    separate = [] if fused else ["sigmoid", "tanh", "leaky"]
    separate += ["hardswish"] if separate and twin.style.precision != "int16" else []
    return twin.random.choice(["", "relu", "relu", "relu6", *separate])


def _block(twin: Twin, x: Value) -> Value:  # noqa: C901 - a table of functions
    """One of the usual blocks."""
    random, channels = twin.random, x.shape[3]
    is_large = min(x.shape[1:3]) >= 8
    filters = random.choice([4, 8, 12, 16, 24, 32])
    step = 2 if is_large and random.random() < 0.4 else 1

    def convolution() -> Value:
        kernel = random.choice([1, 3, 3, 5])
        return twin.conv(x, filters, kernel, step, _act(twin), norm=random.random() < 0.5)

    def without_padding() -> Value:
        return twin.conv(x, filters, 3, step, _act(twin), padded=False)

    def separable() -> Value:
        multiplier = random.choice([1, 1, 2])
        made = twin.conv(
            x, channels * multiplier, random.choice([3, 5]), step, "relu6", depthwise=True, norm=True
        )
        return twin.conv(made, filters, 1, 1, _act(twin))

    def inverted() -> Value:
        wide = twin.conv(x, 4 * channels, 1, 1, "relu6", norm=True)
        wide = twin.conv(wide, 4 * channels, 3, 1, "relu6", norm=True, depthwise=True)
        return twin.add(x, twin.conv(wide, channels, 1, norm=True))

    def residual() -> Value:
        made = twin.conv(x, filters, 3, step, "relu", norm=True)
        made = twin.conv(made, filters, 3, 1, norm=True)
        shortcut = x if (filters, step) == (channels, 1) else twin.conv(x, filters, 1, step)
        return twin.add(made, shortcut, "relu")

    def excited() -> Value:
        scale = twin.conv(twin.average(x), max(channels // 4, 1), 1, 1, "relu")
        return twin.add(x, twin.conv(scale, channels, 1, 1, "sigmoid"), multiplied=True)

    def branches() -> Value:
        parts = [twin.conv(x, filters, kernel, 1, "relu") for kernel in (1, 3)]
        return twin.concat(*parts, twin.pool(x, 3, 1, average=random.random() < 0.5, padded=True))

    def larger() -> Value:
        if random.random() < 0.4:
            return twin.resize(x, linear=random.random() < 0.5 and twin.style.precision != "int16")
        kernel, stride = random.choice([(2, 2), (3, 2), (4, 2), (3, 1)])
        return twin.conv_transpose(x, filters, kernel, stride, _act(twin, fused=True))

    def smaller() -> Value:
        return twin.pool(x, *random.choice([(2, 2), (3, 2)]), average=random.random() < 0.5)

    def single() -> Value:
        ways: list[Callable[[], Value]] = [
            lambda: twin.act(x, random.choice(["tanh", "leaky", "sigmoid"])),
            lambda: twin.pad(x, 1),
            lambda: twin.norm(x),
        ]
        return random.choice(ways)()

    kinds: list[Callable[[], Value]] = [
        convolution,
        convolution,
        separable,
        inverted,
        residual,
        excited,
        branches,
    ]
    kinds += (
        [single]
        + ([larger] if max(x.shape[1:3]) <= 16 else [])
        + ([smaller, without_padding] if is_large else [])
    )
    return random.choice(kinds)()


def _sequence(twin: Twin, x: Value) -> Value:
    """Rows: an attention, a recurrent cell or products."""
    random = twin.random
    if twin.style.precision == "fp32" and random.random() < 0.3:
        x = twin.lstm(x, random.choice([8, 16]))
    elif twin.style.precision != "int16" and random.random() < 0.6:
        queries, keys = (twin.dense(x, random.choice([8])) for _ in range(2))
        scores = twin.softmax(twin.matmul(queries, keys))
        x = twin.add(twin.dense(scores, x.shape[-1]), x)
    else:
        x = twin.dense(x, random.choice([8, 16, 32]), _act(twin))
    return twin.mean(x)


def random_twin(seed: int, precision: str | None = None) -> Twin:
    """A network and the choices of a converter, drawn by a seed."""
    random = Random(seed)

    def often() -> bool:
        return random.random() < 0.5

    drawn = precision or random.choice(["fp32", "int8", "int8", "int16"])
    first, ports, pads, axes, flat, channels, products = (often() for _ in range(7))
    order = random.choice([0, random.randrange(1, 1 << 30)])
    style = Style(drawn, first, ports, pads, axes, flat, channels, products, order)
    if style.precision == "fp32":
        style = style._replace(float_ports=False)
    if style.precision == "int16":  # CMSIS-NN takes one scale
        style = style._replace(per_channel=False)
    twin = Twin(style, random)
    side = random.choice([8, 12, 16, 17, 24])
    x = twin.input((1, side, random.choice([side, side + 3]), random.choice([1, 3, 8])))
    for _ in range(random.randrange(1, 6)):
        x = _block(twin, x)
        if random.random() < 0.08:
            twin.output(twin.conv(x, 2, 1))
    ending = random.random()
    if ending < 0.25:
        twin.output(x)
        return twin
    if ending < 0.5 and prod(x.shape[1:3]) <= 144:
        x = _sequence(twin, twin.tokens(x))
    elif ending < 0.8 or prod(x.shape[1:]) > 8192:
        x = twin.flatten(twin.average(x))
    else:
        x = twin.flatten(x)
    x = twin.dense(x, random.choice([2, 10, 40]), _act(twin))
    twin.output(twin.softmax(x) if often() else x)
    return twin
