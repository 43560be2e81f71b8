"""Columns of `sizeup analyze`, as a person with a terminal of 80 columns sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from cli.running import Run
from sizeup.render.console.columns import NAMES

pytestmark = pytest.mark.extras


@pytest.fixture
def mobilenet(shared: Path) -> Path:
    """MobileNetV1 0.25, 31 operators, 13 of them depthwise convolutions."""
    pytest.importorskip("ai_edge_litert")
    return shared / "models" / "mlperf_vww96_int8.tflite"


def table(out: str) -> list[str]:
    """The lines of the table, from its titles to its total."""
    lines = out.rpartition("\n\n")[2].splitlines()
    assert all(cell_len(line) <= 80 for line in lines), max(lines, key=cell_len)
    return lines


def test_live_bytes_and_limiter_are_shown_at_80_columns(run: Run, mobilenet: Path) -> None:
    lines = table(run("analyze", mobilenet, "--by", "op", "-d", "rpi5/ort").out)
    assert lines[0].split() == ["#", "operator", "name", "MACs", "live", "time", "bound", "by"]
    # 1x48x48x8 in, 1x48x48x16 out: 18,432 + 36,864 B, the peak. A lower bound: these may stay in the cache.
    assert " ".join(lines[4].split()) == "2 conv model/activation_2 295 k 54.0 KiB 960 ns compute"
    assert lines[12].split()[:3] == ["10", "conv", "model/activation_10"]
    assert lines[12].endswith("compute")


def test_depthwise_convolutions_are_named_as_such(run: Run, mobilenet: Path) -> None:
    lines = table(run("analyze", mobilenet, "--by", "op").out)
    kinds = [line.split()[1] for line in lines[2:33]]
    assert kinds[:27] == ["conv", *["depthwise", "conv"] * 13]


def test_shapes_precision_and_limiter_fit_80_columns_on_request(run: Run, mobilenet: Path) -> None:
    out = run("analyze", mobilenet, "-d", "rpi5/ort", "--columns", "shape, precision,bound").out
    lines = table(out)
    assert lines[0].split() == ["#", "operator", "name", "shape", "precision", "bound", "by"]
    assert " ".join(lines[2].split()) == "0 conv model/activation 1x96x96x3 -> 1x48x48x8 int8 compute"


def test_columns_of_operators_choose_rows_of_operators(run: Run, shared: Path) -> None:
    """Without --by a model of this size is shown by module."""
    pytest.importorskip("ai_edge_litert")
    model = shared / "models" / "mp_hand_landmark_full.tflite"
    lines = table(run("analyze", model, "--columns", "shape").out)
    assert lines[0].split() == ["#", "operator", "name", "shape"]


def test_wide_prints_every_column_and_full_names(run: Run, mobilenet: Path) -> None:
    lines = run("analyze", mobilenet, "--wide", "-d", "rpi5/ort").out.rpartition("\n\n")[2].splitlines()
    for title in ("input", "output", "precision", "params", "elementwise", "read", "written", "FLOP/B"):
        assert title in lines[0]
    assert max(map(cell_len, lines)) > 80
    assert not any("…" in line for line in lines)


def test_columns_of_groups_keep_their_rows(run: Run, mobilenet: Path) -> None:
    out = run("analyze", mobilenet, "--by", "kind", "--columns", "ops,macs").out
    assert table(out)[0].split() == ["op", "kind", "ops", "MACs"]
    out = run("analyze", mobilenet, "--columns", "ops").out  # by itself this model is shown by operator
    assert table(out)[0].split() == ["module", "ops"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--columns", "color"], "no column 'color'; choose from shape, input, output"),
        (["--columns", ","], "no column given"),
        (["--columns", "bound"], "bound needs a target; add -d DEVICE"),
        (["--columns", "live", "--by", "kind"], "live exists per operator only; use --by op"),
        (["--columns", "ops", "--by", "op"], "ops is the number of operators in a group"),
    ],
)
def test_columns_that_there_are_not_are_refused_before_the_model_is_read(
    run: Run, arguments: list[str], message: str
) -> None:
    ended = run("analyze", "no_such_model.tflite", *arguments)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())


def test_help_names_every_column(run: Run) -> None:
    words = run("analyze", "--help").out.replace(",", " ").replace(".", " ").split()
    assert set(NAMES) <= set(words)
