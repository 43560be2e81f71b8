from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sizeup
from checks.boards import board, needs, room_of
from sizeup.checks import MemoryNeed, MemoryPart, Needs, fit_memory
from timing import undisturbed

pytestmark = pytest.mark.extras
_RUNNING = (
    "mlperf_ad01_int8",
    "mlperf_kws_int8",
    "mlperf_resnet8_int8",
    "mlperf_resnet8_fp32",
    "mlperf_vww96_int8",
    "pmw_okay_nabu",
    "te_persondet",
    "tflm_hello_int8",
    "tflm_micro_speech",
    "tflm_mnist_lstm_int8",
    "tflm_person_detect",
)
# Interpreter (10,752 B) with CONV_2D, the largest kernel of keyword spotting, and with the sum of all.
_KWS_CODE = (21_964, 58_480)


def _file(shared: Path, name: str) -> Path:
    return shared / "models" / f"{name}.tflite"


@pytest.mark.slow
def test_the_verdict_on_ram_turns_where_the_real_interpreter_stops_to_allocate(shared: Path) -> None:
    from micro_interpreter import works

    arguments, verdicts = [], []
    for name in _RUNNING:
        path = _file(shared, name)
        # On a computer of 64 bits, for that is where the interpreter of the package runs.
        exact = room_of(path, board("rpi5/tflm", ram=1 << 30, flash=1 << 30)).ram.need_bytes
        # An arena on a board begins and ends at a multiple of 16.
        for size in (exact + 16, exact, exact - 16):
            arguments.append((path, size))
            verdicts.append(room_of(path, board("rpi5/tflm", ram=size, flash=1 << 30)).ram.fits)
    assert verdicts == works(arguments)
    assert verdicts == [True, True, False] * len(_RUNNING)


@pytest.mark.parametrize("name", ["resnet8", "vww96", "kws", "ad01"])
def test_a_model_priced_at_int8_needs_what_its_quantized_file_needs(name: str, shared: Path) -> None:
    target = "stm32f746/tflm"
    priced = room_of(_file(shared, f"mlperf_{name}_fp32"), target, "int8").ram
    real = room_of(_file(shared, f"mlperf_{name}_int8"), target).ram.need_bytes
    assert priced.low_bytes <= real <= (priced.high_bytes or 0) <= real + 64


def test_flash_holds_the_file_and_the_code_of_the_runtime(shared: Path) -> None:
    path = _file(shared, "mlperf_kws_int8")
    result = room_of(path, "stm32f746/tflm").flash
    assert result is not None
    assert [part.low_bytes for part in result.parts] == [path.stat().st_size, _KWS_CODE[0]]
    assert (result.limit_bytes, result.high_bytes) == (1 << 20, path.stat().st_size + _KWS_CODE[1])


def test_between_the_bounds_of_the_code_size_the_verdict_is_undetermined(shared: Path) -> None:
    path = _file(shared, "mlperf_kws_int8")
    size = path.stat().st_size
    answers = [
        room_of(path, board("stm32f746/tflm", ram=1 << 20, flash=size + code)).fits
        for code in (_KWS_CODE[0] - 1, _KWS_CODE[0], _KWS_CODE[1] - 1, _KWS_CODE[1])
    ]
    assert answers == [False, None, None, True]


def test_the_arena_of_a_microcontroller_lies_in_one_bank(shared: Path) -> None:
    # 512 + 288 + 128 + 64 KiB: the sum would hold what the largest bank does not.
    result = room_of(_file(shared, "mp_hand_recrop"), "stm32h743/tflm").ram
    assert (result.limit_bytes, result.fits) == (512 << 10, False)
    assert any("bank" in each for each in result.assumptions)


def test_the_arena_is_that_of_the_kernels_on_the_core(shared: Path) -> None:
    """As TFLite Micro needed it on emulated boards."""
    needed = {
        ("mlperf_resnet8_int8", "stm32f746/tflm"): 54_352,
        ("mlperf_resnet8_int8", "stm32f746/tflm-cmsis-nn"): 55_008,
        ("mlperf_ad01_int8", "apollo510/tflm-cmsis-nn"): 9_712,
        ("tflm_dtln", "stm32f746/tflm-cmsis-nn"): 14_368,
    }
    for (name, target), size in needed.items():
        ram = room_of(_file(shared, name), target).ram
        assert (ram.low_bytes, ram.high_bytes) == (size, size), (name, target)


