"""The search for divisions of GPUs, compared with all divisions, one by one."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import published_configs
import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError
from sizeup.serving.memory.deployment import Deployment, deploy
from sizeup.serving.memory.engines import engine_of
from sizeup.serving.memory.layouts import enumerate_layouts
from sizeup.serving.models.reader import read
from sizeup.serving.times.disaggregation import DisaggregatedPoint, disaggregate, parse_sides
from sizeup.serving.times.divisions import best_divisions
from sizeup.serving.times.goals import Goals
from sizeup.targets.clusters import cluster

INPUT, OUTPUT = 2000, 100
COUNTS = range(1, 121)


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder


def _deployment(config: Path, target: str) -> Deployment:
    machines, engine = cluster(target)
    return deploy(read(config), machines, engine_of(engine), input=INPUT, output=OUTPUT)


def _all_points(deployment: Deployment, size: int) -> list[tuple[DisaggregatedPoint, ...]]:
    """The points of every pair of layouts with that number of prefill GPUs, at all counts."""
    device, sides = deployment.cluster.device.name, []
    for count in (size, deployment.cluster.devices - size):
        layouts = enumerate_layouts(deployment.architecture, cluster(f"{count}x{device}")[0])
        sides.append([str(layouts[row]).replace(" ", "") for row in range(len(layouts))])
    texts = [f"{first}:{second}" for first in sides[0] for second in sides[1]]
    return [disaggregate(text, deployment, COUNTS, INPUT, OUTPUT).points for text in texts]


@pytest.mark.parametrize(
    ("config", "target", "goals"),
    [
        ("llama-3.1-8b.json", "4xh100/vllm", Goals(ttft=0.3, tpot=0.009)),
        ("llama-3.1-8b.json", "4xh100/vllm", Goals(ttft=0.1)),
        ("gpt-oss-20b.json", "3xh100/vllm", Goals(ttft=0.5, tpot=0.006)),
        ("gpt-oss-20b.json", "3xh100/vllm", None),
    ],
)
def test_the_search_returns_the_best_of_all_divisions(
    configs: Path, config: str, target: str, goals: Goals | None
) -> None:
    deployment = _deployment(configs / config, target)
    rows = best_divisions(deployment, 64, INPUT, OUTPUT, goals)
    limits = goals or Goals()
    assert max(row.point.requests for row in rows) < COUNTS[-1]  # else not all were compared
    by_size = {row.prefill.cluster.devices: row.point for row in rows}
    for size in range(1, deployment.cluster.devices):
        best = 0.0
        for points in _all_points(deployment, size):
            for point in points:
                is_reached = point.ttft <= (limits.ttft or 1e9) and point.tpot <= (limits.tpot or 1e9)
                if is_reached and (goals is not None or point.requests == 64):
                    best = max(best, point.gpu_tokens_per_second)
        assert (by_size[size].gpu_tokens_per_second if size in by_size else 0.0) == pytest.approx(best)
    rates = [row.point.gpu_tokens_per_second for row in rows]
    assert rates == sorted(rates, reverse=True)
    assert [row.is_tied for row in rows] == [False, *(1.28 * rate >= rates[0] for rate in rates[1:])]


def test_a_row_is_what_its_option_prints(configs: Path) -> None:
    path = configs / "llama-3.1-8b.json"
    result = sizeup.llm(
        path, target="8xh100/vllm", input=4096, output=256, ttft="1s", tpot="20ms", disaggregate="auto"
    )
    assert result.divisions is not None
    assert len(result.divisions) == 7
    for row in result.divisions:
        assert parse_sides(row.text, result.architecture, result.cluster) == (row.prefill, row.decode)
        assert row.point.ttft <= 1
        assert row.point.tpot <= 0.02
    best = result.divisions[0]
    same = sizeup.llm(
        path, target="8xh100/vllm", input=4096, output=256, concurrency=best.point.requests,
        disaggregate=best.text,
    )  # fmt: skip
    assert same.disaggregation is not None
    assert same.disaggregation.points[0] == best.point
    assert same.divisions is None
    assert result.disaggregation is not None
    assert result.disaggregation.points[0].requests == 1  # the concurrency that was asked for


def test_the_best_divisions_are_printed_in_the_json_and_on_the_page(configs: Path, tmp_path: Path) -> None:
    command = ("llm", configs / "llama-3.1-8b.json", "-d", "4xh100/vllm", "--disaggregate", "auto")
    shown = run_command(*command, "--concurrency", "64", "--price", "2.50USD")
    assert max(map(len, shown.stdout.splitlines())) <= 80
    text = " ".join(shown.stdout.split())
    assert "divisions the best of each number of prefill GPUs, at 64 requests" in text
    assert "best" in text
    page = tmp_path / "llm.html"
    content = json.loads(run_command(*command, "--tpot", "20ms", "--json", "-o", page).stdout)
    jsonschema.validate(content, json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text()))
    assert [row["prefill_gpus"] + row["decode_gpus"] for row in content["divisions"]] == [4, 4, 4]
    assert "Divisions of the GPUs" in page.read_text("utf-8")
    none = run_command(*command, "--tpot", "1us").stdout
    assert "no division of the GPUs reaches TPOT at most 1 µs" in " ".join(none.split())


def test_more_layouts_than_are_searched_are_refused(configs: Path) -> None:
    with pytest.raises(SizeupError, match=r"--disaggregate auto: .* devices have .* layouts of a side"):
        sizeup.llm(configs / "deepseek-v3.json", target="32x8xh200/vllm", disaggregate="auto")
    with pytest.raises(SizeupError, match="one GPU cannot be divided; give more, such as 2xh100-sxm"):
        sizeup.llm(configs / "llama-3.1-8b.json", target="h100/vllm", disaggregate="auto")
    with pytest.raises(SizeupError, match="answers of at least 2 tokens"):
        sizeup.llm(configs / "llama-3.1-8b.json", target="4xh100/vllm", output=1, disaggregate="AUTO")
