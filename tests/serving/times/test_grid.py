"""The grid of operating points, compared with `sizeup.llm` at each point and with a search over all pairs."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import published_configs
import sizeup
from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.render.data import grid_of
from sizeup.serving.times.estimate import Duration, ServingPoint
from sizeup.serving.times.grid import FrontierPoint, GridLayout, ServingGrid, _ranked

_SCHEMA = json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text())
_MOST_GRID_BYTES = 600_000


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder


def grid_for(config: Path, **options: Any) -> ServingGrid:
    serving: sizeup.Serving = sizeup.llm(config, **options)
    grid = serving.grid()
    assert grid is not None
    return grid


def llm_points(
    config: Path, target: str, layout: Layout, grid: ServingGrid, lengths: tuple[int, int]
) -> list[ServingPoint] | None:
    """`sizeup.llm` at all requests of a grid; None if one does not fit, or exceeds the model's context."""
    try:
        serving = sizeup.llm(
            config, target=target, layout=layout, input=lengths[0], output=lengths[1],
            concurrency=grid.requests,
        )  # fmt: skip
    except SizeupError:
        return None
    times = serving.times()
    return None if times is None else list(times.points)


@pytest.mark.parametrize(
    ("name", "target", "options"),
    [
        ("llama-3.1-8b", "2xh100/vllm", {"input": 30_000, "output": 4000, "concurrency": [3, 50]}),
        ("gpt-oss-20b", "2xl4/vllm", {"input": 512, "output": 100}),
        ("llama-3.1-70b", "2xh100/trtllm", {}),
    ],
)
def test_every_point_is_that_of_llm(configs: Path, name: str, target: str, options: dict[str, Any]) -> None:
    config = configs / f"{name}.json"
    grid = grid_for(config, target=target, **options)
    pairs = list(product(enumerate(grid.inputs), enumerate(grid.outputs)))
    fitting = 0
    for number, row in enumerate(grid.layouts):
        for (i, input), (j, output) in pairs[number::4]:
            points = llm_points(config, target, row.layout, grid, (input, output))
            if points is None:
                columns = (row.tpot, row.ttft, row.running, *row.causes.values())
                assert all(np.isnan(column[i, j]).all() for column in columns)
                continue
            fitting += 1
            for k, point in enumerate(points):
                compare(row, (i, j, k), point)
    assert fitting > 4


def compare(row: GridLayout, at: tuple[int, int, int], point: ServingPoint) -> None:
    assert row.running[at] == point.running
    for seconds, factors, duration in (
        (row.tpot[at], row.tpot_factors, point.tpot),
        (row.ttft[at], row.ttft_factors, point.ttft),
    ):
        bounds = [None if each is None else seconds * each for each in (factors.low, factors.high)]
        assert (seconds, *bounds) == pytest.approx((duration.seconds, duration.low, duration.high))
    assert row.user_tokens_per_second[at] == pytest.approx(point.user_tokens_per_second)
    assert row.gpu_tokens_per_second[at] == pytest.approx(point.gpu_tokens_per_second)
    assert {cause: each[at] for cause, each in row.causes.items()} == pytest.approx(point.causes)
    assert row.limiters[np.ravel_multi_index(at, row.tpot.shape)] == point.limiter


def rank(points: dict[tuple[str, int], ServingPoint], key: tuple[str, int]) -> str:
    """The rank of a point among those with the same lengths, by comparing it with each of them."""
    point = points[key]
    better = {
        other: each
        for other, each in points.items()
        if each.tpot.seconds <= point.tpot.seconds
        and each.gpu_tokens_per_second >= point.gpu_tokens_per_second
        and (each.tpot.seconds, each.gpu_tokens_per_second)
        != (point.tpot.seconds, point.gpu_tokens_per_second)
    }
    if not better:
        return "frontier"
    if any(layout == key[0] for layout, _ in better):
        return "dominated"
    best = max(better.values(), key=lambda each: each.gpu_tokens_per_second)
    slower = math.sqrt(1.28) if best.tpot.high is None else best.tpot.high / best.tpot.seconds
    faster = math.sqrt(1.28) if point.tpot.low is None else point.tpot.seconds / point.tpot.low
    is_tied = point.gpu_tokens_per_second * faster >= best.gpu_tokens_per_second / slower
    return "tied" if is_tied else "dominated"


@pytest.mark.parametrize(
    ("name", "target", "layouts"),
    [("llama-3.1-8b", "2xh100/vllm", 3), ("gpt-oss-120b", "2xh100/vllm", 4), ("llama-3.1-8b", "2xa100", 3)],
)
def test_ranks_are_those_of_all_pairs_of_points(configs: Path, name: str, target: str, layouts: int) -> None:
    config = configs / f"{name}.json"
    grid = grid_for(config, target=target, input=1024, output=256)
    assert len(grid.layouts) == layouts  # different ones: all are kept
    content = grid_of(grid)
    assert content is not None
    i, j = grid.inputs.index(1024), grid.outputs.index(256)
    for at in ((i, j), (0, len(grid.outputs) - 1)):
        lengths = grid.inputs[at[0]], grid.outputs[at[1]]
        points = {
            (str(row.layout), point.requests): point
            for row in grid.layouts
            for point in llm_points(config, target, row.layout, grid, lengths) or ()
            if point.running == point.requests
        }
        pair = at[0] * len(grid.outputs) + at[1]
        actual = {
            (row["layout"], requests): row["rank"][pair * len(grid.requests) + place]
            for row in content["layouts"]
            for place, requests in enumerate(grid.requests)
        }
        expected = {key: rank(points, key) for key in points}
        assert {key: value for key, value in actual.items() if value is not None} == expected
        frontier = [(str(point.layout), point.requests) for point in grid.frontiers[pair]]
        assert set(frontier) == {key for key, value in expected.items() if value == "frontier"}
        assert frontier == sorted(frontier, key=lambda key: points[key].tpot.seconds)


