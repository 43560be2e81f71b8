"""`sizeup compare` as its users meet it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import sizeup
from cli.running import Run

pytestmark = pytest.mark.extras


@pytest.fixture
def run(run: Run) -> Run:
    """Run the verb as the command line is run."""
    return partial(run, "compare")


@pytest.fixture
def models(shared: Path) -> Path:
    pytest.importorskip("ai_edge_litert")
    return shared / "models"


def test_two_files_give_a_page_of_80_columns(run: Run, models: Path) -> None:
    done = run(models / "mlperf_kws_fp32.tflite", models / "mlperf_kws_int8.tflite", "-d", "stm32f746")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["A  mlperf_kws_fp32 (tflite)", "B  mlperf_kws_int8 (tflite)"]
    assert lines[2].startswith("B has the same MACs and parameters")
    assert "0 unexplained" in done.out
    assert "one time rests on a data sheet, the other on a calibration" in " ".join(done.out.split())


def test_json_is_alone_on_stdout_and_files_are_written(run: Run, models: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    done = run(models / "mlperf_vww96_int8.tflite", models / "te_vww.tflite", "--json", "-o", kept)
    assert done.code == 0
    told = json.loads(done.out)
    assert told == json.loads(kept.read_text())
    assert told["macs"]["unexplained"] == 0
    explained = sum(told["macs"]["explained"].values())
    assert explained == told["macs"]["difference"] == told["totals"]["macs"]["difference"] > 0


def test_arena_is_what_a_check_holds_against_its_limit(run: Run, models: Path) -> None:
    files = [models / f"mlperf_kws_{each}.tflite" for each in ("fp32", "int8")]
    total = json.loads(run(*files, "--json").out)["totals"]["arena_bytes"]
    needs = [sizeup.check(each, arena="1 MiB", remedies=False).limits[0].need for each in files]
    assert [total["a"], total["b"]] == needs


def test_markdown_is_for_pull_requests(run: Run, models: Path) -> None:
    done = run(models / "mlperf_kws_fp32.tflite", models / "mlperf_kws_int8.tflite", "--markdown")
    assert done.out.startswith(
        "## mlperf\\_kws\\_fp32 (tflite) and mlperf\\_kws\\_int8 (tflite)\n\nB has the same"
    )


def test_one_file_at_two_precisions_and_on_two_targets(run: Run, models: Path) -> None:
    file = models / "mlperf_resnet8_int8.tflite"
    told = json.loads(run(file, file, "--precision-b", "int4", "--json").out)
    assert (told["a"]["precision"], told["b"]["precision"]) == (None, "int4")
    assert told["totals"]["weight_bytes"]["b"] < told["totals"]["weight_bytes"]["a"]
    told = json.loads(run(file, file, "-d", "stm32f746", "--device-b", "rpi5/litert", "--json").out)
    assert told["verdict"] == "faster"
    assert told["a"]["latency"]["target"] != told["b"]["latency"]["target"] == "rpi5/litert"


def test_wishes_that_cannot_be_met_are_refused_in_one_line(run: Run, models: Path, tmp_path: Path) -> None:
    file = models / "mlperf_kws_int8.tflite"
    for arguments in (
        (file, tmp_path / "missing.onnx"),
        (file, file, "-o", tmp_path / "compared.html"),
        (file, file, "-o", tmp_path / "no" / "such.json"),
        (file, file, "--json", "--markdown"),
        (file, file, "-d", "no-such-device"),
    ):
        done = run(*arguments)
        assert done.code == 2
        assert done.out == ""
        assert "Traceback" not in done.err
