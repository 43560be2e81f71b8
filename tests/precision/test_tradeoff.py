"""Precisions over batches and sizes, and their means, against counts of single models."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import sizeup
from cli.test_plan import run
from precision.test_assign import block
from sizeup.precision.choose import Budgets, Figures
from sizeup.precision.tradeoff import Point, shape_at, table


def test_a_model_as_it_is_has_one_point_a_precision() -> None:
    found = sizeup.tradeoff(block(), precisions=("fp32", "int8"), flash=300)
    first, second = found.points
    assert (first.precision, first.batch, first.size) == ("fp32", None, None)
    assert first.figures is not None
    assert second.figures is not None
    # Two filters of 8 x 8 and two biases of 8.
    assert (first.figures.flash_bytes, second.figures.flash_bytes) == (2 * 288, 2 * 96)
    assert (first.figures.arena_bytes, second.figures.arena_bytes) == (1536, 384)
    assert (first.accepted, second.accepted) == (False, True)


def test_rows_are_means_and_the_fastest_comes_first() -> None:
    figures = [Figures(100, 50, seconds, joules) for seconds, joules in ((2.0, 1.0), (4.0, 3.0), (1.0, 1.0))]
    points = [
        Point("fp32", 1, None, figures[0], True, 0.9),
        Point("fp32", 2, None, figures[1], False, 0.8),
        Point("int8", 1, None, figures[2], True, None),
    ]
    first, second = table(points)
    assert (first.precision, first.seconds, first.accuracy) == ("int8", 1.0, None)
    assert (second.seconds, second.joules, second.memory_bytes) == (3.0, 2.0, 150.0)
    assert second.accuracy == pytest.approx(0.85)
    assert (second.accepted_ratio, second.points) == (0.5, 2)


def test_what_a_runtime_cannot_run_is_not_accepted() -> None:
    found = sizeup.tradeoff(block(), precisions=("fp32", "int2"), target="rpi5/litert")
    assert [(each.accepted, bool(each.refused)) for each in found.points] == [(True, False), (False, True)]
    assert found.rows[-1].precision == "int2"


def test_budgets_need_what_they_limit() -> None:
    assert Budgets(seconds=1.0).exceeded_by(Figures(1, 1, None, None)) == ["seconds"]


def test_the_first_input_changes_its_batch_and_size() -> None:
    assert shape_at(block(), 4, None) == (4, 8, 4, 4)
    assert shape_at(block(), None, 16) == (1, 8, 16, 16)


@pytest.mark.extras
def test_batches_and_sizes_are_those_of_single_counts(tmp_path: Path) -> None:
    found = sizeup.tradeoff(
        "torchvision:squeezenet1_1",
        precisions=("fp32", "int8"),
        batches=(1, 2),
        sizes=(64, 96),
        target="rpi5/ort",
    )
    assert len(found.points) == 8
    last = found.points[-1]
    assert (last.batch, last.size, last.precision) == (2, 96, "int8")
    assert last.figures is not None
    alone = sizeup.estimate(
        "torchvision:squeezenet1_1", "rpi5/ort", inputs=((2, 3, 96, 96),), precision={"*": "int8"}
    )
    assert last.figures.seconds == pytest.approx(alone.seconds)
    found.save(tmp_path / "points.csv")
    with (tmp_path / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["batch"] for row in rows] == ["1"] * 4 + ["2"] * 4


@pytest.mark.extras
def test_the_command_prints_means_writes_points_and_draws_them(tmp_path: Path) -> None:
    picture, points = tmp_path / "points.png", tmp_path / "points.json"
    asked = ("tradeoff", "torch.nn:ReLU", "--input", "1x8", "--precisions", "fp32,fp16")
    done = run(*asked, "-o", points, "--plot", picture)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "ReLU")
    assert re.findall(r"(\S+) written, [\d.]+ KiB\n", done.stderr) == [str(points), str(picture)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [each["precision"] for each in json.loads(points.read_text())["points"]] == ["fp32", "fp16"]
    bad = run("tradeoff", "torch.nn:ReLU", "--batch", "one")
    assert bad.returncode == 2
    assert "is not a list of numbers" in bad.stderr


@pytest.mark.extras
def test_marks_in_the_picture_stand_where_the_points_are() -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from sizeup.report.plots.scatter import tradeoff_picture

    found = sizeup.tradeoff(block(), precisions=("fp32", "int8"), flash=300)
    axes = tradeoff_picture(found).axes[0]
    drawn = {each.get_gid(): each for each in axes.collections}
    assert np.asarray(drawn["points fp32"].get_offsets()).tolist() == [[1536.0, 576.0]]
    assert np.asarray(drawn["points int8"].get_offsets()).tolist() == [[384.0, 192.0]]
    # Over its budget: hollow.
    assert np.asarray(drawn["points fp32"].get_facecolor()).tolist() == [[1.0, 1.0, 1.0, 1.0]]
