"""The networks that a target is calibrated with: probes of one class of kernels each, and bodies of many.

Probes tell the rates of classes apart, at sizes that real networks have; bodies are built as real networks
are, and judge: each is estimated by a fit that has not seen its family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sizeup.calibration.sketch import Draft, Shape, Sketch

BODIES = ("plain", "residual", "bottleneck", "inverted", "excited", "fire", "dense", "encoder", "recurrent")
"""Families of bodies; every other family is one of probes."""

_REPEATS = 3
_Drawn = Callable[[Draft], object]


def networks() -> tuple[Sketch, ...]:
    """All of them, small ones first within a family."""
    return (*_probes(), *_bodies())


def _sketch(name: str, family: str, shape: Shape, precision: str, draw: _Drawn) -> Sketch:
    draft = Draft(f"{name} {precision}", family, shape, precision)
    draw(draft)
    return draft.done()


def _conv(draft: Draft, layers: Sequence[tuple[int, ...]]) -> None:
    """Convolutions as (channels, kernel, stride, groups), each with ReLU; again and again while shapes allow
    it, because a layer alone finds all that it needs in the cache."""
    start = draft.shape()
    for _ in range(_REPEATS):
        for size, kernel, stride, groups in layers:
            draft.conv(size, kernel, stride, groups or draft.shape()[-1])
        if draft.shape() != start:
            break


# What is convolved, at which sizes: the input, then layers as (channels, kernel, stride, groups); 0 groups
# mean one for each channel.
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
# Rows, numbers in a row, and the sizes of linear layers; one row has no axis of its own.
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
# Steps, numbers in a step, and heads.
_PRODUCTS = [(32, 64, 2), (64, 128, 4), (128, 256, 4), (197, 192, 3)]


def _linear(draft: Draft, sizes: Sequence[int]) -> None:
    for size in sizes:
        draft.linear(size)


def _cell(draft: Draft, cell: str, size: int) -> None:
    draft.recurrent(cell, size)


def _products(draft: Draft, heads: int, is_scaled: bool) -> None:
    """The two products of attention, and the softmax between them, without projections."""
    steps, size = draft.shape()
    draft.reshape(steps, heads, size // heads)
    apart = draft.last
    left, right = draft.transpose((1, 0, 2), apart), draft.transpose((1, 2, 0), apart)
    draft.matmul(left, right)
    if is_scaled:
        draft.times((heads / size) ** 0.5)
    draft.matmul(draft.softmax(), left)


def _twice(draft: Draft, name: str) -> None:
    """An activation of its own, not one of the convolution or the linear layer before it."""
    draft.act(name)
    draft.act(name)


def _sums(draft: Draft) -> None:
    start = _begun(draft)
    draft.add(draft.add(draft.conv(draft.shape()[-1], 1), start, "relu"), start)


def _begun(draft: Draft) -> int:
    """Runtimes keep numbers in an order of their own from the first convolution on."""
    return draft.conv(draft.shape()[-1], 1)


def _gates(draft: Draft) -> None:
    """A picture times one number a channel, twice."""
    start = _begun(draft)
    draft.mul(start, draft.conv(draft.shape()[-1], 1, act="sigmoid", x=draft.mean(start)))
    draft.mul(draft.last, draft.last - 1)


def _scales(draft: Draft) -> None:
    draft.scale()
    draft.act("relu")
    draft.scale()


def _concats(draft: Draft) -> None:
    size, start = draft.shape()[-1], _begun(draft)
    draft.concat(draft.part(0, size // 2), start)
    draft.concat(draft.part(size // 4, size), draft.last)


def _turns(draft: Draft) -> None:
    steps, size = draft.shape()
    draft.transpose((1, 0))
    draft.reshape(size // 2, 2 * steps)
    draft.transpose((1, 0))


def _maxima(draft: Draft) -> None:
    _begun(draft)
    draft.pool(3, 2)


def _means(draft: Draft) -> None:
    _begun(draft)
    draft.mean()


def _pools(draft: Draft) -> None:
    _begun(draft)
    draft.pool(3, 2)
    draft.pool(2, 2, "mean")


_PICTURES: list[Shape] = [(14, 14, 96), (56, 56, 64)]
# Of everything else: the family, what is drawn, at which inputs, and whether it is quantised too.
_REST: list[tuple[str, _Drawn, list[Shape], bool]] = [
    ("sums", _sums, _PICTURES, True),
    ("gates", _gates, [(14, 14, 240), (28, 28, 120)], True),
    ("scales", _scales, _PICTURES, False),
    ("maxima", _maxima, [(28, 28, 64), (56, 56, 96)], True),
    ("pools", _pools, [(28, 28, 64), (112, 112, 64)], True),
    ("means", _means, [(7, 7, 320), (28, 28, 240)], True),
    ("concats", _concats, [(14, 14, 96), (28, 28, 128)], True),
    ("turns", _turns, [(64, 128), (197, 192)], True),
    ("resizes", lambda draft: draft.resize(2), [(14, 14, 64), (32, 32, 32)], True),
    ("norms", lambda draft: (draft.layer_norm(), draft.layer_norm()), [(64, 128), (197, 192)], False),
    ("softmaxes", Draft.softmax, [(4, 64, 64), (3, 197, 197)], True),
    ("relu", partial(_twice, name="relu6"), [(28, 28, 96)], False),
    ("sigmoid", partial(_twice, name="sigmoid"), [(28, 28, 96)], False),
    ("hardswish", partial(_twice, name="hardswish"), _PICTURES, False),
    ("silu", partial(_twice, name="silu"), _PICTURES, False),
    ("gelu", partial(_twice, name="gelu"), [(64, 512), (197, 768)], False),
    ("tanh", partial(_twice, name="tanh"), [(64, 256)], False),
]
_CELLS = [("lstm", (20, 32), 32), ("lstm", (50, 64), 96), ("lstm", (60, 128), 192), ("gru", (40, 48), 64),
          ("gru", (60, 96), 128)]  # fmt: skip


def _probes() -> Iterator[Sketch]:
    for precision in ("fp32", "int8"):
        for family, rows in _CONVOLUTIONS.items():
            for index, (shape, layers) in enumerate(rows):
                yield _sketch(f"{family} {index}", family, shape, precision, partial(_conv, layers=layers))
        for index, (shape, sizes) in enumerate(_LINEAR):
            yield _sketch(f"linear {index}", "linear", shape, precision, partial(_linear, sizes=sizes))
        for index, (steps, size, heads) in enumerate(_PRODUCTS):
            draw = partial(_products, heads=heads, is_scaled=precision == "fp32")
            yield _sketch(f"products {index}", "products", (steps, size), precision, draw)
        for family, drawn, shapes, is_quantised in _REST:
            for index, shape in enumerate(shapes if is_quantised or precision == "fp32" else ()):
                yield _sketch(f"{family} {index}", family, shape, precision, drawn)
    for index, (cell, shape, size) in enumerate(_CELLS):
        yield _sketch(f"{cell} {index}", cell, shape, "fp32", partial(_cell, cell=cell, size=size))


def _ended(draft: Draft, size: int) -> None:
    """As networks that classify end: the mean of every channel, and a linear layer."""
    draft.mean()
    draft.tokens()
    draft.reshape(draft.shape()[-1])
    draft.linear(size)


def _plain(draft: Draft, width: int, depth: int) -> None:
    draft.conv(width, 3, 2)
    for level in range(depth):
        draft.conv(width << level)
        draft.conv(width << level)
        draft.pool(2, 2)
    _ended(draft, 100)


def _residual(draft: Draft, width: int, depth: int) -> None:
    draft.conv(width, 7, 2)
    draft.pool(2, 2)
    for level in range(depth):
        size, stride = width << level, 1 + (level > 0)
        start = draft.last
        draft.conv(size, 3, stride)
        end = draft.conv(size, 3, act="")
        beside = draft.conv(size, 1, stride, act="", x=start) if level else start
        start = draft.add(end, beside, "relu")
        draft.conv(size)
        draft.add(draft.conv(size, act=""), start, "relu")
    _ended(draft, 100)


def _bottleneck(draft: Draft, width: int, depth: int) -> None:
    draft.conv(width, 3, 2)
    for level in range(depth):
        size = width << level
        beside = draft.conv(4 * size, 1, 2, act="")
        draft.conv(size, 1, x=beside - 1)
        draft.conv(size, 3, 2)
        draft.add(draft.conv(4 * size, 1, act=""), beside, "relu")
    _ended(draft, 100)


def _inverted(draft: Draft, width: int, depth: int, act: str = "relu6", kernel: int = 3) -> None:
    draft.conv(2 * width, 3, 2, act=act)
    draft.depthwise(act=act)
    draft.conv(width, 1, act="")
    for level in range(1, depth):
        size = width * (1 + level)
        _expanded(draft, size, kernel, 2, act)
        start = draft.last
        draft.add(_expanded(draft, size, kernel, 1, act), start)
    draft.conv(8 * width * depth, 1, act=act)
    _ended(draft, 200)


def _expanded(draft: Draft, size: int, kernel: int, stride: int, act: str) -> int:
    """A wide layer, one filter a channel, and back; with SiLU and hard swish also a gate."""
    draft.conv(6 * draft.shape()[-1], 1, act=act)
    draft.depthwise(kernel, stride, act=act)
    if act in ("silu", "hardswish"):
        start, channels = draft.last, draft.shape()[-1]
        draft.mean()
        draft.conv(channels // 24, 1)
        draft.mul(start, draft.conv(channels, 1, act="sigmoid"))
    return draft.conv(size, 1, act="")


def _fire(draft: Draft, width: int, depth: int) -> None:
    draft.conv(2 * width, 3, 2)
    for level in range(depth):
        draft.pool(3, 2)
        size = width * (level + 1)
        squeezed = draft.conv(size // 2, 1)
        draft.conv(2 * size, 1, x=squeezed)
        draft.concat(draft.last, draft.conv(2 * size, 3, x=squeezed))
    _ended(draft, 100)


def _dense(draft: Draft, width: int, depth: int) -> None:
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
    _ended(draft, 100)


def _encoder(draft: Draft, size: int, depth: int, heads: int) -> None:
    if draft.shape()[-1] == 3:
        draft.conv(size, 16, 16, act="")
        draft.tokens()
    for _ in range(depth):
        draft.encoder(heads)
    draft.layer_norm()
    draft.mean()
    draft.reshape(size)
    draft.linear(100)


def _recurrent(draft: Draft, cell: str, size: int) -> None:
    draft.linear(size, "relu")
    draft.recurrent(cell, size)
    draft.recurrent(cell, size)
    draft.linear(size)
    draft.mean()
    draft.reshape(size)
    draft.linear(12)


# Families with the inputs and sizes of each of their networks, and whether they are quantised too.
_FAMILIES: list[tuple[str, bool, list[tuple[Shape, _Drawn]]]] = [
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


def _bodies() -> Iterator[Sketch]:
    for family, is_quantised, rows in _FAMILIES:
        for precision in ("fp32", "int8") if is_quantised else ("fp32",):
            for index, (shape, draw) in enumerate(rows):
                yield _sketch(f"{family} {index}", family, shape, precision, draw)
