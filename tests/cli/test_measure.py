"""`sizeup measure` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.test_plan import lines, run

pytestmark = pytest.mark.extras


def test_the_time_comes_first_then_how_fast_that_is(shared: Path) -> None:
    shown = lines(run("measure", shared / "models/mlperf_kws_int8.tflite", "--seconds", "0.1"))
    assert shown[0] == "mlperf_kws_int8 (tflite)"
    assert shown[1].startswith("time ")
    assert " least, " in shown[1]
    assert "runs after 3 to warm up" in " ".join(shown[1:3])
    text = " ".join(shown)
    assert "runtime LiteRT with XNNPACK" in text
    assert "1 thread, on this machine" in text
    assert "MAC/s" in text


def test_kernels_are_listed_where_the_runtime_tells_them() -> None:
    shown = lines(run("measure", "torch.nn:ReLU", "--input", "1x8", "--seconds", "0.02"))
    assert shown[-2:] == ["time share kernel in the runtime's own profile", shown[-1]]
    assert shown[-1].endswith("100.0 % aten.relu relu")


def test_json_is_alone_on_stdout_and_in_the_file(shared: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    path = shared / "models/mlperf_kws_int8.tflite"
    done = run(
        "measure", path, "--runtime", "tflm", "--seconds", "0.05", "--threads", "1", "--json", "-o", file
    )
    found = json.loads(done.stdout)
    assert found == json.loads(file.read_text())
    assert found["runtime"]["name"] == "tflm"
    assert found["seconds"]["least"] == min(found["seconds"]["runs"])
    assert found["achieved"]["macs_per_second"] == pytest.approx(2_656_768 / found["seconds"]["least"])


def test_on_a_named_device_shares_of_its_rates_are_told(shared: Path) -> None:
    path = shared / "models/mlperf_kws_int8.tflite"
    found = json.loads(
        run("measure", path, "--runtime", "tflm", "-d", "rpi5", "--seconds", "0.05", "--json").stdout
    )
    assert found["target"] == "rpi5/tflm"
    hardware, least = found["hardware"], found["seconds"]["least"]
    assert hardware["macs"] == 2_656_768
    # Four cores at 2.4 GHz, each 32 int8 MACs a cycle by its two dot-product pipes.
    assert hardware["compute_share"] == pytest.approx(2_656_768 / least / (4 * 2.4e9 * 32))
    shown = " ".join(lines(run("measure", path, "--runtime", "tflm", "-d", "rpi5", "--seconds", "0.05")))
    assert "of Raspberry Pi 5" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.onnx",), "no such file"),
        (("torch.nn:ReLU", "--input", "1x8", "--runtime", "ort"), "runs no torch models; torch-eager does"),
        (("torch.nn:ReLU", "--input", "1x8", "-o", "found.csv"), "a measurement is written as .json"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = run("measure", *arguments, "--seconds", "0.02")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
