"""Networks of three search spaces as the kernels that a framework runs for them, one by one.

NAS-Bench-201 (cells), FBNet (22 blocks) and Once-For-All (MobileNetV3), each from the string that its table
tells a network by. Every operator is a kernel, as in eager PyTorch; or norms are folded into convolutions and
activations into what makes their input, as in a TFLite file.
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
    """One kernel as the columns of work have it."""

    name: str
    macs: float = 0.0
    read: float = 0.0
    written: float = 0.0
    weights: float = 0.0
    length: float = 0.0
    columns: float = 0.0
    rows: float = 0.0


class Network:
    """Kernels and their numbers, layer by layer; keeps the channels and the side of the picture."""

    def __init__(self, side: int, folded: bool) -> None:
        self.side, self.channels, self.folded = side, 3, folded
        self.kernels: Counter[Kernel] = Counter()
        self.parameters = 0

    @property
    def elements(self) -> int:
        """Of the current tensor."""
        return self.channels * self.side**2

    def conv(
        self, made: int, taps: int, stride: int = 1, groups: int = 1, times: int = 1, norm: bool = True
    ) -> None:
        """A convolution of taps x taps without a bias, and the norm after it."""
        side = -(-self.side // stride)
        length = self.channels // groups * taps**2
        self.kernels[
            Kernel(
                _class_of(self.channels, made, taps, groups),
                length * made * side**2,
                _WIDTH * self.elements,
                _WIDTH * made * side**2,
                _WIDTH * length * made,
                length,
                made / groups,
                side**2,
            )
        ] += times
        self.channels, self.side = made, side
        self.parameters += times * length * made
        if norm:
            self.norm(times)

    def norm(self, times: int = 1) -> None:
        """A batch norm at inference, four numbers a channel; none where it is folded."""
        self.parameters += times * 2 * self.channels
        if not self.folded:
            size, held = _WIDTH * self.elements, 4 * _WIDTH * self.channels
            self.kernels[Kernel("batch_norm", read=size, written=size, weights=held)] += times

    def plain(self, name: str, inputs: int = 1, times: int = 1) -> None:
        """An operator that computes every element from as many."""
        if times:
            size = _WIDTH * self.elements
            self.kernels[Kernel(name, read=inputs * size, written=size)] += times

    def activation(self, times: int = 1) -> None:
        """One right after a norm, which a file has folded away."""
        if not self.folded:
            self.plain("activation", times=times)

    def hard_swish(self) -> None:
        """x * relu6(x + 3) / 6, written so."""
        self.plain("elementwise", times=2)
        self.plain("activation")
        self.plain("elementwise", 2)

    def reduce(self, name: str = "reduce") -> None:
        """The mean over the picture."""
        self.kernels[Kernel(name, read=_WIDTH * self.elements, written=_WIDTH * self.channels)] += 1
        self.side = 1

    def linear(self, made: int, bias: bool = True) -> None:
        """A layer on one row."""
        length = self.channels
        held = length * made + made * bias
        sizes = (_WIDTH * length, _WIDTH * made, _WIDTH * held)
        self.kernels[Kernel("linear", length * made, *sizes, length, made, 1)] += 1
        self.channels = made
        self.parameters += held

    @property
    def macs(self) -> float:
        """Of one sample."""
        return sum(kernel.macs * count for kernel, count in self.kernels.items())


def _class_of(channels: int, made: int, taps: int, groups: int) -> str:
    if groups == channels == made and groups > 1:
        return f"depthwise_{taps}" if taps in (3, 5) else "depthwise_7"
    if groups > 1:
        return "conv_grouped"
    if taps > 1 and channels <= 4:
        return "conv_stem"
    return "conv" if taps > 1 else "conv_1x1"


def cells(arch: str, folded: bool = False) -> Network:
    """NAS-Bench-201: fifteen cells in three stages of 16, 32 and 64 channels, for ten classes of 32 x 32."""
    policy: Policy = "reached" if folded else "each"
    run = {name: 5 * count for name, count in executed(arch, policy).items()}
    found = Network(32, folded)
    found.conv(16, 3)
    for made in (16, 32, 64):
        if made > 16:
            _reduction(found, made)
        found.plain("activation", times=run.get("activation", 0))
        for name, taps in (("conv", 3), ("conv_1x1", 1)):
            if name in run:
                found.conv(made, taps, times=run[name])
        found.plain("elementwise", 2, run.get("elementwise", 0))
        for name, kind in (("pool", "pool"), ("zero", "elementwise")):
            found.plain(kind, times=run.get(name, 0))
    found.norm()
    found.plain("activation")
    found.reduce("reduce")
    found.linear(10)
    return found


def _reduction(found: Network, made: int) -> None:
    """A residual block of stride 2; its shortcut averages four pixels into one."""
    found.plain("activation")
    channels, side = found.channels, found.side
    found.conv(made, 3, 2)
    found.plain("activation")
    found.conv(made, 3)
    half = side // 2
    size = _WIDTH * channels
    found.kernels[Kernel("pool", read=size * side**2, written=size * half**2)] += 1
    found.channels, found.side = channels, half
    found.conv(made, 1, norm=False)
    found.plain("elementwise", 2)


_LAYERS, _MADE, _STRIDES = (1, 4, 4, 4, 4, 4, 1), (16, 24, 32, 64, 112, 184, 352), (1, 1, 2, 2, 1, 2, 1)


def fbnet(arch: str, folded: bool = False) -> Network:
    """FBNet for a hundred classes of 32 x 32: `k5_e6,skip,k3_e1_g2,...`, one word a block."""
    found = Network(32, folded)
    found.conv(16, 3)
    found.activation()
    words = iter(arch.split(","))
    for layers, made, stride in zip(_LAYERS, _MADE, _STRIDES, strict=True):
        for index in range(layers):
            _fbnet_block(found, next(words), made, stride if index == 0 else 1)
    found.conv(1504, 1)
    found.activation()
    found.reduce("reduce")
    found.linear(100)
    return found


def _fbnet_block(found: Network, word: str, made: int, stride: int) -> None:
    same = stride == 1 and made == found.channels
    if word == "skip":
        if not same:
            found.conv(made, 1, stride)
            found.activation()
        return
    taps, expansion, groups = int(word[1]), int(word[4]), 2 if word.endswith("g2") else 1
    wide = found.channels * expansion
    found.conv(wide, 1, groups=groups)
    found.activation()
    if groups > 1:
        found.plain("copy")  # channels of both groups are mixed
    found.conv(wide, taps, stride, groups=wide)
    found.activation()
    found.conv(made, 1, groups=groups)
    if same:
        found.plain("elementwise", 2)


# Once-For-All, MobileNetV3 at width 1.2: channels by stage, their stride, whether they squeeze, and swish.
_OFA = (
    (32, 2, False, False),
    (48, 2, True, False),
    (96, 2, False, True),
    (136, 1, True, True),
    (192, 2, True, True),
)


def once_for_all(arch: str, folded: bool = False) -> Network:
    """A sub-network of Once-For-All: kernels, expansions, depths and the side of the picture as JSON."""
    choice = json.loads(arch)
    found = Network(choice["r"], folded)
    found.conv(24, 3, 2)
    found.hard_swish()
    found.conv(24, 3, groups=24)
    found.activation()
    found.conv(24, 1)
    found.plain("elementwise", 2)
    for stage, (made, stride, squeezed, swish) in enumerate(_OFA):
        for index in range(choice["d"][stage]):
            place = 4 * stage + index
            wide = _rounded(found.channels * choice["e"][place])
            taps = choice["ks"][place]
            _ofa_block(found, made, wide, taps, stride if index == 0 else 1, squeezed, swish)
    found.conv(1152, 1)
    found.hard_swish()
    found.reduce()
    found.conv(1536, 1, norm=False)
    found.hard_swish()
    found.linear(1000)
    return found


def _ofa_block(
    found: Network, made: int, wide: int, taps: int, stride: int, squeezed: bool, swish: bool
) -> None:
    same = stride == 1 and made == found.channels
    act = found.hard_swish if swish else found.activation
    found.conv(wide, 1)
    act()
    found.conv(wide, taps, stride, groups=wide)
    act()
    if squeezed:
        _squeeze(found, wide)
    found.conv(made, 1)
    if same:
        found.plain("elementwise", 2)


def _squeeze(found: Network, wide: int) -> None:
    side = found.side
    found.reduce()
    few = _rounded(wide // 4)
    found.conv(few, 1, norm=False)
    found.plain("activation")
    found.conv(wide, 1, norm=False)
    found.parameters += few + wide  # their biases
    found.plain("elementwise", times=2)
    found.plain("activation")
    found.side = side
    found.plain("elementwise", 2)


def _rounded(channels: float) -> int:
    """The next multiple of eight, but no more than a tenth lower."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found


def work_of_networks(networks: Sequence[Network]) -> Work:
    """All of them, in that order, at one sample each."""
    rows, owner, count = [], [], []
    for index, network in enumerate(networks):
        rows += list(network.kernels)
        owner += [index] * len(network.kernels)
        count += list(network.kernels.values())
    columns = np.array([each[1:] for each in rows], np.float64).T
    named = dict(zip(Kernel._fields[1:], columns, strict=True))
    return from_columns([each.name for each in rows], len(networks), owner, count=count, **named)


SPACES: dict[str, Callable[[str, bool], Network]] = {
    "help_nasbench201": cells,
    "help_fbnet": fbnet,
    "help_ofa": once_for_all,
}
