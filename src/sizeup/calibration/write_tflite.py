"""A sketch as a .tflite file, as converters write them: activations and biases are parts of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from sizeup.calibration.sketch import Layer, Sketch

# What a number of a quantised network stands for; weights are scaled so that no layer leaves this range.
STEP = 0.02
_UNIT = (1 / 256, -128)  # of what lies between 0 and 1
_FUSED = {"relu": 1, "relu6": 3}
# The versions that take int8; a file of floats is of the first.
_VERSIONS = {
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "ADD": 2, "MUL": 2, "SUB": 2,
    "BATCH_MATMUL": 2, "SOFTMAX": 2, "LOGISTIC": 2, "TANH": 2, "AVERAGE_POOL_2D": 2, "MAX_POOL_2D": 2,
    "MEAN": 2, "CONCATENATION": 2, "SLICE": 2, "TRANSPOSE": 2, "RELU": 2, "RELU6": 2,
}  # fmt: skip
_ALWAYS = {"RESIZE_BILINEAR": 3, "GELU": 1}


def file_of(sketch: Sketch, seed: int = 0) -> bytes:
    """The network with random weights, the same ones for the same seed."""
    return _Writer(sketch, seed).file()


def has(layer: Layer, precision: str) -> bool:
    """Whether there is an operator for a layer: none for a GRU, and for some no quantised one."""
    if layer.kind == "recurrent":
        return bool(layer.settings["cell"] == "lstm" and precision == "fp32")
    grouped = layer.kind == "conv" and 1 < layer.settings["groups"] < layer.shape[-1]
    return precision == "fp32" or not (grouped or layer.kind in ("layer_norm", "scale"))


class _Writer:
    def __init__(self, sketch: Sketch, seed: int) -> None:
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
        places = [self.value("input", self.sketch.shape)]
        self.graph.inputs = [places[0]]
        for layer in self.sketch.layers:
            places.append(getattr(self, f"_{layer.kind}")(layer, [places[each] for each in layer.inputs]))
        self.graph.outputs = [places[-1]]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    # Tensors.

    def tensor(self, shape: Sequence[int], kind: str, data: Any = None, **quantised: Any) -> int:
        table = schema.TensorT()
        table.name, table.shape = f"t{len(self.graph.tensors)}", list(shape)
        table.type, table.buffer = getattr(schema.TensorType, kind), 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            table.buffer = len(self.model.buffers) - 1
        if quantised:
            table.quantization = schema.QuantizationParametersT()
            table.quantization.scale = list(map(float, quantised["steps"]))
            table.quantization.zeroPoint = [quantised.get("zero", 0)] * len(quantised["steps"])
            table.quantization.quantizedDimension = quantised.get("axis", 0)
        self.graph.tensors.append(table)
        return len(self.graph.tensors) - 1

    def value(self, act: str, shape: Sequence[int], step: float = STEP, zero: int = 0) -> int:
        """A value of the network; `act` says in which range it lies."""
        if not self.is_int8:
            return self.tensor([1, *shape], "FLOAT32")
        if act in ("sigmoid", "softmax"):
            step, zero = _UNIT
        return self.tensor([1, *shape], "INT8", steps=[step], zero=zero)

    def whole(self, *numbers: int) -> int:
        return self.tensor([len(numbers)], "INT32", np.array(numbers, np.int32))

    def floats(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> int:
        numbers = mean + scale * self.random.standard_normal(shape)
        return self.tensor(shape, "FLOAT32", numbers.astype(np.float32))

    def weights(self, shape: Sequence[int], length: int, size: int, axis: int | None) -> tuple[int, int]:
        """Weights and biases; quantised with one step a channel along an axis, or one for all."""
        if not self.is_int8:
            return self.floats(*shape, scale=length**-0.5), self.floats(size, scale=0.1)
        step = 1 / (64 * math.sqrt(length))
        steps = [step] if axis is None else [step] * shape[axis]
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        biases = self.random.integers(-1000, 1000, size).astype(np.int32)
        return (
            self.tensor(shape, "INT8", values, steps=steps, axis=axis or 0),
            self.tensor([size], "INT32", biases, steps=[STEP * each for each in steps]),
        )

    # Operators.

    def op(self, name: str, inputs: Sequence[int], output: int, table: str = "", **fields: Any) -> int:
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self.code(name), list(inputs), [output]
        if table:
            options = getattr(schema, f"{table}T")()
            for field, value in fields.items():
                setattr(options, field, value)
            made.builtinOptionsType, made.builtinOptions = getattr(schema.BuiltinOptions, table), options
        self.graph.operators.append(made)
        return output

    def code(self, name: str) -> int:
        if name not in self.codes:
            made = schema.OperatorCodeT()
            number = getattr(schema.BuiltinOperator, name)
            made.builtinCode, made.deprecatedBuiltinCode = number, min(number, 127)
            made.version = _ALWAYS.get(name, _VERSIONS.get(name, 1) if self.is_int8 else 1)
            self.model.operatorCodes.append(made)
            self.codes[name] = len(self.codes)
        return self.codes[name]

    def activated(self, name: str, value: int, shape: Sequence[int]) -> int:
        """An activation that no layer has as a part of its own."""
        if name == "silu":
            return self.op(
                "MUL", [value, self.activated("sigmoid", value, shape)], self.value("", shape), "MulOptions"
            )
        kinds = {"sigmoid": "LOGISTIC", "hardswish": "HARD_SWISH", "gelu": "GELU", "tanh": "TANH"}
        kind = kinds.get(name, name.upper())
        made = self.value(name, shape) if name != "tanh" else self.value("", shape, 1 / 128)
        return self.op(kind, [value], made, "GeluOptions" if name == "gelu" else "")

    def _after(self, layer: Layer, kind: str, inputs: list[int], table: str, **fields: Any) -> int:
        act = layer.settings["act"]
        fused = _FUSED.get(act)
        made = self.value(act if fused else "", layer.shape)
        self.op(kind, inputs, made, table, fusedActivationFunction=fused or 0, **fields)
        return made if fused or not act else self.activated(act, made, layer.shape)

    def _conv(self, layer: Layer, inputs: list[int]) -> int:
        kernel, stride, groups = (layer.settings[each] for each in ("kernel", "stride", "groups"))
        channels, size = self.sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
        steps = {
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
            return self._after(
                layer, "DEPTHWISE_CONV_2D", [*inputs, *weights], table, depthMultiplier=1, **steps
            )
        weights = self.weights((size, kernel, kernel, channels // groups), length, size, 0)
        return self._after(layer, "CONV_2D", [*inputs, *weights], "Conv2DOptions", **steps)

    def _linear(self, layer: Layer, inputs: list[int]) -> int:
        length, size = self.sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
        weights = self.weights((size, length), length, size, None)
        keeps = len(layer.shape) > 1
        return self._after(
            layer, "FULLY_CONNECTED", [*inputs, *weights], "FullyConnectedOptions", keepNumDims=keeps
        )

    def _matmul(self, layer: Layer, inputs: list[int]) -> int:
        return self.op("BATCH_MATMUL", inputs, self.value("", layer.shape), "BatchMatMulOptions")

    def _act(self, layer: Layer, inputs: list[int]) -> int:
        return self.activated(layer.settings["name"], inputs[0], layer.shape)

    def _add(self, layer: Layer, inputs: list[int]) -> int:
        return self._after(layer, "ADD", inputs, "AddOptions")

    def _times(self, layer: Layer, inputs: list[int]) -> int:
        factor = self.tensor([], "FLOAT32", np.float32(layer.settings["factor"]))
        return self.op("MUL", [*inputs, factor], self.value("", layer.shape), "MulOptions")

    def _mul(self, layer: Layer, inputs: list[int]) -> int:
        return self.op("MUL", inputs, self.value("", layer.shape), "MulOptions")

    def _scale(self, layer: Layer, inputs: list[int]) -> int:
        size = layer.shape[-1]
        factor, summand = self.floats(size, scale=0.1, mean=1.0), self.floats(size, scale=0.1)
        made = self.op("MUL", [*inputs, factor], self.value("", layer.shape), "MulOptions")
        return self.op("ADD", [made, summand], self.value("", layer.shape), "AddOptions")

    def _layer_norm(self, layer: Layer, inputs: list[int]) -> int:
        few = (*layer.shape[:-1], 1)
        axis = self.whole(len(layer.shape))
        mean = self.op("MEAN", [inputs[0], axis], self.value("", few), "ReducerOptions", keepDims=True)
        square = self.op("SQUARED_DIFFERENCE", [inputs[0], mean], self.value("", layer.shape))
        variance = self.op("MEAN", [square, axis], self.value("", few), "ReducerOptions", keepDims=True)
        epsilon = self.tensor([], "FLOAT32", np.float32(1e-5))
        shifted = self.op("ADD", [variance, epsilon], self.value("", few), "AddOptions")
        root = self.op("RSQRT", [shifted], self.value("", few))
        centred = self.op("SUB", [inputs[0], mean], self.value("", layer.shape), "SubOptions")
        made = self.op("MUL", [centred, root], self.value("", layer.shape), "MulOptions")
        return self._scale(layer, [made])

    def _softmax(self, layer: Layer, inputs: list[int]) -> int:
        return self.op("SOFTMAX", inputs, self.value("softmax", layer.shape), "SoftmaxOptions", beta=1.0)

    def _pool(self, layer: Layer, inputs: list[int]) -> int:
        kernel, stride = layer.settings["kernel"], layer.settings["stride"]
        kind = "MAX_POOL_2D" if layer.settings["how"] == "max" else "AVERAGE_POOL_2D"
        sizes = {"filterHeight": kernel, "filterWidth": kernel, "strideH": stride, "strideW": stride}
        return self.op(kind, inputs, self._alike(layer, inputs), "Pool2DOptions", padding=1, **sizes)

    def _alike(self, layer: Layer, inputs: list[int]) -> int:
        """A value with the step of the input: what moves numbers does not change what they stand for."""
        if not self.is_int8:
            return self.value("", layer.shape)
        source = self.graph.tensors[inputs[0]].quantization
        return self.value("", layer.shape, source.scale[0], source.zeroPoint[0])

    def _mean(self, layer: Layer, inputs: list[int]) -> int:
        axes = self.whole(*range(1, len(layer.shape)))
        return self.op("MEAN", [*inputs, axes], self._alike(layer, inputs), "ReducerOptions", keepDims=True)

    def _concat(self, layer: Layer, inputs: list[int]) -> int:
        made = self._alike(layer, inputs)
        return self.op("CONCATENATION", inputs, made, "ConcatenationOptions", axis=len(layer.shape))

    def _part(self, layer: Layer, inputs: list[int]) -> int:
        begin = self.whole(*(0 for _ in layer.shape), layer.settings["begin"])
        size = self.whole(1, *layer.shape)
        return self.op("SLICE", [inputs[0], begin, size], self._alike(layer, inputs), "SliceOptions")

    def _transpose(self, layer: Layer, inputs: list[int]) -> int:
        order = self.whole(0, *(1 + axis for axis in layer.settings["order"]))
        return self.op("TRANSPOSE", [inputs[0], order], self._alike(layer, inputs), "TransposeOptions")

    def _reshape(self, layer: Layer, inputs: list[int]) -> int:
        made, shape = self._alike(layer, inputs), [1, *layer.shape]
        return self.op("RESHAPE", [inputs[0], self.whole(*shape)], made, "ReshapeOptions", newShape=shape)

    def _tokens(self, layer: Layer, inputs: list[int]) -> int:
        return self._reshape(layer, inputs)

    def _resize(self, layer: Layer, inputs: list[int]) -> int:
        size = self.whole(*layer.shape[:2])
        made = self._alike(layer, inputs)
        return self.op(
            "RESIZE_BILINEAR", [inputs[0], size], made, "ResizeBilinearOptions", halfPixelCenters=True
        )

    def _recurrent(self, layer: Layer, inputs: list[int]) -> int:
        """Four gates with weights for the input, for the state and a bias each."""
        length, size = self.sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
        scale = size**-0.5
        given = [self.floats(size, length, scale=scale) for _ in range(4)]
        kept = [self.floats(size, size, scale=scale) for _ in range(4)]
        biases = [self.floats(size, scale=0.1) for _ in range(4)]
        states = [self.tensor([1, size], "FLOAT32") for _ in range(2)]
        for state in states:
            self.graph.tensors[state].isVariable = True
        places = [inputs[0], *given, *kept, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
        return self.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            places,
            self.value("", layer.shape),
            "UnidirectionalSequenceLSTMOptions",
            fusedActivationFunction=4,
        )
