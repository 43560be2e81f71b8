"""Write a sketch as an ONNX model; int8 networks have a Q/DQ pair at every value, as exporters write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sizeup.calibration.network_spec import Layer, NetworkSpec

_OPSET = 17
_IR = 8
# Scale of quantized values; weights are scaled so that no layer exceeds the range.
SCALE = 0.02
_GELU = (2**0.5, 1.0, 0.5)
# Layers that only move values keep their quantization.
_SCALE_PRESERVING = ("pool", "transpose", "part", "resize")


def onnx_model(sketch: NetworkSpec, seed: int = 0) -> onnx.ModelProto:
    """Return the network with random weights, deterministic per seed."""
    return _Writer(sketch, seed).model()


class _Writer:
    def __init__(self, sketch: NetworkSpec, seed: int) -> None:
        self.sketch = sketch
        self.random = np.random.default_rng(seed)
        self.is_int8 = sketch.precision == "int8"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.known: dict[tuple[float, int], tuple[str, str]] = {}
        self.quantization: list[tuple[float, int]] = [(SCALE, 0)]
        self.count = 0

    def model(self) -> onnx.ModelProto:
        names = ["input"]
        if self.is_int8:
            names[0] = self.quantize_dequantize("input", SCALE, 0)
        for layer in self.sketch.layers:
            output = getattr(self, f"_{layer.kind}")(layer, [names[value] for value in layer.inputs])
            names.append(self._quantize_output(layer, output))
        final = len(self.sketch.layers)
        ends = [self._info("input", 0), self._info(names[-1], final)]
        graph = helper.make_graph(self.nodes, self.sketch.name, ends[:1], ends[1:], self.constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR, producer_name="sizeup"
        )

    def _info(self, name: str, value: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape(value))

    def shape(self, value: int) -> list[int]:
        shape = self.sketch.shape_of(value)
        if self.sketch.is_image(value):
            return [1, shape[2], shape[0], shape[1]]
        return [1, *shape]

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def node(self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> str:
        """Add a node and return the name of its first output."""
        output = self.name(op_type.lower())
        names = [output, *(f"{output}_{index}" for index in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=output, **attributes))
        return output

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        return (scale * self.random.standard_normal(shape)).astype(np.float32)

    def quantize_dequantize(self, value: str, scale: float, zero_point: int) -> str:
        """Add a Q/DQ pair for int8."""
        if (scale, zero_point) not in self.known:
            self.known[scale, zero_point] = (self.constant(scale), self.constant(zero_point, np.int8))
        parameters = self.known[scale, zero_point]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [value, *parameters]), *parameters])

    def weights(self, shape: Sequence[int], length: int, axis: int) -> tuple[str, Any]:
        """Add weights that preserve the magnitude of values; return them and their int8 scales, if any."""
        if not self.is_int8:
            return self.constant(self.normal(*shape, scale=length**-0.5)), None
        scales = np.full(shape[axis], 1 / (64 * math.sqrt(length)), np.float32)
        values = self.random.integers(-127, 128, shape)
        inputs = [self.constant(values, np.int8), self.constant(scales), self.constant(0 * scales, np.int8)]
        return self.node("DequantizeLinear", inputs, axis=axis), scales

    def bias(self, size: int, scales: Any) -> str:
        if scales is None:
            return self.constant(self.normal(size, scale=0.1))
        values = self.random.integers(-1000, 1000, size)
        inputs = [
            self.constant(values, np.int32),
            self.constant(SCALE * scales),
            self.constant(0 * values, np.int32),
        ]
        return self.node("DequantizeLinear", inputs, axis=0)

    def _quantize_output(self, layer: Layer, output: str) -> str:
        act = layer.settings.get("act") or layer.settings.get("name")
        quantization = (SCALE, -128 if act in ("relu", "relu6") else 0)
        if layer.kind in (*_SCALE_PRESERVING, "reshape", "tokens"):
            quantization = self.quantization[layer.inputs[0]]
        elif layer.kind == "softmax" or act == "sigmoid":
            quantization = (1 / 256, -128)
        self.quantization.append(quantization)
        # Reshapes need no Q/DQ pair of their output.
        is_plain = not self.is_int8 or layer.kind in ("reshape", "tokens")
        return output if is_plain else self.quantize_dequantize(output, *quantization)

    def activation(self, name: str, value: str) -> str:
        if name in ("sigmoid", "tanh", "relu"):
            return self.node(name.capitalize(), [value])
        if name == "hardswish":
            return self.node("HardSwish", [value])
        if name == "relu6":
            return self.node("Clip", [value, self.constant(0.0), self.constant(6.0)])
        if name == "silu":
            return self.node("Mul", [value, self.node("Sigmoid", [value])])
        if name == "gelu":
            root, one, half = (self.constant(number) for number in _GELU)
            bell = self.node("Erf", [self.node("Div", [value, root])])
            return self.node("Mul", [self.node("Mul", [value, self.node("Add", [bell, one])]), half])
        return value

    def _conv(self, layer: Layer, inputs: list[str]) -> str:
        kernel, stride, groups = (layer.settings[key] for key in ("kernel", "stride", "groups"))
        channels = self.sketch.shape_of(layer.inputs[0])[-1] // groups
        size = layer.shape[-1]
        weights, scales = self.weights((size, channels, kernel, kernel), channels * kernel**2, 0)
        output = self.node(
            "Conv",
            [inputs[0], weights, self.bias(size, scales)],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            group=groups,
            pads=self._pads(layer, kernel, stride),
        )
        return self.activation(layer.settings["act"], output)

    def _pads(self, layer: Layer, kernel: int, stride: int) -> list[int]:
        height, width, _ = self.sketch.shape_of(layer.inputs[0])
        totals = [
            (layer.shape[0] - 1) * stride + kernel - height,
            (layer.shape[1] - 1) * stride + kernel - width,
        ]
        totals = [max(total, 0) for total in totals]
        # As in PyTorch: symmetric padding, minus what the last window does not reach.
        before = [min(kernel // 2, total) for total in totals]
        return [*before, *(total - first for total, first in zip(totals, before, strict=True))]

    def _linear(self, layer: Layer, inputs: list[str]) -> str:
        length, size = self.sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
        if len(layer.shape) == 1:
            weights, scales = self.weights((size, length), length, 0)
            output = self.node("Gemm", [inputs[0], weights, self.bias(size, scales)], transB=1)
        else:
            weights, _ = self.weights((length, size), length, 1)
            output = self.node("MatMul", [inputs[0], weights])
            if self.is_int8:
                output = self.quantize_dequantize(output, SCALE, 0)
            output = self.node("Add", [output, self._addend(size)])
        return self.activation(layer.settings["act"], output)

    def _addend(self, size: int) -> str:
        """Add a bias for a separate Add node."""
        if not self.is_int8:
            return self.bias(size, None)
        inputs = [self.constant(self.random.integers(-50, 50, size), np.int8)]
        return self.node("DequantizeLinear", [*inputs, self.constant(SCALE), self.constant(0, np.int8)])

    def _matmul(self, _layer: Layer, inputs: list[str]) -> str:
        return self.node("MatMul", inputs)

    def _act(self, layer: Layer, inputs: list[str]) -> str:
        return self.activation(layer.settings["name"], inputs[0])

    def _add(self, layer: Layer, inputs: list[str]) -> str:
        return self.activation(layer.settings["act"], self.node("Add", inputs))

    def _times(self, layer: Layer, inputs: list[str]) -> str:
        return self.node("Mul", [inputs[0], self.constant(layer.settings["factor"])])

    def _mul(self, _layer: Layer, inputs: list[str]) -> str:
        return self.node("Mul", inputs)

    def _scale(self, layer: Layer, inputs: list[str]) -> str:
        size = layer.shape[-1]
        numbers = [self.constant(1 + 0.1 * abs(self.normal(size))) for _ in range(4)]
        return self.node("BatchNormalization", [inputs[0], *numbers])

    def _layer_norm(self, layer: Layer, inputs: list[str]) -> str:
        size = layer.shape[-1]
        numbers = [
            self.constant(1 + self.normal(size, scale=0.1)),
            self.constant(self.normal(size, scale=0.1)),
        ]
        return self.node("LayerNormalization", [inputs[0], *numbers], axis=-1)

    def _softmax(self, _layer: Layer, inputs: list[str]) -> str:
        return self.node("Softmax", inputs, axis=-1)

    def _pool(self, layer: Layer, inputs: list[str]) -> str:
        kernel, stride = layer.settings["kernel"], layer.settings["stride"]
        op_type = "MaxPool" if layer.settings["mode"] == "max" else "AveragePool"
        return self.node(op_type, inputs, kernel_shape=[kernel, kernel], strides=[stride, stride])

    def _mean(self, layer: Layer, inputs: list[str]) -> str:
        if layer.is_image:
            return self.node("GlobalAveragePool", inputs)
        return self.node("ReduceMean", inputs, axes=list(range(1, len(layer.shape))), keepdims=1)

    def _concat(self, layer: Layer, inputs: list[str]) -> str:
        return self.node("Concat", inputs, axis=1 if layer.is_image else -1)

    def _part(self, layer: Layer, inputs: list[str]) -> str:
        begin, axis = layer.settings["begin"], 1 if layer.is_image else len(layer.shape)
        bounds = (begin, begin + layer.shape[-1], axis)
        return self.node("Slice", [inputs[0], *(self.constant([bound], np.int64) for bound in bounds)])

    def _transpose(self, layer: Layer, inputs: list[str]) -> str:
        return self.node("Transpose", inputs, perm=[0, *(1 + axis for axis in layer.settings["order"])])

    def _reshape(self, layer: Layer, inputs: list[str]) -> str:
        return self.node("Reshape", [inputs[0], self.constant([1, *layer.shape], np.int64)])

    def _tokens(self, layer: Layer, inputs: list[str]) -> str:
        tokens, channels = layer.shape
        flat = self.node("Reshape", [inputs[0], self.constant([1, channels, tokens], np.int64)])
        return self.node("Transpose", [flat], perm=[0, 2, 1])

    def _resize(self, layer: Layer, inputs: list[str]) -> str:
        times = layer.shape[0] / self.sketch.shape_of(layer.inputs[0])[0]
        return self.node(
            "Resize",
            [inputs[0], "", self.constant([1, 1, times, times])],
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        )

    def _recurrent(self, layer: Layer, inputs: list[str]) -> str:
        steps, size = layer.shape
        length = self.sketch.shape_of(layer.inputs[0])[-1]
        op_type = layer.settings["cell"].upper()
        gates = {"LSTM": 4, "GRU": 3}[op_type] * size
        numbers = [(1, gates, length), (1, gates, size), (1, 2 * gates)]
        weights = [self.constant(self.normal(*shape, scale=size**-0.5)) for shape in numbers]
        first = self.node("Reshape", [inputs[0], self.constant([steps, 1, length], np.int64)])
        more = {"linear_before_reset": 1} if op_type == "GRU" else {}
        output = self.node(op_type, [first, *weights], hidden_size=size, **more)
        return self.node("Reshape", [output, self.constant([1, steps, size], np.int64)])
