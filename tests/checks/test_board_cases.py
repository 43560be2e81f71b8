"""Networks that are documented to run on a board, or not to fit it: the verdicts are right."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup
from sizeup.render.console.check import reasons

pytestmark = pytest.mark.extras

# Board, model file, whether it runs, and the document.
CASES = {
    "person detection on Nano 33 BLE Sense": (
        "nano33ble-sense",
        "tflm_person_detect.tflite",
        True,
        "https://github.com/tensorflow/tflite-micro-arduino-examples/tree/main/examples/person_detection",
    ),
    "micro speech on Nano 33 BLE Sense": (
        "nano33ble-sense",
        "tflm_micro_speech.tflite",
        True,
        "https://github.com/tensorflow/tflite-micro-arduino-examples/tree/main/examples/micro_speech",
    ),
    "person detection on Pico": (
        "pico",
        "tflm_person_detect.tflite",
        True,
        "https://github.com/raspberrypi/pico-tflmicro/tree/main/examples/person_detection",
    ),
    "person detection on ESP32-S3-EYE": (
        "esp32-s3-eye",
        "tflm_person_detect.tflite",
        True,
        "https://github.com/espressif/esp-tflite-micro (README: 54 ms with ESP-NN)",
    ),
    "visual wake words of MLPerf Tiny on NUCLEO-L4R5ZI": (
        "nucleo-l4r5zi",
        "mlperf_vww96_int8.tflite",
        True,
        "https://github.com/mlcommons/tiny_results_v0.5/blob/main/closed/reference/results/Nucleo-L4R5ZI/vww",
    ),
    "MobileNetV2 with 224 x 224 pixels on a Cortex-M7 with 320 KiB of RAM and 1 MiB of flash": (
        "nucleo-f746zg",
        "tflm_mobilenetv2_224.tflite",
        False,
        "MCUNet, https://arxiv.org/abs/2007.10319: in int8, it exceeds the memory by a factor of 5.3",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_the_documented_one(case: str, shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="reads a .tflite file")
    board, model, runs, _ = CASES[case]
    check = sizeup.check(shared / "models" / model, board, remedies=False)
    assert check.fits is runs
    ram = next(limit for limit in check.limits if limit.name == "ram")
    assert sizeup.target(board).title in ram.source


@pytest.mark.parametrize(("board", "limit"), [("nano33ble", 261_632), ("esp32-s3-eye", 392 << 10)])
def test_check_uses_the_usable_memory_and_names_it(board: str, limit: int, shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="reads a .tflite file")
    check = sizeup.check(shared / "models" / "tflm_person_detect.tflite", board, remedies=False)
    ram = check.limits[0]
    assert ram.maximum == limit
    assert ram.source == f"usable on {sizeup.target(board).title}"
    assert any("are usable" in text for text in ram.assumptions)
    assert any("are reserved for" in text for text in ram.assumptions)
    own = sizeup.check(shared / "models" / "tflm_person_detect.tflite", board, ram="70 KiB", remedies=False)
    assert own.fits is False
    assert own.limits[0].source == "--ram"
    large = sizeup.check(shared / "models" / "tflm_mobilenetv2_224.tflite", "nano33ble", remedies=False)
    assert "the 256 KiB usable on Arduino Nano 33 BLE" in next(reasons(large)).text


def test_an_arena_too_large_for_the_chip_is_in_external_ram_with_a_lower_bound(shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="reads a .tflite file")
    path = shared / "models" / "tflm_mobilenetv2_224.tflite"
    check = sizeup.check(path, "esp32-s3-eye/tflm", latency="10 s", remedies=False)
    ram = check.limits[0]
    assert ram.source == "the external RAM of ESP32-S3-EYE"
    assert ram.maximum == 8 << 20
    assert any("in external RAM" in caveat for caveat in check.caveats)
    latency = next(limit for limit in check.limits if limit.name == "latency")
    assert latency.need_high is None
    # Without external RAM, the same chip is too small.
    assert sizeup.check(path, "esp32-s3-devkitc-1/tflm", remedies=False).fits is False


def test_a_model_larger_than_on_chip_flash_is_undetermined_with_external_flash(shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="reads a .tflite file")
    check = sizeup.check(
        shared / "models" / "tflm_mobilenetv2_224.tflite", "32f746gdiscovery", remedies=False
    )
    assert check.fits is None
    flash = next(limit for limit in check.limits if limit.name == "flash")
    assert flash.fits is None
    assert "external flash may store weights" in flash.unknown[0]
