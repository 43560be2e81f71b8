"""Every real file through `optimize`, judged by TFLite Micro's and LiteRT's own interpreters."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import sizeup
from micro_interpreter import measure
from sizeup.backends.tflm import head_buffers
from sizeup.formats.tflite.write import rewrite
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras

# Files that neither runtime runs (custom operators of a chip or of MediaPipe): nothing can be verified.
NOT_RUNNABLE = {"mp_selfie_segmentation", "tflm_person_detect_vela"}
ONLY_LITERT = {
    "mlperf_kws_fp32", "mp_face_detection_full_range_sparse", "mp_hand_landmark_full",
    "mp_palm_detection_lite", "swiftnet_vww_uint8",
}  # fmt: skip


class Gain(NamedTuple):
    """Measured in the interpreter, total arena before and after; the peak where only LiteRT runs it."""

    before: int
    after: int


GAINS = {
    "mlperf_vww96_int8": Gain(103_680, 85_248),
    "mlperf_vww96_fp32": Gain(324_800, 251_072),
    "swiftnet_vww_int8conv": Gain(420_368, 345_104),
    "mp_hand_recrop": Gain(1_592_848, 1_330_704),
    "swiftnet_vww_uint8": Gain(351_232, 301_056),
    "pmw_alexa": Gain(20_432, 19_984),
    "pmw_hey_jarvis": Gain(19_808, 19_632),
    "pmw_okay_nabu": Gain(25_904, 25_648),
}


def models() -> list[str]:
    return [
        *(
            "mlperf_ad01_fp32",
            "mlperf_ad01_int8",
            "mlperf_kws_fp32",
            "mlperf_kws_int8",
            "mlperf_resnet8_fp32",
        ),
        *("mlperf_resnet8_int8", "mlperf_resnet_large_int8", "mlperf_strww_int8", "mlperf_vww96_fp32"),
        *("mlperf_vww96_int8", "mp_face_detection_full_range_sparse", "mp_hand_landmark_full"),
        *("mp_hand_recrop", "mp_palm_detection_lite", "mp_selfie_segmentation", "pmw_alexa"),
        *("pmw_hey_jarvis", "pmw_okay_nabu", "swiftnet_vww_int8conv", "swiftnet_vww_uint8"),
        *("te_mcunetv2_large", "te_persondet", "te_vww", "tflm_audio_preproc_int8", "tflm_dtln"),
        *("tflm_hello_int8", "tflm_keyword_scrambled", "tflm_keyword_scrambled_8bit", "tflm_micro_speech"),
        *("tflm_mnist_lstm_int8", "tflm_mobilenetv2_224", "tflm_person_detect", "tflm_person_detect_vela"),
    ]


def test_no_real_file_is_left_out(shared: Path) -> None:
    assert sorted(path.stem for path in (shared / "models").glob("*.tflite")) == models()


@pytest.mark.parametrize("name", models())
def test_a_file_gets_better_or_stays_as_it_is(shared: Path, tmp_path: Path, name: str) -> None:
    source, out = shared / "models" / f"{name}.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out)
    gain = GAINS.get(name)
    assert result.changed == (gain is not None)
    if gain is None:
        assert out.read_bytes() == source.read_bytes()
        assert result.after == result.before
    elif name in ONLY_LITERT:
        assert (result.before.peak_bytes, result.after.peak_bytes) == gain
    else:
        before, after = measure([source, out])
        assert (before.head + before.tail, after.head + after.tail) == gain
        assert result.after.used is not None
        assert (result.after.used.head_bytes, result.after.used.tail_bytes) == after[:2]
        assert result.arena_is_measured
    if name in NOT_RUNNABLE:
        assert result.verification is None
        assert "nothing can be verified" in " ".join(result.notes)
    else:
        assert result.verification is not None
        assert result.verification.deviation is None
        assert result.verification.runtime == ("LiteRT" if name in ONLY_LITERT else "TFLite Micro")
        # Whatever was changed was seen to compute different answers to different questions.
        assert gain is None or not result.verification.is_weak


@pytest.mark.parametrize("runtime", ["tflm", "litert"])
@pytest.mark.parametrize("name", ["mlperf_vww96_int8", "mp_hand_recrop"])
def test_the_result_computes_the_same_on_inputs_of_its_own(
    shared: Path, tmp_path: Path, name: str, runtime: str
) -> None:
    source, out = shared / "models" / f"{name}.tflite", tmp_path / "out.tflite"
    sizeup.optimize(source, out, verify=False)
    assert out.read_bytes() != source.read_bytes()
    samples = random_samples(sizeup.load(source), 8, seed=77)
    before, after = (run(runtime, path, samples) for path in (source, out))
    assert before.distinct_outputs > 3
    assert is_equal(before, after)


def test_without_verification_the_same_file_is_written_from_predictions(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/swiftnet_vww_int8conv.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, verify=False)
    assert result.verification is None
    assert not result.arena_is_measured
    assert result.before.used is not None
    assert result.after.used is not None
    assert (result.before.used.total_bytes, result.after.used.total_bytes) == (420_368, 345_104)
    (measured,) = measure([out])
    assert measured.head + measured.tail == 345_104


def test_reordering_alone_and_planning_alone_can_be_requested(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_vww96_int8.tflite", tmp_path / "out.tflite"
    assert not sizeup.optimize(source, out, plan=False).changed
    planned_only = sizeup.optimize(source, out, reorder=False)
    assert planned_only.changed
    assert planned_only.schedule_status is None
    nothing = sizeup.optimize(source, out, reorder=False, plan=False)
    assert not nothing.changed


def test_a_wrong_plan_changes_what_is_computed(shared: Path) -> None:
    """The check that every result passes can fail: all tensors at one place."""
    source = shared / "models/mlperf_vww96_int8.tflite"
    graph = sizeup.load(source)
    samples = random_samples(graph, 4)
    offsets = [0 if buffer >= 0 else -1 for buffer in head_buffers(graph).buffers.buffer_of_tensor]
    wrong = rewrite(source.read_bytes(), offline_offsets=offsets)
    assert not is_equal(run("tflm", source, samples), run("tflm", wrong, samples))


def test_a_wrong_plan_is_caught_even_where_all_answers_are_alike(shared: Path) -> None:
    """On a model whose samples all give one output, random weights reveal a wrong plan."""
    from sizeup.formats.tflite.write import tensor_buffers
    from sizeup.rewrite.tflite import random_weights

    content = (shared / "models/swiftnet_vww_int8conv.tflite").read_bytes()
    graph = sizeup.load(content)
    samples = random_samples(graph, 4)
    offsets = [0 if buffer >= 0 else -1 for buffer in head_buffers(graph).buffers.buffer_of_tensor]
    numbers = [index for index, _ in tensor_buffers(content)]
    weights = {numbers[each]: raw for each, raw in random_weights(graph, 1.0).items() if numbers[each]}
    right = run("tflm", rewrite(content, buffers=weights), samples)
    wrong = run("tflm", rewrite(content, buffers=weights, offline_offsets=offsets), samples)
    assert right.distinct_outputs > 1
    assert not is_equal(right, wrong)
