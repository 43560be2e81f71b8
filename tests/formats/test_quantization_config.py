"""Bytes of one weight per quantization method, counted by hand from the tensors that checkpoints store."""

from __future__ import annotations

from typing import Any

import pytest

from sizeup.errors import CorruptModel
from sizeup.formats.quantization_config import QuantizationConfig, parse_quantization

OUTPUTS, INPUTS = 4096, 11008  # Llama-2-7B, down_proj
ELEMENTS = OUTPUTS * INPUTS
NAME = "model.layers.3.mlp.down_proj.weight"


def _parsed(settings: Any, **rest: Any) -> QuantizationConfig:
    quantization = parse_quantization(settings, **rest)
    assert quantization is not None
    return quantization


def _bytes(settings: Any, name: str = NAME, shape: tuple[int, ...] = (OUTPUTS, INPUTS), **rest: Any) -> Any:
    entry = _parsed(settings, **rest).stored(name, shape)
    return None if entry is None else entry[0].stored_bytes


def _compressed(weights: dict[str, Any], **settings: Any) -> dict[str, Any]:
    group = {"weights": weights, "targets": ["Linear"], "input_activations": None}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, **settings}


# weight, scale, (zero point, index, shape)
METHODS: dict[str, tuple[dict[str, Any], int]] = {
    "fp8 in blocks": (
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        ELEMENTS + (4096 // 128) * (11008 // 128) * 4,
    ),
    "fp8 per tensor": ({"quant_method": "fp8", "activation_scheme": "dynamic"}, ELEMENTS + 4),
    "fp8 per tensor, static": ({"quant_method": "fp8", "activation_scheme": "static"}, ELEMENTS + 4 + 4),
    "fbgemm_fp8": ({"quant_method": "fbgemm_fp8"}, ELEMENTS + OUTPUTS * 4),
    "gptq": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False},
        # qweight 1376 x 4096 int32, scales 86 x 4096 fp16, qzeros 86 x 512 int32, g_idx 11008 int32
        1376 * 4096 * 4 + 86 * 4096 * 2 + 86 * 512 * 4 + 11008 * 4,
    ),
    "gptq of 3 bits": (
        {"quant_method": "gptq", "bits": 3, "group_size": -1},
        1032 * 4096 * 4 + 4096 * 2 + 384 * 4 + 11008 * 4,
    ),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
        # qweight 11008 x 512 int32, scales 86 x 4096 fp16, qzeros 86 x 512 int32
        11008 * 512 * 4 + 86 * 4096 * 2 + 86 * 512 * 4,
    ),
    "bitsandbytes int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, ELEMENTS + OUTPUTS * 4),
    "bitsandbytes nf4": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
        ELEMENTS // 2 + ELEMENTS // 64 * 4 + 16 * 4,
    ),
    "bitsandbytes nf4, double": (
        {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
        ELEMENTS // 2 + ELEMENTS // 64 + ELEMENTS // 64 // 256 * 4 + 16 * 4 + 256 * 4,
    ),
    "compressed w4a16": (
        _compressed(
            {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
        ),
        ELEMENTS // 2 + 4096 * 86 * 2 + 16,
    ),
    "compressed w4a16, asymmetric": (
        _compressed(
            {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": False}
        ),
        ELEMENTS // 2 + 4096 * 86 * 2 + 512 * 86 * 4 + 16,
    ),
    "compressed w8a8": (
        _compressed({"num_bits": 8, "type": "int", "strategy": "channel"}, format="int-quantized"),
        ELEMENTS + 4096 * 2,
    ),
    "compressed fp8 per channel": (
        _compressed({"num_bits": 8, "type": "float", "strategy": "channel"}),
        ELEMENTS + 4096 * 2,
    ),
    "compressed nvfp4": (
        _compressed({"num_bits": 4, "type": "float", "group_size": 16}, format="nvfp4-pack-quantized"),
        ELEMENTS // 2 + ELEMENTS // 16 + 4,
    ),
    "compressed mxfp4": (
        _compressed({"num_bits": 4, "type": "float", "group_size": 32}, format="mxfp4-pack-quantized"),
        ELEMENTS // 2 + ELEMENTS // 32,
    ),
    "modelopt NVFP4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16},
        ELEMENTS // 2 + ELEMENTS // 16 + 4 + 4,
    ),
    "modelopt FP8": ({"quant_algo": "FP8"}, ELEMENTS + 4 + 4),
    "modelopt W4A16_AWQ": (
        {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128},
        ELEMENTS // 2 + ELEMENTS // 128 * 2,
    ),
    "modelopt MXFP8": ({"quant_algo": "MXFP8"}, ELEMENTS + ELEMENTS // 32),
    "quanto int8": ({"quant_method": "quanto", "weights": "int8"}, ELEMENTS + 4096 * 2),
    "hqq": (
        {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
        ELEMENTS // 2 + ELEMENTS // 64 * 4,
    ),
    "torchao": ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, ELEMENTS + 4096 * 2),
}


@pytest.mark.parametrize("method", METHODS)
def test_bytes_of_a_weight(method: str) -> None:
    settings, expected = METHODS[method]
    assert _bytes(settings) == expected


def test_experts_are_stored_one_by_one() -> None:
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    # gate and up of 200 outputs each: 2 x 3 blocks per matrix, not 4 x 3 of both together
    name, shape = "model.layers.0.mlp.experts.gate_up_proj", (8, 400, 300)
    assert _bytes(fp8, name, shape) == 8 * (400 * 300 + 2 * (2 * 3) * 4)
    entry = _parsed({"quant_method": "mxfp4"}).stored(name, (8, 320, 400), transposed=True)
    assert entry is not None
    assert entry[0].stored_bytes == 8 * 400 * (320 // 32) * 17


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("lm_head.weight", True),
        ("model.embed_tokens.weight", True),
        ("model.layers.0.mlp.gate.weight", True),
        ("model.layers.0.mlp.gate_proj.weight", False),
        ("model.layers.0.self_attn.q_proj.weight", True),
        ("model.layers.1.self_attn.q_proj.weight", False),
        ("model.layers.1.self_attn.q_proj.bias", True),
        ("model.layers.10.self_attn.q_proj.weight", False),
    ],
)
def test_unquantized_modules(name: str, is_kept: bool) -> None:
    for key in ("modules_to_not_convert", "ignore", "exclude_modules"):
        settings = {"quant_method": "fp8", "weight_block_size": [128, 128], key: ["model.layers.0.self_attn"]}
        assert (_bytes(settings, name, (256, 256)) is None) == is_kept


def test_layers_with_schemes_of_their_own() -> None:
    layers = {
        "backbone.layers.1.mixer.experts.0.up_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        "backbone.layers.1.mixer.in_proj": {"quant_algo": "FP8"},
    }
    settings = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}
    quantization = _parsed(None, quant_file=settings)
    expected = {
        "model.layers.1.mixer.experts.up_proj": 2 * (64 * 32 + 64 * 4 + 4),
        "model.layers.1.mixer.in_proj.weight": 64 * 64 + 8,
        "model.layers.2.mixer.in_proj.weight": None,
    }
    for name, size in expected.items():
        entry = quantization.stored(name, (2, 64, 64) if "experts" in name else (64, 64))
        assert (None if entry is None else entry[0].stored_bytes) == size


