"""Layouts that reach goals for TTFT and TPOT, compared with a search over all numbers of requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import published_configs
import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Layout, enumerate_layouts
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.steps import step, work
from sizeup.serving.times.estimate import Duration, ServingPoint
from sizeup.serving.times.goals import GoalRow, ranked


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder / "llama-3.1-8b.json"


def test_rows_are_those_of_all_layouts_and_numbers_of_requests(config: Path) -> None:
    options = {"target": "2xh100/vllm", "input": 1024, "output": 256}
    rows = sizeup.llm(config, ttft="300ms", tpot=0.012, **options).goal_rows(top=10)  # type: ignore[call-overload]
    expected = {}
    for text in ("tp2", "pp2", "dp2"):
        serving = sizeup.llm(config, layout=text, concurrency=range(1, 1000), **options)  # type: ignore[call-overload]
        times = serving.times()
        assert times is not None
        points = [
            point for point in times.points if point.ttft.seconds <= 0.3 and point.tpot.seconds <= 0.012
        ]
        if points:
            expected[text] = points[-1]
    assert len(expected) >= 2
    assert {str(row.layout): row.point for row in rows} == expected
    throughput = [row.point.gpu_tokens_per_second for row in rows]
    assert throughput == sorted(throughput, reverse=True)


def test_a_page_divides_the_model_once_per_layout_for_goals_and_once_for_operating_points(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = sizeup.llm(config, target="4xh100/vllm", ttft="1s")
    divided: list[Layout] = []

    def divide(architecture: Architecture, layout: Layout, *rest: object) -> object:
        divided.append(layout)
        return work.divide(architecture, layout, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(step, "divide", divide)
    serving.save(tmp_path / "page.html")
    searched = enumerate_layouts(serving.architecture, serving.cluster)
    others = [str(each) for each in divided if each != serving.layout]
    expected = [str(searched[row]) for row in range(len(searched)) if searched[row] != serving.layout]
    assert sorted(others) == sorted([*expected, *expected])


def test_goals_that_no_layout_reaches_have_no_rows(config: Path) -> None:
    assert sizeup.llm(config, target="2xh100/vllm", tpot="1us").goal_rows() == ()
    assert sizeup.llm(config, target="2xh100/vllm").goal_rows() == ()  # no goals


def test_layouts_whose_intervals_overlap_are_tied() -> None:
    def row(tokens: float, low: float | None, high: float | None) -> GoalRow:
        tpot = Duration(0.010, low, high)
        return GoalRow(Layout(), ServingPoint(1, 1, tpot, tpot, 100.0, tokens, {}))

    # Throughput of the first at least 200 x 10 / 12.5 = 160; of the others at most tokens x 10 / 8.
    rows = ranked([row(128, 0.008, 0.0125), row(127, 0.008, 0.0125), row(200, 0.008, 0.0125)])
    assert [(each.point.gpu_tokens_per_second, each.is_tied) for each in rows] == [
        (200, False), (128, True), (127, False),
    ]  # fmt: skip
    # Without an interval, at most the square root of 1.28 more: 142 x 1.131 exceeds 160, 141 x 1.131 not.
    unknown = ranked([row(200, 0.008, 0.0125), row(142, None, None), row(141, None, None)])
    assert [each.is_tied for each in unknown] == [False, True, False]
    unknown = ranked([row(200, None, None), row(157, None, None), row(156, None, None)])
    assert [each.is_tied for each in unknown] == [False, True, False]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("8xa100/sglang", "are not listed: SGLang on a100-80gb-sxm has no calibrated times"),
        ("4096xh100/vllm", "and at most 400 are compared"),
    ],
)
def test_goals_that_cannot_be_searched_are_limits_alone(config: Path, target: str, message: str) -> None:
    """SGLang on an A100 has no calibration, and times on several nodes have no interval."""
    source = config if "a100" in target else config.parent / "deepseek-v3.json"
    serving = sizeup.llm(source, target=target, ttft=1e-6, remedies=False)
    assert (serving.goals, serving.goal_rows()) == (None, ())
    assert message in serving.assumptions[-1]
    assert serving.check is not None
    assert [limit.name for limit in serving.check.limits] == ["ram", "ttft"]
    assert serving.check.fits is not True


@pytest.mark.parametrize("goal", ["30", "fast", "-1ms"])
def test_a_goal_is_a_time_with_a_unit(config: Path, goal: str) -> None:
    with pytest.raises(SizeupError, match="--tpot"):
        sizeup.llm(config, target="h100/vllm", tpot=goal)


def test_goals_are_judged_if_no_layout_is_listed(config: Path) -> None:
    options = ("--ttft", "1s", "--tpot", "30ms", "--top", "0")
    shown = run_command("llm", config, "-d", "h100/vllm", *options).stdout
    assert "the most requests of a layout that reach them" in " ".join(shown.split())
    assert "best" not in shown


@pytest.mark.parametrize(
    "options",
    [
        {"rate": "4"}, {"rate": True}, {"ttft": [1]}, {"concurrency": 1.5}, {"concurrency": "8"},
        {"disaggregate": 5}, {"draft": b"x", "draft_tokens": 2, "acceptance": 0.5}, {"price": 10**400},
        {"rate": 1.0, "shared_prefix": 1.5}, {"tpot": 0.03, "output": 1},
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused(config: Path, options: dict[str, Any]) -> None:
    with pytest.raises(SizeupError):
        sizeup.llm(config, target="h100/vllm", **options)
