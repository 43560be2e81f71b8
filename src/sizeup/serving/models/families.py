"""Decoder layers of each supported model type, built from its settings.

A family is a function of the settings of the decoder; it returns the function that builds a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sizeup.serving.models.architecture import Attention, Experts, Layer, Weight
from sizeup.serving.models.attention import Heads, LatentHeads, grouped, latent
from sizeup.serving.models.modules import Modules, gated_mlp, plain_mlp
from sizeup.serving.models.settings import Settings

BuildLayer: TypeAlias = Callable[[int, Modules], Layer]
Family: TypeAlias = Callable[[Settings], BuildLayer]
_WINDOW_TYPES = ("sliding_attention", "chunked_attention")


def heads_of(settings: Settings, *, norm: str = "", head_size: int = 0) -> Heads:
    """Heads of grouped-query attention; without `head_dim`, the hidden size is divided among them."""
    hidden, query = settings.size("hidden_size"), settings.size("num_attention_heads")
    size = settings.size("head_dim", default=head_size or max(hidden // query, 1))
    bias = settings.flag("attention_bias")
    kv = settings.size("num_key_value_heads", default=query)
    if query % kv:
        raise settings.error(f"num_attention_heads {query:,} is not a multiple of {kv:,} key-value heads")
    return Heads(query, kv, size, qkv_bias=bias, output_bias=bias, norm=norm)


def _windows(settings: Settings) -> list[int]:
    """The window of each layer; 0 without one."""
    layers = settings.count("num_hidden_layers")
    types = settings.per_layer("layer_types", layers)
    window = settings.tokens("sliding_window", "attention_chunk_size", default=0)
    # Qwen: layers before this one have no window, and none has one unless that is stated.
    first = settings.count("max_window_layers", default=0)
    if types is None:
        used = settings.flag("use_sliding_window", default="max_window_layers" not in settings)
        return [window if used and layer >= first else 0 for layer in range(layers)]
    settings.skip("use_sliding_window", "sliding_window_pattern")
    known = (*_WINDOW_TYPES, "full_attention")
    for name in types:
        if name not in known:
            raise settings.unsupported(f"layer_types has an unknown attention kind {name!r}")
    if not window and any(name in _WINDOW_TYPES for name in types):
        raise settings.error("sliding_window is missing")
    return [window if name in _WINDOW_TYPES else 0 for name in types]


def norms(modules: Modules, hidden: int, *names: str) -> list[Weight]:
    """Norms of the hidden size; without names, the two of most decoders."""
    names = names or ("input_layernorm", "post_attention_layernorm")
    return [weight for name in names for weight in modules.vector(name, hidden)]


def under(prefix: str, weights: list[Weight]) -> list[Weight]:
    """The same weights, named as parts of a module."""
    return [replace(weight, name=f"{prefix}.{weight.name}") for weight in weights]


def routed_experts(
    modules: Modules, hidden: int, width: int, count: int, per_token: int, *, shared: int = 0,
    gate: str = "gate", gated: bool = True, bias: bool = False, router_bias: bool = False,
    correction: bool = False, inner: int = 0,
) -> tuple[Experts, list[Weight]]:  # fmt: skip
    """Router, routed experts and shared experts of width `shared`; `inner`: the width that experts see."""
    experts = modules.within("experts")
    inner = inner or hidden
    up = 2 * width if gated else width
    name = "gate_up_proj" if gated else "up_proj"
    weights = modules.linear(gate, count, hidden, "router", 1, bias=router_bias)
    if correction:
        weights += modules.buffer(f"{gate}.e_score_correction_bias", count)
    weights += under("experts", experts.experts(name, count, per_token, up, inner, bias=bias))
    weights += under("experts", experts.experts("down_proj", count, per_token, inner, width, bias=bias))
    if shared:
        mlp = gated_mlp if gated else plain_mlp
        weights += under(
            "shared_experts", mlp(modules.within("shared_experts"), hidden, shared, "shared_experts")
        )
    return Experts(count, per_token, 1 if shared else 0), weights


def layer_of(
    modules: Modules,
    hidden: int,
    attention: tuple[Attention, list[Weight]],
    mlp: tuple[Experts | None, list[Weight]],
    width: int,
    attention_name: str = "self_attn",
    mlp_name: str = "mlp",
    norm_names: tuple[str, ...] = (),
) -> Layer:
    """A layer of norms, attention and a feed-forward network whose widest activation has `width` elements."""
    weights = [
        *norms(modules, hidden, *norm_names),
        *under(attention_name, attention[1]),
        *under(mlp_name, mlp[1]),
    ]
    return Layer(attention[0], tuple(weights), mlp[0], width)


def dense(settings: Settings, norm: str = "") -> BuildLayer:
    """Llama, Mistral, Qwen2, Qwen3: grouped-query attention and a gated feed-forward network."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    windows, heads = _windows(settings), heads_of(settings, norm=norm)
    bias = settings.flag("mlp_bias")

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(modules.within("self_attn"), hidden, replace(heads, window=windows[index]))
        mlp = gated_mlp(modules.within("mlp"), hidden, width, bias=bias)
        return layer_of(modules, hidden, attention, (None, mlp), width)

    return build


