"""Calibration networks: probes of one kernel class each, and complete networks.

Probes determine the rates of kernel classes at realistic sizes. Complete networks are built like published
architectures and measure the error: each is predicted by a fit with its family held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sizeup.calibration.network_spec import NetworkBuilder, NetworkSpec, Shape

REFERENCE_FAMILIES = (
    "plain",
    "residual",
    "bottleneck",
    "inverted",
    "excited",
    "fire",
    "dense",
    "encoder",
    "recurrent",
)
"""Families of complete networks; all other families are probes."""

_REPEATS = 3
_Draw = Callable[[NetworkBuilder], object]


def networks() -> tuple[NetworkSpec, ...]:
    """Return all calibration networks, smallest first within a family."""
    return (*_probes(), *_reference_networks())


def _sketch(name: str, family: str, shape: Shape, precision: str, draw: _Draw) -> NetworkSpec:
    draft = NetworkBuilder(f"{name} {precision}", family, shape, precision)
    draw(draft)
    return draft.build()


def _conv_stack(draft: NetworkBuilder, layers: Sequence[tuple[int, ...]]) -> None:
    """Add convolutions (channels, kernel, stride, groups) with ReLU.

    They are repeated if the shape is unchanged, because the data of a single layer stays in the cache.
    """
    start = draft.shape()
    for _ in range(_REPEATS):
        for size, kernel, stride, groups in layers:
            draft.conv(size, kernel, stride, groups or draft.shape()[-1])
        if draft.shape() != start:
            break


# Input shape, then layers as (channels, kernel, stride, groups); 0 groups means depthwise.
_Layer = tuple[int, int, int, int]
_CONVOLUTIONS: dict[str, list[tuple[Shape, list[_Layer]]]] = {
    "stem": [
        ((49, 10, 1), [(64, 3, 2, 1)]),
        ((96, 96, 3), [(16, 3, 2, 1)]),
        ((224, 224, 3), [(32, 3, 2, 1)]),
        ((224, 224, 3), [(64, 7, 2, 1)]),
    ],
    "kxk": [
        ((8, 8, 16), [(16, 3, 1, 1), (32, 3, 2, 1)]),
        ((32, 32, 16), [(16, 3, 1, 1), (16, 3, 1, 1)]),
        ((56, 56, 64), [(64, 3, 1, 1)]),
        ((56, 56, 64), [(128, 3, 2, 1)]),
        ((28, 28, 48), [(64, 3, 1, 1), (96, 5, 1, 1)]),
        ((14, 14, 256), [(256, 3, 1, 1)]),
        ((7, 7, 256), [(256, 3, 1, 1)]),
        ((4, 4, 320), [(320, 3, 1, 1)]),
    ],
    "1x1": [
        ((8, 8, 32), [(64, 1, 1, 1), (32, 1, 1, 1)]),
        ((28, 28, 24), [(64, 1, 1, 1), (40, 1, 1, 1)]),
        ((56, 56, 24), [(144, 1, 1, 1), (24, 1, 1, 1)]),
        ((112, 112, 32), [(16, 1, 1, 1), (64, 1, 1, 1)]),
        ((14, 14, 96), [(384, 1, 1, 1), (96, 1, 1, 1)]),
        ((7, 7, 192), [(768, 1, 1, 1), (320, 1, 1, 1)]),
        ((28, 28, 256), [(256, 1, 1, 1)]),
        ((56, 56, 64), [(256, 1, 2, 1)]),
    ],
    "depthwise": [
        ((8, 8, 64), [(64, 3, 1, 0), (64, 3, 1, 0)]),
        ((25, 5, 64), [(64, 3, 1, 0), (64, 3, 1, 0)]),
        ((112, 112, 32), [(32, 3, 1, 0)]),
        ((112, 112, 64), [(64, 3, 2, 0)]),
        ((56, 56, 144), [(144, 3, 1, 0), (144, 3, 2, 0)]),
        ((14, 14, 384), [(384, 3, 1, 0), (384, 3, 1, 0)]),
        ((7, 7, 960), [(960, 3, 1, 0), (960, 3, 1, 0)]),
    ],
    "depthwise 5": [
        ((56, 56, 72), [(72, 5, 2, 0), (72, 5, 1, 0)]),
        ((14, 14, 480), [(480, 5, 1, 0)]),
        ((7, 7, 672), [(672, 5, 1, 0), (672, 5, 1, 0)]),
    ],
    "grouped": [
        ((56, 56, 64), [(64, 3, 1, 4)]),
        ((28, 28, 128), [(128, 3, 1, 8), (128, 3, 1, 8)]),
        ((14, 14, 240), [(240, 3, 1, 15)]),
    ],
}
# Input shape, (features,) or (rows, features), and the sizes of linear layers.
_LINEAR: list[tuple[Shape, tuple[int, ...]]] = [
    ((64,), (128, 128, 10)),
    ((640,), (128, 128, 640)),
    ((1024,), (1000,)),
    ((512,), (2048, 512)),
    ((16, 64), (64, 128, 64)),
    ((64, 128), (512, 128)),
    ((128, 256), (256,)),
    ((16, 512), (2048, 512)),
    ((197, 192), (576, 192)),
]
# Steps, features, heads.
_PRODUCTS = [(32, 64, 2), (64, 128, 4), (128, 256, 4), (197, 192, 3)]


def _linear_stack(draft: NetworkBuilder, sizes: Sequence[int]) -> None:
    for size in sizes:
        draft.linear(size)


def _recurrent_layer(draft: NetworkBuilder, cell: str, size: int) -> None:
    draft.recurrent(cell, size)


def _attention_products(draft: NetworkBuilder, heads: int, is_scaled: bool) -> None:
    """Add the two matmuls of attention and the softmax between them, without projections."""
    steps, size = draft.shape()
    draft.reshape(steps, heads, size // heads)
    split = draft.last
    left, right = draft.transpose((1, 0, 2), split), draft.transpose((1, 2, 0), split)
    draft.matmul(left, right)
    if is_scaled:
        draft.multiply_scalar((heads / size) ** 0.5)
    draft.matmul(draft.softmax(), left)


def _two_activations(draft: NetworkBuilder, name: str) -> None:
    """Add two activations; the second cannot be fused into a layer before it."""
    draft.act(name)
    draft.act(name)


def _sums(draft: NetworkBuilder) -> None:
    start = _first_conv(draft)
    draft.add(draft.add(draft.conv(draft.shape()[-1], 1), start, "relu"), start)


def _first_conv(draft: NetworkBuilder) -> int:
    """Add a convolution; runtimes change to their own memory layout at the first one."""
    return draft.conv(draft.shape()[-1], 1)


def _gates(draft: NetworkBuilder) -> None:
    """Multiply an image by one factor per channel, twice."""
    start = _first_conv(draft)
    draft.mul(start, draft.conv(draft.shape()[-1], 1, act="sigmoid", x=draft.mean(start)))
    draft.mul(draft.last, draft.last - 1)


def _scales(draft: NetworkBuilder) -> None:
    draft.scale()
    draft.act("relu")
    draft.scale()


def _concats(draft: NetworkBuilder) -> None:
    size, start = draft.shape()[-1], _first_conv(draft)
    draft.concat(draft.slice_channels(0, size // 2), start)
    draft.concat(draft.slice_channels(size // 4, size), draft.last)


def _transposes(draft: NetworkBuilder) -> None:
    steps, size = draft.shape()
    draft.transpose((1, 0))
    draft.reshape(size // 2, 2 * steps)
    draft.transpose((1, 0))


def _maxima(draft: NetworkBuilder) -> None:
    _first_conv(draft)
    draft.pool(3, 2)


def _means(draft: NetworkBuilder) -> None:
    _first_conv(draft)
    draft.mean()


def _pools(draft: NetworkBuilder) -> None:
    _first_conv(draft)
    draft.pool(3, 2)
    draft.pool(2, 2, "mean")


_IMAGES: list[Shape] = [(14, 14, 96), (56, 56, 64)]
# Other probes: family, function that adds the layers, input shapes, and whether there is an int8 version.
_OTHER_PROBES: list[tuple[str, _Draw, list[Shape], bool]] = [
    ("sums", _sums, _IMAGES, True),
    ("gates", _gates, [(14, 14, 240), (28, 28, 120)], True),
    ("scales", _scales, _IMAGES, False),
    ("maxima", _maxima, [(28, 28, 64), (56, 56, 96)], True),
    ("pools", _pools, [(28, 28, 64), (112, 112, 64)], True),
    ("means", _means, [(7, 7, 320), (28, 28, 240)], True),
    ("concats", _concats, [(14, 14, 96), (28, 28, 128)], True),
    ("turns", _transposes, [(64, 128), (197, 192)], True),
    ("resizes", lambda draft: draft.resize(2), [(14, 14, 64), (32, 32, 32)], True),
    ("norms", lambda draft: (draft.layer_norm(), draft.layer_norm()), [(64, 128), (197, 192)], False),
    ("softmaxes", NetworkBuilder.softmax, [(4, 64, 64), (3, 197, 197)], True),
    ("relu", partial(_two_activations, name="relu6"), [(28, 28, 96)], False),
    ("sigmoid", partial(_two_activations, name="sigmoid"), [(28, 28, 96)], False),
    ("hardswish", partial(_two_activations, name="hardswish"), _IMAGES, False),
    ("silu", partial(_two_activations, name="silu"), _IMAGES, False),
    ("gelu", partial(_two_activations, name="gelu"), [(64, 512), (197, 768)], False),
    ("tanh", partial(_two_activations, name="tanh"), [(64, 256)], False),
]
_CELLS = [("lstm", (20, 32), 32), ("lstm", (50, 64), 96), ("lstm", (60, 128), 192), ("gru", (40, 48), 64),
          ("gru", (60, 96), 128)]  # fmt: skip


def _probes() -> Iterator[NetworkSpec]:
    for precision in ("fp32", "int8"):
        for family, rows in _CONVOLUTIONS.items():
            for index, (shape, layers) in enumerate(rows):
                yield _sketch(
                    f"{family} {index}", family, shape, precision, partial(_conv_stack, layers=layers)
                )
        for index, (shape, sizes) in enumerate(_LINEAR):
            yield _sketch(f"linear {index}", "linear", shape, precision, partial(_linear_stack, sizes=sizes))
        for index, (steps, size, heads) in enumerate(_PRODUCTS):
            draw = partial(_attention_products, heads=heads, is_scaled=precision == "fp32")
            yield _sketch(f"products {index}", "products", (steps, size), precision, draw)
        for family, draw_layers, shapes, is_quantized in _OTHER_PROBES:
            for index, shape in enumerate(shapes if is_quantized or precision == "fp32" else ()):
                yield _sketch(f"{family} {index}", family, shape, precision, draw_layers)
    for index, (cell, shape, size) in enumerate(_CELLS):
        yield _sketch(f"{cell} {index}", cell, shape, "fp32", partial(_recurrent_layer, cell=cell, size=size))


def _classifier(draft: NetworkBuilder, size: int) -> None:
    """Add a classifier: global average pooling and a linear layer."""
    draft.mean()
    draft.tokens()
    draft.reshape(draft.shape()[-1])
    draft.linear(size)


def _plain(draft: NetworkBuilder, width: int, depth: int) -> None:
    draft.conv(width, 3, 2)
    for level in range(depth):
        draft.conv(width << level)
        draft.conv(width << level)
        draft.pool(2, 2)
    _classifier(draft, 100)


def _residual(draft: NetworkBuilder, width: int, depth: int) -> None:
    draft.conv(width, 7, 2)
    draft.pool(2, 2)
    for level in range(depth):
        size, stride = width << level, 1 + (level > 0)
        start = draft.last
        draft.conv(size, 3, stride)
        end = draft.conv(size, 3, act="")
        shortcut = draft.conv(size, 1, stride, act="", x=start) if level else start
        start = draft.add(end, shortcut, "relu")
        draft.conv(size)
        draft.add(draft.conv(size, act=""), start, "relu")
    _classifier(draft, 100)


def _bottleneck(draft: NetworkBuilder, width: int, depth: int) -> None:
    draft.conv(width, 3, 2)
    for level in range(depth):
        size = width << level
        shortcut = draft.conv(4 * size, 1, 2, act="")
        draft.conv(size, 1, x=shortcut - 1)
        draft.conv(size, 3, 2)
        draft.add(draft.conv(4 * size, 1, act=""), shortcut, "relu")
    _classifier(draft, 100)


def _inverted(draft: NetworkBuilder, width: int, depth: int, act: str = "relu6", kernel: int = 3) -> None:
    draft.conv(2 * width, 3, 2, act=act)
    draft.depthwise(act=act)
    draft.conv(width, 1, act="")
    for level in range(1, depth):
        size = width * (1 + level)
        _inverted_block(draft, size, kernel, 2, act)
        start = draft.last
        draft.add(_inverted_block(draft, size, kernel, 1, act), start)
    draft.conv(8 * width * depth, 1, act=act)
    _classifier(draft, 200)


def _inverted_block(draft: NetworkBuilder, size: int, kernel: int, stride: int, act: str) -> int:
    """Add an inverted bottleneck; with squeeze-excitation if the activation is SiLU or hard swish."""
    draft.conv(6 * draft.shape()[-1], 1, act=act)
    draft.depthwise(kernel, stride, act=act)
    if act in ("silu", "hardswish"):
        start, channels = draft.last, draft.shape()[-1]
        draft.mean()
        draft.conv(channels // 24, 1)
        draft.mul(start, draft.conv(channels, 1, act="sigmoid"))
    return draft.conv(size, 1, act="")


def _fire(draft: NetworkBuilder, width: int, depth: int) -> None:
    draft.conv(2 * width, 3, 2)
    for level in range(depth):
        draft.pool(3, 2)
        size = width * (level + 1)
        squeezed = draft.conv(size // 2, 1)
        draft.conv(2 * size, 1, x=squeezed)
        draft.concat(draft.last, draft.conv(2 * size, 3, x=squeezed))
    _classifier(draft, 100)


def _dense(draft: NetworkBuilder, width: int, depth: int) -> None:
    draft.conv(2 * width, 3, 2)
    for _ in range(depth):
        for _ in range(3):
            start = draft.last
            draft.scale()
            draft.act("relu")
            draft.conv(2 * width, 1)
            draft.concat(start, draft.conv(width, act=""))
        draft.conv(draft.shape()[-1] // 2, 1)
        draft.pool(2, 2, "mean")
    _classifier(draft, 100)


def _encoder(draft: NetworkBuilder, size: int, depth: int, heads: int) -> None:
    if draft.shape()[-1] == 3:
        draft.conv(size, 16, 16, act="")
        draft.tokens()
    for _ in range(depth):
        draft.encoder(heads)
    draft.layer_norm()
    draft.mean()
    draft.reshape(size)
    draft.linear(100)


def _recurrent(draft: NetworkBuilder, cell: str, size: int) -> None:
    draft.linear(size, "relu")
    draft.recurrent(cell, size)
    draft.recurrent(cell, size)
    draft.linear(size)
    draft.mean()
    draft.reshape(size)
    draft.linear(12)


# Family, whether there is an int8 version, and the input shape and layers of each network.
_FAMILIES: list[tuple[str, bool, list[tuple[Shape, _Draw]]]] = [
    ("plain", True, [((32, 32, 3), partial(_plain, width=16, depth=2)),
                     ((96, 96, 3), partial(_plain, width=32, depth=3))]),
    ("residual", True, [((64, 64, 3), partial(_residual, width=16, depth=3)),
                        ((160, 160, 3), partial(_residual, width=32, depth=4)),
                        ((224, 224, 3), partial(_residual, width=32, depth=4))]),
    ("bottleneck", True, [((128, 128, 3), partial(_bottleneck, width=32, depth=3)),
                          ((224, 224, 3), partial(_bottleneck, width=48, depth=3))]),
    ("inverted", True, [((64, 64, 3), partial(_inverted, width=8, depth=4)),
                        ((160, 160, 3), partial(_inverted, width=16, depth=5)),
                        ((224, 224, 3), partial(_inverted, width=24, depth=5))]),
    ("excited", False, [((96, 96, 3), partial(_inverted, width=16, depth=4, act="silu", kernel=5)),
                        ((160, 160, 3), partial(_inverted, width=16, depth=5, act="hardswish"))]),
    ("fire", True, [((64, 64, 3), partial(_fire, width=16, depth=2)),
                    ((160, 160, 3), partial(_fire, width=32, depth=3)),
                    ((224, 224, 3), partial(_fire, width=48, depth=4))]),
    ("dense", False, [((96, 96, 3), partial(_dense, width=24, depth=3))]),
    ("encoder", False, [((32, 64), partial(_encoder, size=64, depth=2, heads=2)),
                        ((112, 112, 3), partial(_encoder, size=160, depth=3, heads=4)),
                        ((224, 224, 3), partial(_encoder, size=128, depth=6, heads=2))]),
    ("recurrent", False, [((40, 32), partial(_recurrent, cell="lstm", size=64)),
                          ((30, 80), partial(_recurrent, cell="gru", size=96))]),
]  # fmt: skip


def _reference_networks() -> Iterator[NetworkSpec]:
    for family, is_quantized, rows in _FAMILIES:
        for precision in ("fp32", "int8") if is_quantized else ("fp32",):
            for index, (shape, draw) in enumerate(rows):
                yield _sketch(f"{family} {index}", family, shape, precision, draw)
