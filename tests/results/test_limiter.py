"""What limits operators, and the device's ops:byte ratio, from rates and counts worked out by hand."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import sizeup
from networks import three_convolutions
from sizeup.latency import flops_per_byte, time_by_limiter
from sizeup.render.console.report import render
from sizeup.targets import current_catalog

# MACs and fp32 bytes of the three convolutions: inputs, weights and outputs once each.
MACS = (884_736, 294_912, 2_097_152)
BYTES = (
    4 * (3 * 64 * 64 + 864 + 32 * 1024),
    4 * (32 * 1024 + 288 + 32 * 1024),
    4 * (32 * 1024 + 2048 + 64 * 1024),
)
# Raspberry Pi 5: 4 cores x 2.4 GHz x 8 MACs, and 32 bit x 4267 MT/s.
PEAK, BANDWIDTH = 76.8e9, 17.068e9


def slowed_times() -> list[tuple[float, float, float]]:
    """Seconds of arithmetic, traffic and launch of each, with the slowdown of such cores with LiteRT."""
    slowdown = current_catalog().slowdown(sizeup.target("rpi5/litert"))
    assert slowdown is not None
    return [
        (
            slowdown.compute * macs / PEAK,
            slowdown.traffic * moved / BANDWIDTH,
            slowdown.launch_seconds,
        )
        for macs, moved in zip(MACS, BYTES, strict=True)
    ]


def test_operators_are_counted_by_what_limits_them() -> None:
    report = sizeup.analyze(three_convolutions(), target="rpi5/litert", basis="roofline")
    assert report.latency is not None
    times = slowed_times()
    slow = [compute < traffic for compute, traffic, _ in times]
    assert slow == [False, True, False]  # 9.6, 2.2 and 10.4 FLOP/B against 9.0
    limits = time_by_limiter(report.latency)
    assert limits is not None
    assert (limits["traffic"].ops, limits["compute"].ops, limits["launch"].ops) == (1, 2, 0)
    whole = sum(map(sum, times))
    assert limits["traffic"].share == pytest.approx(sum(times[1]) / whole)
    assert limits["compute"].share == pytest.approx(sum(times[0] + times[2]) / whole)
    assert flops_per_byte(report.latency) == {"fp32": pytest.approx(2 * PEAK / BANDWIDTH)}


def test_the_summary_and_the_ratio_are_printed_and_in_the_data() -> None:
    report = sizeup.analyze(three_convolutions(), target="rpi5/litert", basis="roofline")
    buffer = io.StringIO()
    render(report, Console(file=buffer, width=100, color_system=None))
    share = 100 * sum(slowed_times()[1]) / sum(map(sum, slowed_times()))
    summary = (
        f"2 of 3 operators compute-bound, {100 - share:.0f} % of the time; 1 memory-bound, {share:.0f} %"
    )
    assert summary in buffer.getvalue()
    assert "ops:byte     9 FLOP/B at fp32" in buffer.getvalue()
    data = report.to_dict()["latency"]
    assert data["flops_per_byte"] == {"fp32": pytest.approx(2 * PEAK / BANDWIDTH)}
    assert data["bound_by"]["traffic"]["ops"] == 1
    assert sum(each["ms"] for each in data["bound_by"].values()) == pytest.approx(data["ms"])


def test_table_devices_and_estimate_use_one_unit() -> None:
    """The intensity of an operator compares with the ratio of the device: its limiter follows from both."""
    report = sizeup.analyze(three_convolutions(), target="rpi5/litert", basis="roofline")
    ratio = sizeup.target("rpi5/litert").flops_per_byte("fp32")
    assert ratio is not None
    for row in report.ops:
        assert row.intensity is not None
        assert (row.bound_by == "traffic") == (row.intensity < ratio)


def test_limiters_of_a_lower_bound_are_those_of_its_times() -> None:
    """All tensors stay in the caches, so arithmetic takes all of the time: memory limits nothing."""
    report = sizeup.analyze(three_convolutions(), target="rpi5/ort")
    estimate = report.latency
    assert estimate is not None
    assert estimate.low is None  # a lower bound
    assert [row.bound_by for row in report.ops] == ["compute"] * 3
    limits = time_by_limiter(estimate)
    assert limits is not None
    assert (limits["compute"].ops, limits["traffic"].ops) == (3, 0)
    assert limits["compute"].seconds == pytest.approx(estimate.seconds)
    # Below the data sheet by at most the 324 / 64 multiplications that Winograd saves in fp16, twice as fast.
    assert sum(MACS) / PEAK / 2 / (324 / 64) <= estimate.seconds <= sum(MACS) / PEAK


@pytest.mark.parametrize(
    "options",
    [
        {"basis": "coefficients"},
        {"target": "stm32f746/tflm", "basis": "roofline"},  # its bandwidth is not known
        {"target": "stm32f746/tflm", "basis": "calibrated", "precision": "int8"},  # a rate per MAC alone
    ],
)
def test_a_basis_that_prices_one_resource_alone_names_no_limiter(options: dict[str, str]) -> None:
    report = sizeup.analyze(three_convolutions(), **options)  # type: ignore[arg-type] # names of options
    assert report.latency is not None
    assert time_by_limiter(report.latency) is None
    assert report.to_dict()["latency"]["bound_by"] is None
