"""Networks of three search spaces as the kernels that a framework runs.

NAS-Bench-201 (cells), FBNet (22 blocks) and Once-For-All (MobileNetV3), each from the string that identifies
a network in its table. Each operator is a kernel, as in eager PyTorch; or normalization is folded into
convolutions and activations are fused into the op before, as in a TFLite file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from latency.truth.cells import Policy, executed
from sizeup.latency import Work, from_columns

_WIDTH = 4  # bytes of a float32


class Kernel(NamedTuple):
    """One row of `Work`."""

    name: str
    macs: float = 0.0
    read: float = 0.0
    written: float = 0.0
    weights: float = 0.0
    length: float = 0.0
    columns: float = 0.0
    rows: float = 0.0


class Network:
    """Kernels and their counts, built layer by layer; tracks the channels and the side of the image."""

    def __init__(self, side: int, folded: bool) -> None:
        self.side, self.channels, self.folded = side, 3, folded
        self.kernels: Counter[Kernel] = Counter()
        self.parameters = 0

    @property
    def elements(self) -> int:
        """Elements of the current tensor."""
        return self.channels * self.side**2

    def conv(
        self, channels: int, taps: int, stride: int = 1, groups: int = 1, times: int = 1, norm: bool = True
    ) -> None:
        """A convolution of taps x taps without bias, and the batch norm after it."""
        side = -(-self.side // stride)
        length = self.channels // groups * taps**2
        self.kernels[
            Kernel(
                _class_of(self.channels, channels, taps, groups),
                length * channels * side**2,
                _WIDTH * self.elements,
                _WIDTH * channels * side**2,
                _WIDTH * length * channels,
                length,
                channels / groups,
                side**2,
            )
        ] += times
        self.channels, self.side = channels, side
        self.parameters += times * length * channels
        if norm:
            self.norm(times)

    def norm(self, times: int = 1) -> None:
        """A batch norm at inference, with four parameters per channel; no kernel if it is folded."""
        self.parameters += times * 2 * self.channels
        if not self.folded:
            size, weights = _WIDTH * self.elements, 4 * _WIDTH * self.channels
            self.kernels[Kernel("batch_norm", read=size, written=size, weights=weights)] += times

    def plain(self, name: str, inputs: int = 1, times: int = 1) -> None:
        """An elementwise operator with a number of inputs."""
        if times:
            size = _WIDTH * self.elements
            self.kernels[Kernel(name, read=inputs * size, written=size)] += times

    def activation(self, times: int = 1) -> None:
        """An activation right after a norm; no kernel if it is folded."""
        if not self.folded:
            self.plain("activation", times=times)

    def hard_swish(self) -> None:
        """x * relu6(x + 3) / 6 as four kernels."""
        self.plain("elementwise", times=2)
        self.plain("activation")
        self.plain("elementwise", 2)

    def reduce(self, name: str = "reduce") -> None:
        """The mean over the image."""
        self.kernels[Kernel(name, read=_WIDTH * self.elements, written=_WIDTH * self.channels)] += 1
        self.side = 1

    def linear(self, features: int, bias: bool = True) -> None:
        """A linear layer on one row."""
        length = self.channels
        parameters = length * features + features * bias
        sizes = (_WIDTH * length, _WIDTH * features, _WIDTH * parameters)
        self.kernels[Kernel("linear", length * features, *sizes, length, features, 1)] += 1
        self.channels = features
        self.parameters += parameters

    @property
    def macs(self) -> float:
        """MACs of one sample."""
        return sum(kernel.macs * count for kernel, count in self.kernels.items())


def _class_of(channels: int, out_channels: int, taps: int, groups: int) -> str:
    if groups == channels == out_channels and groups > 1:
        return f"depthwise_{taps}" if taps in (3, 5) else "depthwise_7"
    if groups > 1:
        return "conv_grouped"
    if taps > 1 and channels <= 4:
        return "conv_stem"
    return "conv" if taps > 1 else "conv_1x1"


def cells(arch: str, folded: bool = False) -> Network:
    """NAS-Bench-201: 15 cells in three stages of 16, 32 and 64 channels, for 10 classes of 32 x 32 images."""
    policy: Policy = "reached" if folded else "each"
    run = {name: 5 * count for name, count in executed(arch, policy).items()}
    network = Network(32, folded)
    network.conv(16, 3)
    for channels in (16, 32, 64):
        if channels > 16:
            _reduction(network, channels)
        network.plain("activation", times=run.get("activation", 0))
        for name, taps in (("conv", 3), ("conv_1x1", 1)):
            if name in run:
                network.conv(channels, taps, times=run[name])
        network.plain("elementwise", 2, run.get("elementwise", 0))
        for name, op_class in (("pool", "pool"), ("zero", "elementwise")):
            network.plain(op_class, times=run.get(name, 0))
    network.norm()
    network.plain("activation")
    network.reduce("reduce")
    network.linear(10)
    return network


def _reduction(network: Network, out_channels: int) -> None:
    """A residual block of stride 2; its shortcut averages four pixels into one."""
    network.plain("activation")
    channels, side = network.channels, network.side
    network.conv(out_channels, 3, 2)
    network.plain("activation")
    network.conv(out_channels, 3)
    half = side // 2
    size = _WIDTH * channels
    network.kernels[Kernel("pool", read=size * side**2, written=size * half**2)] += 1
    network.channels, network.side = channels, half
    network.conv(out_channels, 1, norm=False)
    network.plain("elementwise", 2)


_LAYERS, _MADE, _STRIDES = (1, 4, 4, 4, 4, 4, 1), (16, 24, 32, 64, 112, 184, 352), (1, 1, 2, 2, 1, 2, 1)


def fbnet(arch: str, folded: bool = False) -> Network:
    """FBNet for 100 classes of 32 x 32 images: `k5_e6,skip,k3_e1_g2,...`, one word per block."""
    network = Network(32, folded)
    network.conv(16, 3)
    network.activation()
    words = iter(arch.split(","))
    for layers, channels, stride in zip(_LAYERS, _MADE, _STRIDES, strict=True):
        for index in range(layers):
            _fbnet_block(network, next(words), channels, stride if index == 0 else 1)
    network.conv(1504, 1)
    network.activation()
    network.reduce("reduce")
    network.linear(100)
    return network


def _fbnet_block(network: Network, word: str, channels: int, stride: int) -> None:
    same = stride == 1 and channels == network.channels
    if word == "skip":
        if not same:
            network.conv(channels, 1, stride)
            network.activation()
        return
    taps, expansion, groups = int(word[1]), int(word[4]), 2 if word.endswith("g2") else 1
    wide = network.channels * expansion
    network.conv(wide, 1, groups=groups)
    network.activation()
    if groups > 1:
        network.plain("copy")  # channels of both groups are mixed
    network.conv(wide, taps, stride, groups=wide)
    network.activation()
    network.conv(channels, 1, groups=groups)
    if same:
        network.plain("elementwise", 2)


# Once-For-All, MobileNetV3 at width 1.2, by stage: channels, stride, squeeze-and-excite, hard swish.
_OFA = (
    (32, 2, False, False),
    (48, 2, True, False),
    (96, 2, False, True),
    (136, 1, True, True),
    (192, 2, True, True),
)


def once_for_all(arch: str, folded: bool = False) -> Network:
    """A sub-network of Once-For-All: kernel sizes, expansions, depths and the side of the image as JSON."""
    choice = json.loads(arch)
    network = Network(choice["r"], folded)
    network.conv(24, 3, 2)
    network.hard_swish()
    network.conv(24, 3, groups=24)
    network.activation()
    network.conv(24, 1)
    network.plain("elementwise", 2)
    for stage, (channels, stride, squeezed, swish) in enumerate(_OFA):
        for index in range(choice["d"][stage]):
            position = 4 * stage + index
            wide = _rounded(network.channels * choice["e"][position])
            taps = choice["ks"][position]
            _ofa_block(network, channels, wide, taps, stride if index == 0 else 1, squeezed, swish)
    network.conv(1152, 1)
    network.hard_swish()
    network.reduce()
    network.conv(1536, 1, norm=False)
    network.hard_swish()
    network.linear(1000)
    return network


def _ofa_block(
    network: Network, channels: int, wide: int, taps: int, stride: int, squeezed: bool, swish: bool
) -> None:
    same = stride == 1 and channels == network.channels
    act = network.hard_swish if swish else network.activation
    network.conv(wide, 1)
    act()
    network.conv(wide, taps, stride, groups=wide)
    act()
    if squeezed:
        _squeeze(network, wide)
    network.conv(channels, 1)
    if same:
        network.plain("elementwise", 2)


def _squeeze(network: Network, wide: int) -> None:
    side = network.side
    network.reduce()
    few = _rounded(wide // 4)
    network.conv(few, 1, norm=False)
    network.plain("activation")
    network.conv(wide, 1, norm=False)
    network.parameters += few + wide  # their biases
    network.plain("elementwise", times=2)
    network.plain("activation")
    network.side = side
    network.plain("elementwise", 2)


def _rounded(channels: float) -> int:
    """The nearest multiple of 8 that is at most 10 % lower."""
    multiple = max(8, int(channels + 4) // 8 * 8)
    return multiple + 8 if multiple < 0.9 * channels else multiple


def work_of_networks(networks: Sequence[Network]) -> Work:
    """The work of networks in that order, one sample each."""
    rows, owner, count = [], [], []
    for index, network in enumerate(networks):
        rows += list(network.kernels)
        owner += [index] * len(network.kernels)
        count += list(network.kernels.values())
    columns = np.array([kernel[1:] for kernel in rows], np.float64).T
    named = dict(zip(Kernel._fields[1:], columns, strict=True))
    return from_columns([kernel.name for kernel in rows], len(networks), owner, count=count, **named)


SPACES: dict[str, Callable[[str, bool], Network]] = {
    "help_nasbench201": cells,
    "help_fbnet": fbnet,
    "help_ofa": once_for_all,
}
