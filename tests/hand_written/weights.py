"""Weights: embeddings, norms, tying, parametrizations and dtypes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

from hand_written.case import Function, case, weight


class Symmetric(nn.Module):
    """The upper triangle, mirrored."""

    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


class LowRank(nn.Module):
    """A weight plus the product of two narrow matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = weight(6, 2), weight(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.left @ self.right


def parametrized(layer: nn.Module, transform: nn.Module) -> nn.Module:
    parametrize.register_parametrization(layer, "weight", transform)
    return layer


def tied_layers() -> nn.Module:
    first, second = nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False)
    second.weight = first.weight
    return nn.Sequential(first, second)


def tied_head(m: Any, tokens: Tensor) -> Any:
    return functional.linear(m.inner(m.table(tokens)), m.table.weight)


def tied_autoencoder(m: Any, x: Tensor) -> Any:
    return functional.conv_transpose2d(functional.conv2d(x, m.kernel, stride=2), m.kernel, stride=2)


def under_autocast(m: Any, x: Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        result: Tensor = m.layer(x)
    return result


def hypernetwork(m: Any, x: Tensor, code: Tensor) -> Any:
    """A network writes the 3x4 weight of another."""
    return functional.linear(x, m.writer(code).view(3, 4))


def dequantized(m: Any, x: Tensor) -> Any:
    return functional.linear(x, m.codes.float() * m.scale)


def rotated(m: Any, x: Tensor) -> Any:
    """Rotary positions: half the features swapped with a sign."""
    left, right = x.chunk(2, -1)
    return x * m.cos + torch.cat([-right, left], -1) * m.sin


TOKENS = ((2, 7), "int64")

CASES = [
    case(
        "norm, hidden layer, residual",
        lambda: Function(
            lambda m, x: x + m.down(functional.gelu(m.up(m.norm(x)))),
            norm=nn.LayerNorm(6),
            up=nn.Linear(6, 24),
            down=nn.Linear(24, 6),
        ),
        (2, 5, 6),
        macs=2 * 5 * 2 * 6 * 24,
        params=12 + (6 * 24 + 24) + (24 * 6 + 6),
    ),
    case(
        "RMS norm and gated unit",
        lambda: Function(
            lambda m, x: m.down(functional.silu(m.gate(x)) * m.up(m.norm(x))),
            norm=nn.RMSNorm(4),
            gate=nn.Linear(4, 8, bias=False),
            up=nn.Linear(4, 8, bias=False),
            down=nn.Linear(8, 4, bias=False),
        ),
        (1, 3, 4),
        macs=3 * 3 * 32,
        params=4 + 3 * 32,
    ),
    case(
        "group norm after a convolution",
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, bias=False), nn.GroupNorm(2, 4)),
        (1, 2, 6, 6),
        macs=4 * 16 * 18,
        params=72 + 8,
    ),
    case("instance norm with scale", lambda: nn.InstanceNorm1d(3, affine=True), (2, 3, 8), macs=0, params=6),
    case("batch norm of vectors", lambda: nn.BatchNorm1d(7).eval(), (4, 7), macs=0, params=14),
    case("local response norm", lambda: nn.LocalResponseNorm(3), (1, 6, 4, 4), macs=0),
    case(
        "embedding tied to the output",
        lambda: Function(tied_head, table=nn.Embedding(11, 6), inner=nn.Linear(6, 6, bias=False)),
        TOKENS,
        macs=14 * 36 + 14 * 6 * 11,
        params=66 + 36,
    ),
    case(
        "sum of embeddings",
        lambda: nn.EmbeddingBag(10, 4, mode="sum"),
        ((3, 5), "int64"),
        macs=0,
        params=40,
    ),
    case(
        "bags of 2 and 4, then a layer",
        lambda: Function(
            lambda m, tokens, starts: m.layer(m.bag(tokens, starts)),
            bag=nn.EmbeddingBag(10, 4, mode="mean"),
            layer=nn.Linear(4, 2, bias=False),
        ),
        torch.zeros(6, dtype=torch.int64),
        torch.tensor([0, 2]),
        macs=2 * 4 * 2,
        params=40 + 8,
    ),
    case(
        "factored embedding",
        lambda: nn.Sequential(nn.Embedding(100, 3), nn.Linear(3, 8, bias=False)),
        ((1, 9), "int64"),
        macs=9 * 24,
        params=324,
    ),
    case("two layers, one weight", tied_layers, (3, 5), macs=2 * 3 * 25, params=25),
    case(
        "convolution and its transpose, one kernel",
        lambda: Function(tied_autoencoder, kernel=weight(4, 2, 2, 2)),
        (1, 2, 6, 6),
        macs=4 * 9 * 8 + 4 * 9 * 4 * 2,
        params=32,
    ),
    case(
        "weight norm",
        lambda: parametrizations.weight_norm(nn.Linear(4, 6, bias=False)),
        (5, 4),
        macs=5 * 24,  # the norm is elementwise
        params=6 + 24,  # one length per row, and the directions
    ),
    case(
        "weight norm of a convolution",
        lambda: parametrizations.weight_norm(nn.Conv1d(2, 3, 3)),
        (1, 2, 7),
        macs=3 * 5 * 6,
        params=3 + 18 + 3,
    ),
    case(
        "spectral norm",
        lambda: parametrizations.spectral_norm(nn.Linear(4, 6, bias=False)).eval(),
        (5, 4),
        macs=24 + 6 + 5 * 24,  # sigma = u . (W v), then the layer
        params=24,
    ),
    case(
        "symmetric weight",
        lambda: parametrized(nn.Linear(5, 5, bias=False), Symmetric()),
        (2, 5),
        macs=2 * 25,
        params=25,
    ),
    case(
        "low-rank update inside the weight",
        lambda: parametrized(nn.Linear(4, 6, bias=False), LowRank()),
        (3, 4),
        macs=6 * 2 * 4 + 3 * 24,
        params=24 + 12 + 8,
    ),
    case(
        "low-rank adapter beside the layer",
        lambda: Function(
            lambda m, x: m.base(x) + m.up(m.down(x)),
            base=nn.Linear(8, 8, bias=False),
            down=nn.Linear(8, 2, bias=False),
            up=nn.Linear(2, 8, bias=False),
        ),
        (3, 8),
        macs=3 * (64 + 16 + 16),
        params=96,
    ),
    case(
        "parameters in a list and a dictionary",
        lambda: Function(
            lambda m, x: x @ m.items[0] @ m.named["last"],
            items=nn.ParameterList([weight(3, 4), weight(9, 9)]),  # the second is never used
            named=nn.ParameterDict({"last": weight(4, 2)}),
        ),
        (5, 3),
        macs=5 * 12 + 5 * 8,
        params=12 + 81 + 8,
    ),
    case(
        "half precision",
        lambda: nn.Linear(4, 6).half(),
        torch.zeros(2, 4, dtype=torch.float16),
        macs=48,
        params=30,
        weight_bytes=60,
    ),
    case(
        "layers of different dtypes",
        lambda: nn.Sequential(
            nn.Linear(4, 4, bias=False), Function(lambda m, x: x.double()), nn.Linear(4, 2).double()
        ),
        (3, 4),
        macs=3 * 16 + 3 * 8,
        params=16 + 10,
        weight_bytes=16 * 4 + 10 * 8,
    ),
    case(
        "autocast",
        lambda: Function(under_autocast, layer=nn.Linear(4, 6, bias=False)),
        (5, 4),
        macs=120,
        params=24,
    ),
    case(
        "complex layer",
        lambda: nn.Linear(3, 5, dtype=torch.complex64),
        torch.zeros(2, 3, dtype=torch.complex64),
        macs=4 * 2 * 15,
        params=20,
        weight_bytes=20 * 8,
    ),
    case(
        "eight-bit codes with a scale",
        lambda: Function(dequantized, codes=torch.zeros(6, 4, dtype=torch.int8), scale=weight(6, 1)),
        (2, 4),
        macs=48,
        params=6,  # codes are a buffer
    ),
    case(
        "network that writes a weight",
        lambda: Function(hypernetwork, writer=nn.Linear(5, 12)),
        (7, 4),
        (5,),
        macs=60 + 7 * 12,
        params=72,
    ),
    case(
        "rotary positions",
        lambda: Function(rotated, cos=torch.ones(6, 4), sin=torch.ones(6, 4)),
        (1, 2, 6, 4),
        macs=0,
    ),
    case(
        "feature-wise modulation",
        lambda: Function(
            lambda m, x, z: x * m.scale(z)[..., None] + m.shift(z)[..., None],
            scale=nn.Linear(3, 4),
            shift=nn.Linear(3, 4),
        ),
        (2, 4, 9),
        (2, 3),
        macs=2 * 2 * 12,
        params=2 * 16,
    ),
]
