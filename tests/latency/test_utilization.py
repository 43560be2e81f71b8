"""Utilization of a device at a latency that a user measured."""

from __future__ import annotations

import pytest

import sizeup
from networks import three_convolutions, with_unknown
from sizeup.errors import SizeupError
from sizeup.latency import parse_measurement
from sizeup.render.data.measurement import utilization_to_dict as to_dict

MACS = 3_276_800
# Four cores at 2.4 GHz, each with two pipes of four fp32 MACs; a bus of 32 bits x 4,267 MT/s.
PEAK_MACS = 4 * 2.4e9 * 8
BANDWIDTH = 4 * 4267e6


def test_rates_and_shares_follow_from_the_latency() -> None:
    result = sizeup.utilization(three_convolutions(), "rpi5/torch-eager", latency_ms=2.0)
    assert result.flops_per_second == pytest.approx(2 * MACS / 2e-3)
    assert result.compute_share == pytest.approx(MACS / 2e-3 / PEAK_MACS)
    assert result.peak_flops_per_second == pytest.approx(2 * PEAK_MACS)
    # Each tensor once: input, three weights, and both intermediate values as output and as input.
    moved = 4 * (3 * 64 * 64 + 864 + 288 + 2048 + 4 * 32 * 1024 + 64 * 1024)
    assert result.bytes_per_second == pytest.approx(moved / 2e-3)
    assert result.bandwidth_share == pytest.approx(moved / 2e-3 / BANDWIDTH)
    assert result.precisions == ("fp32",)
    assert result.bound_by == "memory"  # 49.7 us of traffic at least, 42.7 us of arithmetic
    assert result.caveats == (
        "far from both peaks: overhead, unused cores or slow kernels take most of the time",
    )


def test_a_measured_bandwidth_replaces_the_counted_one() -> None:
    fast = MACS / PEAK_MACS * 1e3 / 0.5  # half of the peak
    model = three_convolutions()
    results = [
        sizeup.utilization(model, "rpi5", latency_ms=fast, bandwidth=each) for each in ("8 GB/s", 13e9, 18e9)
    ]
    assert [each.bytes_per_second for each in results] == [8e9, 13e9, 18e9]
    assert [each.bound_by for each in results] == ["compute", "memory", "memory"]
    assert [len(each.caveats) for each in results] == [0, 0, 1]
    assert results[2].caveats == ("the bandwidth is exceeded: check it",)


def test_share_is_of_the_peak_at_the_precision_that_was_measured() -> None:
    wide, narrow = (
        sizeup.utilization(three_convolutions(), "rpi5", latency_ms=1.0, precision=each)
        for each in (None, "int8")
    )
    assert narrow.precisions == ("int8",)
    assert wide.compute_share == pytest.approx(4 * (narrow.compute_share or 0.0))


def test_more_than_the_peak_is_a_caveat() -> None:
    result = sizeup.utilization(three_convolutions(), "rpi5", latency_ms=1e-3)
    assert "the peak is exceeded: check the latency, the precision and the device" in result.caveats


def test_unknown_operators_leave_rates_unknown_and_not_zero() -> None:
    result = sizeup.utilization(with_unknown(), "rpi5", latency_ms=1.0)
    data = to_dict(result)
    assert [data[key] for key in ("macs", "flops_per_second", "bytes_per_second", "bound_by")] == [None] * 4
    measured = sizeup.utilization(with_unknown(), "rpi5", latency_ms=1.0, bandwidth=8e9)
    assert measured.bandwidth_share == pytest.approx(8e9 / BANDWIDTH)
    assert measured.bound_by is None


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), True, "12", None, 1e-320])
def test_latency_has_to_be_positive_and_finite(value: float) -> None:
    with pytest.raises(SizeupError, match=r"latency_ms is .*; it must be a positive, finite number"):
        sizeup.utilization(three_convolutions(), "rpi5", latency_ms=value)


@pytest.mark.parametrize(
    ("text", "latency_ms", "bandwidth"),
    [
        ("latency_ms=12.3", 12.3, None),
        ("latency_ms=1e1", 10.0, None),
        ("bandwidth=8GB/s, latency_ms=5", 5.0, 8e9),
        ("latency_ms=5,bandwidth=34.1 GB/s", 5.0, 34.1e9),
    ],
)
def test_measurements_are_parsed(text: str, latency_ms: float, bandwidth: float | None) -> None:
    measurement = parse_measurement(text)
    assert (measurement.latency_ms, measurement.bandwidth) == (latency_ms, bandwidth)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lat=3", "unknown key 'lat'; known: latency_ms, bandwidth"),
        ("12.3", "unknown key '12.3'; known: latency_ms, bandwidth"),
        ("", "unknown key ''; known"),
        ("latency_ms=1,", "unknown key ''; known"),
        ("bandwidth=8GB/s", "latency_ms is missing"),
        ("latency_ms=1,latency_ms=2", "latency_ms is given twice"),
        ("latency_ms=12 ms", "latency_ms is '12 ms', not a number of milliseconds"),
        ("latency_ms=1_0", "not a number of milliseconds"),
        ("latency_ms=-1", "not a number of milliseconds"),
        ("latency_ms=nan", "not a number of milliseconds"),
        ("latency_ms=1e999", "latency_ms is inf; it must be a positive, finite number"),
        ("latency_ms=0", "latency_ms is 0.0; it must be"),
        ("latency_ms=1,bandwidth=8", "bandwidth: '8' is not a bandwidth"),
        ("latency_ms=1,bandwidth=8GiB/s", "is not a bandwidth"),
        ("latency_ms=1,bandwidth=0GB/s", "bandwidth: '0GB/s' is out of range for a bandwidth"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(SizeupError, match=message):
        parse_measurement(text)
