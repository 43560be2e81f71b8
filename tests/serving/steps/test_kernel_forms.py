"""Closed forms of single kernels: measured operators, lower bounds from the data sheet, and how they grow."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
try:
    import serving_kernel_forms as forms  # type: ignore[import-not-found]
finally:
    sys.path.pop(0)

H100 = forms.Chip(132, 3.35e12, 494.7e12, 50e6)
SIZES = np.array([1.0, 2, 15, 16, 17, 64, 65, 128, 129, 500, 1024, 4096, 4097, 16384])
# Near those that serving_kernels.py fits to bf16 with vLLM 0.24.0, without what repeats find in the L2 cache.
GEMM = forms.GemmForm(
    floor=2.63e-6, tile=3.6e-9, arithmetic=0.997, bandwidth=0.854, loads=6.4, sharpness=2.67, split=2.9e-6,
    outputs=1.2, throttle=0.29, weight_cache=0.01, activation_cache=0.01,
)  # fmt: skip
EXPERTS = forms.ExpertForm(
    floor=2.5e-5, expert=3.8e-8, arithmetic=0.8, bandwidth=0.9, sharpness=1.6, loads=3.1, activations=0.9,
    routing=0.9, imbalance=1.0, row=1e-8,
)  # fmt: skip
# As it fits attention in bf16 with vLLM 0.24.0, and all-reduces with SGLang 0.5.14 up to 16 MiB.
ATTENTION = forms.AttentionForm(
    floor=8.63e-6, tile=1.82e-6, bandwidth=1.0, sharpness=8.0, loads=0.98, combination=4.4e-7,
    weight_cache=0.01, arithmetic=1.0, row=1.19e-8,
)  # fmt: skip
ALL_REDUCE = forms.CollectiveForm(
    floor=2.12e-6, growth=0.226, one_shot=0.679, step=3.84e-6, two_shot=0.679, start=3.86e-5, bandwidth=0.867,
    loads=4.29, multicast=0.647,
)  # fmt: skip
LINK, LARGEST = 450e9, 2.0**24


def gemm(m: np.ndarray | float, n: float, k: float) -> np.ndarray:
    rows = np.atleast_1d(np.asarray(m, np.float64))
    shapes = forms.shapes(H100, "any", rows, np.full_like(rows, n), np.full_like(rows, k), 2.0)
    return np.asarray(forms.gemm_seconds(GEMM, H100, shapes))


@pytest.mark.parametrize(
    ("m", "n", "k", "measured"),
    [(1, 4096, 4096, 15.05e-6), (64, 8192, 8192, 47.36e-6), (1024, 4096, 16384, 173.9e-6),
     (4096, 8192, 4096, 330.5e-6)],
)  # fmt: skip
def test_products_take_what_was_measured(m: int, n: int, k: int, measured: float) -> None:
    # gemm_perf.parquet of aiconfigurator-core 0.12.0 (Apache-2.0): vLLM 0.24.0 on H100 SXM in bf16.
    assert float(gemm(m, n, k)[0]) == pytest.approx(measured, rel=0.2)


def test_larger_products_take_longer_and_never_less_than_the_data_sheet_allows() -> None:
    for n, k in ((1024, 8192), (8192, 1024), (28672, 8192)):
        seconds = gemm(SIZES, n, k)
        assert (np.diff(seconds) >= 0).all()
        traffic = 2 * (n * k + SIZES * (n + k)) / H100.bandwidth
        assert (seconds > np.maximum(traffic, SIZES * n * k / H100.macs_per_second)).all()
        assert (gemm(SIZES, 2 * n, k) >= seconds).all()
        assert (gemm(SIZES, n, 2 * k) >= seconds).all()


def test_one_row_beyond_full_waves_takes_another_wave() -> None:
    # 12 x 11 tiles of 128 x 256 fill the 132 multiprocessors of an H100 once.
    rows = 128.0 * 12
    below, full, beyond = (float(gemm(each, 256 * 11, 8192)[0]) for each in (rows - 60, rows, rows + 1))
    assert beyond / full > 1.05 > full / below


def test_balanced_tokens_touch_more_experts_than_random_ones() -> None:
    ones = np.ones_like(SIZES)
    layer = forms.RoutedExperts(*(each * ones for each in (4096, 1536, 8, 128, 1, 3 * 4096 * 1536 * 2)))
    even, random = (
        forms.expert_seconds(EXPERTS, H100, layer, SIZES, 2.0, np.full(len(SIZES), is_even))
        for is_even in (True, False)
    )
    assert (even[1:8] > random[1:8]).all()
    assert (np.diff(random) > 0).all()
    # From 1,024 tokens on, all 128 experts are read: 3 x 4,096 x 1,536 numbers of 16 bits each.
    assert (random[-4:] > 128 * 3 * 4096 * 1536 * 2 / H100.bandwidth).all()


def attention(
    sequences: np.ndarray | float,
    heads: float,
    groups: float,
    context: np.ndarray | float,
    apart: bool = False,
) -> np.ndarray:
    batch, length = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(each, float)) for each in (sequences, context))
    )
    ones = np.ones_like(batch)
    blocks = (heads if apart else groups) * ones
    shape = forms.DecodeAttention(batch, heads * ones, groups * ones, 128 * ones, length, 0 * ones, blocks)
    return np.asarray(forms.attention_seconds(ATTENTION, H100, (64, 1, 7), shape, 2.0))


@pytest.mark.parametrize(
    ("sequences", "heads", "groups", "context", "measured"),
    [(1, 64, 8, 2, 11.6e-6), (2048, 64, 8, 2, 448e-6), (64, 64, 8, 1024, 104.1e-6), (1, 8, 1, 32768, 22.9e-6),
     (16, 8, 1, 131072, 354.9e-6)],
)  # fmt: skip
def test_attention_takes_what_was_measured(
    sequences: int, heads: int, groups: int, context: int, measured: float
) -> None:
    # generation_attention_perf.parquet of the same package: vLLM 0.24.0 on H100 SXM, heads of 128 in bf16.
    assert float(attention(sequences, heads, groups, context)[0]) == pytest.approx(measured, rel=0.2)


def test_attention_grows_and_never_takes_less_than_the_cache_at_full_bandwidth() -> None:
    lengths = np.array([1.0, 63, 64, 65, 1000, 1024, 1025, 8192, 131072])
    for sequences in (1.0, 16, 17, 256):
        seconds = attention(sequences, 64, 8, lengths)
        assert (np.diff(seconds) >= 0).all()
        # Of the cache, at most 0.8 can be found in a cache of 0.01 x 50 MB.
        cached = np.maximum(2 * sequences * 8 * 128 * lengths * 2 - 0.5e6, 0)
        assert (seconds > cached / H100.bandwidth).all()
        assert (attention(2 * sequences, 64, 8, lengths) >= seconds).all()


def test_query_heads_that_share_no_loads_take_a_thread_block_each() -> None:
    # 96 blocks instead of 1 for each of 1,024 sequences: 745 waves on 132 multiprocessors instead of 8.
    shared, apart = (float(attention(1024, 96, 1, 1, is_apart)[0]) for is_apart in (False, True))
    assert apart - shared > (745 - 8) * ATTENTION.tile


@pytest.mark.parametrize(
    ("devices", "numbers", "measured"),
    [(2, 128, 2.43e-6), (8, 131072, 9.36e-6), (4, 4194304, 44.53e-6), (2, 16777216, 138.04e-6),
     (8, 536870912, 4013.99e-6), (4, 536870912, 4521.78e-6)],
)  # fmt: skip
def test_all_reduces_take_what_was_measured(devices: int, numbers: int, measured: float) -> None:
    # custom_allreduce_perf.parquet of the same package: SGLang 0.5.14 on H100 SXM, numbers of 16 bits.
    sent, count = np.array([2.0 * numbers]), np.array([float(devices)])
    seconds = forms.collective_seconds(ALL_REDUCE, LINK, LARGEST, sent, count)
    assert float(seconds[0]) == pytest.approx(measured, rel=0.2)


def test_all_reduces_grow_with_bytes_and_never_exceed_the_link() -> None:
    sent = 2.0 ** np.arange(8, 31)
    for devices in (2.0, 4.0, 8.0):
        seconds = forms.collective_seconds(ALL_REDUCE, LINK, LARGEST, sent, np.full_like(sent, devices))
        assert (np.diff(seconds) > 0).all()
        # A ring sends 2 (N - 1) / N of the bytes; a switch that reduces receives all and returns 1 / N.
        least = min(2 * (devices - 1) / devices, 1 + 1 / devices)
        assert (seconds > least * sent / LINK).all()