def test_a_plan_with_overlaps_is_refused_for_other_kernels_than_the_reference(
    shared: Path, tmp_path: Path
) -> None:
    path = tmp_path / "small.tflite"
    sizeup.optimize(_file(shared, "mlperf_kws_int8"), path, overlap=True)
    assert room_of(path, "stm32f746/tflm").fits is True
    refused = room_of(path, "stm32f746/tflm-cmsis-nn")
    assert refused.fits is False
    assert "overlap" in (refused.unsupported_reason or "")


def test_a_network_with_a_second_graph_fits_the_chip_that_it_was_made_for(shared: Path) -> None:
    result = fit_memory(needs(_file(shared, "pmw_okay_nabu")), sizeup.target("esp32-s3"), flash=8 << 20)
    assert result.fits is True
    assert (result.ram.high_bytes or 0) < 64 << 10


def test_what_the_interpreter_refuses_does_not_fit_however_large_the_board(shared: Path) -> None:
    result = room_of(_file(shared, "swiftnet_vww_uint8"), board("stm32f746/tflm", ram=1 << 30, flash=1 << 30))
    assert all(space.fits for space in result.memories)
    assert result.fits is False
    assert "uint8" in (result.unsupported_reason or "")


def test_a_runtime_without_kernels_for_a_type_refuses_it(shared: Path) -> None:
    result = room_of(_file(shared, "mlperf_kws_int8"), "stm32f746/tflm", "fp16")
    assert result.fits is False
    assert result.unsupported_reason == "tflm has no kernels for fp16"


def test_a_memory_of_unknown_size_is_no_verdict(shared: Path) -> None:
    result = room_of(_file(shared, "mlperf_kws_int8"), "rp2040/tflm")
    assert result.flash is not None
    assert (result.ram.fits, result.flash.fits, result.fits) == (True, None, None)
    assert "--flash" in result.flash.unknown[0]
    source = fit_memory(needs(_file(shared, "mlperf_kws_int8")), sizeup.target("rp2040/tflm"), flash=2 << 20)
    assert source.fits is True


def test_a_card_holds_weights_beside_activations(shared: Path) -> None:
    path = _file(shared, "mp_hand_landmark_full")
    result = room_of(path, "rtx-4090/torch-inductor")
    report = sizeup.analyze(path)
    assert result.flash is None
    assert result.ram.low_bytes == report.totals.weight_bytes + (report.memory.peak_bytes or 0)
    assert result.fits is True
    path = _file(shared, "mlperf_resnet8_fp32")
    whole, half = (room_of(path, "rtx-4090/torch-inductor", each).ram for each in (None, "fp16"))
    assert 2 * half.low_bytes == whole.low_bytes


def test_a_card_with_torch_holds_blocks_or_segments_and_a_context(shared: Path) -> None:
    path = _file(shared, "mp_hand_landmark_full")
    ram, report = room_of(path, "rtx-4090/torch-eager").ram, sizeup.analyze(path)
    weights, tensors, context = ram.parts
    constants = sum(tensor.data is not None for tensor in report.graph.tensors)
    assert 0 <= weights.low_bytes - report.totals.weight_bytes < 512 * constants
    assert weights.low_bytes % 512 == tensors.low_bytes % 512 == 0
    assert (report.memory.peak_bytes or 0) <= tensors.low_bytes
    assert tensors.high_bytes is not None
    assert tensors.low_bytes <= tensors.high_bytes
    assert (weights.low_bytes + tensors.high_bytes) % (2 << 20) == 0  # whole segments
    # 287,047,680 B less a segment of 20 MiB, and 1,049,100,288 B less 396,361,728 B: see runtimes.toml.
    assert (context.low_bytes, context.high_bytes) == (266_076_160, 652_738_560)
    assert ram.reserve_bytes == 0
    with_report = sizeup.analyze(path, target="rtx-4090/torch-eager").memory.device_memory
    assert with_report is not None
    assert with_report.reserved_bytes == weights.low_bytes + tensors.high_bytes
    assert with_report.allocated_bytes == weights.low_bytes + tensors.low_bytes


