"""MobileNetV2, MobileNetV3, EfficientNet and a small CNN, as defined in their papers.

MobileNetV2: Sandler et al. 2018 (arXiv 1801.04381), table 2. MobileNetV3: Howard et al. 2019 (arXiv
1905.02244), tables 1 and 2. EfficientNet: Tan and Le 2019 (arXiv 1905.11946), table 1, with the widths and
depths of its versions from the authors' code. Modules are named as in torchvision, so that a precision map
applies to both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from torch import Tensor, nn

# Factory of an activation module; None if no activation follows the norm.
Activation: TypeAlias = Callable[[], nn.Module] | None


class SmallCNN(nn.Module):
    """Two 3x3 convolutions, each with 2x2 pooling, and a classifier, for 1x28x28 images."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Linear(32 * 7 * 7, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the class scores."""
        halved = self.pool(self.conv1(images).relu())
        quartered = self.pool(self.conv2(halved).relu())
        scores: Tensor = self.classifier(quartered.flatten(1))
        return scores


class _Network(nn.Module):
    """Features, global average pooling and a classifier."""

    def __init__(self, features: Sequence[nn.Module], classifier: Sequence[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(*classifier)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.avgpool(self.features(images)).flatten(1))
        return scores


class _Block(nn.Module):
    """A sequence of steps, with a residual connection if `has_residual`."""

    def __init__(self, name: str, steps: Sequence[nn.Module], has_residual: bool) -> None:
        super().__init__()
        self.name, self.has_residual = name, has_residual
        self.add_module(name, nn.Sequential(*steps))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.get_submodule(self.name)(x)
        return x + result if self.has_residual else result


class _SqueezeExcitation(nn.Module):
    """Scales each channel by a gate computed from the channel means."""

    def __init__(
        self, channels: int, squeezed: int, inner: Callable[[], nn.Module], gate: Callable[[], nn.Module]
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation, self.scale_activation = inner(), gate()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.activation(self.fc1(self.avgpool(x)))
        scaled: Tensor = x * self.scale_activation(self.fc2(inner))
        return scaled


def _round_channels(channels: float, divisor: int = 8) -> int:
    """Round to a multiple of the divisor, at most 10 % down, as the reference code of all three papers."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest


def _conv(
    in_channels: int,
    out_channels: int,
    kernel: int = 1,
    stride: int = 1,
    *,
    depthwise: bool = False,
    activation: Activation,
    norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
) -> nn.Sequential:
    """A convolution with "same" padding, a norm and an activation."""
    groups = in_channels if depthwise else 1
    conv = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, norm(out_channels), *([activation()] if activation is not None else []))


# Per stage: expansion, channels, blocks, stride of the first block.
_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobile_net_v2(classes: int, width: float = 1.0, divisor: int = 8) -> nn.Module:
    """MobileNetV2; widths below 1.0 keep the 1,280 channels of the last convolution."""
    channels, last = _round_channels(32 * width, divisor), _round_channels(1280 * max(1.0, width), divisor)
    features: list[nn.Module] = [_conv(3, channels, 3, 2, activation=nn.ReLU6)]
    for expansion, full, blocks, first in _V2:
        out_channels = _round_channels(full * width, divisor)
        for index in range(blocks):
            features.append(_v2_block(channels, out_channels, expansion, first if index == 0 else 1))
            channels = out_channels
    features.append(_conv(channels, last, activation=nn.ReLU6))
    return _Network(features, [nn.Dropout(0.2), nn.Linear(last, classes)])


def _v2_block(in_channels: int, out_channels: int, expansion: int, stride: int) -> _Block:
    inner = expansion * in_channels
    steps: list[nn.Module] = [_conv(in_channels, inner, activation=nn.ReLU6)] if expansion > 1 else []
    steps.append(_conv(inner, inner, 3, stride, depthwise=True, activation=nn.ReLU6))
    steps += _conv(inner, out_channels, activation=None)
    return _Block("conv", steps, stride == 1 and in_channels == out_channels)


class _Row(NamedTuple):
    """A block of MobileNetV3, as in the tables of the paper."""

    kernel: int
    expanded: int
    out_channels: int
    has_squeeze: bool
    activation: Callable[[], nn.Module]
    stride: int


_RE, _HS = nn.ReLU, nn.Hardswish
_V3 = {
    "large": (
        _Row(3, 16, 16, False, _RE, 1),
        _Row(3, 64, 24, False, _RE, 2),
        _Row(3, 72, 24, False, _RE, 1),
        _Row(5, 72, 40, True, _RE, 2),
        _Row(5, 120, 40, True, _RE, 1),
        _Row(5, 120, 40, True, _RE, 1),
        _Row(3, 240, 80, False, _HS, 2),
        _Row(3, 200, 80, False, _HS, 1),
        _Row(3, 184, 80, False, _HS, 1),
        _Row(3, 184, 80, False, _HS, 1),
        _Row(3, 480, 112, True, _HS, 1),
        _Row(3, 672, 112, True, _HS, 1),
        _Row(5, 672, 160, True, _HS, 2),
        _Row(5, 960, 160, True, _HS, 1),
        _Row(5, 960, 160, True, _HS, 1),
    ),
    "small": (
        _Row(3, 16, 16, True, _RE, 2),
        _Row(3, 72, 24, False, _RE, 2),
        _Row(3, 88, 24, False, _RE, 1),
        _Row(5, 96, 40, True, _HS, 2),
        _Row(5, 240, 40, True, _HS, 1),
        _Row(5, 240, 40, True, _HS, 1),
        _Row(5, 120, 48, True, _HS, 1),
        _Row(5, 144, 48, True, _HS, 1),
        _Row(5, 288, 96, True, _HS, 2),
        _Row(5, 576, 96, True, _HS, 1),
        _Row(5, 576, 96, True, _HS, 1),
    ),
}
_V3_HIDDEN = {"large": 1280, "small": 1024}
_V3_NORM = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)


def mobile_net_v3(classes: int, size: str) -> nn.Module:
    """MobileNetV3, `small` or `large`."""
    channels = 16
    features: list[nn.Module] = [_conv(3, channels, 3, 2, activation=_HS, norm=_V3_NORM)]
    for row in _V3[size]:
        features.append(_v3_block(channels, row))
        channels = row.out_channels
    last, hidden = 6 * channels, _V3_HIDDEN[size]
    features.append(_conv(channels, last, activation=_HS, norm=_V3_NORM))
    classifier = [nn.Linear(last, hidden), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(hidden, classes)]
    return _Network(features, classifier)


def _v3_block(in_channels: int, row: _Row) -> _Block:
    conv = partial(_conv, norm=_V3_NORM)
    steps: list[nn.Module] = []
    if row.expanded != in_channels:
        steps.append(conv(in_channels, row.expanded, activation=row.activation))
    steps.append(
        conv(row.expanded, row.expanded, row.kernel, row.stride, depthwise=True, activation=row.activation)
    )
    if row.has_squeeze:
        steps.append(
            _SqueezeExcitation(row.expanded, _round_channels(row.expanded // 4), nn.ReLU, nn.Hardsigmoid)
        )
    steps.append(conv(row.expanded, row.out_channels, activation=None))
    return _Block("block", steps, row.stride == 1 and in_channels == row.out_channels)


# Per stage: expansion, kernel, stride of the first block, channels, blocks.
_B0 = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
# Per version: width, depth, dropout.
_VERSIONS = {
    "b0": (1.0, 1.0, 0.2),
    "b1": (1.0, 1.1, 0.2),
    "b2": (1.1, 1.2, 0.3),
    "b3": (1.2, 1.4, 0.3),
    "b4": (1.4, 1.8, 0.4),
    "b5": (1.6, 2.2, 0.4),
    "b6": (1.8, 2.6, 0.5),
    "b7": (2.0, 3.1, 0.5),
}
_DEEP_NORM = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)


def efficient_net(classes: int, version: str) -> nn.Module:
    """EfficientNet b0 to b7."""
    width, depth, dropout = _VERSIONS[version]
    norm = _DEEP_NORM if version in ("b5", "b6", "b7") else nn.BatchNorm2d
    channels = _round_channels(32 * width)
    features: list[nn.Module] = [_conv(3, channels, 3, 2, activation=nn.SiLU, norm=norm)]
    for expansion, kernel, stride, full, blocks in _B0:
        out_channels = _round_channels(full * width)
        sizes = _block_inputs(channels, out_channels, math.ceil(blocks * depth), stride)
        stage = [_efficient_block(c, out_channels, expansion, kernel, s, norm) for c, s in sizes]
        features.append(nn.Sequential(*stage))
        channels = out_channels
    last = 4 * channels
    features.append(_conv(channels, last, activation=nn.SiLU, norm=norm))
    return _Network(features, [nn.Dropout(dropout), nn.Linear(last, classes)])


def _block_inputs(channels: int, out_channels: int, blocks: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield the input channels and the stride of each block of a stage."""
    for index in range(blocks):
        yield (out_channels, 1) if index else (channels, stride)


def _efficient_block(
    in_channels: int,
    out_channels: int,
    expansion: int,
    kernel: int,
    stride: int,
    norm: Callable[[int], nn.Module],
) -> _Block:
    inner = expansion * in_channels
    conv = partial(_conv, norm=norm)
    steps: list[nn.Module] = [conv(in_channels, inner, activation=nn.SiLU)] if expansion > 1 else []
    steps.append(conv(inner, inner, kernel, stride, depthwise=True, activation=nn.SiLU))
    # Squeezed to a quarter of the input channels before expansion.
    steps.append(_SqueezeExcitation(inner, max(1, in_channels // 4), nn.SiLU, nn.Sigmoid))
    steps.append(conv(inner, out_channels, activation=None))
    return _Block("block", steps, stride == 1 and in_channels == out_channels)
