"""Decoder layers of model types that mix attention with recurrences, or differ from layer to layer."""

from __future__ import annotations

from dataclasses import replace

from sizeup.serving.models.architecture import Attention, Experts, Layer, Weight
from sizeup.serving.models.attention import Heads, gated_delta_net, grouped, mamba2
from sizeup.serving.models.families import BuildLayer, heads_of, layer_of, norms, routed_experts, under
from sizeup.serving.models.modules import Modules, gated_mlp, plain_mlp
from sizeup.serving.models.settings import Settings

_STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def _state_dtype(settings: Settings, name: str) -> str:
    text = settings.text(name, "float32")
    if text not in _STATE_DTYPES:
        raise settings.unsupported(f"{name} {text!r} is unknown")
    return _STATE_DTYPES[text]


def qwen3_next(settings: Settings, *, fused: bool = True) -> BuildLayer:
    """Qwen3-Next: three gated delta nets per full attention, experts with a gated shared expert."""
    hidden, layers = settings.size("hidden_size"), settings.count("num_hidden_layers")
    heads = replace(heads_of(settings, norm="head"), gated=settings.flag("attn_output_gate", default=True))
    types = settings.per_layer("layer_types", layers)
    every = settings.size("full_attention_interval", default=4)
    if types is None:
        types = ["linear_attention" if (index + 1) % every else "full_attention" for index in range(layers)]
    for kind in types:
        if kind not in ("linear_attention", "full_attention"):
            raise settings.unsupported(f"layer_types has an unknown attention kind {kind!r}")
    sizes = (
        settings.size("linear_num_key_heads"),
        settings.size("linear_num_value_heads"),
        settings.size("linear_key_head_dim"),
        settings.size("linear_value_head_dim"),
        settings.size("linear_conv_kernel_dim"),
    )
    state_dtype = _state_dtype(settings, "mamba_ssm_dtype")
    count = settings.count("num_experts", default=0)
    width = settings.size("moe_intermediate_size") if count else settings.size("intermediate_size")
    settings.size("intermediate_size", default=1)  # unused by layers with experts
    per_token = settings.size("num_experts_per_tok") if count else 0
    shared = settings.size("shared_expert_intermediate_size") if count else 0
    if settings.items("mlp_only_layers") or settings.size("decoder_sparse_step", default=1) != 1:
        raise settings.unsupported("mlp_only_layers or decoder_sparse_step selects dense layers")
    settings.skip("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings")

    def feed_forward(modules: Modules) -> tuple[Experts | None, list[Weight]]:
        if not count:
            return None, gated_mlp(modules, hidden, width)
        experts, weights = routed_experts(modules, hidden, width, count, per_token)
        weights += under(
            "shared_expert", gated_mlp(modules.within("shared_expert"), hidden, shared, "shared_experts")
        )
        weights += modules.linear("shared_expert_gate", 1, hidden, "router", 1)
        return replace(experts, shared=1), weights

    def build(index: int, modules: Modules) -> Layer:
        mlp = feed_forward(modules.within("mlp"))
        # A layer after the last one is an MTP layer, with full attention.
        if index >= layers or types[index] == "full_attention":
            attention = grouped(modules.within("self_attn"), hidden, heads)
            return layer_of(modules, hidden, attention, mlp, width)
        delta_net = gated_delta_net(
            modules.within("linear_attn"), hidden, *sizes, fused=fused, state_dtype=state_dtype
        )
        return layer_of(modules, hidden, delta_net, mlp, width, attention_name="linear_attn")

    return build


def qwen3_5(settings: Settings) -> BuildLayer:
    """Qwen3.5: as Qwen3-Next, with separate input projections."""
    return qwen3_next(settings, fused=False)


_LETTERS = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}