def row_of(tpot: list[float], rate: list[float], factors: Duration) -> GridLayout:
    """A layout at one pair of lengths."""
    times, rates = np.array([[tpot]]), np.array([[rate]])
    requests = np.arange(1.0, len(tpot) + 1).reshape(1, 1, -1)
    return GridLayout(
        Layout(), (), requests, times, times, factors, factors, rates, {}, np.zeros(times.shape, np.int8)
    )


def test_a_point_is_tied_if_its_interval_overlaps_with_that_of_another_layout() -> None:
    factors = Duration(1.0, 0.8, 1.25)
    # The throughput of the best is at least 200 x 0.8 = 160, of others at most 1.25 times theirs.
    best = row_of([0.010, 0.010], [200.0, 100.0], factors)
    other = row_of([0.010, 0.020], [128.0, 127.0], factors)
    assert [row.ranks.ravel().tolist() for row in _ranked([best, other], (1, 2))] == [[3, 1], [2, 1]]
    # Without an interval, of others at most the square root of 1.28 more.
    unknown = [best, row_of([0.010, 0.020], [142.0, 141.0], Duration(1.0))]
    assert [row.ranks.ravel().tolist() for row in _ranked(unknown, (1, 2))] == [[3, 1], [2, 1]]
    unknown = [best, row_of([0.010, 0.020], [141.0, 140.0], Duration(1.0))]
    assert [row.ranks.ravel().tolist() for row in _ranked(unknown, (1, 2))] == [[3, 1], [1, 1]]


def test_layouts_with_the_same_times_are_one_row(configs: Path) -> None:
    grid = grid_for(configs / "gpt-oss-120b.json", target="2xh100/vllm", layout="tp2,ep2")
    first = grid.layouts[0]
    assert (str(first.layout), [str(layout) for layout in first.equal]) == ("tp2,ep2", ["tp2"])
    assert sum(1 + len(row.equal) for row in grid.layouts) == grid.compared == 6


def test_the_axes_have_the_lengths_and_counts_of_the_call(configs: Path) -> None:
    options = {"input": 40_000, "output": 30, "concurrency": [7, 9, 100]}
    grid = grid_for(configs / "llama-3.1-8b.json", target="h100/vllm", **options)
    # The context is 131,072 tokens: 4 x 40,000 exceed it.
    assert (grid.inputs, grid.outputs) == ((2500, 10_000, 40_000), (7, 30, 120, 480))
    assert {7, 9, 100, 1, 2} <= set(grid.requests)
    many = grid_for(configs / "llama-2-7b.json", target="h100/vllm", concurrency=range(1, 1000))
    assert len(many.requests) <= 16
    assert {1, 999} <= set(many.requests)


def test_too_many_layouts_leave_that_of_the_call(configs: Path) -> None:
    grid = grid_for(configs / "deepseek-v3.json", target="64x8xh200/vllm", layout="dp64,ep64")
    assert ([str(row.layout) for row in grid.layouts], grid.is_complete) == (["8 x dp64,ep64"], False)


def test_lower_bounds_are_not_compared_with_calibrated_times(configs: Path) -> None:
    config, target = configs / "llama-3.1-8b.json", "2x16xh100/vllm"  # no link of such a node is known
    bounds = grid_for(config, target=target)
    assert not bounds.is_calibrated
    assert all(row.layout.tensor > 1 for row in bounds.layouts)
    calibrated = grid_for(config, target=target, layout="dp32")
    assert calibrated.is_calibrated
    assert all(row.layout.tensor == 1 for row in calibrated.layouts)


def test_there_is_no_grid_if_nothing_fits(configs: Path) -> None:
    assert sizeup.llm(configs / "llama-3.1-405b.json", target="8xh100").grid() is None


def test_other_layouts_are_shown_if_that_of_the_call_does_not_fit(configs: Path) -> None:
    serving = sizeup.llm(configs / "llama-3.1-70b.json", target="4xh100/vllm", layout="dp4")
    grid = serving.grid()
    assert (serving.fits, serving.times()) == ("no", None)
    assert grid is not None
    assert "dp4" not in {str(row.layout) for row in grid.layouts}


def test_the_largest_grid_is_bounded() -> None:
    random = np.random.default_rng(0)
    shape = (5, 4, 16)

    def numbers() -> Any:
        return random.uniform(1e-5, 9e-5, shape)

    layout = Layout(8, 16, 32, 64, 128)
    row = GridLayout(
        layout, (layout,) * 20, numbers() * 1e9, numbers(), numbers(), Duration(1.0, 0.764, 1.386),
        Duration(1.0, 0.54, 1.95), numbers(), {name: numbers() for name in "abcdefgh"},
        np.full(shape, 1, np.int8),
    )  # fmt: skip
    point = FrontierPoint(layout, 16_777_216, *random.uniform(1e-5, 9e-5, 4))
    lengths = tuple(range(10**9, 10**9 + 5)), tuple(range(10**9, 10**9 + 4)), tuple(range(10**6, 10**6 + 16))
    content = grid_of(ServingGrid(*lengths, (row,) * 6, 400, True, ((point,) * 32,) * 20, True))
    schema = _SCHEMA["properties"]["grid"]["properties"]
    most = {name: part["maxItems"] for name, part in schema.items() if "maxItems" in part}
    assert content is not None
    assert {name: len(content[name]) for name in most} == most
    assert len(json.dumps(content, separators=(",", ":"))) < _MOST_GRID_BYTES
