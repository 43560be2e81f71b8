"""Code size of TFLite Micro by operators, against programs that were linked with whole sets of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup
from checks.boards import room_of
from sizeup.backends.banks import BUILD_NOTE
from sizeup.backends.tflm.code_size import _sizes
from sizeup.checks import MemoryPart

pytestmark = pytest.mark.extras


def _code(path: Path, target: str) -> MemoryPart:
    flash = room_of(path, target).flash
    assert flash is not None
    return flash.parts[-1]


# Bytes of programs linked with all operators of a model, as the sizes in code_sizes.toml were.
@pytest.mark.parametrize(
    ("kernels", "model", "linked"),
    [
        ("tflm", "tflm_hello_int8", 19_468),
        ("tflm", "mlperf_kws_int8", 40_368),
        ("tflm", "mlperf_resnet8_int8", 44_780),
        ("tflm", "tflm_micro_speech", 32_456),
        ("tflm", "te_vww", 51_320),
        ("tflm", "tflm_dtln", 33_164),
        ("tflm-cmsis-nn", "tflm_hello_int8", 31_020),
        ("tflm-cmsis-nn", "mlperf_kws_int8", 83_256),
        ("tflm-cmsis-nn", "mlperf_resnet8_int8", 78_116),
        ("tflm-cmsis-nn", "tflm_micro_speech", 56_652),
        ("tflm-cmsis-nn", "te_vww", 94_708),
        ("tflm-cmsis-nn", "tflm_dtln", 49_036),
    ],
)
def test_code_of_all_operators_of_a_model_is_within_the_bounds(
    kernels: str, model: str, linked: int, shared: Path
) -> None:
    code = _code(shared / "models" / f"{model}.tflite", f"stm32f746/{kernels}")
    assert code.low_bytes <= linked <= (code.high_bytes or 0)


def test_a_size_by_operators_is_that_of_a_build(shared: Path) -> None:
    path = shared / "models" / "tflm_hello_int8.tflite"
    for target, is_by_operators in (("stm32f746/tflm", True), ("rp2040/tflm", False)):
        flash = room_of(path, target).flash
        assert flash is not None
        assert (BUILD_NOTE in flash.assumptions) is is_by_operators


def test_an_operator_without_a_size_leaves_the_range_of_the_runtime(shared: Path) -> None:
    code = _code(shared / "models" / "pmw_alexa.tflite", "stm32f746/tflm")
    assert "VAR_HANDLE" not in _sizes()["reference"]["operators"]
    assert (code.low_bytes, code.high_bytes) == (16 << 10, 128 << 10)
    assert "range" in code.basis


def test_another_core_has_the_range_of_the_runtime(shared: Path) -> None:
    path = shared / "models" / "mlperf_kws_int8.tflite"
    assert sizeup.target("rp2040/tflm").architectures == ("Armv6-M",)
    assert _code(path, "rp2040/tflm").high_bytes == 128 << 10
    assert _code(path, "stm32f746/tflm").high_bytes != 128 << 10


def test_every_operator_adds_code_to_the_interpreter() -> None:
    tables = _sizes()
    assert tables["build"]
    for kernels in ("reference", "cmsis-nn"):
        assert 4 << 10 < tables[kernels]["interpreter"] < 32 << 10
        assert len(tables[kernels]["operators"]) > 30
        assert all(0 < size < 64 << 10 for size in tables[kernels]["operators"].values())


def test_a_model_at_an_assumed_precision_may_have_further_operators(shared: Path) -> None:
    fit = room_of(shared / "models" / "mlperf_kws_fp32.tflite", "stm32f746/tflm", "int8")
    assert fit.flash is not None
    assert fit.flash.parts[-1].high_bytes == 128 << 10
