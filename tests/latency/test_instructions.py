"""Instructions of TFLite Micro's kernels, compared with emulated cores, and latencies with MLPerf Tiny."""

from __future__ import annotations

import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the formulas are fitted with scipy")

import sizeup
from fitting import instructions as fitting
from sizeup.backends.tflm.cycles import cores
from sizeup.backends.tflm.instructions import Instructions, _convolution_sizes, _taps_inside, formula_file
from sizeup.backends.tflm.kernel import Window
from sizeup.errors import TargetError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.extras


@pytest.mark.parametrize(("core", "kernels", "most"), [("m4", "ref", 0.02), ("m4", "cmsis-nn", 0.05)])
def test_instructions_of_unseen_networks_are_close(
    shared: Path, core: str, kernels: str, most: float
) -> None:
    networks = fitting.left_out_networks(shared, core, kernels)
    public = [
        abs(estimated / counted - 1)
        for model, (estimated, counted) in networks.items()
        if (shared / "models" / f"{model}.tflite").is_file()
    ]
    assert len(public) >= 20
    assert np.mean(public) <= most


def test_latencies_of_unseen_networks_are_within_ten_percent(shared: Path) -> None:
    rows = fitting.left_out_latencies(shared)
    assert len(rows) == 8
    assert np.mean([abs(estimated / measured - 1) for _, _, estimated, measured in rows]) <= 0.10
    page = fitting.PAGE.read_text()
    for board, model, estimated, measured in rows:
        assert f"| {board} | {model} | {1e3 * estimated:.3g} ms | {1e3 * measured:.3g} ms |" in page


def test_the_file_has_the_formulas_that_the_fit_yields(shared: Path) -> None:
    lines = fitting.formulas_of(shared, "m4", "cmsis-nn")
    fitted = tomllib.loads("\n".join(lines))["firmware"][0]
    same = next(firmware for firmware in formula_file()["firmware"] if firmware["name"] == fitted["name"])
    assert same["kernels"].keys() == fitted["kernels"].keys()
    for variant, kernel in fitted["kernels"].items():
        assert same["kernels"][variant]["operators"] == kernel["operators"]
        assert same["kernels"][variant]["coefficients"] == pytest.approx(kernel["coefficients"], rel=0.02), (
            variant
        )


def test_measured_latencies_are_in_the_interval_on_the_users_path(shared: Path) -> None:
    """What a user gets for the files that were measured; the cycles per instruction come from them."""
    boards = {"NUCLEO-L4R5ZI": "stm32l4r5/tflm-cmsis-nn", "nRF5340 DK": "nrf5340/tflm-cmsis-nn"}
    for board, model, _, measured in fitting.left_out_latencies(shared):
        estimate = sizeup.estimate(shared / "models" / f"{model}.tflite", boards[board])
        assert estimate.basis == "instructions"
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < measured < estimate.high


def test_no_operator_of_a_known_network_takes_no_time(shared: Path) -> None:
    """Additions, pools and softmax took 0 s at a rate per MAC."""
    estimate = sizeup.estimate(shared / "models" / "mlperf_resnet8_int8.tflite", "stm32l4r5/tflm-cmsis-nn")
    seconds, _ = estimate.by_op()
    sources = [op.source for op in sizeup.load(shared / "models" / "mlperf_resnet8_int8.tflite").ops]
    assert all(time > 0 for time, source in zip(seconds, sources, strict=True) if source != "RESHAPE")
    assert estimate.overhead_seconds > 0  # reshapes


@pytest.mark.parametrize("model", ["te_persondet", "mlperf_resnet8_fp32", "mp_hand_recrop"])
def test_real_numbers_have_only_a_lower_end(shared: Path, model: str) -> None:
    """A few operators on real numbers once made the whole estimate one by data sheet, 3.5 times too fast."""
    estimate = sizeup.estimate(shared / "models" / f"{model}.tflite", "stm32l4r5/tflm-cmsis-nn")
    # The core issues one instruction per cycle.
    least = fitting.counts_on_board(shared)[model] / 120e6
    assert estimate.basis == "instructions"
    assert estimate.high is None
    assert estimate.low is not None
    assert 0.6 * least < estimate.low < 1.1 * least
    assert "operators on real numbers" in " ".join(estimate.notes)


