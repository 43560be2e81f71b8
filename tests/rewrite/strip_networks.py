"""Convolutional networks for strips, layer by layer, in int8, int16 (8-bit weights) and float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from formats.tflite.factory import File, options, quantized

TYPES = {"int8": "INT8", "int16": "INT16", "float32": "FLOAT32"}
BIASES = {"int8": ("INT32", np.int32), "int16": ("INT64", np.int64), "float32": ("FLOAT32", np.float32)}


class Network:
    """A file under construction; every layer returns the id of its output."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "int8", seed: int = 0) -> None:
        self.file, self.dtype = File(), dtype
        self.generator = np.random.default_rng(seed)
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.input = self.value(shape)

    def value(self, shape: tuple[int, ...], scale: float = 0.05) -> int:
        """A computed tensor."""
        zero_point = 0 if self.dtype == "int16" else 3
        fields = {} if self.dtype == "float32" else {"quantization": quantized([scale], [zero_point])}
        identity = self.file.main.tensor(f"t{len(self.shapes)}", shape, TYPES[self.dtype], **fields)
        self.shapes[identity] = shape
        return int(identity)

    def _weights(self, shape: tuple[int, ...], summed: int, channel_axis: int) -> int:
        numbers = self.generator.integers(-90, 91, shape)
        name = f"weights{len(self.file.model.buffers)}"
        if self.dtype == "float32":
            return int(self.file.main.tensor(name, shape, "FLOAT32", (numbers / 90).astype(np.float32)))
        scales = (1 / (50 * summed**0.5)) * self.generator.uniform(0.5, 1.5, shape[channel_axis])
        step = quantized(scales.tolist(), [0] * len(scales), channel_axis)
        return int(self.file.main.tensor(name, shape, "INT8", numbers.astype(np.int8), quantization=step))

    def _biases(self, count: int) -> int:
        kind, numpy_dtype = BIASES[self.dtype]
        numbers = self.generator.integers(-50, 51, count).astype(numpy_dtype)
        return int(self.file.main.tensor(f"biases{len(self.file.model.buffers)}", (count,), kind, numbers))

    def window(
        self,
        source: int,
        kind: str,
        channels: int = 0,
        side: int = 3,
        stride: int = 1,
        dilation: int = 1,
        same: bool = True,
        activation: int = 1,
    ) -> int:
        """A convolution (`conv`, `depthwise`) or a pool (`max`, `average`)."""
        batch, height, width, depth = self.shapes[source]
        span = (side - 1) * dilation + 1
        rows, columns = (-(-(size if same else size - span + 1) // stride) for size in (height, width))
        settings: dict[str, Any] = {"strideH": stride, "strideW": stride, "padding": 0 if same else 1}
        settings["fusedActivationFunction"] = activation
        if kind in ("max", "average"):
            output = self.value((batch, rows, columns, depth))
            table = options("Pool2DOptions", filterHeight=side, filterWidth=side, **settings)
            self.file.main.op(f"{kind.upper()}_POOL_2D", [source], [output], table)
            return output
        settings |= {"dilationHFactor": dilation, "dilationWFactor": dilation}
        channels = depth if kind == "depthwise" else channels
        output = self.value((batch, rows, columns, channels))
        if kind == "conv":
            weights = self._weights((channels, side, side, depth), side * side * depth, 0)
            name, table = "CONV_2D", options("Conv2DOptions", **settings)
        else:
            weights = self._weights((1, side, side, channels), side * side, 3)
            name, table = (
                "DEPTHWISE_CONV_2D",
                options("DepthwiseConv2DOptions", depthMultiplier=1, **settings),
            )
        self.file.main.op(name, [source, weights, self._biases(channels)], [output], table)
        return output

    def pad(self, source: int, *amounts: tuple[int, int]) -> int:
        """Zeros above and below, and left and right."""
        numbers = np.array([(0, 0), *amounts, (0, 0)], np.int32)
        shape = tuple(
            size + sum(pad) for size, pad in zip(self.shapes[source], numbers.tolist(), strict=True)
        )
        output = self.value(shape)
        paddings = self.file.main.tensor("paddings", (4, 2), "INT32", numbers)
        self.file.main.op("PAD", [source, paddings], [output])
        return output

    def unary(self, source: int, name: str, scale: float = 0.05) -> int:
        """An elementwise operator."""
        output = self.value(self.shapes[source], scale)
        self.file.main.op(name, [source], [output])
        return output

    def add(self, left: int, right: int) -> int:
        """A residual sum."""
        output = self.value(self.shapes[left])
        self.file.main.op("ADD", [left, right], [output], options("AddOptions"))
        return output

    def concat(self, *sources: int) -> int:
        """A concatenation of channels."""
        batch, height, width, _ = self.shapes[sources[0]]
        output = self.value((batch, height, width, sum(self.shapes[source][3] for source in sources)))
        table = options("ConcatenationOptions", axis=3)
        self.file.main.op("CONCATENATION", list(sources), [output], table)
        return output

    def pack(self, *outputs: int) -> bytes:
        """The file with those outputs."""
        self.file.main.ends([self.input], list(outputs))
        return self.file.pack()


def inverted_residual(network: Network, source: int, expansion: int, channels: int, stride: int = 1) -> int:
    """A block of MobileNetV2: expand, depthwise, project, and a sum if the shapes are equal."""
    depth = network.shapes[source][3]
    wide = network.window(source, "conv", depth * expansion, side=1)
    narrow = network.window(
        network.window(wide, "depthwise", stride=stride), "conv", channels, 1, activation=0
    )
    return network.add(narrow, source) if network.shapes[narrow] == network.shapes[source] else narrow


def mobilenet_v1(side: int = 64, width: int = 8, dtype: str = "int8") -> bytes:
    """A stem and five depthwise-separable blocks."""
    network = Network((1, side, side, 3), dtype)
    value = network.window(network.input, "conv", width, stride=2)
    for factor, stride in ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1)):
        value = network.window(network.window(value, "depthwise", stride=stride), "conv", factor * width, 1)
    return network.pack(network.window(value, "average", side=2, stride=2, activation=0))


