"""That a target cannot run a model, or its runtime not read the file, is in every output about both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sizeup
from cli.running import Run

pytestmark = pytest.mark.extras


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    making = pytest.importorskip("formats.onnx.making")
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    onnx.save(making.branches(), path)
    return path


def test_check_remarks_a_format_that_the_runtime_does_not_read(run: Run, onnx_file: Path) -> None:
    caveat = "tflm-cmsis-nn does not read .onnx files: the verdict is for the same operators"
    page = onnx_file.with_suffix(".md")
    text = run("check", onnx_file, "-d", "nrf52840", "-o", page)
    assert caveat in " ".join(text.out.split())
    assert "does not read .onnx files" in page.read_text()
    assert json.loads(run("check", onnx_file, "-d", "nrf52840", "--json").out)["caveats"] == [caveat]
    assert json.loads(run("check", onnx_file, "-d", "rpi5/ort", "--json").out)["caveats"] == []


def test_compare_says_that_a_target_cannot_run_a_model(run: Run, shared: Path) -> None:
    runs, fails = (shared / "models" / f"tflm_person_detect{variant}.tflite" for variant in ("", "_vela"))
    reason = "cannot run on nrf52840/tflm-cmsis-nn: TFLite Micro cannot run this file: it has no kernel for"
    text = " ".join(run("compare", runs, fails, "-d", "nrf52840").out.split())
    assert f"B {reason} ethos-u." in text
    assert "A cannot run" not in text
    data = json.loads(run("compare", fails, runs, "-d", "nrf52840", "--json").out)
    assert (data["a"]["fits"], data["b"]["fits"]) == (False, True)
    assert data["a"]["unfit_reason"].startswith(reason)
    assert data["b"]["unfit_reason"] is None
    same = run("compare", fails, fails, "-d", "nrf52840").out
    assert f"B {reason}" in " ".join(same.split())


def test_compare_says_that_a_model_is_too_large(run: Run, shared: Path) -> None:
    small, large = (shared / "models" / f"{name}.tflite" for name in ("mlperf_kws_int8", "mp_hand_recrop"))
    text = " ".join(run("compare", small, large, "-d", "nrf52840").out.split())
    assert "B does not fit on nRF52840: needs" in text
    assert "not applicable: the target cannot run or hold the model" in text


def test_a_comparison_prints_as_the_command_does(run: Run, shared: Path) -> None:
    one, other = (shared / "models" / f"mlperf_{name}_int8.tflite" for name in ("kws", "ad01"))
    printed = run("compare", one, other).out
    assert str(sizeup.compare(one, other)).splitlines() == printed.splitlines()