def test_the_configuration_decides_and_the_file_adds_the_cache() -> None:
    quant_file = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    quantization = _parsed({"quant_method": "fp8"}, quant_file=quant_file)
    assert (quantization.method, quantization.kv_cache) == ("fp8", "fp8")
    assert _parsed(None, quant_file=quant_file).method == "modelopt"
    scheme = {"num_bits": 8, "type": "float"}
    assert _parsed({"quant_algo": "FP8", "kv_cache_scheme": scheme}).kv_cache == "fp8"
    assert parse_quantization(None) is None


@pytest.mark.parametrize("method", ["aqlm", "spqr", "tomorrow"])
def test_an_unknown_method_is_named(method: str) -> None:
    quantization = _parsed({"quant_method": method, "bits": 2})
    assert (quantization.is_known, quantization.method) == (False, method)
    assert quantization.stored(NAME, (OUTPUTS, INPUTS)) is None


@pytest.mark.parametrize(
    "settings",
    [
        [1],
        "fp8",
        {"quant_method": 8},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": [1 << 60, 128]},
        {"quant_method": "gptq", "bits": 0},
        {"quant_method": "gptq", "bits": True},
        {"quant_method": "gptq", "group_size": -2},
        {"quant_method": "awq", "group_size": 1.5},
        {"quant_method": "awq", "modules_to_not_convert": [1]},
        {"quant_method": "awq", "modules_to_not_convert": {"a": 1}},
        {"quant_method": "compressed-tensors", "config_groups": [1]},
        {"quant_method": "compressed-tensors", "config_groups": {"a": 1}},
        {"quant_algo": "MIXED_PRECISION"},
        {"quant_algo": "MIXED_PRECISION", "quantized_layers": []},
        {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "?"}}},
    ],
)
def test_invalid_settings_are_errors(settings: Any) -> None:
    with pytest.raises(CorruptModel):
        parse_quantization(settings)
