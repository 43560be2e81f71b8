"""Precisions over batches and sizes, and their means, against counts of single models."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import sizeup
from cli.running import run_command as run
from precision.test_assign import block
from sizeup.errors import SizeupError
from sizeup.mixed_precision.figures import Budgets, Figures
from sizeup.mixed_precision.tradeoff import Point, shape_at, table


def test_a_model_as_it_is_has_one_point_a_precision() -> None:
    tradeoff = sizeup.precision.tradeoff(block(), precisions=("fp32", "int8"), weights=300)
    first, second = tradeoff.points
    assert (first.precision, first.batch, first.size) == ("fp32", None, None)
    assert first.figures is not None
    assert second.figures is not None
    # Two filters of 8 x 8 and two biases of 8.
    assert (first.figures.weight_bytes, second.figures.weight_bytes) == (2 * 288, 2 * 96)
    assert (first.figures.activation_bytes, second.figures.activation_bytes) == (1536, 384)
    assert (first.accepted, second.accepted) == (False, True)


def test_rows_are_means_and_the_fastest_comes_first() -> None:
    figures = [Figures(100, 50, seconds, joules) for seconds, joules in ((2.0, 1.0), (4.0, 3.0), (1.0, 1.0))]
    points = [
        Point("fp32", 1, None, figures[0], accuracy=0.9, verdicts={"a": True, "b": True}),
        Point("fp32", 2, None, figures[1], accuracy=0.8, verdicts={"a": True, "b": False}),
        Point("int8", 1, None, figures[2], verdicts={"a": True}),
        Point("int2", 1, None, unsupported="no kernels"),
    ]
    first, second = table(points)
    assert (first.precision, first.seconds, first.accuracy) == ("int8", 1.0, None)
    assert (second.seconds, second.joules, second.memory_bytes) == (3.0, 2.0, 150.0)
    assert second.accuracy == pytest.approx(0.85)
    assert (second.accepted_ratio, second.points) == (0.5, 2)
    assert len(table(points)) == 2


def test_what_a_runtime_cannot_run_is_listed_with_the_reason_and_has_no_row() -> None:
    tradeoff = sizeup.precision.tradeoff(block(), precisions=("fp32", "int2"), target="rpi5/litert")
    assert [each.precision for each in tradeoff.points] == ["fp32"]
    assert [each.precision for each in tradeoff.rows] == ["fp32"]
    assert [each.unsupported for each in tradeoff.unsupported] == ["litert has no kernels for int2"]
    with pytest.raises(SizeupError, match="no supported point to compare: litert has no kernels for int2"):
        sizeup.precision.tradeoff(block(), precisions=("int2",), target="rpi5/litert")


def test_int4_needs_kernels_for_every_op_kind_with_weights() -> None:
    reason = "ort has no int4 kernels for 2 conv layers"
    tradeoff = sizeup.precision.tradeoff(block(), precisions=("int8", "int4"), target="rpi5/ort")
    assert [(each.precision, each.unsupported) for each in tradeoff.unsupported] == [("int4", reason)]
    # LiteRT takes int4 filters and computes in int8: the same arena and latency, half the filters.
    int8, int4 = sizeup.precision.tradeoff(block(), precisions=("int8", "int4"), target="rpi5/litert").points
    assert int8.figures is not None
    assert int4.figures is not None
    assert int4.figures.activation_bytes == int8.figures.activation_bytes
    assert (int8.figures.weight_bytes, int4.figures.weight_bytes) == (2 * (64 + 32), 2 * (32 + 32))


def test_a_choice_offers_no_type_without_kernels() -> None:
    from sizeup.dtypes import PRECISIONS
    from sizeup.mixed_precision.options import options_of
    from sizeup.targets import target

    kinds = [PRECISIONS[each] for each in ("int8", "int4")]
    assert {each.name for each in options_of(block(), kinds, target("rpi5/ort")).dtype} == {"int8"}
    with pytest.raises(SizeupError, match=r"rpi5/ort has no kernel for .* at any of int4"):
        options_of(block(), kinds[1:], target("rpi5/ort"))


def test_a_lower_bound_of_the_latency_rejects_and_never_accepts() -> None:
    # So small a network is mostly the start of its kernels, whose time is unknown.
    loose, tight = (
        sizeup.precision.tradeoff(block(), precisions=("fp32",), target="rpi5/ort", latency=limit).points[0]
        for limit in (1.0, 1e-12)
    )
    assert loose.latency is not None
    assert (loose.latency.seconds, loose.latency.high, loose.accepted) == (None, None, None)
    assert loose.latency.low > 0
    assert tight.accepted is False


def test_columns_fit_the_older_table_of_means() -> None:
    pytest.importorskip("pandas", reason="data frames need pandas")
    from sizeup.compat.hardware import precision_tradeoff_table

    tradeoff = sizeup.precision.tradeoff(
        block(), precisions=("fp32", "int8"), weights=300, accuracy={"int8": 0.5}
    )
    frame = tradeoff.to_pandas()
    assert list(frame.columns) == [
        *("precision", "batch", "size", "accuracy", "agreement", "latency_ms", "latency_low_ms"),
        *("latency_high_ms", "latency_basis", "energy_j", "energy_proxy_j", "energy_basis", "memory_mb"),
        *("weight_bytes", "activation_bytes", "accepted", "accepted_by", "undetermined_by"),
    ]
    means = precision_tradeoff_table(frame).set_index("precision")
    assert means.loc["int8", "memory_mb_mean"] == (2 * 96 + 384) / 1e6
    assert means["accepted_ratio"].to_dict() == {"fp32": 0.0, "int8": 1.0}
    assert means["accuracy_mean"].fillna(-1).to_dict() == {"fp32": -1, "int8": 0.5}


def test_budgets_need_what_they_limit() -> None:
    assert Budgets(seconds=1.0).exceeded_by(Figures(1, 1, None, None)) == ["seconds"]


def test_the_first_input_changes_its_batch_and_size() -> None:
    assert shape_at(block(), 4, None) == (4, 8, 4, 4)
    assert shape_at(block(), None, 16) == (1, 8, 16, 16)


@pytest.mark.extras
def test_batches_and_sizes_are_those_of_single_counts(tmp_path: Path) -> None:
    tradeoff = sizeup.precision.tradeoff(
        "torchvision:squeezenet1_1",
        precisions=("fp32", "int8"),
        batches=(1, 2),
        sizes=(64, 96),
        target="rpi5/litert",
    )
    assert len(tradeoff.points) == 8
    last = tradeoff.points[-1]
    assert (last.batch, last.size, last.precision) == (2, 96, "int8")
    assert last.figures is not None
    alone = sizeup.estimate(
        "torchvision:squeezenet1_1", "rpi5/litert", inputs=((2, 3, 96, 96),), precision={"*": "int8"}
    )
    assert last.figures.seconds == pytest.approx(alone.seconds)
    tradeoff.save(tmp_path / "points.csv")
    with (tmp_path / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["batch"] for row in rows] == ["1"] * 4 + ["2"] * 4


@pytest.mark.extras
def test_the_command_prints_means_writes_points_and_draws_them(tmp_path: Path) -> None:
    picture, points = tmp_path / "points.png", tmp_path / "points.json"
    arguments = ("tradeoff", "torch.nn:ReLU", "--input", "1x8", "--precisions", "fp32,fp16")
    done = run(*arguments, "-o", points, "--plot", picture)
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
    from sizeup.render.plots.scatter import tradeoff_picture

    tradeoff = sizeup.precision.tradeoff(block(), precisions=("fp32", "int8"), weights=300)
    axes = tradeoff_picture(tradeoff).axes[0]
    drawn = {each.get_gid(): each for each in axes.collections}
    assert np.asarray(drawn["points fp32"].get_offsets()).tolist() == [[1536.0, 576.0]]
    assert np.asarray(drawn["points int8"].get_offsets()).tolist() == [[384.0, 192.0]]
    # Over its budget: hollow.
    assert np.asarray(drawn["points fp32"].get_facecolor()).tolist() == [[1.0, 1.0, 1.0, 1.0]]
