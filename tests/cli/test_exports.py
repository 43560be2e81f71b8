"""Files for other viewers, asked for on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import Run

pytestmark = pytest.mark.extras


def test_every_ending_writes_its_file(run: Run, keywords: Path, tmp_path: Path) -> None:
    names = ("a.trace.json", "a.overlay.json", "a.live.overlay.json", "v1.2.json", "a.b.csv")
    files = [part for name in names for part in ("-o", tmp_path / name)]
    pictures = [part for name in ("a.roofline.svg", "a.modules.svg") for part in ("--plot", tmp_path / name)]
    ended = run("analyze", keywords, "-d", "rpi4/litert", *files, *pictures)
    assert ended.code == 0
    written = [line.partition(" written, ")[0] for line in ended.err.splitlines()]
    assert written == [str(tmp_path / name) for name in (*names, "a.roofline.svg", "a.modules.svg")]
    assert "traceEvents" in json.loads((tmp_path / "a.trace.json").read_text("utf-8"))
    ((_, data),) = json.loads((tmp_path / "a.overlay.json").read_text("utf-8")).items()
    assert data["name"] == "ms on rpi4/litert (sizeup)"
    assert json.loads((tmp_path / "v1.2.json").read_text("utf-8"))["schema_version"] == 2
    assert (tmp_path / "a.b.csv").read_text("utf-8").startswith("index,")
    assert all((tmp_path / name).stat().st_size for name in ("a.roofline.svg", "a.modules.svg"))


@pytest.mark.parametrize("name", ["a.trace.json", "a.ms.overlay.json"])
def test_times_without_a_target_are_refused_before_the_model_is_read(
    run: Run, name: str, tmp_path: Path
) -> None:
    ended = run("analyze", "no_such_model.tflite", "-o", tmp_path / name)
    assert ended.code == 2
    assert "this output needs a latency estimate; add -d DEVICE" in ended.err
    ended = run("analyze", "no_such_model.tflite", "--plot", tmp_path / "a.roofline.png")
    assert ended.code == 2
    assert "a roofline needs a latency estimate; add -d DEVICE" in ended.err


def test_other_endings_are_refused_with_the_list_of_those_there_are(run: Run, tmp_path: Path) -> None:
    ended = run("analyze", "no_such_model.tflite", "-o", tmp_path / "a.trace")
    assert ended.code == 2
    for ending in (".json", ".csv", ".md", ".trace.json", ".overlay.json", ".onnx"):
        assert ending in ended.err


def test_figures_go_into_copies_of_onnx_files_alone(run: Run, keywords: Path, tmp_path: Path) -> None:
    ended = run("analyze", keywords, "-o", tmp_path / "a.onnx")
    assert ended.code == 2
    assert "metadata needs an .onnx model" in ended.err
    assert not (tmp_path / "a.onnx").exists()