def qwen2(settings: Settings) -> BuildLayer:
    """Qwen2 and MiMo: biases of queries, keys and values, none of the output."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    settings.skip("attention_bias")
    windows, heads = _windows(settings), replace(heads_of(settings), qkv_bias=True, output_bias=False)

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(
            modules.within("self_attn"), hidden, replace(heads, window=windows[min(index, len(windows) - 1)])
        )
        return layer_of(
            modules, hidden, attention, (None, gated_mlp(modules.within("mlp"), hidden, width)), width
        )

    return build


def qwen3(settings: Settings) -> BuildLayer:
    """Qwen3: as Llama, with norms of queries and keys per head."""
    return dense(settings, norm="head")


def gemma3(settings: Settings) -> BuildLayer:
    """Gemma 3: windows in most layers, four norms."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    layers = settings.count("num_hidden_layers")
    heads = heads_of(settings, norm="head", head_size=256)
    window, pattern = settings.tokens("sliding_window"), settings.count("sliding_window_pattern", default=6)
    windows = (
        _windows(settings)
        if "layer_types" in settings
        else [0 if pattern and (index + 1) % pattern == 0 else window for index in range(layers)]
    )

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(modules.within("self_attn"), hidden, replace(heads, window=windows[index]))
        mlp = gated_mlp(modules.within("mlp"), hidden, width)
        return layer_of(modules, hidden, attention, (None, mlp), width, norm_names=_FOUR_NORMS)

    return build


_FOUR_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def gemma4(settings: Settings) -> BuildLayer:
    """Gemma 4: layers without a window have other heads; experts next to a dense network."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    windows, local = _windows(settings), heads_of(settings, norm="head")
    full = replace(
        local,
        kv=settings.size("num_global_key_value_heads", default=local.kv),
        size=settings.size("global_head_dim", default=local.size),
        keys_are_values=settings.flag("attention_k_eq_v"),
    )
    settings.skip("vocab_size_per_layer_input")
    for name in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        if settings.count(name, default=0):
            raise settings.unsupported(f"{name} is not 0")
    has_experts = settings.flag("enable_moe_block")
    count = settings.count("num_experts", default=0) if has_experts else 0
    per_token = settings.count("top_k_experts", default=0) if has_experts else 0
    expert_width = settings.size("moe_intermediate_size", "expert_intermediate_size") if has_experts else 0

    def build(index: int, modules: Modules) -> Layer:
        heads = replace(local, window=windows[index]) if windows[index] else full
        attention = grouped(modules.within("self_attn"), hidden, heads)
        mlp = gated_mlp(modules.within("mlp"), hidden, width)
        layer = layer_of(modules, hidden, attention, (None, mlp), width, norm_names=_FOUR_NORMS)
        scalar = modules.buffer("layer_scalar", 1)
        if not has_experts:
            return replace(layer, weights=(*layer.weights, *scalar))
        router = modules.within("router")
        experts = modules.within("experts")
        weights = [
            *under("router", router.vector("scale", hidden, "router")),
            *under("router", router.vector("per_expert_scale", count, "router")),
            *under("router", router.linear("proj", count, hidden, "router", 1)),
            *under("experts", experts.experts("gate_up_proj", count, per_token, 2 * expert_width, hidden)),
            *under("experts", experts.experts("down_proj", count, per_token, hidden, expert_width)),
            *norms(modules, hidden, "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"),
            *norms(modules, hidden, "pre_feedforward_layernorm_2"),
        ]
        return replace(layer, weights=(*layer.weights, *weights, *scalar), experts=Experts(count, per_token))

    return build


def mixtral(settings: Settings) -> BuildLayer:
    """Mixtral: every layer has experts."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    windows, heads = _windows(settings), heads_of(settings)
    count, per_token = settings.size("num_local_experts"), settings.size("num_experts_per_tok")

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(modules.within("self_attn"), hidden, replace(heads, window=windows[index]))
        mlp = routed_experts(modules.within("mlp"), hidden, width, count, per_token)
        return layer_of(modules, hidden, attention, mlp, width)

    return build


