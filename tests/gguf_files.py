"""Small GGUF files, written as the format is documented."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

Tensor = tuple[str, tuple[int, ...], int]  # name, shape with the row first, number of the type
F32, F16, Q8_0, Q4_K, Q6_K, MXFP4 = 0, 1, 8, 12, 14, 39


def text(value: str) -> bytes:
    """A text with its length."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(item: Any) -> bytes:
    """A value with the number of its type."""
    if isinstance(item, bool):
        return struct.pack("<I?", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    kind = 8 if item and isinstance(item[0], str) else 5
    items = b"".join(text(each) if kind == 8 else struct.pack("<i", each) for each in item)
    return struct.pack("<IIQ", 9, kind, len(item)) + items


def gguf(metadata: Mapping[str, Any], tensors: Sequence[Tensor], version: int = 3) -> bytes:
    """A file that ends after its header."""
    content = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    content += b"".join(text(key) + value(item) for key, item in metadata.items())
    for index, (name, shape, kind) in enumerate(tensors):
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        content += text(name) + dimensions + struct.pack("<IQ", kind, 32 * index)
    return content


def block(index: int, tensors: Mapping[str, tuple[tuple[int, ...], int]]) -> list[Tensor]:
    """The tensors of a layer."""
    return [(f"blk.{index}.{name}", shape, kind) for name, (shape, kind) in tensors.items()]


def llama() -> tuple[dict[str, Any], list[Tensor]]:
    """Two layers of 256 with 4 heads of 64 and 2 key-value heads; q4_K, q6_K and f32."""
    metadata = {
        "general.architecture": "llama",
        "general.name": "Tiny",
        "general.alignment": 32,
        "llama.block_count": 2,
        "llama.context_length": 4096,
        "llama.embedding_length": 256,
        "llama.feed_forward_length": 512,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": ["a", "b", "c"],
        "tokenizer.ggml.scores": [1, 2, 3],
        "tokenizer.ggml.add_bos_token": True,
    }
    layer = {
        "attn_norm.weight": ((256,), F32),
        "attn_q.weight": ((256, 256), Q4_K),
        "attn_k.weight": ((256, 128), Q4_K),
        "attn_v.weight": ((256, 128), Q6_K),
        "attn_output.weight": ((256, 256), Q4_K),
        "ffn_norm.weight": ((256,), F32),
        "ffn_gate.weight": ((256, 512), Q4_K),
        "ffn_up.weight": ((256, 512), Q4_K),
        "ffn_down.weight": ((512, 256), Q6_K),
    }
    ends: list[Tensor] = [
        ("token_embd.weight", (256, 1000), Q4_K),
        ("output_norm.weight", (256,), F32),
        ("output.weight", (256, 1000), Q6_K),
        ("rope_freqs.weight", (32,), F32),
    ]
    return metadata, [*ends, *block(0, layer), *block(1, layer)]


def gpt_oss() -> tuple[dict[str, Any], list[Tensor]]:
    """Four layers, every other with a window of 128 tokens; 2 of 8 experts in mxfp4."""
    metadata = {
        "general.architecture": "gpt-oss",
        "gpt-oss.block_count": 4,
        "gpt-oss.embedding_length": 64,
        "gpt-oss.attention.head_count": 4,
        "gpt-oss.attention.head_count_kv": [2, 2, 2, 2],
        "gpt-oss.attention.key_length": 32,
        "gpt-oss.attention.value_length": 32,
        "gpt-oss.attention.sliding_window": 128,
        "gpt-oss.expert_count": 8,
        "gpt-oss.expert_used_count": 2,
    }
    layer = {
        "attn_q.weight": ((64, 128), F16),
        "attn_q.bias": ((128,), F32),
        "attn_k.weight": ((64, 64), F16),
        "attn_v.weight": ((64, 64), F16),
        "attn_output.weight": ((128, 64), F16),
        "attn_sinks.weight": ((4,), F32),
        "ffn_gate_inp.weight": ((64, 8), F32),
        "ffn_gate_exps.weight": ((64, 96, 8), MXFP4),
        "ffn_up_exps.weight": ((64, 96, 8), MXFP4),
        "ffn_down_exps.weight": ((96, 64, 8), MXFP4),
    }
    tensors = [each for index in range(4) for each in block(index, layer)]
    return metadata, [("token_embd.weight", (64, 100), Q8_0), *tensors]


def deepseek() -> tuple[dict[str, Any], list[Tensor]]:
    """A dense layer and one of experts, one of them shared; latent attention of rank 64."""
    metadata = {
        "general.architecture": "deepseek2",
        "deepseek2.block_count": 2,
        "deepseek2.embedding_length": 128,
        "deepseek2.attention.head_count": 4,
        "deepseek2.attention.head_count_kv": 1,
        "deepseek2.attention.key_length": 80,
        "deepseek2.attention.value_length": 64,
        "deepseek2.attention.key_length_mla": 48,
        "deepseek2.attention.value_length_mla": 32,
        "deepseek2.attention.kv_lora_rank": 64,
        "deepseek2.attention.q_lora_rank": 96,
        "deepseek2.rope.dimension_count": 16,
        "deepseek2.expert_count": 4,
        "deepseek2.expert_used_count": 2,
        "deepseek2.leading_dense_block_count": 1,
    }
    attention = {
        "attn_q_a.weight": ((128, 96), F16),
        "attn_q_b.weight": ((96, 192), F16),
        "attn_kv_a_mqa.weight": ((128, 80), F16),
        "attn_k_b.weight": ((32, 64, 4), F16),
        "attn_v_b.weight": ((64, 32, 4), F16),
        "attn_output.weight": ((128, 128), F16),
    }
    dense = {**attention, "ffn_up.weight": ((128, 256), F16), "ffn_down.weight": ((256, 128), F16)}
    mixture = {
        **attention,
        "ffn_gate_inp.weight": ((128, 4), F32),
        "exp_probs_b.bias": ((4,), F32),
        "ffn_up_exps.weight": ((128, 64, 4), Q8_0),
        "ffn_down_exps.weight": ((64, 128, 4), Q8_0),
        "ffn_up_shexp.weight": ((128, 64), Q8_0),
        "ffn_down_shexp.weight": ((64, 128), Q8_0),
    }
    return metadata, [("token_embd.weight", (128, 50), F16), *block(0, dense), *block(1, mixture)]
