"""Estimates that measurements of the user correct: where they apply, and by how much."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from language_model_configs import architecture
from sizeup.errors import SizeupError, TargetWarning
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.steps.factors import Factors, factor
from sizeup.serving.steps.step import step_time
from sizeup.serving.times.anchors import configuration_digest, slowed
from sizeup.serving.times.estimate import ServingEstimate, calibrated_server, estimate
from sizeup.targets import clear_cache, write
from sizeup.targets.anchors import Anchor
from sizeup.targets.clusters import cluster

NAME, TP8 = "Llama-3.1-70B", Layout(8)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "sizeup/targets"


def store(folder: Path, *points: tuple[int, int, int, float, float | None]) -> None:
    digest = configuration_digest(architecture(NAME), TP8, "bf16")
    anchors = [Anchor("h100-sxm/vllm", digest, NAME, "tp8", *point, "bench.json") for point in points]
    write.save_anchors(folder / "h100-sxm.toml", [anchor.to_table() for anchor in anchors])
    clear_cache()


def times(name: str = NAME, layout: Layout = TP8, kv: str = "bf16", *, most: int = 1000) -> ServingEstimate:
    machines, engine = cluster("8xh100/vllm")
    result = estimate(
        architecture(name), layout, machines, engine, kv,
        input=1024, output=256, concurrency=(1, 8, 64), most=most,
    )  # fmt: skip
    assert result is not None
    return result


def test_a_measured_load_has_the_measured_times_and_the_effect_halves_every_three_doublings(
    folder: Path,
) -> None:
    before = times()
    store(folder, (8, 1024, 256, 1.44 * before.points[1].tpot.seconds, 0.81 * before.points[1].ttft.seconds))
    after = times()
    ratios = [
        new.tpot.seconds / old.tpot.seconds for new, old in zip(after.points, before.points, strict=True)
    ]
    assert ratios == pytest.approx([1.2, 1.44, 1.2])  # three doublings below and above
    first = [
        new.ttft.seconds / old.ttft.seconds for new, old in zip(after.points, before.points, strict=True)
    ]
    measured = 0.81 * before.points[1].ttft.seconds / before.points[0].ttft.seconds
    assert measured < 0.9  # and one request does not wait longer than eight
    assert first == pytest.approx([measured, 0.81, 0.9])
    assert after.factors is not None
    assert (after.factors.measurements, after.factors.files) == (1, ("bench.json",))
    for point, old in zip(after.points, before.points, strict=True):
        assert sum(point.causes.values()) == pytest.approx(point.tpot.seconds)
        assert old.tpot.high is not None
        assert point.tpot.high == pytest.approx(point.tpot.seconds * old.tpot.high / old.tpot.seconds)


@pytest.mark.parametrize("ratio", [0.6, 1.1, 3.0])
def test_corrected_times_do_not_fall_below_those_of_smaller_measured_loads(
    folder: Path, ratio: float
) -> None:
    old = times().points[1]
    store(folder, (8, 1024, 256, ratio * old.tpot.seconds, ratio * old.ttft.seconds))
    points = times().points
    for name in ("tpot", "ttft"):
        seconds = [getattr(point, name).seconds for point in points]
        assert seconds[1] == pytest.approx(ratio * getattr(old, name).seconds)
        assert seconds == sorted(seconds)


def test_the_wait_for_the_cache_is_corrected_as_the_answers_that_it_waits_for(folder: Path) -> None:
    before = times(most=8).points  # 56 of 64 requests wait for eight others, seven times
    store(folder, (8, 1024, 256, 1.44 * before[1].tpot.seconds, 3 * before[1].ttft.seconds))
    after = times(most=8).points
    # The same eight requests run, so TPOT is the measured one.
    assert [point.running for point in after] == [1, 8, 8]
    assert after[2].tpot == after[1].tpot
    wait = before[2].ttft.seconds - before[1].ttft.seconds
    assert wait > 7 * 256 * before[1].tpot.seconds
    assert after[2].ttft.seconds == pytest.approx(3 * before[1].ttft.seconds + 1.44 * wait)
    for point in after:
        assert sum(point.causes.values()) == pytest.approx(point.tpot.seconds)


def test_other_models_layouts_and_precisions_are_not_corrected(folder: Path) -> None:
    others = [("Llama-3.1-8B", TP8, "bf16"), (NAME, Layout(4, 1, 2), "bf16"), (NAME, TP8, "fp8")]
    before = [times(*other) for other in others]
    store(folder, (8, 1024, 256, 1.0, 2.0))
    for other, old in zip(others, before, strict=True):
        assert times(*other) == old
        assert old.factors is None


def test_a_measurement_without_ttft_corrects_tpot_alone(folder: Path) -> None:
    before = times()
    store(folder, (8, 1024, 256, 1.5 * before.points[1].tpot.seconds, None))
    after = times()
    assert after.points[1].tpot.seconds == pytest.approx(1.5 * before.points[1].tpot.seconds)
    assert after.points[1].ttft == before.points[1].ttft


@pytest.mark.parametrize(
    ("tpot", "message"),
    [
        # 16.4 GiB of weights per GPU at 3.35 TB/s take 5.3 ms.
        (0.0015, "bench.json: TPOT 1.5 ms is below 0.5 of that at data-sheet rates, 5"),
        (1e6, "bench.json: TPOT 1e.09 ms differs from the estimate by more than a factor of 10"),
        (1e-9, "bench.json: TPOT 1e-06 ms differs from the estimate by more than a factor of 10"),
    ],
)
def test_a_measurement_of_another_server_is_refused(folder: Path, tpot: float, message: str) -> None:
    store(folder, (1, 1024, 256, tpot, None))
    with pytest.raises(SizeupError, match=message):
        times()


def test_measurements_of_one_configuration_are_limited(folder: Path) -> None:
    store(folder, *((requests, 1024, 256, 0.02, None) for requests in range(1, 502)))
    with pytest.raises(SizeupError, match="h100-sxm/vllm: 501 measurements of one configuration; keep 500"):
        times()


def test_a_second_measurement_at_a_load_replaces_the_first(folder: Path) -> None:
    store(folder, (8, 1024, 256, 0.01, None), (64, 1024, 256, 0.03, None))
    store(folder, (8, 1024, 256, 0.02, None), (8, 1024, 256, 0.025, None))
    after = times()
    assert [point.tpot.seconds for point in after.points[1:]] == pytest.approx([0.025, 0.03])
    assert after.factors is not None
    assert after.factors.measurements == 2


def test_factors_equal_the_solution_of_the_two_point_process() -> None:
    # Loads one doubling apart, c = 2^(-1/3): weights at a point are (k1 - c k2, k2 - c k1) / (1 - c^2).
    both = factor([(8, 100, 100), (16, 100, 100)], [2.0, 0.5], [1.0, 1.0])
    assert both.at([8, 16], 100, 100) == pytest.approx([2.0, 0.5])
    c, near, far = 2 ** (-1 / 3), 2 ** (-1 / 3), 2 ** (-2 / 3)
    expected = ((near - c * far) * math.log(2) + (far - c * near) * math.log(0.5)) / (1 - c * c)
    assert both.at(4, 100, 100) == pytest.approx(math.exp(expected))
    assert both.at(4, 100, 100) == pytest.approx(2**near)  # the farther one is screened
    assert factor([], [], []).at([1, 2], 3, 4) == pytest.approx([1, 1])
    assert factor([(8, 10, 10)] * 2, [2.0, 8.0], [1.0, 1.0]).at(8, 10, 10) == pytest.approx(4)


def test_steps_of_a_simulated_server_are_slowed_alike() -> None:
    machines, engine = cluster("8xh100/vllm")
    calibrated = calibrated_server(architecture(NAME), TP8, machines, engine, "bf16")
    assert calibrated is not None
    server = calibrated[0]
    assert slowed(server, 100, 100, 8) is server
    both = factor([(8, 100, 100)], [1.7], [1.0])
    other = slowed(replace(server, factors=Factors(both, both, 1, ("a",))), 100, 100, 8)
    batches, tokens = np.array([1, 8, 64]), np.array([1, 512, 1])
    assert step_time(other, batches, 4096, tokens) == pytest.approx(
        1.7 * step_time(server, batches, 4096, tokens)
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tpot = nan", "tpot is nan, not a number"),
        ("tpot = -0.1", "tpot is -0.1, not within"),
        ("requests = 0", "requests is 0, not within"),
        ("colour = 1", "unknown key 'colour'"),
    ],
)
def test_a_changed_file_is_refused_by_key(folder: Path, line: str, message: str) -> None:
    store(folder, (8, 1024, 256, 0.01, 0.1))
    path, key = folder / "h100-sxm.toml", line.split(" ")[0]
    kept = [each for each in path.read_text().splitlines() if each.split(" ")[0] != key]
    path.write_text("\n".join([*kept, line]))
    clear_cache()
    with pytest.warns(TargetWarning, match=message):
        times()