def qwen3_moe(settings: Settings) -> BuildLayer:
    """Qwen3 with experts; `mlp_only_layers` and `decoder_sparse_step` name dense layers."""
    hidden, dense_width = settings.size("hidden_size"), settings.size("intermediate_size", default=1)
    width = settings.size("moe_intermediate_size")
    windows, heads = _windows(settings), heads_of(settings, norm="head")
    count, per_token = settings.size("num_experts"), settings.size("num_experts_per_tok")
    if settings.count("shared_expert_intermediate_size", default=0):
        raise settings.unsupported("shared_expert_intermediate_size is not 0")
    settings.skip("use_qk_norm")  # always
    only = settings.layers("mlp_only_layers", len(windows)) or set()
    step = settings.size("decoder_sparse_step", default=1)
    is_sparse = [index not in only and (index + 1) % step == 0 for index in range(len(windows))]
    if not all(is_sparse):
        settings.size("intermediate_size")

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(modules.within("self_attn"), hidden, replace(heads, window=windows[index]))
        inner = modules.within("mlp")
        if not is_sparse[index]:
            mlp = gated_mlp(inner, hidden, dense_width)
            return layer_of(modules, hidden, attention, (None, mlp), dense_width)
        return layer_of(
            modules, hidden, attention, routed_experts(inner, hidden, width, count, per_token), width
        )

    return build


def minimax_m2(settings: Settings) -> BuildLayer:
    """MiniMax-M2: experts in every layer, norms over all heads."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    norm = settings.text("qk_norm_type", "per_layer")
    if norm != "per_layer":
        raise settings.unsupported(f"qk_norm_type {norm!r} is unknown")
    heads = heads_of(settings, norm="all" if settings.flag("use_qk_norm", default=True) else "")
    count, per_token = settings.size("num_local_experts"), settings.size("num_experts_per_tok")
    correction = settings.flag("use_routing_bias", default=True)
    if settings.count("shared_intermediate_size", default=0):
        raise settings.unsupported("shared_intermediate_size is not 0")
    attn_types = settings.items("attn_type_list")
    if attn_types is not None and any(kind != 1 for kind in attn_types):
        raise settings.unsupported("attn_type_list has an attention kind other than 1")
    settings.skip("use_mtp", "num_mtp_modules", "mtp_transformer_layers")

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(modules.within("self_attn"), hidden, heads)
        mlp = routed_experts(modules.within("mlp"), hidden, width, count, per_token, correction=correction)
        return layer_of(modules, hidden, attention, mlp, width)

    return build


def gpt_oss(settings: Settings) -> BuildLayer:
    """gpt-oss: alternating windows, attention sinks, experts with biases."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    windows, heads = _windows(settings), replace(heads_of(settings), sinks=True)
    count = settings.size("num_local_experts")
    per_token = settings.size("num_experts_per_tok", "experts_per_token")

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(modules.within("self_attn"), hidden, replace(heads, window=windows[index]))
        inner = modules.within("mlp")
        mlp = routed_experts(
            inner, hidden, width, count, per_token, gate="router", bias=True, router_bias=True
        )
        return layer_of(modules, hidden, attention, mlp, width)

    return build


