"""Small networks in a language of their own, which every format can be written from.

A value is known by its number: 0 is the input, 1 what the first layer makes. Shapes have a batch of one that
is not written, and channels come last; formats that keep them elsewhere move them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Shape: TypeAlias = tuple[int, ...]

_NO_PICTURE = ("reshape", "transpose", "matmul", "tokens", "recurrent")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: what it reads, the shape that it makes, and what its kind needs to know."""

    kind: str
    inputs: tuple[int, ...]
    shape: Shape
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_picture: bool = False  # height, width and channels, not heads or steps


@dataclass(frozen=True, slots=True)
class Sketch:
    """A network: its input, its layers in order, the last of which makes the output."""

    name: str
    family: str
    shape: Shape
    layers: tuple[Layer, ...]
    precision: str = "fp32"  # or int8

    def shape_of(self, value: int) -> Shape:
        """The shape of a value."""
        return self.layers[value - 1].shape if value else self.shape

    def is_picture(self, value: int) -> bool:
        """Whether a value has a height, a width and channels."""
        return self.layers[value - 1].is_picture if value else len(self.shape) == 3


class Draft:
    """A sketch under construction; each method adds a layer to the newest value, or to `x`."""

    def __init__(self, name: str, family: str, shape: Shape, precision: str = "fp32") -> None:
        self._head = (name, family, shape)
        self._precision = precision
        self._layers: list[Layer] = []

    def done(self) -> Sketch:
        """The network as it is now."""
        return Sketch(*self._head, tuple(self._layers), self._precision)

    @property
    def last(self) -> int:
        """The newest value."""
        return len(self._layers)

    def shape(self, x: int | None = None) -> Shape:
        """The shape of a value, or of the newest one."""
        place = self.last if x is None else x
        return self._layers[place - 1].shape if place else self._head[2]

    def _add(self, kind: str, inputs: tuple[int | None, ...], shape: Shape, **settings: Any) -> int:
        places = tuple(self.last if each is None else each for each in inputs)
        source = places[0]
        picture = self._layers[source - 1].is_picture if source else len(self._head[2]) == 3
        self._layers.append(Layer(kind, places, shape, settings, picture and kind not in _NO_PICTURE))
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
        """A convolution with a bias, padded so that a stride of 1 keeps the size."""
        height, width, _ = self.shape(x)
        made = (-(-height // stride), -(-width // stride), size)
        return self._add("conv", (x,), made, kernel=kernel, stride=stride, groups=groups, act=act)

    def depthwise(self, kernel: int = 3, stride: int = 1, act: str = "relu", x: int | None = None) -> int:
        """A filter of its own for every channel."""
        channels = self.shape(x)[-1]
        return self.conv(channels, kernel, stride, channels, act, x)

    def linear(self, size: int, act: str = "", x: int | None = None) -> int:
        """A product of the last axis with a matrix of weights, and a bias."""
        return self._add("linear", (x,), (*self.shape(x)[:-1], size), act=act)

    def matmul(self, x: int, y: int) -> int:
        """A product of two values, one for each entry of their first axes."""
        return self._add("matmul", (x, y), (*self.shape(x)[:-1], self.shape(y)[-1]))

    def act(self, name: str, x: int | None = None) -> int:
        """An activation alone."""
        return self._add("act", (x,), self.shape(x), name=name)

    def add(self, x: int, y: int, act: str = "") -> int:
        """The sum of two values of one shape."""
        return self._add("add", (x, y), self.shape(x), act=act)

    def times(self, factor: float, x: int | None = None) -> int:
        """Every number times one and the same."""
        return self._add("times", (x,), self.shape(x), factor=factor)

    def mul(self, x: int, y: int) -> int:
        """The product of two values, number by number; the second may be one number a channel."""
        return self._add("mul", (x, y), self.shape(x))

    def scale(self, x: int | None = None) -> int:
        """A factor and a summand of its own for every channel: a batch norm that was not folded."""
        return self._add("scale", (x,), self.shape(x))

    def layer_norm(self, x: int | None = None) -> int:
        """A layer norm over the last axis."""
        return self._add("layer_norm", (x,), self.shape(x))

    def softmax(self, x: int | None = None) -> int:
        """A softmax over the last axis."""
        return self._add("softmax", (x,), self.shape(x))

    def pool(self, kernel: int, stride: int, how: str = "max", x: int | None = None) -> int:
        """Pooling by the maximum or the mean."""
        height, width, channels = self.shape(x)
        made = ((height - kernel) // stride + 1, (width - kernel) // stride + 1, channels)
        return self._add("pool", (x,), made, kernel=kernel, stride=stride, how=how)

    def mean(self, x: int | None = None) -> int:
        """The mean of every channel over all places, which stay as axes of one."""
        shape = self.shape(x)
        return self._add("mean", (x,), (*(1 for _ in shape[:-1]), shape[-1]))

    def concat(self, x: int, y: int) -> int:
        """Two values side by side along the last axis."""
        shape = self.shape(x)
        return self._add("concat", (x, y), (*shape[:-1], shape[-1] + self.shape(y)[-1]))

    def part(self, begin: int, size: int, x: int | None = None) -> int:
        """Some channels."""
        return self._add("part", (x,), (*self.shape(x)[:-1], size), begin=begin)

    def transpose(self, order: tuple[int, ...], x: int | None = None) -> int:
        """Axes in another order; of values that are no pictures."""
        shape = self.shape(x)
        return self._add("transpose", (x,), tuple(shape[axis] for axis in order), order=order)

    def reshape(self, *shape: int, x: int | None = None) -> int:
        """The same numbers in another shape; of values that are no pictures."""
        return self._add("reshape", (x,), shape)

    def tokens(self, x: int | None = None) -> int:
        """A picture as a list of its places."""
        height, width, channels = self.shape(x)
        return self._add("tokens", (x,), (height * width, channels))

    def resize(self, times: int, x: int | None = None) -> int:
        """A picture so many times larger, by bilinear interpolation."""
        height, width, channels = self.shape(x)
        return self._add("resize", (x,), (height * times, width * times, channels))

    def recurrent(self, cell: str, size: int, x: int | None = None) -> int:
        """An LSTM or a GRU over all steps."""
        return self._add("recurrent", (x,), (self.shape(x)[0], size), cell=cell)

    def attention(self, heads: int, x: int | None = None) -> int:
        """Attention of a list of tokens to itself, with its four projections."""
        source = self.last if x is None else x
        steps, size = self.shape(source)
        parts = []
        for order in ((1, 0, 2), (1, 2, 0), (1, 0, 2)):
            self.linear(size, x=source)
            self.reshape(steps, heads, size // heads)
            parts.append(self.transpose(order))
        self.matmul(parts[0], parts[1])
        if self._precision == "fp32":
            self.times((heads / size) ** 0.5)
        self.matmul(self.softmax(), parts[2])
        self.transpose((1, 0, 2))
        self.reshape(steps, size)
        return self.linear(size)

    def encoder(self, heads: int, wide: int = 4, act: str = "gelu") -> int:
        """A block of a transformer: norm, attention, norm, two linear layers, each with a residual."""
        start, size = self.last, self.shape()[-1]
        self.layer_norm()
        middle = self.add(self.attention(heads), start)
        self.layer_norm()
        self.linear(wide * size)
        self.act(act)
        return self.add(self.linear(size), middle)