def test_other_cores_and_runtimes_have_no_instructions(shared: Path) -> None:
    path = shared / "models" / "mlperf_resnet8_int8.tflite"
    assert sizeup.estimate(path, "apollo510/tflm-cmsis-nn").basis == "roofline"
    for target in ("apollo510/tflm-cmsis-nn", "stm32l4r5/tflm", "rpi5/litert"):
        with pytest.raises(TargetError, match=r"instructions of this network on .* are unknown"):
            sizeup.estimate(path, target, basis="instructions")


def test_generated_networks_are_in_their_intervals(shared: Path) -> None:
    """Instructions of the board at the cycles of the core: errors of formulas are part of the interval."""
    folder = shared / "boards" / "generated"
    counts = {
        model: count
        for model, count in fitting.counts_on_board(shared).items()
        if (folder / f"{model}.tflite").is_file()
    }
    chosen = list(counts)[::3]
    outside = []
    for model in chosen:
        estimate = sizeup.estimate(folder / f"{model}.tflite", "stm32l4r5/tflm-cmsis-nn")
        assert estimate.basis == "instructions", model
        assert estimate.seconds > 0, model
        seconds = counts[model] * cores()["cortex-m4", "cmsis-nn"].cycles / 120e6
        if not (estimate.low or 0) <= seconds <= (estimate.high or math.inf):
            outside.append((model, estimate.low, seconds, estimate.high))
    assert len(chosen) > 140
    assert len(outside) <= 0.05 * len(chosen), outside


def test_taps_inside_are_those_of_a_loop() -> None:
    for extent, taps, stride, dilation, padding in product(
        (1, 2, 5, 9), (1, 2, 3, 5), (1, 2, 3), (1, 2), (0, 1, 2)
    ):
        results = (extent + 2 * padding - (taps - 1) * dilation - 1) // stride + 1
        if results < 1:
            continue
        conv = Window(
            (1, extent, 1, 1), (1, taps, 1, 1), (1, results, 1, 1), (stride, 1), (dilation, 1), (padding, 0)
        )
        inside = sum(
            0 <= result * stride - padding + tap * dilation < extent
            for result in range(results)
            for tap in range(taps)
        )
        assert _taps_inside(conv, 0) == inside


def test_sizes_of_a_convolution_are_those_of_its_loops() -> None:
    """3 images of 5 x 4 with 17 channels, 3 x 2 taps, one row of padding above and below."""
    conv = Window((3, 5, 4, 17), (9, 3, 2, 17), (3, 5, 3, 9), (1, 1), (1, 1), (1, 0))
    positions, results, length = 3 * 5 * 3, 3 * 5 * 3 * 9, 3 * 2 * 17
    inside = 3 * (4 + 5 + 4) * (3 + 3)  # rows and columns of taps that are on the image
    assert _convolution_sizes(conv, is_depthwise=False) == {
        "calls": 1,
        "results": results,
        "positions": positions,
        "filters": 9,
        "macs": results * length,
        "columns": positions * length,
        # Of an odd number of positions and of filters, the last one is computed alone.
        "last_position_macs": 9 * length,
        "last_filter_macs": positions * length,
        # 102 = 25 x 4 + 2 = 6 x 16 + 6
        "rest_of_4": results * 2,
        "rest_of_16": results * 6,
        "vectors": results * 7,
        "last_vectors": 9 * 7,  # 45 = 11 x 4 + 1
        "quads": positions * 3 * 7,  # 9 filters in fours
        "taps": results * 6,
        "taps_inside": inside * 9,
        "macs_inside": inside * 9 * 17,
        "window": positions * 6,
        "window_inside": inside,
        "lines": 3 * 5,
        "copies": positions * 6 * 2,  # 17 channels in two vectors
    }


def test_a_depthwise_convolution_counts_vectors_of_filters() -> None:
    conv = Window((3, 5, 4, 17), (1, 3, 2, 34), (3, 5, 3, 34), (1, 1), (1, 1), (1, 0))
    sizes = _convolution_sizes(conv, is_depthwise=True)
    assert sizes["macs"] == 45 * 34 * 6
    assert sizes["macs_inside"] == 3 * (4 + 5 + 4) * (3 + 3) * 34
    assert sizes["vectors"] == 45 * 6 * 3  # 34 filters in vectors of 16
    assert sizes["channels"] == 45 * 6 * 17
    assert sizes["quads"] == 45 * 9


def test_operators_without_a_formula_are_left_out_of_the_total() -> None:
    assert Instructions((100.0, math.nan, 20.0), (None, None, None)).total == 120
