"""Key-value cache, weights per GPU and FLOPs of published models, computed by hand."""

from __future__ import annotations

import pytest

from language_model_configs import architecture
from sizeup.serving.memory.engines import ENGINES
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.architecture import Weight
from sizeup.serving.models.cache import (
    body_macs,
    decode_macs,
    head_macs,
    prefill_macs,
    sequence_cost,
    touched_experts,
)

_GIB = 1 << 30

# Bytes per token without limit, and within windows or per sequence: written out as products.
_CACHES = {
    "Llama-2-7B": (2 * 32 * 32 * 128 * 2, (), 0, 64.0),
    "Llama-3.1-8B": (2 * 32 * 8 * 128 * 2, (), 0, 16.0),
    "Mixtral-8x7B": (2 * 32 * 8 * 128 * 2, (), 0, 16.0),
    "Llama-3.1-70B": (2 * 80 * 8 * 128 * 2, (), 0, 40.0),
    "Llama-3.1-405B": (2 * 126 * 8 * 128 * 2, (), 0, 63.0),
    "Qwen3-30B-A3B": (2 * 48 * 4 * 128 * 2, (), 0, 12.0),
    "Qwen3-235B-A22B": (2 * 94 * 4 * 128 * 2, (), 0, 23.5),
    "MiniMax-M2.5": (2 * 62 * 8 * 128 * 2, (), 0, 31.0),
    "DeepSeek-V3": (61 * (512 + 64) * 2, (), 0, 8.578),
    "DeepSeek-V3.2": (61 * (576 + 128) * 2, (), 0, 10.484),
    "gpt-oss-20b": (2 * 12 * 8 * 64 * 2, ((128, 2 * 12 * 8 * 64 * 2),), 0, 3.003),
    "gpt-oss-120b": (2 * 18 * 8 * 64 * 2, ((128, 2 * 18 * 8 * 64 * 2),), 0, 4.504),
    "Gemma-3-27B": (2 * 10 * 16 * 128 * 2, ((1024, 2 * 52 * 16 * 128 * 2),), 0, 10.406),
    "Qwen3-Next-80B": (2 * 12 * 2 * 256 * 2, (), 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2), 3.072),
}


@pytest.mark.parametrize("name", _CACHES)
def test_cache_bytes_equal_the_products_by_hand(name: str) -> None:
    full, windows, state, gib = _CACHES[name]
    model = architecture(name)
    cost = sequence_cost(model, "bf16")
    assert (cost.full_bytes, cost.windows, cost.state_bytes) == (full, windows, state)
    assert cost.bytes_of(131_072) / _GIB == pytest.approx(gib, abs=0.0005)
    halved = sequence_cost(model, "fp8")
    assert (2 * halved.full_bytes, halved.state_bytes) == (full, state)


@pytest.mark.parametrize(
    ("name", "weights", "layout", "expected"),
    [
        ("Llama-3.1-70B", None, Layout(8), 17_640_734_720),
        ("Llama-3.1-70B", None, Layout(4), 35_278_831_616),
        ("Llama-3.1-70B", "fp8", Layout(8), 9_084_354_560),
        ("Llama-3.1-70B", "fp8", Layout(4), 18_166_071_296),
        ("Llama-3.1-405B", None, Layout(8), 101_470_601_216),
        ("Llama-3.1-405B", None, Layout(8, 2), 50_735_316_992),
        ("Llama-3.1-405B", None, Layout(16), 51_267_928_064),
        ("Llama-3.1-405B", "fp8", Layout(8), 51_264_782_336),
        ("Mixtral-8x7B", None, Layout(2), 46_704_107_520),
        ("Mixtral-8x7B", None, Layout(data=2, expert=2), 48_308_428_800),
    ],
)
def test_weights_of_the_last_stage_equal_the_sums_by_hand(
    name: str, weights: str | None, layout: Layout, expected: int
) -> None:
    gpus = gpus_of(architecture(name, weights), layout, ENGINES["vllm"], 141 * _GIB, "bf16")
    assert gpus[-1].weights_bytes == expected


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Layout(8), 85_138_051_440),
        (Layout(16), 43_137_302_800),
        (Layout(data=32, expert=32), 39_519_753_904),
    ],
)
def test_weights_of_deepseek_v3_equal_the_sum_by_hand_and_what_it_omits(
    layout: Layout, expected: int
) -> None:
    """The sum by hand has no norms, no routing biases, and 4.5 instead of 5 rows of scales of 576 outputs."""
    norms = 2 * (61 * (2 * 7168 + 1536 + 512) + 7168)
    scales = 61 * (5 * 56 * 4 - 9 * 56 * 2)
    routing_biases = 58 * 256 * 4
    gpus = gpus_of(architecture("DeepSeek-V3"), layout, ENGINES["vllm"], 141 * _GIB, "bf16")
    assert gpus[0].weights_bytes == expected + norms + scales + routing_biases
    assert norms + scales == 2_020_016


@pytest.mark.parametrize(
    ("name", "expected"), [("gpt-oss-20b", 13_747_322_880), ("gpt-oss-120b", 65_168_179_200)]
)
def test_weights_of_gpt_oss_without_biases_and_norms_equal_the_sum_by_hand(name: str, expected: int) -> None:
    def is_matrix(weight: Weight) -> bool:
        return weight.role != "norm" and "bias" not in weight.name and not weight.name.endswith("sinks")

    assert (
        sum(weight.stored_bytes for weight in architecture(name).weights() if is_matrix(weight)) == expected
    )


def test_parameters_of_llama_3_1_70b_equal_the_published_number() -> None:
    model = architecture("Llama-3.1-70B")
    assert model.layers[0].parameters == 855_654_400
    assert model.parameters == 70_553_706_496


@pytest.mark.parametrize(
    ("name", "active", "prefill", "decode"),
    [
        ("Llama-3.1-8B", 6_979_321_856 + 525_336_576, 2.968840e13, 1.608358e10),
        ("Llama-3.1-70B", None, 2.858778e14, 1.443748e11),
        ("DeepSeek-V3", 36_624_596_992, 1.567054e14, 8.348829e10),
        ("Qwen3-30B-A3B", None, 1.283479e13, 7.694713e9),
    ],
)
def test_flops_of_2048_tokens_equal_the_sums_by_hand(
    name: str, active: int | None, prefill: float, decode: float
) -> None:
    model = architecture(name)
    assert active is None or body_macs(model) + head_macs(model) == active
    assert 2 * prefill_macs(model, 2048) == pytest.approx(prefill, rel=4e-7)
    assert 2 * decode_macs(model, 2048) == pytest.approx(decode, rel=4e-7)


@pytest.mark.parametrize(
    ("count", "per_token", "expected"),
    [(8, 2, (2, 7.20, 8.00, 8)), (128, 8, (8, 51.6, 111.8, 128.0)), (256, 8, (8, 57.4, 163.3, 251.6))],
)
def test_touched_experts_equal_the_expectation(
    count: int, per_token: int, expected: tuple[float, ...]
) -> None:
    touched = [touched_experts(count, per_token, tokens) for tokens in (1, 8, 32, 128)]
    assert touched == pytest.approx(expected, abs=0.05)
