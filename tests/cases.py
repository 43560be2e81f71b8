"""Ten small networks whose MACs and parameters are worked out by hand, for every door onto the same rules.

L = 128 tokens, D = 256 features, 4 heads, no biases, batch 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

L, D, HEADS = 128, 256, 4


class Convolutions(nn.Module):
    """An ordinary, a depthwise and a pointwise convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False)
        self.pointwise = nn.Conv2d(32, 64, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.pointwise(self.depthwise(self.stem(x)))
        return result


class FunctionalConvolutions(Convolutions):
    """The same numbers without a call of a module."""

    def forward(self, x: Tensor) -> Tensor:
        x = functional.conv2d(x, self.stem.weight, stride=2, padding=1)
        x = functional.conv2d(x, self.depthwise.weight, padding=1, groups=32)
        return functional.conv2d(x, self.pointwise.weight)


class SelfAttention(nn.Module):
    """torch's own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(D, HEADS, bias=False, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return result


class FusedAttention(nn.Module):
    """Projections around scaled_dot_product_attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.out = nn.Linear(D, D, bias=False)

    def heads(self, x: Tensor) -> list[Tensor]:
        return [part.view(1, L, HEADS, D // HEADS).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.heads(x)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(1, L, D))
        return result


class WrittenOutAttention(FusedAttention):
    """The same with two products and a softmax."""

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.heads(x)
        scores = (query @ key.transpose(-2, -1)) / (D // HEADS) ** 0.5
        mixed = scores.softmax(-1) @ value
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(1, L, D))
        return result


class Lstm(nn.Module):
    """100 steps of 64 features into 64."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.lstm(x)[0]
        return result


class Einsum(nn.Module):
    """A product that has no module."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(D, D))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bld,de->ble", x, self.weight)


@torch.library.custom_op("sizeup_tests::product", mutates_args=())
def product(x: Tensor, weight: Tensor) -> Tensor:
    """An operator of which no tool can know the cost."""
    return x @ weight


@product.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[-1]))


class CustomOperator(Einsum):
    """The same product behind an operator of the user's own."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = product(x, self.weight)
        return result


class TiedEmbedding(nn.Module):
    """An embedding whose table is the output layer's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, D)
        self.out = nn.Linear(D, 1000, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.out(self.embedding(tokens))
        return result


@dataclass(frozen=True)
class Case:
    """A network, what it is run on, and the hand-worked answer."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    macs: int
    params: int


def _sequence() -> tuple[Tensor, ...]:
    return (torch.zeros(1, L, D),)


def _image() -> tuple[Tensor, ...]:
    return (torch.zeros(1, 3, 64, 64),)


# 32 x 32 outputs of: 32 filters of 27 taps, 32 of 9, 64 of 32.
CONV_MACS = 32 * 32 * (32 * 27 + 32 * 9 + 64 * 32)
CONV_PARAMS = 32 * 27 + 32 * 9 + 64 * 32
# Four D x D projections of every token, and two L x L x D products.
ATTENTION_MACS = 4 * L * D * D + 2 * L * L * D

CASES = (
    Case("conv", Convolutions, _image, CONV_MACS, CONV_PARAMS),
    Case("conv_functional", FunctionalConvolutions, _image, CONV_MACS, CONV_PARAMS),
    Case("linear_3d", lambda: nn.Linear(D, D, bias=False), _sequence, L * D * D, D * D),
    Case("mha_module", SelfAttention, _sequence, ATTENTION_MACS, 4 * D * D),
    Case("attn_sdpa", FusedAttention, _sequence, ATTENTION_MACS, 4 * D * D),
    Case("attn_matmul", WrittenOutAttention, _sequence, ATTENTION_MACS, 4 * D * D),
    Case("lstm_100", Lstm, lambda: (torch.zeros(100, 1, 64),), 100 * 8 * 64 * 64, 8 * 64 * 64),
    Case("einsum", Einsum, _sequence, L * D * D, D * D),
    Case("custom_op", CustomOperator, _sequence, L * D * D, D * D),
    Case(
        "tied_embed", TiedEmbedding, lambda: (torch.zeros(1, L, dtype=torch.int64),), L * D * 1000, 1000 * D
    ),
)
BY_NAME = {case.name: case for case in CASES}
WITHOUT_CUSTOM = tuple(case for case in CASES if case.name != "custom_op")
