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
    assert "unexplained" not in done.out  # no difference in MACs
    assert "3 more changed operators without a difference in time: --all shows them" in done.out
    assert "9 x conv (relu): precision fp32 -> int8" in done.out
    assert "in operator 1 (depthwise)" in done.out
    assert "the bases differ, a data sheet for A and a calibration for B" in " ".join(done.out.split())


def test_json_is_alone_on_stdout_and_files_are_written(run: Run, models: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    done = run(models / "mlperf_vww96_int8.tflite", models / "te_vww.tflite", "--json", "-o", kept)
    assert done.code == 0
    printed = json.loads(done.out)
    assert printed == json.loads(kept.read_text())
    assert printed["macs"]["unexplained"] == 0
    explained = sum(printed["macs"]["explained"].values())
    assert explained == printed["macs"]["difference"] == printed["totals"]["macs"]["difference"] > 0


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
    printed = json.loads(run(file, file, "--precision-b", "int4", "--json").out)
    assert (printed["a"]["precision"], printed["b"]["precision"]) == (None, "int4")
    assert printed["totals"]["weight_bytes"]["b"] < printed["totals"]["weight_bytes"]["a"]
    printed = json.loads(run(file, file, "-d", "stm32f746", "--device-b", "rpi5/litert", "--json").out)
    assert printed["verdict"] == "faster"
    assert printed["a"]["latency"]["target"] != printed["b"]["latency"]["target"] == "rpi5/litert"


def test_invalid_options_are_refused_in_one_line(run: Run, models: Path, tmp_path: Path) -> None:
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


_NETWORKS = """
import torch


def linear():
    return torch.nn.Sequential(torch.nn.Linear(8, {units})).eval()


def lstm():
    return torch.nn.LSTM(8, 16, batch_first=True).eval()
"""


@pytest.mark.parametrize(
    ("units", "sentence"),
    [
        (16, "B needs at least "),
        (400, "The peak memory of B is only a lower bound: whether it differs is undetermined."),
    ],
)
def test_a_peak_that_is_a_lower_bound_is_not_said_to_be_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: int, sentence: str
) -> None:
    """The workspace of an LSTM is not known."""
    pytest.importorskip("torch")
    name = f"networks_of_{units}"
    (tmp_path / f"{name}.py").write_text(_NETWORKS.format(units=units), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    done = run(f"{name}:linear", f"{name}:lstm", "--input", "1x10x8")
    assert done.code == 0
    headline, _, rest = done.out.partition("\n\n")
    assert sentence in " ".join(headline.split())
    assert "peak memory and" not in headline
    row = next(line for line in rest.splitlines() if line.startswith("  peak  "))
    assert "at least" in row
    assert row.split()[-1] == "?"
