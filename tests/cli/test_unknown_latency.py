"""A latency that is not known is not printed as 0, and a basis that does not exist is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from cli.running import Run
from formats.tflite.factory import File, Subgraph, options

pytestmark = pytest.mark.extras


def _dense(graph: Subgraph, units: int) -> None:
    data, out = graph.tensor("x", (1, 8)), graph.tensor("y", (1, units))
    weights = graph.tensor("w", (units, 8), data=np.zeros((units, 8), np.float32))
    graph.op("FULLY_CONNECTED", [data, weights], [out])
    graph.ends([data], [out])


def _branches(path: Path) -> Path:
    """A file with only an IF, both branches of which have 8 x 8 MACs of real numbers."""
    file = File()
    data, out = file.main.tensor("x", (1, 8)), file.main.tensor("y", (1, 8))
    flag = file.main.tensor("flag", (1,), "BOOL")
    settings = options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    file.main.op("IF", [flag, data], [out], settings)
    file.main.ends([flag, data], [out])
    for name in ("then", "else"):
        _dense(file.subgraph(name), 8)
    path.write_bytes(file.pack())
    return path


def _relu(path: Path) -> Path:
    """A file whose operators only move data."""
    file = File()
    data, out = file.main.tensor("x", (1, 64)), file.main.tensor("y", (1, 64))
    file.main.op("RELU", [data], [out])
    file.main.ends([data], [out])
    path.write_bytes(file.pack())
    return path


def _latency(run: Run, *arguments: Any) -> Any:
    ended = run("analyze", *arguments, "--json")
    assert ended.code == 0
    return json.loads(ended.out)["latency"]


def test_unknown_operators_alone_have_no_latency(run: Run, shared: Path) -> None:
    vela = shared / "models" / "tflm_person_detect_vela.tflite"
    # On the Raspberry Pi the bandwidth is known, and on the A100 the time of a launch.
    for target in ("nrf52840", "rpi5/ort", "a100"):
        latency = _latency(run, vela, "-d", target)
        assert list(latency) == ["unavailable"]
        assert "no cost rule for ethos-u" in latency["unavailable"]
    text = " ".join(run("analyze", vela, "-d", "nrf52840").out.split())
    assert "latency unknown: no operator has a known latency on nrf52840/tflm-cmsis-nn" in text
    assert "0 ns" not in text


def test_one_operator_is_not_one_operators(run: Run, shared: Path) -> None:
    vela = shared / "models" / "tflm_person_detect_vela.tflite"
    strict = run("analyze", vela, "--strict")
    assert strict.code == 3
    assert "1 of 1 operator is not counted" in " ".join(strict.err.split())


def test_no_output_of_a_model_without_a_latency_has_one_of_zero(run: Run, tmp_path: Path) -> None:
    model = _relu(tmp_path / "relu.tflite")
    outputs = [tmp_path / f"report.{ending}" for ending in ("html", "csv", "md")]
    ended = run("analyze", model, "-d", "nrf52840", *(item for path in outputs for item in ("-o", path)))
    assert ended.code == 0
    assert "the bandwidth of nrf52840 is unknown" in " ".join(ended.out.split())
    for text in (ended.out, *(path.read_text() for path in outputs)):
        assert "at least 0 ns" not in text
    compared = run("compare", model, model, "-d", "nrf52840", "--json")
    assert all("ms" not in json.loads(compared.out)[side]["latency"] for side in "ab")
    assert "0 ns" not in run("compare", model, model, "-d", "nrf52840").out
    checked = run("check", model, "-d", "nrf52840", "--latency", "1ms")
    assert checked.code == 3
    assert "no operator has a known latency" in " ".join(checked.out.split())


def test_sweeps_and_functions_have_no_latency_either(tmp_path: Path) -> None:
    model = _relu(tmp_path / "relu.tflite")
    sizeup.sweep({"models": [str(model)], "targets": ["nrf52840"]}, tmp_path / "out", in_process=True)
    (row,) = sizeup.query(tmp_path / "out", "SELECT ms, low_ms, latency_missing FROM points").to_dict()[
        "rows"
    ]
    assert (row["ms"], row["low_ms"]) == (None, None)
    assert "the bandwidth of nrf52840 is unknown" in row["latency_missing"]
    with pytest.raises(sizeup.NoLatency, match="the bandwidth of nrf52840 is unknown"):
        sizeup.estimate(model, "nrf52840")
    assert np.isnan(sizeup.estimate(sizeup.load(model, free=["batch"]), "nrf52840").at(batch=2).seconds)


def test_control_flow_has_the_rate_of_what_its_bodies_compute(run: Run, tmp_path: Path) -> None:
    latency = _latency(run, _branches(tmp_path / "if.tflite"), "-d", "nrf52840", "--basis", "roofline")
    # 64 MACs at 0.5 per cycle of 64 MHz are 2 us by the data sheet: the condition is a bool, the data is not.
    assert latency["ms"] == pytest.approx(2e-3, rel=0.01)


def test_a_basis_that_a_target_does_not_have_is_an_error(run: Run, shared: Path) -> None:
    quantized, real = (shared / "models" / f"mlperf_kws_{dtype}.tflite" for dtype in ("int8", "fp32"))
    for model, target, basis, message in (
        (quantized, "nrf52840", "calibrated", "is not calibrated for this network"),
        (real, "a100", "instructions", "the instructions of this network on a100-80gb-sxm/torch-eager are"),
        (quantized, "rx65n", "roofline", "neither its arithmetic rates nor its memory bandwidth is known"),
    ):
        ended = run("analyze", model, "-d", target, "--basis", basis)
        assert (ended.code, ended.out) == (2, "")
        assert message in " ".join(ended.err.split())
    assert run("analyze", real, "--basis", "calibrated").code == 2
    forms = run("explain", quantized, "--free", "batch", "-d", "stm32f746/tflm", "--basis", "instructions")
    assert (forms.code, forms.out) == (2, "")


def test_closed_forms_are_not_of_another_basis_than_the_estimate(run: Run, shared: Path) -> None:
    ended = run("explain", shared / "models" / "mlperf_kws_int8.tflite", "--free", "batch", "-d", "nrf52840")
    assert ended.code == 0
    assert "the basis instructions has no closed form" in " ".join(ended.out.split())
    assert "seconds on" not in ended.out
