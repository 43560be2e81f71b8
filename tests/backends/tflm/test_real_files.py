"""The predicted arena of every real file against the interpreter, run now, and against recorded figures."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

import sizeup
from micro_interpreter import Measured, measure
from sizeup.backends.tflm import arena

# Head and tail on 64 bits: twenty from the table of the models' README; the other six (ad01_fp32,
# resnet8_fp32, vww96_fp32, hand_recrop, hey_jarvis, keyword_scrambled) taken from the same interpreter for
# this test. The README has 8 bytes less for audio_preproc's tail: it was taken in an arena of 87,720 bytes,
# whose end is no multiple of 16.
RECORDED = {
    "mlperf_ad01_fp32": (3_072, 3_152),
    "mlperf_ad01_int8": (768, 3_216),
    "mlperf_kws_int8": (16_000, 8_272),
    "mlperf_resnet8_fp32": (196_608, 6_768),
    "mlperf_resnet8_int8": (49_152, 6_832),
    "mlperf_resnet_large_int8": (122_880, 10_864),
    "mlperf_strww_int8": (6_656, 9_984),
    "mlperf_vww96_fp32": (294_912, 29_888),
    "mlperf_vww96_int8": (73_728, 29_952),
    "mp_hand_recrop": (1_572_864, 19_984),
    "pmw_alexa": (3_648, 16_784),
    "pmw_hey_jarvis": (3_424, 16_384),
    "pmw_okay_nabu": (3_840, 22_064),
    "swiftnet_vww_int8conv": (376_320, 44_048),
    "te_mcunetv2_large": (2_451_840, 162_224),
    "te_persondet": (337_024, 49_248),
    "te_vww": (161_472, 63_504),
    "tflm_audio_preproc_int8": (3_040, 7_184),
    "tflm_dtln": (1_424, 4_416),
    "tflm_hello_int8": (32, 1_472),
    "tflm_keyword_scrambled": (672, 14_480),
    "tflm_keyword_scrambled_8bit": (672, 9_360),
    "tflm_micro_speech": (5_968, 1_616),
    "tflm_mnist_lstm_int8": (1_536, 2_672),
    "tflm_mobilenetv2_224": (2_451_840, 155_328),
    "tflm_person_detect": (55_296, 29_968),
}
# The reasons that the interpreter gives for the rest.
REFUSED = {
    "mlperf_kws_fp32": "Hybrid models are not supported",
    "mp_face_detection_full_range_sparse": "DENSIFY",
    "mp_hand_landmark_full": "DEQUANTIZE (number 0) failed to prepare",
    "mp_palm_detection_lite": "DEQUANTIZE (number 0) failed to prepare",
    "mp_selfie_segmentation": "Failed to get registration from op code CUSTOM",
    "swiftnet_vww_uint8": "Hybrid models are not supported",
    "tflm_person_detect_vela": "Failed to get registration from op code CUSTOM",
}


@pytest.fixture(scope="module")
def measured(shared: Path) -> dict[str, Measured]:
    pytest.importorskip("tflite_micro")
    paths = sorted((shared / "models").glob("*.tflite"))
    return dict(zip((path.stem for path in paths), measure(paths), strict=True))


@pytest.mark.parametrize("name", RECORDED)
def test_head_and_tail_are_what_was_recorded(name: str, shared: Path) -> None:
    memory = arena(sizeup.load(shared / "models" / f"{name}.tflite"))
    assert (memory.head_bytes, memory.tail_bytes_64) == RECORDED[name]


@pytest.mark.parametrize("name", RECORDED)
def test_head_and_tail_are_what_the_interpreter_reports(
    name: str, shared: Path, measured: dict[str, Measured]
) -> None:
    memory = arena(sizeup.load(shared / "models" / f"{name}.tflite"))
    assert Measured(memory.head_bytes, memory.tail_bytes_64 or 0) == measured[name]


def test_no_file_is_left_out(measured: dict[str, Measured]) -> None:
    assert set(measured) == {*RECORDED, *REFUSED}
    for name, reason in REFUSED.items():
        assert reason in measured[name].failure


@pytest.mark.parametrize("name", RECORDED)
def test_narrow_pointers_shrink_the_tail_to_no_less_than_half(name: str, shared: Path) -> None:
    """Pointers shrink to half, numbers not at all; the recorder's 232 bytes go."""
    memory = arena(sizeup.load(shared / "models" / f"{name}.tflite"))
    assert memory.tail_bytes_64 is not None
    assert memory.tail_bytes_32 is not None
    assert memory.tail_bytes_64 / 2 - 232 < memory.tail_bytes_32 < memory.tail_bytes_64


def test_the_tail_of_hello_on_32_bits_is_the_sum_by_hand(shared: Path) -> None:
    """Ten tensors, three dense layers, a quantized input and output; enums of 4 bytes, summed by hand.

    Allocators: 36 + 44 (planner) + 36. Model: 8 + 8 (subgraph) + 10 tensors of 12 + 3 nodes of 32 + 3 options
    of 16 make 396. The data of a layer, 48, is aligned to 16: 448, 496, 544. Input and output: an array of
    one pointer, aligned (560 and 624), then 40 + 12 + 8 (620 and 684).
    """
    memory = arena(sizeup.load(shared / "models" / "tflm_hello_int8.tflite"))
    assert memory.tail_bytes_32 == 684


def test_scratch_is_named_with_its_operator(shared: Path) -> None:
    """Four gates of 20 int16 numbers in the first operator, an LSTM; nothing else asks for scratch."""
    memory = arena(sizeup.load(shared / "models" / "tflm_mnist_lstm_int8.tflite"))
    assert [(each.subgraph, each.operator, each.size) for each in memory.scratch] == [(0, 0, 40)] * 4
    assert all(each.offset >= 0 for each in memory.scratch)


def test_an_unknown_kernel_is_reported_and_leaves_the_tail_open(shared: Path) -> None:
    memory = arena(sizeup.load(shared / "models" / "tflm_person_detect_vela.tflite"))
    assert "ethos-u" in memory.tail_unknown_reason
    assert memory.tail_bytes_64 is None
    assert memory.tail_bytes_32 is None
    assert any("ethos-u" in note for note in memory.notes)
