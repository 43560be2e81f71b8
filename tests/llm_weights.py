"""Weight bytes of language models by hand: matrices from the numbers of a config.json, bytes per scheme.

Written from the model cards and the tensors of public checkpoints; it shares no code with sizeup. Names are
those of checkpoints, where every expert is a module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

Settings = Mapping[str, Any]
UNQUANTIZED = 2  # bytes per element: bf16


class Checkpoint:
    """The matrices of linear layers by name, and the elements of everything else."""

    def __init__(self) -> None:
        self.linear: list[tuple[str, int, int, int]] = []  # name, outputs, inputs, how many such
        self.rest = 0

    def add(self, name: str, outputs: int, inputs: int, copies: int = 1, *, bias: bool = False) -> None:
        """Add linear layers of one shape."""
        self.linear.append((name, outputs, inputs, copies))
        self.rest += bias * outputs * copies


def weight_bytes(config: Settings, quant_file: Settings | None = None) -> int:
    """Bytes of all parameters as the checkpoint stores them."""
    checkpoint = _FAMILIES[config["model_type"]](config)
    scheme = _scheme(config.get("quantization_config"), quant_file)
    total = UNQUANTIZED * checkpoint.rest
    for name, outputs, inputs, copies in checkpoint.linear:
        size = scheme(name, outputs, inputs)
        total += copies * (UNQUANTIZED * outputs * inputs if size is None else size)
    return total


def _heads(config: Settings) -> tuple[int, int, int]:
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    return heads * head, config["num_key_value_heads"] * head, head


def _attention(
    add: Callable[..., None], prefix: str, config: Settings, gate: int = 1, bias: bool = False
) -> None:
    width, (queries, keys, _) = config["hidden_size"], _heads(config)
    add(f"{prefix}.q_proj", gate * queries, width, bias=bias)
    add(f"{prefix}.k_proj", keys, width, bias=bias)
    add(f"{prefix}.v_proj", keys, width, bias=bias)
    add(f"{prefix}.o_proj", width, queries, bias=bias)


def _mlp(add: Callable[..., None], prefix: str, width: int, inner: int, copies: int = 1) -> None:
    add(f"{prefix}.gate_proj", inner, width, copies)
    add(f"{prefix}.up_proj", inner, width, copies)
    add(f"{prefix}.down_proj", width, inner, copies)


def _ends(checkpoint: Checkpoint, config: Settings, tied: bool) -> None:
    """Embedding, last norm and head."""
    width, words = config["hidden_size"], config["vocab_size"]
    checkpoint.rest += words * width + width
    if not tied:
        checkpoint.add("lm_head", words, width)


def _decoder(config: Settings) -> Checkpoint:
    """Llama, Qwen3, Qwen3-MoE, Mixtral, MiniMax-M2, gpt-oss."""
    kind, checkpoint = config["model_type"].removesuffix("_text"), Checkpoint()
    width, (queries, keys, head) = config["hidden_size"], _heads(config)
    experts = config.get("num_experts") or config.get("num_local_experts") or 0
    prefix = "model.language_model" if "vl" in kind else "model"
    for layer in range(config["num_hidden_layers"]):
        at = f"{prefix}.layers.{layer}"
        _attention(checkpoint.add, f"{at}.self_attn", config, bias=kind == "gpt_oss")
        checkpoint.rest += 2 * width
        if kind.startswith("qwen3"):
            checkpoint.rest += 2 * head
        if kind == "minimax_m2":
            checkpoint.rest += queries + keys
        if not experts:
            _mlp(checkpoint.add, f"{at}.mlp", width, config["intermediate_size"])
            continue
        mlp = f"{at}.block_sparse_moe" if kind in ("minimax_m2", "mixtral") else f"{at}.mlp"
        inner = config.get("moe_intermediate_size") or config["intermediate_size"]
        checkpoint.rest += experts * width  # the router is no linear layer in transformers
        _mlp(checkpoint.add, f"{mlp}.experts.0", width, inner, experts)
        if kind == "gpt_oss":
            # sinks, biases of the router and of the experts
            checkpoint.rest += config["num_attention_heads"] + experts + experts * (2 * inner + width)
    _ends(checkpoint, config, config.get("tie_word_embeddings", False))
    return checkpoint


def _deepseek(config: Settings) -> Checkpoint:
    checkpoint, width, heads = Checkpoint(), config["hidden_size"], config["num_attention_heads"]
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    query_rank, rank = config["q_lora_rank"], config["kv_lora_rank"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        checkpoint.add(f"{at}.self_attn.q_a_proj", query_rank, width)
        checkpoint.add(f"{at}.self_attn.q_b_proj", heads * (nope + rope), query_rank)
        checkpoint.add(f"{at}.self_attn.kv_a_proj_with_mqa", rank + rope, width)
        checkpoint.add(f"{at}.self_attn.kv_b_proj", heads * (nope + value), rank)
        checkpoint.add(f"{at}.self_attn.o_proj", width, heads * value)
        checkpoint.rest += 2 * width + query_rank + rank
        if layer < config["first_k_dense_replace"]:
            _mlp(checkpoint.add, f"{at}.mlp", width, config["intermediate_size"])
        else:
            inner, experts = config["moe_intermediate_size"], config["n_routed_experts"]
            _mlp(checkpoint.add, f"{at}.mlp.experts.0", width, inner, experts)
            _mlp(checkpoint.add, f"{at}.mlp.shared_experts", width, inner * config["n_shared_experts"])
            checkpoint.rest += experts * width
    _ends(checkpoint, config, tied=False)
    return checkpoint


def _vision(checkpoint: Checkpoint, vision: Settings) -> None:
    """The vision tower of Qwen3-VL and Qwen3.5."""
    width, inner, add = vision["hidden_size"], vision["intermediate_size"], checkpoint.add
    patch = vision["in_channels"] * vision["temporal_patch_size"] * vision["patch_size"] ** 2
    checkpoint.rest += width * patch + width + vision["num_position_embeddings"] * width
    for block in range(vision["depth"]):
        at = f"model.visual.blocks.{block}"
        add(f"{at}.attn.qkv", 3 * width, width, bias=True)
        add(f"{at}.attn.proj", width, width, bias=True)
        add(f"{at}.mlp.linear_fc1", inner, width, bias=True)
        add(f"{at}.mlp.linear_fc2", width, inner, bias=True)
        checkpoint.rest += 4 * width
    merged = width * vision["spatial_merge_size"] ** 2
    mergers = [("merger", width)]
    mergers += [
        (f"deepstack_merger_list.{i}", merged) for i in range(len(vision["deepstack_visual_indexes"]))
    ]
    for name, norm in mergers:
        add(f"model.visual.{name}.linear_fc1", merged, merged, bias=True)
        add(f"model.visual.{name}.linear_fc2", vision["out_hidden_size"], merged, bias=True)
        checkpoint.rest += 2 * norm


def _qwen3_vl(config: Settings) -> Checkpoint:
    text = {"tie_word_embeddings": config.get("tie_word_embeddings", False), **config["text_config"]}
    checkpoint = _decoder(text)
    _vision(checkpoint, config["vision_config"])
    return checkpoint


def _qwen3_5(config: Settings) -> Checkpoint:
    checkpoint, text = Checkpoint(), config["text_config"]
    width, add = text["hidden_size"], checkpoint.add
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    heads = text["linear_num_value_heads"]
    values = heads * text["linear_value_head_dim"]
    for layer in range(text["num_hidden_layers"]):
        at = f"model.language_model.layers.{layer}"
        checkpoint.rest += 2 * width
        if (layer + 1) % text["full_attention_interval"] == 0:
            _attention(add, f"{at}.self_attn", text, gate=2)
            checkpoint.rest += 2 * text["head_dim"]
        else:
            add(f"{at}.linear_attn.in_proj_qkv", 2 * keys + values, width)
            add(f"{at}.linear_attn.in_proj_z", values, width)
            add(f"{at}.linear_attn.in_proj_b", heads, width)
            add(f"{at}.linear_attn.in_proj_a", heads, width)
            add(f"{at}.linear_attn.out_proj", width, values)
            convolution = (2 * keys + values) * text["linear_conv_kernel_dim"]
            checkpoint.rest += convolution + 2 * heads + text["linear_value_head_dim"]
        if "num_experts" not in text:
            _mlp(add, f"{at}.mlp", width, text["intermediate_size"])
            continue
        _mlp(add, f"{at}.mlp.experts.0", width, text["moe_intermediate_size"], text["num_experts"])
        _mlp(add, f"{at}.mlp.shared_expert", width, text["shared_expert_intermediate_size"])
        add(f"{at}.mlp.shared_expert_gate", 1, width)
        checkpoint.rest += text["num_experts"] * width
    _ends(checkpoint, text, config.get("tie_word_embeddings", False))
    _vision(checkpoint, config["vision_config"])
    return checkpoint


def _nemotron(config: Settings) -> Checkpoint:
    """Mamba (M), attention (*), mixture (E) and dense (-) layers."""
    checkpoint, width = Checkpoint(), config["hidden_size"]
    add = checkpoint.add
    names = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
    pattern = config.get("hybrid_override_pattern") or [names[kind] for kind in config["layers_block_type"]]
    heads = config["mamba_num_heads"]
    inner = heads * config["mamba_head_dim"]
    states = 2 * config["n_groups"] * config["ssm_state_size"]
    for layer, kind in enumerate(pattern):
        at = f"backbone.layers.{layer}.mixer"
        checkpoint.rest += width
        if kind == "M":
            add(f"{at}.in_proj", 2 * inner + states + heads, width)
            add(f"{at}.out_proj", width, inner)
            checkpoint.rest += 3 * heads + inner + (inner + states) * (config["conv_kernel"] + 1)
        elif kind == "*":
            _attention(add, at, config)
        elif kind == "-":
            add(f"{at}.up_proj", config["intermediate_size"], width)
            add(f"{at}.down_proj", width, config["intermediate_size"])
        else:
            latent, expert = config.get("moe_latent_size") or width, config["moe_intermediate_size"]
            shared = config["moe_shared_expert_intermediate_size"]
            add(f"{at}.experts.0.up_proj", expert, latent, config["n_routed_experts"])
            add(f"{at}.experts.0.down_proj", latent, expert, config["n_routed_experts"])
            add(f"{at}.shared_experts.up_proj", shared, width)
            add(f"{at}.shared_experts.down_proj", width, shared)
            if latent != width:
                add(f"{at}.fc1_latent_proj", latent, width)
                add(f"{at}.fc2_latent_proj", width, latent)
            checkpoint.rest += config["n_routed_experts"] * width
    _ends(checkpoint, config, tied=False)
    return checkpoint


_FAMILIES: dict[str, Callable[[Settings], Checkpoint]] = {
    **dict.fromkeys(("llama", "qwen3", "qwen3_moe", "mixtral", "minimax_m2", "gpt_oss"), _decoder),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe"), _qwen3_vl),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), _qwen3_5),
    "deepseek_v3": _deepseek,
    "nemotron_h": _nemotron,
}
FAMILIES = frozenset(_FAMILIES)

Size = Callable[[str, int, int], int | None]  # bytes of a matrix; None if it is not quantized


def fp8_block(outputs: int, inputs: int) -> int:
    """8 bits, and 32 bits per block of 128 x 128."""
    return outputs * inputs + 4 * math.ceil(outputs / 128) * math.ceil(inputs / 128)


def fp8_tensor(outputs: int, inputs: int) -> int:
    """8 bits, and 32-bit scales of the weight and of the activations."""
    return outputs * inputs + 8


def nvfp4(outputs: int, inputs: int, scales: int = 2) -> int:
    """4 bits, 8 bits per 16 elements of a row, and one 32-bit scale or two."""
    return outputs * math.ceil(inputs / 2) + outputs * math.ceil(inputs / 16) + 4 * scales


def mxfp4(outputs: int, inputs: int) -> int:
    """4 bits, and 8 bits per 32 elements of a row."""
    return outputs * (inputs // 32) * 17


def _scheme(config: Settings | None, quant_file: Settings | None) -> Size:
    settings = config or (quant_file or {}).get("quantization") or {}
    algorithm = settings.get("quant_algo")
    if algorithm == "MIXED_PRECISION":
        return _by_layer(settings["quantized_layers"])
    if algorithm is None and not settings:
        return lambda name, outputs, inputs: None
    if settings.get("quant_method") == "mxfp4":
        return lambda name, outputs, inputs: mxfp4(outputs, inputs) if ".experts." in name else None
    size = {"FP8": fp8_tensor, "NVFP4": nvfp4, None: fp8_block}[algorithm]
    kept = ["lm_head", *(settings.get("modules_to_not_convert") or ())]
    kept += [*(settings.get("exclude_modules") or ()), *(settings.get("ignore") or ())]

    def bytes_of(name: str, outputs: int, inputs: int) -> int | None:
        is_kept = any(fnmatchcase(name, pattern) or name.startswith(f"{pattern}.") for pattern in kept)
        return None if is_kept else size(outputs, inputs)

    return bytes_of


def _by_layer(layers: Settings) -> Size:
    def bytes_of(name: str, outputs: int, inputs: int) -> int | None:
        options = layers.get(name) or layers.get(name.partition(".experts.")[0] + ".experts")
        if options is None:
            return None
        if options["quant_algo"] == "FP8":
            return fp8_tensor(outputs, inputs)
        assert options["quant_algo"] == "W4A16_NVFP4", options
        return nvfp4(outputs, inputs, scales=1)

    return bytes_of
