"""The networks themselves, after the tables of the papers that introduced them.

MobileNetV2: Sandler and others 2018 (arXiv 1801.04381), table 2. MobileNetV3: Howard and others 2019 (arXiv
1905.02244), tables 1 and 2. EfficientNet: Tan and Le 2019 (arXiv 1905.11946), table 1, with the widths and
depths of its versions from the authors' code. Modules have the names that torchvision gives them, so that a
mapping of layers to precisions means the same whoever made the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from torch import Tensor, nn

# What makes an activation, or None where nothing follows the norm.
Activation: TypeAlias = Callable[[], nn.Module] | None


class SmallCNN(nn.Module):
    """Two convolutions of 3x3, each before a pool of 2x2, and a classifier, for images of 1x28x28."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Linear(32 * 7 * 7, classes)

    def forward(self, images: Tensor) -> Tensor:
        """The scores of the classes."""
        halved = self.pool(self.conv1(images).relu())
        quartered = self.pool(self.conv2(halved).relu())
        scores: Tensor = self.classifier(quartered.flatten(1))
        return scores


class _Network(nn.Module):
    """Features, their mean over the image, and a classifier."""

    def __init__(self, features: Sequence[nn.Module], classifier: Sequence[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(*classifier)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.avgpool(self.features(images)).flatten(1))
        return scores


class _Block(nn.Module):
    """Steps in a row, to whose result the input is added where both have one shape."""

    def __init__(self, name: str, steps: Sequence[nn.Module], adds: bool) -> None:
        super().__init__()
        self.name, self.adds = name, adds
        self.add_module(name, nn.Sequential(*steps))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.get_submodule(self.name)(x)
        return x + made if self.adds else made


class _SqueezeExcitation(nn.Module):
    """Scales every channel by what two products make of the means of all channels."""

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


def _rounded(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of the divisor that is not more than a tenth below, as all three papers' code."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest


def _conv(
    entering: int,
    leaving: int,
    kernel: int = 1,
    stride: int = 1,
    *,
    depthwise: bool = False,
    activation: Activation,
    norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
) -> nn.Sequential:
    """A convolution that keeps the size of the image but for its stride, a norm, and what follows."""
    groups = entering if depthwise else 1
    conv = nn.Conv2d(entering, leaving, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, norm(leaving), *([activation()] if activation is not None else []))


# Of each stage: how far it expands, channels, blocks, stride of the first.
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
    """MobileNetV2; narrower ones keep the 1,280 channels of the last convolution."""
    channels, last = _rounded(32 * width, divisor), _rounded(1280 * max(1.0, width), divisor)
    features: list[nn.Module] = [_conv(3, channels, 3, 2, activation=nn.ReLU6)]
    for expansion, full, blocks, first in _V2:
        leaving = _rounded(full * width, divisor)
        for index in range(blocks):
            features.append(_v2_block(channels, leaving, expansion, first if index == 0 else 1))
            channels = leaving
    features.append(_conv(channels, last, activation=nn.ReLU6))
    return _Network(features, [nn.Dropout(0.2), nn.Linear(last, classes)])


def _v2_block(entering: int, leaving: int, expansion: int, stride: int) -> _Block:
    inner = expansion * entering
    steps: list[nn.Module] = [_conv(entering, inner, activation=nn.ReLU6)] if expansion > 1 else []
    steps.append(_conv(inner, inner, 3, stride, depthwise=True, activation=nn.ReLU6))
    steps += _conv(inner, leaving, activation=None)
    return _Block("conv", steps, stride == 1 and entering == leaving)


class _Row(NamedTuple):
    """A block of MobileNetV3 as its tables write it."""

    kernel: int
    expanded: int
    leaving: int
    squeezes: bool
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
        channels = row.leaving
    last, hidden = 6 * channels, _V3_HIDDEN[size]
    features.append(_conv(channels, last, activation=_HS, norm=_V3_NORM))
    classifier = [nn.Linear(last, hidden), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(hidden, classes)]
    return _Network(features, classifier)


def _v3_block(entering: int, row: _Row) -> _Block:
    conv = partial(_conv, norm=_V3_NORM)
    steps: list[nn.Module] = []
    if row.expanded != entering:
        steps.append(conv(entering, row.expanded, activation=row.activation))
    steps.append(
        conv(row.expanded, row.expanded, row.kernel, row.stride, depthwise=True, activation=row.activation)
    )
    if row.squeezes:
        steps.append(_SqueezeExcitation(row.expanded, _rounded(row.expanded // 4), nn.ReLU, nn.Hardsigmoid))
    steps.append(conv(row.expanded, row.leaving, activation=None))
    return _Block("block", steps, row.stride == 1 and entering == row.leaving)


# Of each stage: how far it expands, kernel, stride of the first block, channels, blocks.
_B0 = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
# Of each version: width, depth, dropout.
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
    channels = _rounded(32 * width)
    features: list[nn.Module] = [_conv(3, channels, 3, 2, activation=nn.SiLU, norm=norm)]
    for expansion, kernel, stride, full, blocks in _B0:
        leaving = _rounded(full * width)
        sizes = _entering(channels, leaving, math.ceil(blocks * depth), stride)
        made = [_efficient_block(c, leaving, expansion, kernel, s, norm) for c, s in sizes]
        features.append(nn.Sequential(*made))
        channels = leaving
    last = 4 * channels
    features.append(_conv(channels, last, activation=nn.SiLU, norm=norm))
    return _Network(features, [nn.Dropout(dropout), nn.Linear(last, classes)])


def _entering(channels: int, leaving: int, blocks: int, stride: int) -> Iterator[tuple[int, int]]:
    """Channels that enter each block of a stage, and its stride."""
    for index in range(blocks):
        yield (leaving, 1) if index else (channels, stride)


def _efficient_block(
    entering: int, leaving: int, expansion: int, kernel: int, stride: int, norm: Callable[[int], nn.Module]
) -> _Block:
    inner = expansion * entering
    conv = partial(_conv, norm=norm)
    steps: list[nn.Module] = [conv(entering, inner, activation=nn.SiLU)] if expansion > 1 else []
    steps.append(conv(inner, inner, kernel, stride, depthwise=True, activation=nn.SiLU))
    # Squeezed to a quarter of what entered, before it was expanded.
    steps.append(_SqueezeExcitation(inner, max(1, entering // 4), nn.SiLU, nn.Sigmoid))
    steps.append(conv(inner, leaving, activation=None))
    return _Block("block", steps, stride == 1 and entering == leaving)
