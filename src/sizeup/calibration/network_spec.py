"""A format-independent description of small networks, from which model files are written.

Values are numbered: 0 is the input, 1 the output of the first layer. Shapes omit the batch of 1 and have
channels last; writers transpose if their format differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Shape: TypeAlias = tuple[int, ...]

FUSED_ATTENTION = "fused_attention"
_NOT_IMAGE = (FUSED_ATTENTION, "reshape", "transpose", "matmul", "tokens", "recurrent")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: input values, output shape and settings of its kind."""

    kind: str
    inputs: tuple[int, ...]
    shape: Shape
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_image: bool = False  # height x width x channels


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A network: its input shape and its layers; the last one produces the output."""

    name: str
    family: str
    shape: Shape
    layers: tuple[Layer, ...]
    precision: str = "fp32"  # or int8

    def shape_of(self, value: int) -> Shape:
        """Return the shape of a value."""
        return self.layers[value - 1].shape if value else self.shape

    @property
    def is_for_torch_only(self) -> bool:
        """Return whether only PyTorch has all layers."""
        return any(layer.kind == FUSED_ATTENTION for layer in self.layers)

    def is_image(self, value: int) -> bool:
        """Return whether a value has a height, a width and channels."""
        return self.layers[value - 1].is_image if value else len(self.shape) == 3


class NetworkBuilder:
    """Builds a sketch; each method adds a layer to the latest value, or to `x`, and returns its output."""

    def __init__(self, name: str, family: str, shape: Shape, precision: str = "fp32") -> None:
        self._head = (name, family, shape)
        self._precision = precision
        self._layers: list[Layer] = []

    def build(self) -> NetworkSpec:
        """Return the network."""
        return NetworkSpec(*self._head, tuple(self._layers), self._precision)

    @property
    def last(self) -> int:
        """The latest value."""
        return len(self._layers)

    def shape(self, x: int | None = None) -> Shape:
        """Return the shape of a value, or of the latest one."""
        value = self.last if x is None else x
        return self._layers[value - 1].shape if value else self._head[2]

    def _add(self, layer_kind: str, inputs: tuple[int | None, ...], shape: Shape, **settings: Any) -> int:
        values = tuple(self.last if value is None else value for value in inputs)
        source = values[0]
        is_image = self._layers[source - 1].is_image if source else len(self._head[2]) == 3
        self._layers.append(
            Layer(layer_kind, values, shape, settings, is_image and layer_kind not in _NOT_IMAGE)
        )
        return self.last

    def conv(
        self,
        size: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        act: str = "relu",
        x: int | None = None,
    ) -> int:
        """A convolution with bias and "same" padding."""
        height, width, _ = self.shape(x)
        shape = (-(-height // stride), -(-width // stride), size)
        return self._add("conv", (x,), shape, kernel=kernel, stride=stride, groups=groups, act=act)

    def depthwise(self, kernel: int = 3, stride: int = 1, act: str = "relu", x: int | None = None) -> int:
        """A depthwise convolution."""
        channels = self.shape(x)[-1]
        return self.conv(channels, kernel, stride, channels, act, x)

    def linear(self, size: int, act: str = "", x: int | None = None) -> int:
        """A linear layer over the last axis, with bias."""
        return self._add("linear", (x,), (*self.shape(x)[:-1], size), act=act)

    def matmul(self, x: int, y: int) -> int:
        """A batched matrix product of two values."""
        return self._add("matmul", (x, y), (*self.shape(x)[:-1], self.shape(y)[-1]))

    def act(self, name: str, x: int | None = None) -> int:
        """A separate activation."""
        return self._add("act", (x,), self.shape(x), name=name)

    def add(self, x: int, y: int, act: str = "") -> int:
        """The sum of two values of the same shape."""
        return self._add("add", (x, y), self.shape(x), act=act)

    def multiply_scalar(self, factor: float, x: int | None = None) -> int:
        """A multiplication by a scalar."""
        return self._add("times", (x,), self.shape(x), factor=factor)

    def mul(self, x: int, y: int) -> int:
        """The elementwise product of two values; the second may have one element per channel."""
        return self._add("mul", (x, y), self.shape(x))

    def scale(self, x: int | None = None) -> int:
        """A scale and shift per channel: an unfolded batch norm."""
        return self._add("scale", (x,), self.shape(x))

    def layer_norm(self, x: int | None = None) -> int:
        """A layer norm over the last axis."""
        return self._add("layer_norm", (x,), self.shape(x))

    def softmax(self, x: int | None = None) -> int:
        """A softmax over the last axis."""
        return self._add("softmax", (x,), self.shape(x))

    def pool(self, kernel: int, stride: int, mode: str = "max", x: int | None = None) -> int:
        """Max or mean pooling."""
        height, width, channels = self.shape(x)
        shape = ((height - kernel) // stride + 1, (width - kernel) // stride + 1, channels)
        return self._add("pool", (x,), shape, kernel=kernel, stride=stride, mode=mode)

    def mean(self, x: int | None = None) -> int:
        """The mean of each channel; the reduced axes stay with size 1."""
        shape = self.shape(x)
        return self._add("mean", (x,), (*(1 for _ in shape[:-1]), shape[-1]))

    def concat(self, x: int, y: int) -> int:
        """The concatenation of two values along the last axis."""
        shape = self.shape(x)
        return self._add("concat", (x, y), (*shape[:-1], shape[-1] + self.shape(y)[-1]))

    def slice_channels(self, begin: int, size: int, x: int | None = None) -> int:
        """A slice of channels."""
        return self._add("part", (x,), (*self.shape(x)[:-1], size), begin=begin)

    def transpose(self, order: tuple[int, ...], x: int | None = None) -> int:
        """A transposition; not for images."""
        shape = self.shape(x)
        return self._add("transpose", (x,), tuple(shape[axis] for axis in order), order=order)

    def reshape(self, *shape: int, x: int | None = None) -> int:
        """A reshape; not for images."""
        return self._add("reshape", (x,), shape)

    def tokens(self, x: int | None = None) -> int:
        """An image flattened to a sequence of positions."""
        height, width, channels = self.shape(x)
        return self._add("tokens", (x,), (height * width, channels))

    def resize(self, times: int, x: int | None = None) -> int:
        """A bilinear upsampling of an image."""
        height, width, channels = self.shape(x)
        return self._add("resize", (x,), (height * times, width * times, channels))

    def recurrent(self, cell: str, size: int, x: int | None = None) -> int:
        """An LSTM or GRU over all steps."""
        return self._add("recurrent", (x,), (self.shape(x)[0], size), cell=cell)

    def attention(self, heads: int, x: int | None = None) -> int:
        """Self-attention with its four projections."""
        source = self.last if x is None else x
        steps, size = self.shape(source)
        parts = []
        for order in ((1, 0, 2), (1, 2, 0), (1, 0, 2)):
            self.linear(size, x=source)
            self.reshape(steps, heads, size // heads)
            parts.append(self.transpose(order))
        self.matmul(parts[0], parts[1])
        if self._precision == "fp32":
            self.multiply_scalar((heads / size) ** 0.5)
        self.matmul(self.softmax(), parts[2])
        self.transpose((1, 0, 2))
        self.reshape(steps, size)
        return self.linear(size)

    def fused_attention(self, x: int, y: int, z: int) -> int:
        """Attention of queries, keys and values (heads, steps, size) in one call, which only PyTorch has."""
        return self._add(FUSED_ATTENTION, (x, y, z), self.shape(x))

    def encoder(self, heads: int, wide: int = 4, act: str = "gelu") -> int:
        """A transformer encoder block."""
        start, size = self.last, self.shape()[-1]
        self.layer_norm()
        middle = self.add(self.attention(heads), start)
        self.layer_norm()
        self.linear(wide * size)
        self.act(act)
        return self.add(self.linear(size), middle)
