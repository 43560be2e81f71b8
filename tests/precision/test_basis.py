"""Latencies at several precisions are on the basis that `analyze` has for the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sizeup
from cli.running import run_command

pytestmark = pytest.mark.extras


def _model(shared: Path) -> Path:
    return shared / "models" / "mlperf_kws_int8.tflite"


def test_tradeoff_at_the_stored_precision_has_the_latency_of_the_report(shared: Path) -> None:
    report = sizeup.analyze(_model(shared), target="nrf52840")
    assert report.latency is not None
    assert report.latency.basis == "instructions"
    points = {
        point.precision: point
        for point in sizeup.precision.tradeoff(
            _model(shared), target="nrf52840", precisions=["fp32", "int8", "int4"]
        ).points
    }
    stored = points["int8"].latency
    assert stored is not None
    assert (stored.seconds, stored.low, stored.high) == (
        report.latency.seconds,
        report.latency.low,
        report.latency.high,
    )
    real = sizeup.analyze(_model(shared), target="nrf52840", precision="fp32").latency
    assert real is not None
    assert points["fp32"].latency is not None
    assert points["fp32"].latency.seconds == real.seconds
    # No core was counted with convolutions of 4-bit weights: not the data sheet's latency instead.
    assert points["int4"].latency is None
    assert points["int4"].figures is not None
    assert "instructions of CONV_2D at int4 are not known" in points["int4"].no_latency_reason


def test_tradeoff_prints_why_a_precision_has_no_latency(shared: Path) -> None:
    ended = run_command("tradeoff", _model(shared), "-d", "nrf52840", "--precisions", "int8,int4")
    text = " ".join(ended.stdout.split())
    assert "no latency at int4: the instructions of CONV_2D at int4 are not known" in text
    assert "193 ms" in text


def test_precision_at_the_stored_precision_has_the_latency_of_the_report(shared: Path) -> None:
    latency = sizeup.estimate(_model(shared), "nrf52840")
    ended = run_command("precision", _model(shared), "-d", "nrf52840", "--precisions", "int8", "--json")
    content = json.loads(ended.stdout)
    assert content["latency"]["ms"] == latency.ms
    assert content["figures"]["seconds"] == latency.seconds


def test_precision_without_a_formula_has_no_latency_and_says_why(shared: Path) -> None:
    command = (
        "precision",
        _model(shared),
        "-d",
        "nrf52840",
        "--precisions",
        "int8,int4",
        "--weights",
        "20KiB",
    )
    content = json.loads(run_command(*command, "--json").stdout)
    assert content["latency"] is None
    assert content["figures"]["seconds"] is None
    assert "are not known on nrf52840" in content["no_latency_reason"]
    assert "latency unknown: the instructions of" in " ".join(run_command(*command).stdout.split())
    limited = run_command(*command, "--latency", "100ms")
    assert limited.returncode == 2
    assert "latency on nrf52840/tflm-cmsis-nn is estimated by instructions" in " ".join(
        limited.stderr.split()
    )


def test_tradeoff_names_the_precisions_that_use_a_calibration(shared: Path) -> None:
    """One basis for all precisions is the data sheet, although int8 was measured."""
    person = shared / "models" / "mlperf_vww96_int8.tflite"
    text = " ".join(run_command("tradeoff", person, "-d", "stm32f746").stdout.split())
    assert "the slowdown against the data sheet was not measured" not in text
    assert "lower bound: the data sheet is used without the calibration of stm32f746/tflm-cmsis-nn" in text
    covered = "the calibration of stm32f746/tflm-cmsis-nn covers only int8"
    assert f"{covered}; --precisions int8,int4 uses it" in text
    assert covered in sizeup.estimate(person, "stm32f746", precision="fp32").notes
    (point,) = sizeup.precision.tradeoff(person, target="stm32f746", precisions=["int8"]).points
    assert point.latency is not None
    assert point.latency.basis == "calibrated"
    assert not any("covers only" in caveat for caveat in point.latency.caveats)


def test_tradeoff_does_not_name_a_calibration_that_would_not_be_used(shared: Path) -> None:
    """The instructions of pmw_alexa take longer than its calibrated latency."""
    result = sizeup.precision.tradeoff(shared / "models" / "pmw_alexa.tflite", target="stm32f746")
    reason = (
        "--precisions int8,int4 has the basis instructions, because it is not calibrated for this network:"
        " 209 µs is less than its instructions take, at least 363 µs"
    )
    assert any(text.endswith(reason) for _, text in result.provenance())
    real = sizeup.precision.tradeoff(_model(shared), target="stm32f746", precisions=["fp32"])
    assert ("caveat", "the calibration of stm32f746/tflm-cmsis-nn covers only int8") in [*real.provenance()]


def test_a_budget_of_which_only_a_lower_bound_is_known_is_undetermined(shared: Path) -> None:
    """On stm32f746 only int8 is calibrated: a network that is not all int8 has the data sheet's bound."""
    model = shared / "models" / "mlperf_resnet8_fp32.tflite"
    arguments = ("precision", model, "-d", "stm32f746")
    ended = run_command(*arguments, "--latency", "40ms")
    text = " ".join(ended.stdout.split())
    assert ended.returncode == 3
    assert "latency at least 39.9 ms of the 40 ms budget" in text
    assert "undetermined only a lower bound of the latency is known: it may exceed the budget" in text
    content = json.loads(run_command(*arguments, "--latency", "40ms", "--json").stdout)
    assert content["undetermined_budgets"] == ["seconds"]
    assert "the minimum is at least 28.9 ms" in run_command(*arguments, "--latency", "10ms").stderr


def test_a_budget_with_an_estimated_amount_is_met(shared: Path) -> None:
    model = shared / "models" / "mlperf_resnet8_fp32.tflite"
    arguments = ("precision", model, "-d", "stm32f746", "--precisions", "int8")
    ended = run_command(*arguments, "--latency", "200ms", "--json")
    assert (ended.returncode, json.loads(ended.stdout)["undetermined_budgets"]) == (0, [])
    assert "the minimum is 109 ms" in run_command(*arguments, "--latency", "40ms").stderr


def test_a_front_prints_lower_bounds_and_leaves_their_budget_undetermined(shared: Path) -> None:
    model = shared / "models" / "mlperf_resnet8_fp32.tflite"
    arguments = ("precision", model, "-d", "stm32f746", "--front", "loss,weights", "--points", "3")
    ended = run_command(*arguments, "--latency", "40ms")
    assert ended.returncode == 3
    assert ended.stdout.count("  at least ") == 3
    text = " ".join(ended.stdout.split())
    assert "caveat lower bound: the data sheet is used without the calibration of stm32f746" in text
    assert "undetermined only a lower bound of the latency is known" in text
    content = json.loads(run_command(*arguments, "--latency", "40ms", "--json").stdout)
    assert content["undetermined_budgets"] == ["seconds"]
    assert [each["is_lower_bound"] for each in content["assignments"]] == [True] * 3
    assert run_command(*arguments).returncode == 0
    calibrated = run_command(*arguments, "--precisions", "int8", "--latency", "200ms")
    assert calibrated.returncode == 0
    assert "at least" not in calibrated.stdout
