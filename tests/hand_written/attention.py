"""Attention: queries x keys x (head size + value size) per head, in full whatever a mask hides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from hand_written.case import Function, case, weight


def heads(x: Tensor, count: int) -> Any:
    """(batch, length, width) as (batch, heads, length, size)."""
    return x.reshape(*x.shape[:-1], count, -1).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """The reverse of `heads`."""
    return x.transpose(1, 2).flatten(-2)


def projected(m: Any, x: Tensor, **options: Any) -> Any:
    """Self attention of 2 heads between one projection to queries, keys and values and one back."""
    q, k, v = (heads(part, 2) for part in m.inner(x).chunk(3, -1))
    return m.outer(joined(functional.scaled_dot_product_attention(q, k, v, **options)))


def projections(width: int) -> dict[str, nn.Module]:
    return {"inner": nn.Linear(width, 3 * width, bias=False), "outer": nn.Linear(width, width, bias=False)}


def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()


def linear_attention(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    return (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(-2).unsqueeze(-1))


def in_windows(m: Any, x: Tensor) -> Any:
    """Attention within 4 windows of 4 tokens."""
    return projected(m, x.view(8, 4, 6))


def additive(m: Any, state: Tensor, memory: Tensor) -> Any:
    scores = m.score(torch.tanh(m.of_state(state)[:, None] + m.of_memory(memory)))
    return (scores.softmax(1) * memory).sum(1)


def retention(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (q @ k.transpose(-1, -2) * m.decay) @ v


def axial(m: Any, x: Tensor) -> Any:
    """Attention along rows, then along columns, of a (1, 3, 5, 4) grid."""
    rows = functional.scaled_dot_product_attention(x, x, x)
    columns = rows.transpose(1, 2)
    return functional.scaled_dot_product_attention(columns, columns, columns)


def computed_lengths(m: Any, q: Tensor, lengths: Tensor) -> Any:
    ends = functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    return varlen_attn(q, q, q, ends, ends, 7, 7)


CAUSAL_BLOCKS = create_block_mask(lambda b, h, q, k: q >= k, None, None, 300, 300, device="cpu")
WINDOW_BLOCKS = create_block_mask(
    lambda b, h, q, k: (q >= k) & (q - k < 64), None, None, 512, 512, device="cpu"
)
ENDS = torch.tensor([0, 3, 10, 14], dtype=torch.int32)
JAGGED = torch.nested.nested_tensor([torch.zeros(3, 8), torch.zeros(5, 8)], layout=torch.jagged)

CASES = [
    case(
        "module, self, with biases",
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        *[torch.zeros(1, 5, 8)] * 3,
        # Four projections of 5 tokens; 2 heads x 25 scores x (4 + 4).
        macs=5 * 8 * 24 + 5 * 8 * 8 + 2 * 25 * 8,
        params=24 * 8 + 24 + 8 * 8 + 8,
    ),
    case(
        "module, cross, other widths",
        lambda: nn.MultiheadAttention(8, 2, kdim=6, vdim=10, bias=False, batch_first=True),
        (1, 3, 8),
        (1, 7, 6),
        (1, 7, 10),
        macs=3 * 64 + 7 * 6 * 8 + 7 * 10 * 8 + 2 * 21 * 8 + 3 * 64,
        params=64 + 48 + 80 + 64,
    ),
    case(
        "causal",
        lambda: Function(lambda m, x: projected(m, x, is_causal=True), **projections(8)),
        (2, 6, 8),
        macs=2 * (6 * 8 * 24 + 2 * 36 * 8 + 6 * 64),  # the upper triangle is counted too
        params=8 * 32,
    ),
    case(
        "with an additive mask",
        lambda: Function(
            lambda m, x: projected(m, x, attn_mask=m.mask), mask=torch.zeros(6, 6), **projections(8)
        ),
        (1, 6, 8),
        macs=6 * 8 * 24 + 2 * 36 * 8 + 6 * 64,
        params=256,
    ),
    case(
        "sliding window by a mask",
        lambda: Function(
            lambda m, x: projected(m, x, attn_mask=m.mask),
            mask=torch.ones(9, 9, dtype=torch.bool).triu(-2).tril(2),
            **projections(4),
        ),
        (1, 9, 4),
        macs=9 * 4 * 12 + 2 * 81 * 4 + 9 * 16,
        params=4 * 16,
    ),
    case(
        "windows as batch rows",
        lambda: Function(in_windows, **projections(6)),
        (2, 16, 6),
        macs=8 * (4 * 6 * 18 + 2 * 16 * 6 + 4 * 36),
        params=6 * 24,
    ),
    case(
        "grouped queries",
        lambda: Function(
            lambda m, q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        ),
        (1, 8, 5, 4),
        (1, 2, 7, 4),
        (1, 2, 7, 4),
        macs=8 * 35 * (4 + 4),
    ),
    case(
        "one head of keys, by broadcasting",
        lambda: Function(lambda m, q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v),
        (2, 4, 5, 6),
        (2, 1, 7, 6),
        (2, 1, 7, 3),
        macs=2 * 4 * 35 * (6 + 3),
    ),
    case(
        "values of another size",
        lambda: Function(lambda m, q, k, v: functional.scaled_dot_product_attention(q, k, v)),
        (1, 2, 3, 8),
        (1, 2, 5, 8),
        (1, 2, 5, 2),
        macs=2 * 15 * (8 + 2),
    ),
    case(
        "one new token against a cache",
        lambda: Function(
            lambda m, q, k, cache: functional.scaled_dot_product_attention(
                q, torch.cat([cache, k], 2), torch.cat([cache, k], 2)
            )
        ),
        (1, 4, 1, 8),
        (1, 4, 1, 8),
        (1, 4, 31, 8),
        macs=4 * 32 * 16,
    ),
    case(
        "linear attention",
        lambda: Function(linear_attention),
        *[(2, 9, 4)] * 3,
        # k^T v: 4x9x4; q times it: 9x4x4; q times the summed keys: 9x4.
        macs=2 * (4 * 9 * 4 + 9 * 4 * 4 + 9 * 4),
    ),
    case(
        "additive scores",
        lambda: Function(
            additive,
            of_state=nn.Linear(5, 6, bias=False),
            of_memory=nn.Linear(4, 6, bias=False),
            score=nn.Linear(6, 1, bias=False),
        ),
        (2, 5),
        (2, 7, 4),
        macs=2 * (5 * 6 + 7 * 4 * 6 + 7 * 6),  # the weighted sum is elementwise
        params=30 + 24 + 6,
    ),
    case(
        "relative positions by einsum",
        lambda: Function(
            lambda m, q, k: torch.einsum("bhqd,bhkd->bhqk", q, k) + torch.einsum("bhqd,rd->bhqr", q, m.table),
            table=weight(7, 4),
        ),
        (1, 2, 5, 4),
        (1, 2, 7, 4),
        macs=2 * 5 * 7 * 4 + 2 * 5 * 7 * 4,
        params=28,
    ),
    case(
        "retention",
        lambda: Function(retention, decay=torch.ones(6, 6).tril()),
        *[(1, 2, 6, 4)] * 3,
        macs=2 * 36 * (4 + 4),
    ),
    case("rows, then columns", lambda: Function(axial), (1, 3, 5, 4), macs=3 * 25 * 8 + 5 * 9 * 8),
    case(
        "encoder layer",
        encoder_layer,
        (2, 5, 8),
        macs=2 * 5 * (8 * 24 + 64 + 8 * 16 + 16 * 8) + 2 * 2 * 25 * 8,
        params=(24 * 8 + 24) + (64 + 8) + (8 * 16 + 16) + (16 * 8 + 8) + 4 * 8,
    ),
    case(
        "decoder layer",
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).eval(),
        (1, 3, 8),
        (1, 5, 8),
        # Self attention of 3 tokens; cross attention of 3 queries with 5 keys; the hidden layer.
        macs=(3 * 8 * 24 + 2 * 9 * 8 + 3 * 64) + (3 * 64 + 5 * 8 * 16 + 2 * 15 * 8 + 3 * 64) + 3 * 2 * 8 * 16,
        params=2 * (24 * 8 + 24 + 64 + 8) + (8 * 16 + 16) + (16 * 8 + 8) + 6 * 8,
    ),
    case(
        "flex, no mask",
        lambda: Function(lambda m, q: flex_attention(q, q, q)),
        (1, 2, 256, 16),
        macs=2 * 256 * 256 * 32,
    ),
    case(
        "flex, causal blocks of 128, length 300",
        lambda: Function(lambda m, q: flex_attention(q, q, q, block_mask=CAUSAL_BLOCKS)),
        (1, 2, 300, 16),
        # Rows 0-127 meet 128 keys, rows 128-255 256, the last 44 rows all 300.
        macs=2 * (128 * 128 + 128 * 256 + 44 * 300) * 32,
    ),
    case(
        "flex, window of 64",
        lambda: Function(lambda m, q: flex_attention(q, q, q, block_mask=WINDOW_BLOCKS)),
        (3, 1, 512, 8),
        macs=3 * (1 + 2 + 2 + 2) * 128 * 128 * 16,  # the diagonal block and the one before it
    ),
    case(
        "sequences of 3, 7 and 4 tokens",
        lambda: Function(lambda m, q, k, ends: varlen_attn(q, k, k, ends, ends, 7, 7)),
        torch.zeros(14, 2, 8),
        torch.zeros(14, 2, 8),
        ENDS,
        macs=2 * (9 + 49 + 16) * 16,
    ),
    case(
        "sequences whose lengths are computed",
        lambda: Function(computed_lengths),
        torch.zeros(14, 2, 8),
        torch.tensor([3, 7, 4]),
        macs=2 * (9 + 49 + 16) * 16,  # a real run has the lengths
    ),
    case(
        "sequences of unknown lengths",
        lambda: Function(lambda m, q, ends: varlen_attn(q, q, q, ends, ends, 7, 7)),
        (14, 2, 8),
        ((4,), "int32"),
        macs=2 * 14 * 7 * 16,  # the bound: 14 queries with 7 keys
    ),
    case(
        "nested input",
        lambda: Function(projected, **projections(8)),
        JAGGED,
        macs=8 * 8 * 24 + 2 * (9 + 25) * 8 + 8 * 64,
        params=256,
    ),
]
