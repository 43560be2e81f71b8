"""Attention modules and the recurrences in their place: weights, cache, state and MACs."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.serving.models.architecture import Attention, Weight
from sizeup.serving.models.modules import Modules


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of grouped-query attention."""

    query: int
    kv: int
    size: int
    value_size: int = 0  # 0: as `size`
    window: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    norm: str = ""  # of queries and keys: "head", "all" (over all heads), or none
    gated: bool = False  # the query projection also yields a gate of the output
    keys_are_values: bool = False
    sinks: bool = False


def grouped(modules: Modules, hidden: int, heads: Heads) -> tuple[Attention, list[Weight]]:
    """Multi-head, grouped-query or multi-query attention."""
    value_size = heads.value_size or heads.size
    queries = heads.query * heads.size
    keys, values = heads.kv * heads.size, heads.kv * value_size
    bias = heads.qkv_bias
    weights = [
        *modules.linear("q_proj", queries * (2 if heads.gated else 1), hidden, "attention", bias=bias),
        *modules.linear("k_proj", keys, hidden, "attention", heads.kv, bias=bias),
    ]
    if not heads.keys_are_values:
        weights += modules.linear("v_proj", values, hidden, "attention", heads.kv, bias=bias)
    weights += modules.linear(
        "o_proj", hidden, heads.query * value_size, "attention", bias=heads.output_bias, split_inputs=True
    )
    if heads.norm == "head":
        weights += [*modules.vector("q_norm", heads.size), *modules.vector("k_norm", heads.size)]
    elif heads.norm == "all":
        weights += [
            *modules.vector("q_norm", queries, "norm", 0),
            *modules.vector("k_norm", keys, "norm", heads.kv),
        ]
    if heads.sinks:
        weights += modules.vector("sinks", heads.query, "attention", 0)
    attention = Attention(
        "window" if heads.window else "full",
        heads.query,
        heads.kv,
        cache_elements=keys + values,
        window=heads.window,
        pair_macs=heads.query * (heads.size + value_size),
    )
    return attention, weights


@dataclass(frozen=True, slots=True)
class LatentHeads:
    """Sizes of multi-head latent attention, and of the sparse indexer in front of it."""

    query: int
    nope: int
    rope: int
    value: int
    kv_rank: int
    query_rank: int = 0  # 0: queries are projected directly
    index_heads: int = 0
    index_size: int = 0
    index_topk: int = 0
    indexer: bool = False  # this layer computes the indices; others read those of a layer before
    bias: bool = False


def latent(modules: Modules, hidden: int, heads: LatentHeads) -> tuple[Attention, list[Weight]]:
    """Multi-head latent attention (MLA): one compressed vector per token, the same on every GPU."""
    key_size = heads.nope + heads.rope
    queries = heads.query * key_size
    weights = []
    if heads.query_rank:
        weights += modules.linear("q_a_proj", heads.query_rank, hidden, "attention", 1, bias=heads.bias)
        weights += modules.vector("q_a_layernorm", heads.query_rank)
        weights += modules.linear("q_b_proj", queries, heads.query_rank, "attention")
    else:
        weights += modules.linear("q_proj", queries, hidden, "attention")
    weights += modules.linear(
        "kv_a_proj_with_mqa", heads.kv_rank + heads.rope, hidden, "attention", 1, bias=heads.bias
    )
    weights += modules.vector("kv_a_layernorm", heads.kv_rank)
    weights += modules.linear(
        "kv_b_proj", heads.query * (heads.nope + heads.value), heads.kv_rank, "attention"
    )
    weights += modules.linear(
        "o_proj", hidden, heads.query * heads.value, "attention", bias=heads.bias, split_inputs=True
    )
    if heads.indexer:
        weights += _indexer(modules.within("indexer"), hidden, heads)
    attention = Attention(
        "latent",
        heads.query,
        1,
        cache_elements=heads.kv_rank + heads.rope,
        index_elements=heads.index_size if heads.indexer else 0,
        index_topk=heads.index_topk,
        pair_macs=heads.query * (key_size + heads.value),
        index_pair_macs=heads.index_heads * heads.index_size if heads.indexer else 0,
    )
    return attention, weights


def _indexer(modules: Modules, hidden: int, heads: LatentHeads) -> list[Weight]:
    """The lightning indexer of DeepSeek sparse attention, which every GPU holds in full."""
    size = heads.index_size
    return [
        *modules.linear("wq_b", heads.index_heads * size, heads.query_rank or hidden, "attention", 1),
        *modules.linear("wk", size, hidden, "attention", 1),
        *modules.vector("k_norm", 2 * size),
        *modules.linear("weights_proj", heads.index_heads, hidden, "attention", 1),
    ]


def gated_delta_net(
    modules: Modules, hidden: int, key_heads: int, value_heads: int, key_size: int, value_size: int,
    kernel: int, *, fused: bool, state_dtype: str,
) -> tuple[Attention, list[Weight]]:  # fmt: skip
    """The gated delta rule of Qwen3-Next and Qwen3.5; `fused`: two input matrices instead of four."""
    keys, values = key_heads * key_size, value_heads * value_size
    channels = 2 * keys + values
    if fused:
        weights = [
            *modules.linear("in_proj_qkvz", channels + values, hidden, "attention"),
            *modules.linear("in_proj_ba", 2 * value_heads, hidden, "attention"),
        ]
    else:
        weights = [
            *modules.linear("in_proj_qkv", channels, hidden, "attention"),
            *modules.linear("in_proj_z", values, hidden, "attention"),
            *modules.linear("in_proj_b", value_heads, hidden, "attention"),
            *modules.linear("in_proj_a", value_heads, hidden, "attention"),
        ]
    weights += [
        *modules.vector("conv1d", channels * kernel, "attention", 0, macs=channels * kernel),
        *modules.vector("dt_bias", value_heads, "attention", 0),
        *modules.vector("A_log", value_heads, "attention", 0),
        *modules.vector("norm", value_size),
        *modules.linear("out_proj", hidden, values, "attention"),
    ]
    attention = Attention(
        "linear",
        kv_heads=key_heads,
        state_elements=value_heads * key_size * value_size,
        conv_elements=channels * (kernel - 1),
        state_dtype=state_dtype,
        # Read the state by the key, add the correction, read it by the query.
        state_macs=3 * value_heads * key_size * value_size,
    )
    return attention, weights


def mamba2(
    modules: Modules, hidden: int, heads: int, head_size: int, groups: int, state: int, kernel: int,
    *, conv_bias: bool, bias: bool, state_dtype: str,
) -> tuple[Attention, list[Weight]]:  # fmt: skip
    """A Mamba-2 mixer."""
    inner = heads * head_size
    channels = inner + 2 * groups * state
    weights = [
        *modules.linear("in_proj", inner + channels + heads, hidden, "attention", bias=bias),
        *modules.vector("conv1d", channels * kernel, "attention", 0, macs=channels * kernel),
        *(modules.vector("conv1d.bias", channels, "attention", 0) if conv_bias else []),
        *modules.vector("dt_bias", heads, "attention", 0),
        *modules.vector("A_log", heads, "attention", 0),
        *modules.vector("D", heads, "attention", 0),
        *modules.vector("norm", inner, "norm", 0),
        *modules.linear("out_proj", hidden, inner, "attention", bias=bias, split_inputs=True),
    ]
    attention = Attention(
        "state_space",
        kv_heads=groups,
        state_elements=inner * state,
        conv_elements=channels * (kernel - 1),
        state_dtype=state_dtype,
        state_macs=2 * inner * state,  # update, and product with C
    )
    return attention, weights
