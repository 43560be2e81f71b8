"""Complete calibration networks, built like published architectures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    "separable",
    "split",
    "decoder",
)
"""Families of complete networks; all other families are probes."""

Draw = Callable[[NetworkBuilder], object]


def sketch(name: str, family: str, shape: Shape, precision: str, draw: Draw) -> NetworkSpec:
    """Return the network that a function draws."""
    draft = NetworkBuilder(f"{name} {precision}", family, shape, precision)
    draw(draft)
    return draft.build()


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


def _separable(draft: NetworkBuilder, width: int, depth: int) -> None:
    draft.conv(width, 3, 2)
    for level in range(depth):
        draft.depthwise(3, 1 + level % 2)
        draft.conv(width << (level + 2) // 2, 1)
    _classifier(draft, 100)


def _split(draft: NetworkBuilder, width: int, depth: int) -> None:
    """Add blocks that change half of the channels, as with channel shuffle."""
    draft.conv(width, 3, 2)
    for level in range(depth):
        size = width << level
        start = draft.last
        draft.depthwise(3, 2, act="", x=start)
        left = draft.conv(size, 1)
        draft.conv(size, 1, x=start)
        draft.depthwise(3, 2, act="")
        draft.concat(left, draft.conv(size, 1))
        for _ in range(2):
            start = draft.last
            kept = draft.slice_channels(0, size, x=start)
            draft.slice_channels(size, size, x=start)
            draft.conv(size, 1)
            draft.depthwise(3, 1, act="")
            draft.concat(kept, draft.conv(size, 1))
    _classifier(draft, 100)


def _decoder(draft: NetworkBuilder, width: int, depth: int) -> None:
    """Add an encoder of inverted bottlenecks and a decoder with sums, as for segmentation."""
    draft.conv(width, 3, 2, act="hardswish")
    levels = [draft.last]
    for level in range(1, depth):
        _inverted_block(draft, width * (1 + level), 3, 2, "hardswish")
        levels.append(draft.last)
    for start in reversed(levels[:-1]):
        draft.resize(2)
        draft.conv(draft.shape(start)[-1], 1, act="")
        draft.add(draft.last, start, "relu")
        draft.depthwise()
    draft.conv(2, 1, act="sigmoid")


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
_FAMILIES: list[tuple[str, bool, list[tuple[Shape, Draw]]]] = [
    ("plain", True, [((32, 32, 3), partial(_plain, width=16, depth=2)),
                     ((96, 96, 3), partial(_plain, width=32, depth=3))]),
    ("residual", True, [((64, 64, 3), partial(_residual, width=16, depth=3)),
                        ((160, 160, 3), partial(_residual, width=32, depth=4)),
                        ((224, 224, 3), partial(_residual, width=32, depth=4))]),
    ("bottleneck", True, [((128, 128, 3), partial(_bottleneck, width=32, depth=3)),
                          ((224, 224, 3), partial(_bottleneck, width=48, depth=3))]),
    ("inverted", True, [((64, 64, 3), partial(_inverted, width=8, depth=4)),
                        ((160, 160, 3), partial(_inverted, width=16, depth=5)),
                        ((224, 224, 3), partial(_inverted, width=24, depth=5)),
                        ((128, 128, 3), partial(_inverted, width=44, depth=5))]),
    ("excited", False, [((96, 96, 3), partial(_inverted, width=16, depth=4, act="silu", kernel=5)),
                        ((160, 160, 3), partial(_inverted, width=16, depth=5, act="hardswish")),
                        ((96, 96, 3), partial(_inverted, width=40, depth=5, act="hardswish"))]),
    ("fire", True, [((64, 64, 3), partial(_fire, width=16, depth=2)),
                    ((160, 160, 3), partial(_fire, width=32, depth=3)),
                    ((224, 224, 3), partial(_fire, width=48, depth=4))]),
    ("dense", False, [((96, 96, 3), partial(_dense, width=24, depth=3))]),
    ("encoder", False, [((32, 64), partial(_encoder, size=64, depth=2, heads=2)),
                        ((112, 112, 3), partial(_encoder, size=160, depth=3, heads=4)),
                        ((224, 224, 3), partial(_encoder, size=128, depth=6, heads=2)),
                        ((48, 160), partial(_encoder, size=160, depth=4, heads=4)),
                        ((128, 256), partial(_encoder, size=256, depth=2, heads=4)),
                        ((224, 224, 3), partial(_encoder, size=256, depth=3, heads=4))]),
    ("separable", True, [((64, 64, 3), partial(_separable, width=8, depth=6)),
                         ((128, 128, 3), partial(_separable, width=24, depth=7)),
                         ((224, 224, 3), partial(_separable, width=32, depth=8)),
                         ((96, 96, 3), partial(_separable, width=48, depth=9))]),
    ("split", True, [((96, 96, 3), partial(_split, width=30, depth=3)),
                     ((224, 224, 3), partial(_split, width=46, depth=3)),
                     ((192, 192, 3), partial(_split, width=64, depth=4))]),
    ("decoder", False, [((96, 96, 3), partial(_decoder, width=16, depth=4)),
                        ((192, 192, 3), partial(_decoder, width=16, depth=5))]),
    ("recurrent", False, [((40, 32), partial(_recurrent, cell="lstm", size=64)),
                          ((30, 80), partial(_recurrent, cell="gru", size=96))]),
]  # fmt: skip


def reference_networks() -> Iterator[NetworkSpec]:
    """Return the complete networks, smallest first within a family and precision."""
    for family, is_quantized, rows in _FAMILIES:
        for precision in ("fp32", "int8") if is_quantized else ("fp32",):
            for index, (shape, draw) in enumerate(rows):
                yield sketch(f"{family} {index}", family, shape, precision, draw)
