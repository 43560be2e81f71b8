"""A calibration by MACs alone, for networks whose instructions take longer than it estimates."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("scipy", reason="the counts are read by the module that fits the formulas")

import sizeup
from fitting import instructions as fitting
from latency.truth.tables import read
from networks import three_convolutions
from precision.test_choose import linear
from sizeup.backends.tflm import cycles
from sizeup.backends.tflm.cycles import least_cycles, least_instructions
from sizeup.backends.tflm.instructions import instructions_of
from sizeup.backends.tflm.layout import firmwares
from sizeup.cost import count
from sizeup.latency import execution_of
from sizeup.latency.counted import LeastInstructions
from sizeup.render.console.check import render
from sizeup.targets import target

pytestmark = pytest.mark.extras

NOT_LIKE_MCUNET = ("pmw_alexa", "pmw_hey_jarvis", "pmw_okay_nabu", "tflm_hello_int8", "tflm_mnist_lstm_int8")
MACS_ONLY = "calibration: only a rate per MAC, so other operators take 0 s"
TOO_FAST = """
[common]
recorded = "2026-11-15"

[[fit]]
name = "stm32f446/tflm-cmsis-nn"
precisions = ["int8"]
measurements = 8
error = 0.1
held_out = "networks"
source = "measured: by hand"
band = { low = -0.1, high = 0.1 }
rates = { pooled = { mac = 8e-9, byte = 0, launch = 0 } }
"""


def least_of(path: Path, name: str) -> LeastInstructions:
    cost = count(sizeup.load(path))
    least = least_instructions(cost, target(name), None, execution_of(cost, None, ()))
    assert least is not None
    return least


@pytest.mark.parametrize("model", NOT_LIKE_MCUNET)
def test_networks_with_more_instructions_per_mac_have_a_lower_bound(shared: Path, model: str) -> None:
    """pmw_alexa: 8.8 instructions per MAC, and 4.2 in the networks that were measured."""
    estimate = sizeup.estimate(shared / "models" / f"{model}.tflite", "stm32f746/tflm-cmsis-nn")
    assert (estimate.basis, estimate.low, estimate.high) == ("instructions", None, None)
    assert estimate.is_lower_bound
    # 0.431 cycles: 97 ms at 216 MHz for the 48.7 million instructions of te_vww.
    counted = fitting.counts_on_board(shared)[model] * 0.431 / 216e6
    assert 0.6 * counted < estimate.seconds < 1.02 * counted
    assert any("is less than its instructions take" in note for note in estimate.notes)


@pytest.mark.parametrize("model", ["te_vww", "te_persondet", "mlperf_vww96_int8", "tflm_mobilenetv2_224"])
def test_networks_like_those_measured_stay_calibrated(shared: Path, model: str) -> None:
    for runtime in ("tflm-cmsis-nn", "tflm"):
        estimate = sizeup.estimate(shared / "models" / f"{model}.tflite", f"stm32f746/{runtime}")
        assert estimate.basis == "calibrated"
        assert estimate.low is not None
        assert estimate.high is not None


def test_measured_latencies_are_above_the_least_time(shared: Path) -> None:
    table = read(shared / "truth" / "small_tables.csv")
    table = table.where((table.words("dataset") == "tinyengine") & (table.words("model") == "mcunet-vww1"))
    seconds = dict(zip(table.words("runtime"), table.numbers("latency_ms") / 1e3, strict=True))
    path = shared / "models" / "te_vww.tflite"
    assert 0.9 * 0.097 < least_of(path, "stm32f746/tflm-cmsis-nn").seconds < seconds["CMSIS-NN@011bf32"]
    assert least_of(path, "stm32f746/tflm").seconds < seconds["TFLite-Micro@713b6ed"]
    boards = {"NUCLEO-L4R5ZI": "stm32l4r5/tflm-cmsis-nn", "nRF5340 DK": "nrf5340/tflm-cmsis-nn"}
    for board, model, _, measured in fitting.left_out_latencies(shared):
        assert least_of(shared / "models" / f"{model}.tflite", boards[board]).seconds < measured


def test_the_fewest_cycles_are_those_of_the_issue_width_or_measured_ones(shared: Path) -> None:
    assert least_cycles(target("stm32f446/tflm-cmsis-nn")) == 1
    assert least_cycles(target("nrf5340/tflm-cmsis-nn")) == 0.5
    assert least_cycles(target("stm32f746/tflm")) == 0.5
    counted = fitting.counts_on_board(shared)["te_vww"]
    measured = least_cycles(target("stm32f746/tflm-cmsis-nn"))
    assert measured == pytest.approx(0.097 * 216e6 / counted, rel=2e-3)
    for unknown in ("apollo510/tflm-cmsis-nn", "stm32f746/stedgeai", "esp32-s3/tflm-esp-nn", "rpi5/litert"):
        assert least_cycles(target(unknown)) is None


def test_any_core_with_formulas_bounds_its_calibration(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Cortex-M4 issues one instruction at a time: 30 million take 167 ms at 180 MHz, not 100 ms."""
    (tmp_path / "fast.toml").write_text(TOO_FAST, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    path = shared / "models" / "mlperf_resnet8_int8.tflite"
    estimate = sizeup.estimate(path, "stm32f446/tflm-cmsis-nn")
    counted = fitting.counts_on_board(shared)["mlperf_resnet8_int8"] / 180e6
    assert estimate.is_lower_bound
    assert 0.9 * counted < estimate.seconds < counted
    forced = sizeup.estimate(path, "stm32f446/tflm-cmsis-nn", basis="calibrated")
    assert forced.seconds == pytest.approx(12_501_632 * 8e-9)
    assert (forced.low, forced.high) == (None, None)
    assert any("is less than its instructions take" in note for note in forced.notes)


def test_a_float_operator_is_not_in_the_least_time(shared: Path) -> None:
    """Whether a build uses the floating-point unit of the core is unknown."""
    path = shared / "models" / "mlperf_resnet8_fp32.tflite"
    cost = count(sizeup.load(path))
    on = target("stm32f746/tflm")
    assert least_instructions(cost, on, None, execution_of(cost, None, ())) is None


def test_a_check_below_the_least_time_is_no_and_above_it_undetermined(shared: Path) -> None:
    path = shared / "models" / "pmw_alexa.tflite"
    checks = {
        limit: sizeup.check(path, "stm32f746", latency=limit, remedies=False)
        for limit in ("200 us", "500 us")
    }
    assert [check.fits for check in checks.values()] == [False, None]
    assert sizeup.check(path, "stm32f746", latency="500 us", expected=True, remedies=False).fits is None


def test_a_check_on_latency_has_the_caveats_of_analyze(shared: Path, tmp_path: Path) -> None:
    path = shared / "models" / "mlperf_vww96_int8.tflite"
    notes = sizeup.estimate(path, "stm32f746").notes
    assert any(note.startswith(MACS_ONLY) for note in notes)
    check = sizeup.check(path, "stm32f746", latency="200 ms", remedies=False)
    assert check.fits is True
    assert set(notes) <= set(check.caveats)
    console = Console(file=io.StringIO(), width=200)
    render([check], console)
    assert isinstance(console.file, io.StringIO)
    assert MACS_ONLY in console.file.getvalue()
    for name in ("check.json", "check.md"):
        check.save(tmp_path / name)
        assert MACS_ONLY in (tmp_path / name).read_text("utf-8")
    assert json.loads((tmp_path / "check.json").read_text("utf-8"))["caveats"] == list(check.caveats)


def test_a_check_on_memory_has_no_caveats_of_the_latency(shared: Path) -> None:
    path = shared / "models" / "mlperf_vww96_int8.tflite"
    assert sizeup.check(path, "stm32f746", remedies=False).caveats == ()
    over = sizeup.check(path, "stm32f746", ram="16 KiB", latency="200 ms", remedies=False)
    assert over.fits is False
    assert over.caveats == ()  # the latency is not applicable


@pytest.mark.parametrize("model", ["mlperf_kws_int8", "mlperf_resnet8_int8", "mlperf_ad01_int8", "pmw_alexa"])
def test_products_of_other_formats_take_no_more_than_the_operators_of_files(shared: Path, model: str) -> None:
    """The products of a file, counted as those of another format, against its operators."""
    cost = count(sizeup.load(shared / "models" / f"{model}.tflite"))
    (build,) = firmwares(target("stm32f746").architectures, "cmsis-nn")
    whole = instructions_of(cost.graph, build)
    products = cycles._products(cost, None)
    assert products is not None
    parts = instructions_of(products, build)
    compared = 0
    for exact, formula, part in zip(whole.by_op, whole.formulas, parts.by_op, strict=True):
        if not math.isnan(part):
            assert formula is not None
            assert part <= exact * math.exp(formula.error)
            compared += 1
    assert compared >= 4
    assert compared == sum(
        op.kind in ("conv", "matmul") and op.attrs.get("groups", 1) == 1 for op in cost.graph.ops
    )


def test_a_small_network_of_another_format_has_the_bound_of_its_file(shared: Path) -> None:
    """The layers of tflm_hello_int8, 1 to 16 to 16 to 1, as a graph: the calibration gives 2.5 us."""
    name = "stm32f746/tflm-cmsis-nn"
    of_file = sizeup.estimate(shared / "models" / "tflm_hello_int8.tflite", name)
    of_graph = sizeup.estimate(linear(1, 16, 16, 1), name, precision="int8")
    assert (of_graph.basis, of_graph.low, of_graph.high) == ("instructions", None, None)
    assert of_graph.seconds == pytest.approx(of_file.seconds, rel=0.2)
    assert any("is less than its instructions take" in note for note in of_graph.notes)


def test_a_network_like_the_measured_ones_keeps_its_calibration_in_other_formats() -> None:
    assert sizeup.estimate(three_convolutions(), "stm32f746", precision="int8").basis == "calibrated"