def test_memory_that_a_gpu_shares_keeps_a_reserve_for_the_system(shared: Path) -> None:
    path = _file(shared, "mlperf_resnet8_fp32")
    ram = room_of(path, "jetson-orin-nx/torch-eager").ram
    assert [part.name for part in ram.parts] == ["weights", "tensors", "context"]
    assert ram.limit_bytes is not None
    assert ram.reserve_bytes == ram.limit_bytes // 10


@pytest.mark.parametrize(("mebibytes", "fits"), [(200, False), (400, None), (700, True)])
def test_a_need_between_blocks_and_segments_is_undetermined(
    mebibytes: int, fits: bool | None, shared: Path
) -> None:
    """A context of 254 to 622 MiB, and a small model with the workspace of cuBLAS."""
    subject = needs(_file(shared, "mlperf_resnet8_fp32"))
    ram = fit_memory(subject, sizeup.target("rtx-4090/torch-eager"), ram=mebibytes << 20).ram
    assert ram.fits is fits


def test_a_runtime_that_packs_may_keep_weights_twice(shared: Path) -> None:
    path = _file(shared, "mlperf_resnet8_fp32")
    packed, plain = (room_of(path, f"rpi5/{each}").ram.parts[0] for each in ("litert-xnnpack", "litert"))
    assert plain.high_bytes is not None
    assert plain.high_bytes - plain.low_bytes == 8  # the shape of the reshape, which may be loaded as well
    assert packed.low_bytes == plain.low_bytes
    assert packed.high_bytes == 2 * plain.low_bytes + 8


def test_a_size_that_depends_on_data_is_a_lower_bound_only(shared: Path) -> None:
    result = needs(_file(shared, "mlperf_kws_int8"))
    tensors = list(result.graph.tensors)
    hidden = next(op.outputs[0] for op in result.graph.ops[2:])
    tensors[hidden] = replace(tensors[hidden], shape=None)
    graph = replace(result.graph, tensors=tuple(tensors))
    unsure = Needs(graph, sizeup.count(graph))
    assert fit_memory(unsure, sizeup.target("stm32f746/tflm")).ram.fits is None
    assert fit_memory(unsure, sizeup.target("rpi5")).fits is None
    assert fit_memory(unsure, board("stm32f746/tflm", ram=1000, flash=1 << 20)).ram.fits is False


@pytest.mark.alone
def test_a_sweep_over_targets_costs_next_to_nothing_once_needs_are_known(shared: Path) -> None:
    result = needs(_file(shared, "tflm_mobilenetv2_224"))
    targets = [sizeup.target(each.name) for each in sizeup.devices()]
    fit_memory(result, targets[0])
    for target in targets:  # whatever a target asks for is found once
        fit_memory(result, target)
    with undisturbed() as taken:
        for target in targets:
            fit_memory(result, target)
    assert taken.seconds / len(targets) < 1e-3


@given(
    st.lists(st.tuples(st.integers(0, 99), st.none() | st.integers(0, 99)), min_size=1, max_size=5),
    st.integers(0, 200),
)
def test_a_verdict_holds_for_every_need_between_the_least_and_the_most(
    ranges: list[tuple[int, int | None]], limit: int
) -> None:
    parts = [MemoryPart("", least, None if more is None else least + more, "") for least, more in ranges]
    space = MemoryNeed("ram", limit, tuple(parts))
    fits_at_least = sum(part.low_bytes for part in parts) <= limit
    most = [part.high_bytes for part in parts]
    fits_at_most = all(each is not None for each in most) and sum(each or 0 for each in most) <= limit
    assert space.fits is (True if fits_at_most else None if fits_at_least else False)


def test_a_need_without_parts_is_unknown_not_zero() -> None:
    assert MemoryNeed("ram", 200, ()).fits is None


@pytest.mark.parametrize("name", ["resnet8", "vww96", "kws", "ad01"])
def test_a_file_at_another_precision_is_as_large_as_was_said(name: str, shared: Path) -> None:
    least, most = needs(_file(shared, f"mlperf_{name}_fp32"), "int8").stored_bytes
    assert least <= _file(shared, f"mlperf_{name}_int8").stat().st_size <= most
    own = _file(shared, f"mlperf_{name}_fp32").stat().st_size
    assert needs(_file(shared, f"mlperf_{name}_fp32")).stored_bytes == (own, own)