def _pattern(settings: Settings) -> str:
    """One letter per layer, from either of the two settings that list them."""
    types = settings.items("layers_block_type")
    if types is None:
        pattern = settings.text("hybrid_override_pattern")
    elif all(isinstance(kind, str) and kind in _LETTERS for kind in types):
        pattern = "".join(_LETTERS[kind] for kind in types)
    else:
        raise settings.unsupported(f"layers_block_type has a value other than {', '.join(_LETTERS)}")
    layers = settings.count("num_hidden_layers", default=len(pattern))
    if len(pattern) != layers:
        raise settings.error(f"hybrid_override_pattern names {len(pattern):,} of {layers:,} layers")
    return pattern


def nemotron_h(settings: Settings) -> BuildLayer:
    """Nemotron-H and Nemotron 3: a layer is Mamba-2 (M), attention (*), experts (E) or an MLP (-)."""
    hidden, pattern = settings.size("hidden_size"), _pattern(settings)
    heads = heads_of(settings, head_size=settings.size("attention_head_dim", default=128))
    bias = settings.flag("mlp_bias")
    if settings.flag("use_bias"):
        raise settings.unsupported("use_bias is true")
    dense_width = settings.size("intermediate_size", default=1)
    mamba = (
        settings.size("mamba_num_heads"),
        settings.size("mamba_head_dim"),
        settings.size("n_groups"),
        settings.size("ssm_state_size"),
        settings.size("conv_kernel"),
    )
    state_dtype = _state_dtype(settings, "mamba_ssm_cache_dtype")
    conv_bias = settings.flag("use_conv_bias", default=True)
    projection_bias = settings.flag("mamba_proj_bias")
    width = count = per_token = shared = inner = 0
    if "E" in pattern:
        width, count = settings.size("moe_intermediate_size"), settings.size("n_routed_experts")
        per_token = settings.size("num_experts_per_tok")
        shared = settings.size("moe_shared_expert_intermediate_size", default=width)
        shared *= settings.count("n_shared_experts", default=1)
        inner = settings.size("moe_latent_size") if "moe_latent_size" in settings else 0
    settings.skip(
        "mtp_layers_block_type", "mtp_hybrid_override_pattern", "num_nextn_predict_layers", "sliding_window"
    )
    settings.skip("moe_intermediate_size", "n_routed_experts", "num_experts_per_tok", "n_shared_experts")
    settings.skip("moe_shared_expert_intermediate_size", "hybrid_override_pattern")

    def build(index: int, modules: Modules) -> Layer:
        mixer, kind = modules.within("mixer"), pattern[index]
        norm = norms(modules, hidden, "norm")
        if kind == "M":
            attention, weights = mamba2(
                mixer, hidden, *mamba, conv_bias=conv_bias, bias=projection_bias, state_dtype=state_dtype
            )
        elif kind == "*":
            attention, weights = grouped(mixer, hidden, heads)
        elif kind == "-":
            attention, weights = Attention("none"), plain_mlp(mixer, hidden, dense_width, bias=bias)
        elif kind == "E":
            attention = Attention("none")
            experts, weights = routed_experts(
                mixer,
                hidden,
                width,
                count,
                per_token,
                gated=False,
                shared=shared,
                correction=True,
                inner=inner,
            )
            if inner:
                weights += mixer.linear("fc1_latent_proj", inner, hidden, "shared_experts", 1)
                weights += mixer.linear("fc2_latent_proj", hidden, inner, "shared_experts", 1)
            return Layer(attention, (*norm, *under("mixer", weights)), experts, max(width, shared))
        else:
            raise settings.unsupported(f"hybrid_override_pattern has an unknown letter {kind!r}")
        return Layer(attention, (*norm, *under("mixer", weights)), None, dense_width if kind == "-" else 0)

    return build


def _block(settings: Settings, index: int, hidden: int, query: int) -> tuple[int, int]:
    """Query heads per key-value head, and width of the feed-forward network; 0 if the layer has none."""
    block = (settings.items("block_configs") or [])[index]
    if not isinstance(block, dict):
        raise settings.error(f"block_configs[{index}] is not an object")
    parts = Settings(block, settings.source, f"{settings.path}block_configs[{index}].")
    attention, mlp = parts.nested("attention"), parts.nested("ffn")
    if attention is None or mlp is None:
        raise parts.error("attention or ffn is missing")
    group = 0 if attention.flag("no_op") else attention.size("n_heads_in_group")
    attention.skip("n_heads_in_group")
    if group and query % group:
        raise attention.error(f"n_heads_in_group {group} does not divide {query} heads")
    width = 0 if mlp.flag("no_op") else _searched_width(mlp, hidden)
    mlp.skip("ffn_mult")
    for part in (attention, mlp, parts):
        part.refuse_unread()
    return group, width


