"""Write a sketch as a .tflite file, with fused activations and biases as converters do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from sizeup.calibration.network_spec import Layer, NetworkSpec
from sizeup.formats.tflite.operators import operator_of
from sizeup.ops import cost_rule_of

# Scale of quantized values; weights are scaled so that no layer exceeds the range.
SCALE = 0.02
_UNIT_RANGE = (1 / 256, -128)  # scale and zero point of values between 0 and 1
_FUSED = {"relu": 1, "relu6": 3}
_FLOAT_VERSIONS = {"RESIZE_BILINEAR": 3}  # the others are of version 1


def tflite_file(sketch: NetworkSpec, seed: int = 0) -> bytes:
    """Return the network as a .tflite file with random weights, deterministic per seed."""
    return _Writer(sketch, seed).file()


def is_supported(layer: Layer, precision: str) -> bool:
    """Return whether TFLite has an operator for a layer: none for GRU, and not all in int8."""
    if layer.kind == "recurrent":
        return bool(layer.settings["cell"] == "lstm" and precision == "fp32")
    grouped = layer.kind == "conv" and 1 < layer.settings["groups"] < layer.shape[-1]
    return precision == "fp32" or not (grouped or layer.kind in ("layer_norm", "scale"))


class _Writer:
    def __init__(self, sketch: NetworkSpec, seed: int) -> None:
        self.sketch = sketch
        self.random = np.random.default_rng(seed)
        self.is_int8 = sketch.precision == "int8"
        self.graph = schema.SubGraphT()
        self.graph.name = "main"
        self.graph.tensors, self.graph.operators = [], []
        self.model = schema.ModelT()
        self.model.version, self.model.description = 3, sketch.name
        self.model.operatorCodes, self.model.subgraphs = [], [self.graph]
        self.model.buffers = [schema.BufferT()]
        self.codes: dict[str, int] = {}

    def file(self) -> bytes:
        tensors = [self.value("input", self.sketch.shape)]
        self.graph.inputs = [tensors[0]]
        for layer in self.sketch.layers:
            tensors.append(getattr(self, f"_{layer.kind}")(layer, [tensors[value] for value in layer.inputs]))
        self.graph.outputs = [tensors[-1]]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    # Tensors.

    def tensor(self, shape: Sequence[int], dtype: str, data: Any = None, **quantized: Any) -> int:
        table = schema.TensorT()
        table.name, table.shape = f"t{len(self.graph.tensors)}", list(shape)
        table.type, table.buffer = getattr(schema.TensorType, dtype), 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            table.buffer = len(self.model.buffers) - 1
        if quantized:
            table.quantization = schema.QuantizationParametersT()
            table.quantization.scale = list(map(float, quantized["scales"]))
            table.quantization.zeroPoint = [quantized.get("zero_point", 0)] * len(quantized["scales"])
            table.quantization.quantizedDimension = quantized.get("axis", 0)
        self.graph.tensors.append(table)
        return len(self.graph.tensors) - 1

    def value(self, act: str, shape: Sequence[int], scale: float = SCALE, zero_point: int = 0) -> int:
        """Add a value of the network; `act` determines its range."""
        if not self.is_int8:
            return self.tensor([1, *shape], "FLOAT32")
        if act in ("sigmoid", "softmax"):
            scale, zero_point = _UNIT_RANGE
        return self.tensor([1, *shape], "INT8", scales=[scale], zero_point=zero_point)

    def int_constant(self, *numbers: int) -> int:
        return self.tensor([len(numbers)], "INT32", np.array(numbers, np.int32))

    def float_constant(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> int:
        numbers = mean + scale * self.random.standard_normal(shape)
        return self.tensor(shape, "FLOAT32", numbers.astype(np.float32))

    def weights(self, shape: Sequence[int], length: int, size: int, axis: int | None) -> tuple[int, int]:
        """Add weights and biases; int8 ones have one scale per channel of `axis`, or a single scale."""
        if not self.is_int8:
            return self.float_constant(*shape, scale=length**-0.5), self.float_constant(size, scale=0.1)
        base_scale = 1 / (64 * math.sqrt(length))
        scales = [base_scale] if axis is None else [base_scale] * shape[axis]
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        biases = self.random.integers(-1000, 1000, size).astype(np.int32)
        return (
            self.tensor(shape, "INT8", values, scales=scales, axis=axis or 0),
            self.tensor([size], "INT32", biases, scales=[SCALE * scale for scale in scales]),
        )

    # Operators.

    def op(self, name: str, inputs: Sequence[int], output: int, table: str = "", **fields: Any) -> int:
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = self.code(name), list(inputs), [output]
        if table:
            options = getattr(schema, f"{table}T")()
            for field, value in fields.items():
                setattr(options, field, value)
            operator.builtinOptionsType, operator.builtinOptions = (
                getattr(schema.BuiltinOptions, table),
                options,
            )
        self.graph.operators.append(operator)
        return output

    def code(self, name: str) -> int:
        if name not in self.codes:
            code = schema.OperatorCodeT()
            number = getattr(schema.BuiltinOperator, name)
            code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
            code.version = operator_of(name).int8_version if self.is_int8 else _FLOAT_VERSIONS.get(name, 1)
            self.model.operatorCodes.append(code)
            self.codes[name] = len(self.codes)
        return self.codes[name]

    def activation(self, name: str, value: int, shape: Sequence[int]) -> int:
        """Add a separate activation operator."""
        if name == "silu":
            return self.op(
                "MUL", [value, self.activation("sigmoid", value, shape)], self.value("", shape), "MulOptions"
            )
        rule = cost_rule_of(name)
        assert rule is not None, name
        output = self.value(name, shape) if name != "tanh" else self.value("", shape, 1 / 128)
        return self.op(rule.tflite[0], [value], output, "GeluOptions" if name == "gelu" else "")

    def _op_with_activation(
        self, layer: Layer, op_name: str, inputs: list[int], table: str, **fields: Any
    ) -> int:
        act = layer.settings["act"]
        fused = _FUSED.get(act)
        output = self.value(act if fused else "", layer.shape)
        self.op(op_name, inputs, output, table, fusedActivationFunction=fused or 0, **fields)
        return output if fused or not act else self.activation(act, output, layer.shape)

    def _conv(self, layer: Layer, inputs: list[int]) -> int:
        kernel, stride, groups = (layer.settings[key] for key in ("kernel", "stride", "groups"))
        channels, size = self.sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
        options = {
            "padding": 0,
            "strideH": stride,
            "strideW": stride,
            "dilationHFactor": 1,
            "dilationWFactor": 1,
        }
        length = channels // groups * kernel**2
        if groups == channels == size and groups > 1:
            weights = self.weights((1, kernel, kernel, size), length, size, 3)
            table = "DepthwiseConv2DOptions"
            return self._op_with_activation(
                layer, "DEPTHWISE_CONV_2D", [*inputs, *weights], table, depthMultiplier=1, **options
            )
        weights = self.weights((size, kernel, kernel, channels // groups), length, size, 0)
        return self._op_with_activation(layer, "CONV_2D", [*inputs, *weights], "Conv2DOptions", **options)

    def _linear(self, layer: Layer, inputs: list[int]) -> int:
        length, size = self.sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
        weights = self.weights((size, length), length, size, None)
        has_rows = len(layer.shape) > 1
        return self._op_with_activation(
            layer, "FULLY_CONNECTED", [*inputs, *weights], "FullyConnectedOptions", keepNumDims=has_rows
        )

    def _matmul(self, layer: Layer, inputs: list[int]) -> int:
        return self.op("BATCH_MATMUL", inputs, self.value("", layer.shape), "BatchMatMulOptions")

    def _act(self, layer: Layer, inputs: list[int]) -> int:
        return self.activation(layer.settings["name"], inputs[0], layer.shape)

    def _add(self, layer: Layer, inputs: list[int]) -> int:
        return self._op_with_activation(layer, "ADD", inputs, "AddOptions")

    def _times(self, layer: Layer, inputs: list[int]) -> int:
        factor = self.tensor([], "FLOAT32", np.float32(layer.settings["factor"]))
        return self.op("MUL", [*inputs, factor], self.value("", layer.shape), "MulOptions")

    def _mul(self, layer: Layer, inputs: list[int]) -> int:
        return self.op("MUL", inputs, self.value("", layer.shape), "MulOptions")

    def _scale(self, layer: Layer, inputs: list[int]) -> int:
        size = layer.shape[-1]
        factor, summand = self.float_constant(size, scale=0.1, mean=1.0), self.float_constant(size, scale=0.1)
        scaled = self.op("MUL", [*inputs, factor], self.value("", layer.shape), "MulOptions")
        return self.op("ADD", [scaled, summand], self.value("", layer.shape), "AddOptions")

    def _layer_norm(self, layer: Layer, inputs: list[int]) -> int:
        reduced = (*layer.shape[:-1], 1)
        axis = self.int_constant(len(layer.shape))
        mean = self.op("MEAN", [inputs[0], axis], self.value("", reduced), "ReducerOptions", keepDims=True)
        square = self.op("SQUARED_DIFFERENCE", [inputs[0], mean], self.value("", layer.shape))
        variance = self.op("MEAN", [square, axis], self.value("", reduced), "ReducerOptions", keepDims=True)
        epsilon = self.tensor([], "FLOAT32", np.float32(1e-5))
        shifted = self.op("ADD", [variance, epsilon], self.value("", reduced), "AddOptions")
        root = self.op("RSQRT", [shifted], self.value("", reduced))
        centered = self.op("SUB", [inputs[0], mean], self.value("", layer.shape), "SubOptions")
        normalized = self.op("MUL", [centered, root], self.value("", layer.shape), "MulOptions")
        return self._scale(layer, [normalized])

    def _softmax(self, layer: Layer, inputs: list[int]) -> int:
        return self.op("SOFTMAX", inputs, self.value("softmax", layer.shape), "SoftmaxOptions", beta=1.0)

    def _pool(self, layer: Layer, inputs: list[int]) -> int:
        kernel, stride = layer.settings["kernel"], layer.settings["stride"]
        op_name = "MAX_POOL_2D" if layer.settings["mode"] == "max" else "AVERAGE_POOL_2D"
        sizes = {"filterHeight": kernel, "filterWidth": kernel, "strideH": stride, "strideW": stride}
        return self.op(op_name, inputs, self._like_input(layer, inputs), "Pool2DOptions", padding=1, **sizes)

    def _like_input(self, layer: Layer, inputs: list[int]) -> int:
        """Add an output with the quantization of the input, for operators that only move values."""
        if not self.is_int8:
            return self.value("", layer.shape)
        source = self.graph.tensors[inputs[0]].quantization
        return self.value("", layer.shape, source.scale[0], source.zeroPoint[0])

    def _mean(self, layer: Layer, inputs: list[int]) -> int:
        axes = self.int_constant(*range(1, len(layer.shape)))
        return self.op(
            "MEAN", [*inputs, axes], self._like_input(layer, inputs), "ReducerOptions", keepDims=True
        )

    def _concat(self, layer: Layer, inputs: list[int]) -> int:
        output = self._like_input(layer, inputs)
        return self.op("CONCATENATION", inputs, output, "ConcatenationOptions", axis=len(layer.shape))

    def _part(self, layer: Layer, inputs: list[int]) -> int:
        begin = self.int_constant(*(0 for _ in layer.shape), layer.settings["begin"])
        size = self.int_constant(1, *layer.shape)
        return self.op("SLICE", [inputs[0], begin, size], self._like_input(layer, inputs), "SliceOptions")

    def _transpose(self, layer: Layer, inputs: list[int]) -> int:
        order = self.int_constant(0, *(1 + axis for axis in layer.settings["order"]))
        return self.op("TRANSPOSE", [inputs[0], order], self._like_input(layer, inputs), "TransposeOptions")

    def _reshape(self, layer: Layer, inputs: list[int]) -> int:
        output, shape = self._like_input(layer, inputs), [1, *layer.shape]
        return self.op(
            "RESHAPE", [inputs[0], self.int_constant(*shape)], output, "ReshapeOptions", newShape=shape
        )

    def _tokens(self, layer: Layer, inputs: list[int]) -> int:
        return self._reshape(layer, inputs)

    def _resize(self, layer: Layer, inputs: list[int]) -> int:
        size = self.int_constant(*layer.shape[:2])
        output = self._like_input(layer, inputs)
        return self.op(
            "RESIZE_BILINEAR", [inputs[0], size], output, "ResizeBilinearOptions", halfPixelCenters=True
        )

    def _recurrent(self, layer: Layer, inputs: list[int]) -> int:
        """Add an LSTM: per gate input weights, recurrent weights and a bias."""
        length, size = self.sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
        scale = size**-0.5
        input_weights = [self.float_constant(size, length, scale=scale) for _ in range(4)]
        recurrent_weights = [self.float_constant(size, size, scale=scale) for _ in range(4)]
        biases = [self.float_constant(size, scale=0.1) for _ in range(4)]
        states = [self.tensor([1, size], "FLOAT32") for _ in range(2)]
        for state in states:
            self.graph.tensors[state].isVariable = True
        # -1 marks an absent operand: peepholes, projection and layer norms.
        operands = [inputs[0], *input_weights, *recurrent_weights, *[-1] * 3, *biases, *[-1] * 2, *states]
        operands += [-1] * 4
        return self.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            operands,
            self.value("", layer.shape),
            "UnidirectionalSequenceLSTMOptions",
            fusedActivationFunction=4,
        )
