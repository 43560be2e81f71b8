"""Layouts that reach goals for TTFT and TPOT, compared with a search over all numbers of requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import published_configs
import sizeup
from sizeup.errors import SizeupError
from sizeup.language_models.layouts import Layout
from sizeup.serving.estimate import Duration, ServingPoint
from sizeup.serving.goals import GoalRow, ranked


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder / "llama-3.1-8b.json"


def test_rows_are_those_of_all_layouts_and_numbers_of_requests(config: Path) -> None:
    options = {"target": "2xh100/vllm", "input": 1024, "output": 256}
    rows = sizeup.llm(config, ttft="300ms", tpot=0.012, **options).goal_rows(top=10)  # type: ignore[arg-type]
    expected = {}
    for text in ("tp2", "pp2", "dp2"):
        serving = sizeup.llm(config, layout=text, concurrency=range(1, 1000), **options)  # type: ignore[arg-type]
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
    unknown = ranked([row(200, 0.008, 0.0125), replace(rows[2], point=row(1, None, None).point)])
    assert [each.is_tied for each in unknown] == [False, True]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("8xa100/vllm", "goals need calibrated times, and vLLM on a100-80gb-sxm has none"),
        ("4096xh100/vllm", "goals are searched in at most 400 layouts, and 4,096 devices have "),
    ],
)
def test_goals_that_cannot_be_searched_are_refused(config: Path, target: str, message: str) -> None:
    source = config if "a100" in target else config.parent / "deepseek-v3.json"
    with pytest.raises(SizeupError, match=message):
        sizeup.llm(source, target=target, ttft=1.0)


@pytest.mark.parametrize("goal", ["30", "fast", "-1ms"])
def test_a_goal_is_a_time_with_a_unit(config: Path, goal: str) -> None:
    with pytest.raises(SizeupError, match="--tpot"):
        sizeup.llm(config, target="h100/vllm", tpot=goal)
