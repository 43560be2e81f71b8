"""Minimal configurations of published language models, written from their published sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def _dense(
    layers: int, hidden: int, width: int, heads: int, kv: int, vocabulary: int, **others: Any
) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocabulary,
        "torch_dtype": "bfloat16",
        **others,
    }


_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
_DEEPSEEK = _dense(
    61, 7168, 18432, 128, 128, 129280, model_type="deepseek_v3", q_lora_rank=1536, kv_lora_rank=512,
    qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, moe_intermediate_size=2048,
    n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3,
    quantization_config=_FP8, max_position_embeddings=163840,
)  # fmt: skip


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    kinds = ["sliding_attention", "full_attention"] * (layers // 2)
    return _dense(
        layers, 2880, 2880, 64, 8, 201088, model_type="gpt_oss", head_dim=64, num_local_experts=experts,
        num_experts_per_tok=4, sliding_window=128, layer_types=kinds, attention_bias=True,
        quantization_config={"quant_method": "mxfp4"}, max_position_embeddings=131072,
    )  # fmt: skip


def _qwen3_moe(layers: int, hidden: int, width: int, heads: int, kv: int) -> dict[str, Any]:
    return _dense(
        layers, hidden, 1, heads, kv, 151936, model_type="qwen3_moe", head_dim=128, num_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=width,
    )  # fmt: skip


_GEMMA_4 = {
    "model_type": "gemma4_text",
    "num_hidden_layers": 60,
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "num_global_key_value_heads": 4,
    "global_head_dim": 512,
    "attention_k_eq_v": True,
    "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    "vocab_size": 262144,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
}

_QWEN3_VL = {
    "model_type": "qwen3_vl",
    "text_config": _dense(
        36, 4096, 12288, 32, 8, 151936, model_type="qwen3_vl_text", head_dim=128,
        max_position_embeddings=262144,
    ),
    "vision_config": {
        "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "patch_size": 16,
        "temporal_patch_size": 2, "spatial_merge_size": 2, "num_position_embeddings": 2304,
        "out_hidden_size": 4096, "deepstack_visual_indexes": [8, 16, 24],
    },
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-2-7B": _dense(32, 4096, 11008, 32, 32, 32000),
    "Llama-3.1-8B": _dense(32, 4096, 14336, 32, 8, 128256, max_position_embeddings=131072),
    "Llama-3.1-70B": _dense(80, 8192, 28672, 64, 8, 128256, max_position_embeddings=131072),
    "Llama-3.1-405B": _dense(126, 16384, 53248, 128, 8, 128256, max_position_embeddings=131072),
    "Mixtral-8x7B": _dense(
        32, 4096, 14336, 32, 8, 32000, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2
    ),
    "Qwen3-30B-A3B": _qwen3_moe(48, 2048, 768, 32, 4),
    "Qwen3-235B-A22B": _qwen3_moe(94, 4096, 1536, 64, 4),
    "MiniMax-M2.5": _dense(
        62, 3072, 1536, 48, 8, 200064, model_type="minimax_m2", head_dim=128, num_local_experts=256,
        num_experts_per_tok=8,
    ),
    "DeepSeek-V3": _DEEPSEEK,
    "DeepSeek-V3.2": {
        **_DEEPSEEK, "model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64,
        "index_topk": 2048,
    },
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
    "Gemma-3-27B": _dense(
        62, 5376, 21504, 32, 16, 262208, model_type="gemma3_text", head_dim=128, sliding_window=1024,
        sliding_window_pattern=6,
    ),
    "Gemma-4-31B": _GEMMA_4,
    "Qwen3-VL-8B": _QWEN3_VL,
    "Qwen3-Next-80B": _dense(
        48, 2048, 5120, 16, 2, 151936, model_type="qwen3_next", head_dim=256, num_experts=512,
        num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512,
        linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128,
        linear_value_head_dim=128, linear_conv_kernel_dim=4,
    ),
}  # fmt: skip

DIFFUSION: dict[str, dict[str, Any]] = {
    "FLUX.1-dev": {
        "_class_name": "FluxTransformer2DModel", "_diffusers_version": "0.30.0.dev0", "num_layers": 19,
        "num_single_layers": 38, "attention_head_dim": 128, "num_attention_heads": 24, "in_channels": 64,
        "joint_attention_dim": 4096, "pooled_projection_dim": 768, "guidance_embeds": True, "patch_size": 1,
    },
    "SD-3.5-large": {
        "_class_name": "SD3Transformer2DModel", "_diffusers_version": "0.31.0.dev0", "num_layers": 38,
        "attention_head_dim": 64, "num_attention_heads": 38, "in_channels": 16, "out_channels": 16,
        "joint_attention_dim": 4096, "pooled_projection_dim": 2048, "caption_projection_dim": 2432,
        "pos_embed_max_size": 192, "sample_size": 128, "patch_size": 2, "qk_norm": "rms_norm",
        "dual_attention_layers": [],
    },
}  # fmt: skip
"""Diffusion transformers, as diffusers writes their configurations."""

SPEC = """\
models = ["llama-3.1-*b.json", "gpt-oss-120b.json", "deepseek-v3.json"]
targets = ["8xh100/vllm", "dgx-b200"]
weights = ["stored", "fp8"]
concurrency = 16
input = 32768
"""


# Keys of `vllm bench serve --save-result`; the times are invented.
BENCHMARK = {
    "backend": "vllm",
    "model_id": "openai/gpt-oss-120b",
    "request_rate": "inf",
    "max_concurrency": 64,
    "duration": 190.4,
    "completed": 640,
    "total_input_tokens": 655_360,
    "total_output_tokens": 655_360,
    "median_ttft_ms": 171.0,
    "median_tpot_ms": 18.4,
}


def make(folder: Path) -> None:
    """Write each configuration to a folder, e.g. `llama-3.1-70b.json`."""
    for name, config in {**CONFIGS, **DIFFUSION}.items():
        (folder / f"{name.lower()}.json").write_text(json.dumps(config), "utf-8")


def make_with_benchmark(folder: Path) -> None:
    """Write the configurations, and the result of a benchmark with the keys of `vllm bench serve`."""
    make(folder)
    (folder / "bench.json").write_text(json.dumps(BENCHMARK), "utf-8")


def make_with_sweep(folder: Path) -> None:
    """Write the configurations and the results of a sweep, which need the extra `sweep`."""
    import sizeup

    make(folder)
    (folder / "serving.toml").write_text(SPEC, "utf-8")
    sizeup.sweep(folder / "serving.toml", folder / "results", in_process=True)
