"""Work of a step against sums by hand from the published shapes of models."""

from __future__ import annotations

import numpy as np
import pytest

from language_model_configs import architecture
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.steps.kernels import arithmetic_dtype, kernel_counts
from sizeup.serving.steps.work import Division, divide, step_work
from sizeup.targets.clusters import cluster


def division(
    name: str, target: str, layout: Layout, kv: str = "bf16", weights: str | None = None
) -> Division:
    return divide(architecture(name, weights), layout, cluster(target)[0], kv)


def sums(parts: Division) -> dict[str, float]:
    totals: dict[str, float] = {}
    for part in parts.parts:
        totals[part.part_class] = totals.get(part.part_class, 0.0) + part.weight_bytes
    return totals


def test_dense_decode_reads_every_weight_once() -> None:
    # Llama-3.1-8B: 32 layers of q, o 4096 x 4096, k, v 1024 x 4096, three 14336 x 4096, two norms of 4096.
    attention = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 2 * 4096) * 2
    dense = 32 * 3 * 14336 * 4096 * 2
    head = 128256 * 4096 * 2
    whole = sums(division("Llama-3.1-8B", "h100", Layout()))
    assert whole["attention"] == attention + 4096 * 2 or whole["attention"] == attention
    assert whole["dense"] == dense
    assert head <= whole["head"] <= head + 4096 * 2
    halves = sums(division("Llama-3.1-8B", "2xh100", Layout(tensor=2)))
    assert halves["dense"] == dense / 2


def test_decode_reads_the_cache_of_every_sequence() -> None:
    # 131,072 bytes per token of Llama-3.1-8B at 16 bits; the new token is read, too.
    work = step_work(division("Llama-3.1-8B", "h100", Layout()), [1, 4], 999)
    assert list(work.cache_bytes) == [131072 * 1000, 4 * 131072 * 1000]
    halved = step_work(division("Llama-3.1-8B", "2xh100", Layout(tensor=2)), 4, 999)
    assert float(halved.cache_bytes) == 2 * 131072 * 1000


def test_prefill_macs_are_those_of_the_specification() -> None:
    # Prefill of 2,048 tokens: 2.858730e13 + 1.100048e12 + 1.050673e9 FLOPs, two per MAC.
    work = step_work(division("Llama-3.1-8B", "h100", Layout()), 1, 0, 2048)
    assert float(work.pair_macs) * 2 == pytest.approx(1.100048e12, rel=1e-6)
    by_class = {
        part.part_class: float(macs) for part, macs in zip(work.division.parts, work.macs, strict=True)
    }
    assert 2 * (by_class["attention"] + by_class["dense"]) == pytest.approx(2.858730e13, rel=1e-6)
    assert 2 * by_class["head"] == pytest.approx(1.050673e9, rel=1e-6)


@pytest.mark.parametrize(("batch", "touched"), [(1, 8), (8, 51.6), (32, 111.8), (128, 128.0)])
def test_experts_are_read_as_far_as_tokens_touch_them(batch: int, touched: float) -> None:
    whole = division("Qwen3-30B-A3B", "h100", Layout())
    row = next(index for index, part in enumerate(whole.parts) if part.part_class == "experts")
    work = step_work(whole, batch, 100)
    share = float(work.weight_bytes[row]) / whole.parts[row].weight_bytes
    assert 128 * share == pytest.approx(touched, abs=0.05)


def test_data_groups_touch_experts_together_and_divide_them() -> None:
    layout = Layout(tensor=1, data=8, expert=8)
    spread = division("Qwen3-30B-A3B", "8xh100", layout)
    row = next(index for index, part in enumerate(spread.parts) if part.part_class == "experts")
    work = step_work(spread, 64, 100)
    alone = division("Qwen3-30B-A3B", "h100", Layout())
    assert spread.parts[row].weight_bytes == pytest.approx(alone.parts[row].weight_bytes / 8)
    assert float(work.tokens) == 8
    together = 1 - (1 - 8 / 128) ** 64
    assert float(work.weight_bytes[row]) == pytest.approx(spread.parts[row].weight_bytes * together)
    # All groups bring 8 tokens, and each device does an eighth of the MACs of 64.
    whole = step_work(alone, 64, 100)
    assert float(work.macs[row]) == pytest.approx(float(whole.macs[row]) / 8)


def test_windows_limit_cache_and_pairs() -> None:
    whole = division("gpt-oss-20b", "h100", Layout())
    work = step_work(whole, 1, 8191)
    # 24,576 bytes per token in full layers, the same in windows of 128.
    assert float(work.cache_bytes) == 24576 * 8192 + 24576 * 128
    prompt = step_work(whole, 1, 0, 1000)
    heads, size = 64, 64
    pairs = 12 * 1000 * 1001 / 2 + 12 * (128 * 129 / 2 + 872 * 128)
    assert float(prompt.pair_macs) == pytest.approx(pairs * 2 * heads * size)


def test_sparse_attention_reads_the_selected_tokens_and_all_indices() -> None:
    whole = division("DeepSeek-V3.2", "8xh200", Layout(tensor=8))
    short, long = (float(step_work(whole, 1, tokens - 1).cache_bytes) for tokens in (2048, 65536))
    assert short == 61 * (576 + 128) * 2 * 2048
    assert long == 61 * 2 * (576 * 2048 + 128 * 65536)


def test_collectives_of_tensor_and_expert_parallelism() -> None:
    assert division("Llama-3.1-8B", "h100", Layout()).collectives == 0
    assert division("Llama-3.1-8B", "2xh100", Layout(tensor=2)).collectives == 64
    assert division("Qwen3-30B-A3B", "8xh100", Layout(data=8, expert=8)).collectives == 96
    two = division("Llama-3.1-8B", "2xh100", Layout(tensor=2))
    # 64 all-reduces of 4,096 16-bit numbers per token, of which each device sends 2 (n - 1) / n.
    assert two.link_bytes == 64 * 4096 * 2


def test_kernels_are_counted_by_module_and_quantization() -> None:
    assert kernel_counts(architecture("Llama-3.1-8B")) == (32 * 10, 0)
    assert kernel_counts(architecture("Llama-3.1-8B", "nvfp4")) == (320, 32 * 4)
    assert kernel_counts(architecture("Llama-3.1-8B", "fp8")) == (320, 0)  # one scale: fused
    kernels, quantizations = kernel_counts(architecture("DeepSeek-V3"))
    assert kernels == 3 * (11 + 4) + 58 * (11 + 8 + 3)
    assert quantizations == 3 * (4 + 2) + 58 * (4 + 2 + 2)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16", "bf16"), ("fp8", "fp8"), ("fp8 in blocks of 128 x 128", "fp8_block"), ("nvfp4", "fp4"),
     ("mxfp4", "bf16"), ("int4 in groups of 128", "bf16"), ("mxfp8", "bf16")],
)  # fmt: skip
def test_dtype_of_the_arithmetic(precision: str, dtype: str) -> None:
    assert arithmetic_dtype(precision) == dtype


def test_a_step_of_many_batches_equals_single_steps() -> None:
    whole = division("DeepSeek-V3", "8xh200", Layout(tensor=8, expert=8), "fp8")
    batches, contexts = np.array([1, 7, 64, 500]), np.array([10, 100, 1000, 10000])
    many = step_work(whole, batches[:, None], contexts)
    one = step_work(whole, 64, 1000)
    assert many.cache_bytes.shape == (4, 4)
    assert many.cache_bytes[2, 2] == float(one.cache_bytes)
    assert [float(row[2, 2]) for row in many.weight_bytes] == [float(row) for row in one.weight_bytes]