def _searched_width(settings: Settings, hidden: int) -> int:
    """Two thirds of a multiple of the hidden size, as a gate adds a third matrix; rounded up to 256."""
    multiple = settings.content.get("ffn_mult")
    if isinstance(multiple, bool) or not isinstance(multiple, int | float) or not 0 < multiple < 64:
        raise settings.error("ffn_mult is not a number from 0 to 64")
    return -(-int(2 * multiple * hidden / 3) // 256) * 256


def nemotron_nas(settings: Settings) -> BuildLayer:
    """Llama Nemotron by architecture search: each layer has its own heads and width, or none."""
    hidden, layers = settings.size("hidden_size"), settings.count("num_hidden_layers")
    query = settings.size("num_attention_heads")
    blocks = settings.per_layer("block_configs", layers)
    if blocks is None:
        raise settings.error("block_configs is missing")
    bias = settings.flag("mlp_bias")
    heads = replace(heads_of(settings), output_bias=settings.flag("attention_bias"))
    options = [_block(settings, index, hidden, query) for index in range(layers)]

    def build(index: int, modules: Modules) -> Layer:
        group, width = options[index]
        weights: list[Weight] = []
        attention = Attention("none")
        if group:
            attention, own = grouped(modules.within("self_attn"), hidden, replace(heads, kv=query // group))
            weights += [*norms(modules, hidden, "input_layernorm"), *under("self_attn", own)]
        if width:
            weights += norms(modules, hidden, "post_attention_layernorm")
            weights += under("mlp", gated_mlp(modules.within("mlp"), hidden, width, bias=bias))
        return Layer(attention, tuple(weights), None, width)

    return build


def mimo_v2(settings: Settings) -> BuildLayer:
    """MiMo-V2-Flash: windows with their own heads and sinks, values narrower than keys."""
    hidden, dense_width = settings.size("hidden_size"), settings.size("intermediate_size")
    layers, full = settings.count("num_hidden_layers"), heads_of(settings)
    full = replace(full, value_size=settings.size("v_head_dim", default=full.size))
    local = Heads(
        settings.size("swa_num_attention_heads"),
        settings.size("swa_num_key_value_heads"),
        settings.size("swa_head_dim"),
        settings.size("swa_v_head_dim"),
        window=settings.tokens("sliding_window", "sliding_window_size", "attention_chunk_size"),
        sinks=settings.flag("add_swa_attention_sink_bias"),
    )
    full = replace(full, sinks=settings.flag("add_full_attention_sink_bias"))
    local_layers = settings.per_layer("hybrid_layer_pattern", layers)
    sparse = settings.per_layer("moe_layer_freq", layers)
    if local_layers is None or sparse is None:
        raise settings.error("hybrid_layer_pattern or moe_layer_freq is missing")
    width, count = settings.size("moe_intermediate_size"), settings.size("n_routed_experts")
    per_token = settings.size("num_experts_per_tok")
    if settings.count("n_shared_experts", default=0):
        raise settings.unsupported("n_shared_experts is not 0")

    def build(index: int, modules: Modules) -> Layer:
        attention = grouped(modules.within("self_attn"), hidden, local if local_layers[index] else full)
        inner = modules.within("mlp")
        if not sparse[index]:
            mlp = gated_mlp(inner, hidden, dense_width)
            return layer_of(modules, hidden, attention, (None, mlp), dense_width)
        experts = routed_experts(inner, hidden, width, count, per_token, correction=True)
        return layer_of(modules, hidden, attention, experts, width)

    return build
