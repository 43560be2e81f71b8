"""Bytes of the key-value cache and of states per sequence, and MACs of prefill and decode.

Numbers of tokens are integers or numpy arrays of them; results have the same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sizeup.errors import SizeupError
from sizeup.serving.models.architecture import Architecture, Attention, Layer, distinct
from sizeup.units import quoted

CACHE_BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "fp4": 4, "int4": 4}
"""Bits per element of the cache. Scales of quantized caches are per tensor or head, and not counted."""
_STATE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}

Tokens = TypeVar("Tokens", int, npt.NDArray[np.int64])


def cache_bits(dtype: str) -> int:
    """Bits per element of a cache of that dtype."""
    if dtype not in CACHE_BITS:
        raise SizeupError(f"cache precision {quoted(dtype)} is unknown; use one of {', '.join(CACHE_BITS)}")
    return CACHE_BITS[dtype]


@dataclass(frozen=True, slots=True)
class SequenceCost:
    """Bytes that one sequence needs on one GPU, as a function of its length.

    `full_bytes` per token without limit; `windows`: (tokens, bytes per token) of windows; `state_bytes` once.
    """

    full_bytes: int
    windows: tuple[tuple[int, int], ...]
    state_bytes: int

    def bytes_of(self, tokens: Tokens) -> Tokens:
        """Bytes of a sequence of that many tokens."""
        size = self.full_bytes * tokens + self.state_bytes
        for window, per_token in self.windows:
            # min(tokens, window), for an integer and an array alike
            size += per_token * (tokens - (tokens > window) * (tokens - window))
        return size


def token_bytes(attention: Attention, kv: str, group: int = 1) -> int:
    """Bytes per cached token of one layer on one GPU of a tensor-parallel group."""
    elements = -(-attention.cache_elements // min(group, attention.cache_ways))
    return -(-(elements + attention.index_elements) * cache_bits(kv) // 8)


def state_bytes(attention: Attention, dtype: str, group: int = 1) -> int:
    """Bytes of the state per sequence of one layer on one GPU; convolutions keep the dtype of the model."""
    state = attention.state_elements * _STATE_BYTES[attention.state_dtype]
    ways = min(group, attention.cache_ways)
    return -(-(state + attention.conv_elements * _STATE_BYTES[dtype]) // ways)


def sequence_cost(
    architecture: Architecture, kv: str, group: int = 1, layers: tuple[Layer, ...] | None = None
) -> SequenceCost:
    """What one sequence costs on one GPU of a tensor-parallel group; `layers`: those of a pipeline stage."""
    full = state = 0
    windows: dict[int, int] = {}
    for layer, count in distinct(architecture.layers if layers is None else layers):
        attention = layer.attention
        per_token = count * token_bytes(attention, kv, group)
        if attention.window:
            windows[attention.window] = windows.get(attention.window, 0) + per_token
        else:
            full += per_token
        state += count * state_bytes(attention, architecture.dtype, group)
    return SequenceCost(full, tuple(sorted(windows.items())), state)


def body_macs(architecture: Architecture) -> int:
    """MACs per token in the weights of all layers; of experts, those that a token is routed to."""
    return sum(layer.macs for layer in architecture.layers)


def head_macs(architecture: Architecture) -> int:
    """MACs of the output head, per token whose logits are needed."""
    return sum(weight.macs for weight in architecture.head)


def prefill_macs(architecture: Architecture, tokens: int) -> int:
    """MACs of a prompt: causal attention, and logits of the last position only."""
    macs = tokens * body_macs(architecture) + head_macs(architecture)
    for layer in architecture.layers:
        attention = layer.attention
        macs += attention.pair_macs * _pairs(tokens, attention.window or attention.index_topk)
        macs += attention.index_pair_macs * _pairs(tokens, 0) + attention.state_macs * tokens
    return macs


def decode_macs(architecture: Architecture, context: int) -> int:
    """MACs of one new token of a sequence with `context` cached tokens."""
    macs = body_macs(architecture) + head_macs(architecture)
    for layer in architecture.layers:
        attention = layer.attention
        limit = attention.window or attention.index_topk
        seen = min(context + 1, limit) if limit else context + 1
        macs += attention.pair_macs * seen + attention.index_pair_macs * (context + 1) + attention.state_macs
    return macs


def _pairs(tokens: int, limit: int) -> int:
    """Pairs of a query and an earlier or the same token, of which each query sees at most `limit`."""
    if not limit or tokens <= limit:
        return tokens * (tokens + 1) // 2
    return limit * (limit + 1) // 2 + (tokens - limit) * limit


def touched_experts(count: int, per_token: int, tokens: int) -> float:
    """Experts of a layer that a step of that many tokens reads, if routing is uniform: an upper bound."""
    return count * (1 - (1 - per_token / count) ** tokens)
