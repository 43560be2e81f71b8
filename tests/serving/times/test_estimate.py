"""Estimates of served models: intervals, bases and caveats."""

from __future__ import annotations

import pytest

from language_model_configs import architecture
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.times.estimate import ServingEstimate, estimate
from sizeup.targets.clusters import cluster


def times(
    name: str, target: str, layout: Layout, weights: str | None = None, most: int = 1000
) -> ServingEstimate:
    machines, engine = cluster(target)
    result = estimate(
        architecture(name, weights), layout, machines, engine, "bf16",
        input=1024, output=256, concurrency=(1, 16, 64), most=most,
    )  # fmt: skip
    assert result is not None
    return result


def test_a_calibrated_engine_has_intervals_around_its_times() -> None:
    result = times("Llama-3.1-70B", "8xh100/vllm", Layout(8))
    assert result.calibration is not None
    assert result.caveats == ()
    for point in result.points:
        for duration in (point.tpot, point.ttft):
            assert duration.low is not None
            assert duration.high is not None
            assert duration.low < duration.seconds < duration.high


@pytest.mark.parametrize(
    ("target", "layout", "weights", "caveat"),
    [
        ("2x8xh100/vllm", Layout(8, 2), None, "pipeline stages"),
        ("2x8xh100/vllm", Layout(8, 1, 2), None, "several nodes"),
        ("8xh100/vllm", Layout(8), "int4", "weights in int4"),
        ("8xh100/sglang", Layout(8), None, "did not hold for measurements that were left out"),
    ],
)
def test_what_was_not_measured_has_no_interval(
    target: str, layout: Layout, weights: str | None, caveat: str
) -> None:
    result = times("Llama-3.1-70B", target, layout, weights)
    assert result.calibration is not None
    assert any(text.startswith("no interval: ") and caveat in text for text in result.caveats)
    assert all(point.tpot.low is None and point.ttft.high is None for point in result.points)


@pytest.mark.parametrize("target", ["8xa100/sglang", "8xh100/llamacpp"])
def test_without_a_calibration_times_are_lower_bounds(target: str) -> None:
    result = times("Llama-3.1-70B", target, Layout(8))
    assert result.calibration is None
    assert all(point.tpot.low is None for point in result.points)
    best = times("Llama-3.1-70B", "8xh100/vllm", Layout(8))
    if "h100" in target:
        pairs = zip(result.points, best.points, strict=True)
        assert all(bound.tpot.seconds < point.tpot.seconds for bound, point in pairs)


def test_throughput_follows_from_times() -> None:
    result = times("Llama-3.1-8B", "2xh100/trtllm", Layout(2))
    for point in result.points:
        assert point.user_tokens_per_second == pytest.approx(1 / point.tpot.seconds)
        request = point.ttft.seconds + 255 * point.tpot.seconds
        assert point.gpu_tokens_per_second == pytest.approx(point.requests * 256 / request / 2)
        assert sum(point.causes.values()) == pytest.approx(point.tpot.seconds)
        assert point.limiter in point.causes


def test_requests_beyond_the_cache_wait() -> None:
    result = times("Llama-3.1-8B", "2xh100/trtllm", Layout(2), most=16)
    assert [point.running for point in result.points] == [1, 16, 16]
    assert result.points[2].tpot == result.points[1].tpot
    assert result.points[2].ttft.seconds > result.points[1].ttft.seconds + 256 * result.points[1].tpot.seconds
