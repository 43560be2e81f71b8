"""Convolutions: output elements x kernel size x input channels per group, padding included."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from hand_written.case import Function, case, weight

CASES = [
    case(
        "strided with bias",
        lambda: nn.Conv2d(3, 8, 3, stride=2, padding=1),
        (1, 3, 16, 16),
        macs=8 * 8 * 8 * 9 * 3,  # 16 + 2 - 3 is 15: 8 positions per side
        params=8 * 3 * 9 + 8,
    ),
    case(
        "four groups",
        lambda: nn.Conv2d(8, 16, 3, groups=4, bias=False),
        (1, 8, 10, 10),
        macs=16 * 8 * 8 * 9 * 2,
        params=16 * 2 * 9,
    ),
    case(
        "depthwise with multiplier 2",
        lambda: nn.Conv2d(6, 12, 5, groups=6, padding=2, bias=False),
        (2, 6, 7, 7),
        macs=2 * 12 * 7 * 7 * 25,
        params=12 * 25,
    ),
    case(
        "dilated",
        lambda: nn.Conv2d(4, 5, 3, dilation=2, bias=False),
        (1, 4, 12, 12),
        macs=5 * 8 * 8 * 9 * 4,  # the kernel spans 5
        params=5 * 4 * 9,
    ),
    case(
        "one-dimensional, stride 3",
        lambda: nn.Conv1d(2, 4, 5, stride=3),
        (3, 2, 20),
        macs=3 * 4 * 6 * 5 * 2,  # (20 - 5) / 3 + 1 = 6
        params=4 * 2 * 5 + 4,
    ),
    case(
        "three-dimensional",
        lambda: nn.Conv3d(2, 4, (2, 3, 3), bias=False),
        (1, 2, 4, 6, 6),
        macs=4 * 3 * 4 * 4 * 18 * 2,
        params=4 * 2 * 18,
    ),
    case(
        "pointwise",
        lambda: nn.Conv2d(10, 20, 1, bias=False),
        (1, 10, 9, 9),
        macs=20 * 81 * 10,
        params=200,
    ),
    case(
        "unbatched",
        lambda: nn.Conv2d(3, 4, 3, bias=False),
        (3, 6, 6),
        macs=4 * 16 * 27,
        params=108,
    ),
    case(
        "transposed",  # every input element times 9 taps times 6 output channels
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2),
        (1, 4, 5, 5),
        macs=4 * 25 * 9 * 6,
        params=4 * 6 * 9 + 6,
    ),
    case(
        "transposed in groups with output padding",
        lambda: nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False),
        (1, 4, 5, 5),
        macs=4 * 25 * 9 * 4,
        params=4 * 4 * 9,
    ),
    case(
        "transposed, one-dimensional, dilated",
        lambda: nn.ConvTranspose1d(3, 2, 4, dilation=3, bias=False),
        (2, 3, 7),
        macs=2 * 3 * 7 * 4 * 2,
        params=3 * 2 * 4,
    ),
    case(
        "transposed, three-dimensional",
        lambda: nn.ConvTranspose3d(2, 3, 2, stride=2, bias=False),
        (1, 2, 3, 3, 3),
        macs=2 * 27 * 8 * 3,
        params=2 * 3 * 8,
    ),
    case(
        "circular padding",
        lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular", bias=False),
        (1, 2, 5, 5),
        macs=3 * 25 * 18,
        params=54,
    ),
    case(
        "reflected padding",
        lambda: nn.Conv1d(2, 3, 5, padding=2, padding_mode="reflect", bias=False),
        (1, 2, 9),
        macs=3 * 9 * 10,
        params=30,
    ),
    case(
        "replicated padding",
        lambda: nn.Conv3d(1, 2, 3, padding=1, padding_mode="replicate", bias=False),
        (1, 1, 4, 4, 4),
        macs=2 * 64 * 27,
        params=54,
    ),
    case(
        "same padding of an even kernel",
        lambda: nn.Conv1d(2, 3, 4, padding="same", bias=False),
        (1, 2, 10),
        macs=3 * 10 * 4 * 2,
        params=24,
    ),
    case(
        "causal: padded on the left",
        lambda: Function(lambda m, x: m.conv(functional.pad(x, (4, 0))), conv=nn.Conv1d(3, 3, 3, dilation=2)),
        (1, 3, 11),
        macs=3 * 11 * 3 * 3,
        params=3 * 3 * 3 + 3,
    ),
    case(
        "separable block",
        lambda: nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 8, 1, bias=False),
        ).eval(),
        (1, 4, 8, 8),
        macs=4 * 64 * 9 + 8 * 64 * 4,
        params=4 * 9 + 2 * 4 + 8 * 4,  # running statistics are buffers
    ),
    case(
        "per-sample kernels as groups",  # 3 samples with 5 filters each
        lambda: Function(
            lambda m, x, k: functional.conv2d(x.reshape(1, 6, 8, 8), k.reshape(15, 2, 3, 3), groups=3)
        ),
        (3, 2, 8, 8),
        (3, 5, 2, 3, 3),
        macs=15 * 36 * 9 * 2,
    ),
    case(
        "columns and a matrix product",
        lambda: Function(lambda m, x: m.weight @ functional.unfold(x, 3), weight=weight(5, 18)),
        (1, 2, 6, 6),
        macs=5 * 18 * 16,  # as a convolution: 5 x 4 x 4 x 9 x 2
        params=90,
    ),
    case(
        "fold of unfolded patches",
        lambda: Function(lambda m, x: functional.fold(functional.unfold(x, 2), (5, 5), 2)),
        (1, 3, 5, 5),
        macs=0,
    ),
    case(
        "sub-pixel upsampling",
        lambda: nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.PixelShuffle(2), nn.PixelUnshuffle(2)),
        (1, 4, 6, 6),
        macs=16 * 36 * 36,
        params=16 * 36 + 16,
    ),
    case(
        "squeeze and excitation",
        lambda: Function(
            lambda m, x: x * torch.sigmoid(m.up(torch.relu(m.down(x.mean((2, 3), keepdim=True))))),
            down=nn.Conv2d(8, 2, 1),
            up=nn.Conv2d(2, 8, 1),
        ),
        (2, 8, 5, 5),
        macs=2 * (8 * 2 + 2 * 8),
        params=8 * 2 + 2 + 2 * 8 + 8,
    ),
    case(
        "complex",  # each product of complex numbers is four real ones
        lambda: Function(
            lambda m, x: functional.conv1d(x, m.weight), weight=weight(3, 2, 3, dtype=torch.complex64)
        ),
        torch.zeros(1, 2, 8, dtype=torch.complex64),
        macs=4 * 3 * 6 * 3 * 2,
        params=18,
        weight_bytes=18 * 8,
    ),
    case(
        "small U-Net",
        lambda: Function(
            lambda m, x: m.out(
                torch.cat([m.enter(x), m.up(m.inner(functional.max_pool2d(m.enter(x), 2)))], 1)
            ),
            enter=nn.Conv2d(1, 4, 3, padding=1, bias=False),
            inner=nn.Conv2d(4, 8, 3, padding=1, bias=False),
            up=nn.ConvTranspose2d(8, 4, 2, stride=2, bias=False),
            out=nn.Conv2d(8, 1, 1, bias=False),
        ),
        (1, 1, 8, 8),
        # The first layer runs twice.
        macs=2 * 4 * 64 * 9 + 8 * 16 * 36 + 8 * 16 * 4 * 4 + 64 * 8,
        params=36 + 8 * 36 + 8 * 4 * 4 + 8,
    ),
]
