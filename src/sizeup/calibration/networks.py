"""Calibration networks: probes of one kernel class each, and complete networks.

Probes determine the rates of kernel classes at realistic sizes. Complete networks are built like published
architectures and measure the error: each is predicted by a fit with its family held out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sizeup.calibration.network_spec import NetworkBuilder, NetworkSpec, Shape
from sizeup.calibration.reference_networks import REFERENCE_FAMILIES, Draw, reference_networks, sketch

__all__ = ["REFERENCE_FAMILIES", "networks"]

_REPEATS = 3


def networks() -> tuple[NetworkSpec, ...]:
    """Return all calibration networks, smallest first within a family."""
    return (*_probes(), *reference_networks())


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
    "depthwise 7": [
        ((56, 56, 96), [(96, 7, 1, 0)]),
        ((14, 14, 384), [(384, 7, 1, 0)]),
        ((10, 10, 144), [(144, 7, 2, 0), (144, 7, 1, 0)]),
        ((7, 7, 480), [(480, 7, 1, 0)]),
    ],
    "odd": [  # channels that fill no blocks
        ((56, 56, 26), [(26, 3, 1, 1)]),
        ((28, 28, 58), [(58, 1, 1, 1), (58, 1, 1, 1)]),
        ((14, 14, 174), [(174, 1, 1, 1)]),
        ((14, 14, 90), [(90, 3, 1, 1)]),
        ((28, 28, 58), [(58, 3, 1, 0), (58, 3, 1, 0)]),
        ((56, 56, 30), [(30, 3, 1, 0)]),
        ((14, 14, 174), [(174, 5, 1, 0), (174, 3, 1, 0)]),
        ((28, 28, 96), [(96, 3, 1, 12)]),
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
    ((49, 512), (2048, 512)),
    ((196, 384), (1536, 384)),
]
# Steps, features, heads.
_PRODUCTS = [(32, 64, 2), (64, 128, 4), (128, 256, 4), (49, 512, 8), (197, 192, 3)]


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


def _fused_attention(draft: NetworkBuilder, heads: int) -> None:
    steps, size = draft.shape()
    draft.reshape(steps, heads, size // heads)
    turned = draft.transpose((1, 0, 2))
    for _ in range(2):
        draft.fused_attention(draft.last, turned, turned)


def _two_activations(draft: NetworkBuilder, name: str) -> None:
    """Add two activations; the second cannot be fused into a layer before it."""
    draft.act(name)
    draft.act(name)


def _sums(draft: NetworkBuilder) -> None:
    start = _first_conv(draft)
    draft.add(draft.add(draft.conv(draft.shape()[-1], 1), start, "relu"), start)


def _norms(draft: NetworkBuilder) -> None:
    draft.layer_norm()
    draft.layer_norm()


def _plain_sums(draft: NetworkBuilder) -> None:
    """Add sums that no layer before them can absorb."""
    for _ in range(4):
        draft.add(draft.last, 0)


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


# Input shape, then channels and kernel of two convolutions that read the same tensor.
_SHARED: list[tuple[Shape, int, int]] = [
    ((14, 14, 64), 128, 1), ((28, 28, 96), 96, 1), ((56, 56, 48), 32, 1), ((7, 7, 320), 320, 1),
    ((14, 14, 128), 128, 3), ((56, 56, 32), 32, 3), ((28, 28, 64), 64, 3), ((7, 7, 256), 256, 3),
]  # fmt: skip


def _shared(draft: NetworkBuilder, size: int, kernel: int) -> None:
    """Add two convolutions of one tensor, twice: runtimes leave some of them in floats if quantized."""
    for _ in range(2):
        start = draft.last
        draft.add(draft.conv(size, kernel, x=start), draft.conv(size, kernel, x=start))


_IMAGES: list[Shape] = [(14, 14, 96), (56, 56, 64)]
# Other probes: family, function that adds the layers, input shapes, and whether there is an int8 version.
_OTHER_PROBES: list[tuple[str, Draw, list[Shape], bool]] = [
    ("sums", _sums, _IMAGES, True),
    ("plain sums", _plain_sums, [(64, 128), (197, 768), (784, 384)], True),
    ("gates", _gates, [(14, 14, 240), (28, 28, 120)], True),
    ("scales", _scales, _IMAGES, False),
    ("maxima", _maxima, [(28, 28, 64), (56, 56, 96)], True),
    ("first maxima", lambda draft: draft.pool(3, 2), [(28, 28, 64), (56, 56, 96)], True),
    ("pools", _pools, [(28, 28, 64), (112, 112, 64)], True),
    ("means", _means, [(7, 7, 320), (28, 28, 240)], True),
    ("concats", _concats, [(14, 14, 96), (28, 28, 128)], True),
    ("turns", _transposes, [(64, 128), (197, 192)], True),
    ("resizes", lambda draft: draft.resize(2), [(14, 14, 64), (32, 32, 32)], True),
    ("token means", NetworkBuilder.mean, [(197, 192), (784, 384)], True),
    ("norms", _norms, [(64, 128), (197, 192), (784, 384)], False),
    ("softmaxes", NetworkBuilder.softmax, [(4, 64, 64), (3, 197, 197)], True),
    ("relu", partial(_two_activations, name="relu6"), [(28, 28, 96), (112, 112, 64)], False),
    ("sigmoid", partial(_two_activations, name="sigmoid"), [(28, 28, 96), (56, 56, 144)], False),
    ("hardswish", partial(_two_activations, name="hardswish"), _IMAGES, False),
    ("silu", partial(_two_activations, name="silu"), [*_IMAGES, (112, 112, 48)], False),
    ("gelu", partial(_two_activations, name="gelu"), [(64, 512), (197, 768), (784, 768)], False),
    ("tanh", partial(_two_activations, name="tanh"), [(64, 256)], False),
]
_CELLS = [("lstm", (20, 32), 32), ("lstm", (50, 64), 96), ("lstm", (60, 128), 192), ("gru", (40, 48), 64),
          ("gru", (60, 96), 128)]  # fmt: skip


def _probes() -> Iterator[NetworkSpec]:
    for precision in ("fp32", "int8"):
        for family, rows in _CONVOLUTIONS.items():
            for index, (shape, layers) in enumerate(rows):
                yield sketch(
                    f"{family} {index}", family, shape, precision, partial(_conv_stack, layers=layers)
                )
        for index, (shape, size, kernel) in enumerate(_SHARED):
            draw = partial(_shared, size=size, kernel=kernel)
            yield sketch(f"shared {index}", "shared", shape, precision, draw)
        for index, (shape, sizes) in enumerate(_LINEAR):
            yield sketch(f"linear {index}", "linear", shape, precision, partial(_linear_stack, sizes=sizes))
        for index, (steps, size, heads) in enumerate(_PRODUCTS):
            draw = partial(_attention_products, heads=heads, is_scaled=precision == "fp32")
            yield sketch(f"products {index}", "products", (steps, size), precision, draw)
        for family, draw_layers, shapes, is_quantized in _OTHER_PROBES:
            for index, shape in enumerate(shapes if is_quantized or precision == "fp32" else ()):
                yield sketch(f"{family} {index}", family, shape, precision, draw_layers)
    yield from _probes_in_floats()


def _probes_in_floats() -> Iterator[NetworkSpec]:
    for index, (steps, size, heads) in enumerate(_PRODUCTS):
        attention = partial(_fused_attention, heads=heads)
        yield sketch(f"attention {index}", "attention", (steps, size), "fp32", attention)
    for index, (cell, shape, size) in enumerate(_CELLS):
        yield sketch(f"{cell} {index}", cell, shape, "fp32", partial(_recurrent_layer, cell=cell, size=size))
