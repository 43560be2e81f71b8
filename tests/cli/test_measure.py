"""`sizeup measure` as its users meet it."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from cli.running import run_command as run
from cli.test_plan import lines

pytestmark = pytest.mark.extras

PATH = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])


def test_the_time_comes_first_then_how_fast_that_is(shared: Path) -> None:
    shown = lines(run("measure", shared / "models/mlperf_kws_int8.tflite", "--seconds", "0.1"))
    assert shown[0] == "mlperf_kws_int8 (tflite)"
    assert shown[1].startswith("latency ")
    assert " minimum, " in shown[1]
    assert "runs after 3 warm-up runs" in " ".join(shown[1:3])
    text = " ".join(shown)
    assert "runtime LiteRT with XNNPACK" in text
    assert "1 thread, on this computer" in text
    assert "MAC/s" in text


def test_kernels_stand_beside_their_modules_and_macs(tmp_path: Path) -> None:
    """A convolution of 8 x 27 MACs at 6 x 6 places, and a ReLU."""
    pytest.importorskip("torch")
    file = tmp_path / "found.json"
    options = ("--seconds", "0.02", "-o", file, "--quiet")
    shown = lines(run("measure", "cli.test_measure:two_modules", *options, PYTHONPATH=PATH))
    assert shown[-4] == "time share MACs module kernel"
    rows = sorted(line.partition(" % ")[2] for line in shown[-3:])
    assert rows == ["- act aten.relu relu", "7.78 k conv aten.conv2d conv2d", "7.78 k total"]
    result = json.loads(file.read_text())
    modules = {each["module"]: each for each in result["modules"]}
    assert {name: each["macs"] for name, each in modules.items()} == {"conv": 7776, "act": 0}
    total = sum(each["seconds"] for each in result["kernels"])
    assert sum(each["seconds"] for each in modules.values()) == pytest.approx(total)


def two_modules() -> Any:
    """A convolution and an activation, and the input that they are run on."""
    import torch

    module = torch.nn.Sequential(OrderedDict(conv=torch.nn.Conv2d(3, 8, 3), act=torch.nn.ReLU()))
    return module, ((1, 3, 8, 8),)


def test_json_is_alone_on_stdout_and_in_the_file(shared: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    path = shared / "models/mlperf_kws_int8.tflite"
    done = run(
        "measure", path, "--runtime", "tflm", "--seconds", "0.05", "--threads", "1", "--json", "-o", file
    )
    result = json.loads(done.stdout)
    assert result == json.loads(file.read_text())
    assert result["runtime"]["name"] == "tflm"
    assert result["seconds"]["min"] == min(result["seconds"]["runs"])
    assert result["throughput"]["macs_per_second"] == pytest.approx(2_656_768 / result["seconds"]["min"])


# Its processor is not described, so it cannot be verified that this machine is another one.
DEVICE = """
[[device]]
name = "bench"
title = "Bench"
kind = "computer"
maker = "Acme"
recorded = "2026-01-02"
runtimes = ["tflm"]
source = "derived: for this test"
units = [{ kind = "cpu", name = "Acme 1", cores = 1, peak = { int8 = "2 TOPS" } }]
memories = []
"""


def test_shares_of_a_device_come_with_a_note_if_this_machine_may_be_another(
    shared: Path, tmp_path: Path
) -> None:
    (tmp_path / "bench.toml").write_text(DEVICE)
    options = ("--runtime", "tflm", "-d", "bench", "--seconds", "0.05", "--json")
    path = shared / "models/mlperf_kws_int8.tflite"
    result = json.loads(run("measure", path, *options, SIZEUP_TARGETS=str(tmp_path)).stdout)
    assert result["target"] == "bench/tflm"
    least = result["seconds"]["min"]
    assert result["hardware"]["compute_share"] == pytest.approx(2_656_768 / least / 1e12)
    assert len(result["notes"]) == 1
    assert result["notes"][0].startswith("cannot verify that this machine, ")


def test_another_device_is_refused_with_a_hint_to_from(shared: Path) -> None:
    is_arm = platform.machine().lower().startswith(("arm", "aarch"))
    done = run("measure", shared / "models/mlperf_kws_int8.tflite", "-d", "i7-12700h" if is_arm else "rpi5")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"({platform.machine()}), not {'Intel Core i7-12700H' if is_arm else 'Raspberry Pi 5'}; " in line
    assert "--from latency_ms=" in line


def test_a_latency_from_elsewhere_becomes_shares_of_that_device(shared: Path, tmp_path: Path) -> None:
    path, file = shared / "models/mlperf_kws_int8.tflite", tmp_path / "found.json"
    done = run("measure", "--from", "latency_ms=0.05,bandwidth=8GB/s", path, "-d", "rpi5", "-o", file, "-q")
    # 32 int8 MACs a cycle by the two dot-product pipes of each of four cores at 2.4 GHz.
    assert lines(done) == [
        "mlperf_kws_int8 (tflite)",
        "latency 50 µs, supplied; nothing was run",
        "target Raspberry Pi 5 with LiteRT with XNNPACK",
        "compute 106 GFLOP/s, 17.3 % of 614 GFLOP/s at int8, all 4 cores",
        "memory 8.00 GB/s supplied, 46.9 % of 17.1 GB/s",
        "bound by memory, which is closer to its peak than compute",
    ]
    result = json.loads(file.read_text())
    assert result["macs"] == 2_656_768
    assert result["compute_share"] == pytest.approx(2_656_768 / 50e-6 / (4 * 2.4e9 * 32))
    assert (result["supplied"]["latency_ms"], result["bytes_per_second"]) == (0.05, 8e9)
    assert result["bound_by"] == "memory"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.onnx",), "no such file"),
        (("torch.nn:ReLU", "--input", "1x8", "--runtime", "ort"), "cannot run torch models; use torch-eager"),
        (("torch.nn:ReLU", "--input", "1x8", "-o", "found.csv"), "a measurement is written as .json"),
        (("torch.nn:ReLU", "--input", "1x8", "--from", "latency_ms=1"), "--from needs the measured device"),
        (("torch.nn:ReLU", "--input", "1x8", "--precision", "int8"), "--precision needs --from"),
    ],
)
def test_errors_are_printed_on_one_line(arguments: tuple[str, ...], message: str) -> None:
    if "ort" in arguments:
        pytest.importorskip("torch")
    done = run("measure", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
