"""The calibrated form, against the same sum in plain Python."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizeup.latency import Rate, Rates, Work, from_columns, kernels, rates_from, seconds, unseen_share

RATES = Rates(
    Rate(1e-9, 2e-9, 3e-6),
    {"conv": Rate(2e-12, 1e-11, 1e-5)},
    run=1e-4,
    power=2.0,
    length=8.0,
    columns=4.0,
    rows=16.0,
    tile=32.0,
    cache=4096.0,
    far=5e-11,
    wave=512.0,
)


def kernel(name: str = "conv", **columns: float) -> Work:
    return from_columns([name], 1, [0], **{key: [value] for key, value in columns.items()})


def test_a_kernel_takes_the_norm_of_compute_and_traffic_and_its_launch() -> None:
    work = kernel(macs=1e9, read=3000, written=2000, weights=1000, length=64, columns=32, rows=40)
    slow = (1 + 8 / 64) * (1 + 4 / 32) * (1 + 16 / 64) * (64 / 40)  # two tiles of 32 for 40 rows
    slow += 256 / (32 * 64)  # half of a wave of 512 results, on 64 rows of 32
    compute = 2e-12 * 1e9 * slow
    traffic = 1e-11 * 6000 + 5e-11 * 6000  # 6,000 bytes are more than the cache holds
    times = kernels(RATES, work)
    assert times.compute[0] == pytest.approx(compute)
    assert times.traffic[0] == pytest.approx(traffic)
    assert times.seconds[0] == pytest.approx(math.hypot(compute, traffic) + 1e-5)


def test_what_fits_the_cache_is_not_far() -> None:
    assert kernels(RATES, kernel(read=4096)).traffic[0] == pytest.approx(1e-11 * 4096)


def test_weights_of_kernels_that_fit_the_cache_are_displaced_by_others() -> None:
    """Of 8,193 + 2 x 4,095 bytes of weights, 4,096 stay; kernels that exceed the cache have far bytes."""
    rates = Rates(Rate(0.0, 0.0, 0.0), cache=4096.0, far=1e-9, cold=3e-9)
    work = from_columns(["conv"] * 3, 1, [0, 0, 0], read=[0, 1, 2], weights=[8193, 4095, 4095])
    share = 1 - 4096 / (8193 + 4095 + 4095)
    assert kernels(rates, work).traffic.tolist() == pytest.approx([8193e-9, 3e-9 * 4095 * share, 4097e-9])


def test_weights_beyond_the_cache_are_read_again_for_each_row() -> None:
    rates = Rates(Rate(1e-9, 0.0, 0.0), cache=4096.0, reread=2e-9)
    work = from_columns(["conv"] * 2, 2, [0, 1], macs=[1e6, 1e6], weights=[4096, 4097], read=[9000, 0])
    assert kernels(rates, work).traffic.tolist() == pytest.approx([0.0, 2e-3])
    assert seconds(rates, work).tolist() == pytest.approx([1e-3, 3e-3])
    assert seconds(rates_from(rates.to_dict()), work).tolist() == pytest.approx([1e-3, 3e-3])


def test_a_class_that_was_not_seen_has_the_rate_of_all() -> None:
    times = kernels(RATES, kernel("softmax", macs=10, read=5))
    assert times.compute[0] == pytest.approx(1e-8)
    assert times.launch[0] == 3e-6


def test_a_network_is_the_sum_of_its_kernels_as_often_as_they_run_and_what_a_run_adds() -> None:
    plain = Rates(Rate(1.0, 10.0, 100.0), run=1000.0)
    work = from_columns(["a", "b"], 1, [0, 0], macs=[1, 2], read=[3, 4], count=[1, 5])
    assert seconds(plain, work).tolist() == [1 + 30 + 100 + 5 * (2 + 40 + 100) + 1000]


def test_rates_survive_as_plain_text() -> None:
    assert rates_from(json.loads(json.dumps(RATES.to_dict()))) == RATES


@settings(max_examples=50)
@given(st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from([1.0, 2.0, 4.0, 16.0]))
def test_overlap_lies_between_the_longer_part_and_the_sum(macs: float, read: float, power: float) -> None:
    rates = Rates(Rate(1.0, 1.0, 0.0), power=power)
    times = float(seconds(rates, kernel("any", macs=macs, read=read))[0])
    assert max(macs, read) * (1 - 1e-9) <= times <= (macs + read) * (1 + 1e-9)


def test_more_work_never_takes_less_time() -> None:
    taken = []
    for size in (1.0, 10.0, 100.0, 1000.0):
        work = kernel(macs=9 * size * size, read=100 * size, length=9, columns=size, rows=size)
        taken.append(float(seconds(RATES, work)[0]))
    assert taken == sorted(taken)


def test_a_rate_may_stand_for_all_classes_of_a_number_type() -> None:
    slow, quick, other = Rate(4.0, 0.0, 0.0), Rate(1.0, 0.0, 0.0), Rate(9.0, 0.0, 0.0)
    rates = Rates(other, {"*": slow, "*.int8": quick, "linear.int8": other})
    assert rates.of("conv") == rates.of("linear") == slow
    assert rates.of("conv.int8") == quick
    assert rates.of("linear.int8") == rates.of("conv.fp16") == other
    assert [rates.covers(name) for name in ("conv", "conv.int8", "conv.fp16")] == [True, True, False]
    assert Rates(other).covers("conv.fp16")
    work = from_columns(["conv", "conv.fp16"], 1, [0, 0], macs=[1.0, 1.0])
    assert unseen_share(rates, work).tolist() == pytest.approx([9 / 13])