def mobilenet_v2(side: int = 64, dtype: str = "int8") -> bytes:
    """A stem and six inverted residuals, of which three add their input."""
    network = Network((1, side, side, 3), dtype)
    value = network.window(network.input, "conv", 8, stride=2)
    for expansion, channels, stride in ((1, 8, 1), (6, 12, 2), (6, 12, 1), (6, 16, 2), (6, 16, 1)):
        value = inverted_residual(network, value, expansion, channels, stride)
    return network.pack(value)


def mcunet(side: int = 80) -> bytes:
    """A network like MCUNet: kernels of several sizes, low expansion first."""
    network = Network((1, side, side, 3))
    value = network.window(network.input, "conv", 16, stride=2)
    value = network.window(network.window(value, "depthwise"), "conv", 8, 1, activation=0)
    for expansion, channels, side_of_kernel, stride in ((3, 16, 5, 2), (4, 16, 3, 1), (4, 24, 7, 2)):
        depth = network.shapes[value][3]
        wide = network.window(value, "conv", depth * expansion, 1)
        deep = network.window(wide, "depthwise", side=side_of_kernel, stride=stride)
        narrow = network.window(deep, "conv", channels, 1, activation=0)
        same = network.shapes[narrow] == network.shapes[value]
        value = network.add(narrow, value) if same else narrow
    return network.pack(value)


def branches(side: int = 40) -> bytes:
    """Two branches of convolutions, one dilated, that are concatenated, as in an Inception block."""
    network = Network((1, side, side, 4))
    stem = network.window(network.input, "conv", 24)
    left = network.window(stem, "conv", 16, dilation=2)
    right = network.window(network.window(stem, "conv", 8, 1), "conv", 16, 5)
    joined = network.unary(network.concat(left, right), "RELU")
    return network.pack(network.window(joined, "conv", 8, stride=4))