def llama4(settings: Settings) -> BuildLayer:
    """Llama 4: experts in every n-th layer, chunked attention in layers with positions."""
    hidden, width = settings.size("hidden_size"), settings.size("intermediate_size")
    dense_width = settings.size("intermediate_size_mlp")
    layers, heads = settings.count("num_hidden_layers"), heads_of(settings)
    settings.skip("use_qk_norm")  # without parameters
    chunk = settings.tokens("attention_chunk_size", default=0)
    count, per_token = settings.size("num_local_experts"), settings.size("num_experts_per_tok")
    step = settings.size("interleave_moe_layer_step", default=1)
    listed = settings.layers("moe_layers", layers)
    sparse = set(range(step - 1, layers, step)) if listed is None else listed
    rope = settings.per_layer("no_rope_layers", layers) or [
        int((index + 1) % 4 != 0) for index in range(layers)
    ]  # transformers' default: every fourth layer has no positions and attends to all tokens

    def build(index: int, modules: Modules) -> Layer:
        window = chunk if rope[index] else 0
        attention = grouped(modules.within("self_attn"), hidden, replace(heads, window=window))
        inner = modules.within("feed_forward")
        if index not in sparse:
            mlp = gated_mlp(inner, hidden, dense_width)
            return layer_of(modules, hidden, attention, (None, mlp), dense_width, mlp_name="feed_forward")
        experts = routed_experts(inner, hidden, width, count, per_token, gate="router", shared=width)
        return layer_of(modules, hidden, attention, experts, width, mlp_name="feed_forward")

    return build


def deepseek(settings: Settings) -> BuildLayer:
    """DeepSeek-V3, V3.2, Kimi-K2 and GLM-5: latent attention, with a sparse indexer in V3.2 and GLM-5."""
    hidden, dense_width = settings.size("hidden_size"), settings.size("intermediate_size")
    layers = settings.count("num_hidden_layers")
    if settings.flag("attention_bias"):
        raise settings.unsupported("attention_bias is true")
    settings.skip(
        "num_key_value_heads", "head_dim", "qk_head_dim", "index_topk_freq", "index_skip_topk_offset"
    )
    settings.skip("index_share_for_mtp_iteration", "index_topk_pattern", "num_experts")
    for kind in settings.per_layer("layer_types", layers) or []:
        if kind not in ("full_attention", "deepseek_sparse_attention"):
            raise settings.unsupported(f"layer_types has an unknown attention kind {kind!r}")
    rank = settings.content.get("q_lora_rank")
    heads = LatentHeads(
        settings.size("num_attention_heads"),
        settings.size("qk_nope_head_dim"),
        settings.size("qk_rope_head_dim"),
        settings.size("v_head_dim"),
        settings.size("kv_lora_rank"),
        settings.size("q_lora_rank", default=1) if rank is not None else 0,
        settings.count("index_n_heads", default=0),
        settings.count("index_head_dim", default=0),
        settings.tokens("index_topk", default=0),
    )
    indexers = settings.per_layer("indexer_types", layers) or ["full"] * layers
    if any(kind not in ("full", "shared") for kind in indexers):
        raise settings.unsupported("indexer_types has a value other than full and shared")
    width, count = settings.size("moe_intermediate_size"), settings.size("n_routed_experts")
    per_token, shared = settings.size("num_experts_per_tok"), settings.count("n_shared_experts", default=0)
    first, step = (
        settings.count("first_k_dense_replace", default=0),
        settings.size("moe_layer_freq", default=1),
    )
    is_sparse = [index >= first and index % step == 0 for index in range(layers)]
    types = settings.per_layer("mlp_layer_types", layers)
    if types is not None:
        if any(kind not in ("dense", "sparse") for kind in types):
            raise settings.unsupported("mlp_layer_types has a value other than dense and sparse")
        is_sparse = [kind == "sparse" for kind in types]
    correction = settings.text("topk_method", "noaux_tc") == "noaux_tc"

    def build(index: int, modules: Modules) -> Layer:
        # A layer after the last one is an MTP layer: sparse, with its own indexer.
        kind = indexers[index] if index < layers else "full"
        own = replace(heads, indexer=bool(heads.index_heads) and kind == "full")
        attention = latent(modules.within("self_attn"), hidden, own)
        inner = modules.within("mlp")
        if index < layers and not is_sparse[index]:
            mlp = gated_mlp(inner, hidden, dense_width)
            return layer_of(modules, hidden, attention, (None, mlp), dense_width)
        experts = routed_experts(
            inner, hidden, width, count, per_token, shared=shared * width, correction=correction
        )
        return layer_of(modules, hidden, attention, experts, width)

    return build
