from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sizeup
from checks.boards import board, needs, room_of
from sizeup.checks import Needs, Part, Space, room

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


def _file(shared: Path, name: str) -> Path:
    return shared / "models" / f"{name}.tflite"


def test_the_verdict_on_ram_turns_where_the_real_interpreter_stops_to_allocate(shared: Path) -> None:
    from micro_interpreter import works

    asked, verdicts = [], []
    for name in _RUNNING:
        path = _file(shared, name)
        # On a computer of 64 bits, for that is where the interpreter of the package runs.
        exact = room_of(path, board("rpi5/tflm", ram=1 << 30, flash=1 << 30)).ram.need_bytes
        # An arena on a board begins and ends at a multiple of 16.
        for size in (exact + 16, exact, exact - 16):
            asked.append((path, size))
            verdicts.append(room_of(path, board("rpi5/tflm", ram=size, flash=1 << 30)).ram.fits)
    assert verdicts == works(asked)
    assert verdicts == [True, True, False] * len(_RUNNING)


@pytest.mark.parametrize("name", ["resnet8", "vww96", "kws", "ad01"])
def test_a_model_priced_at_int8_needs_what_its_quantised_file_needs(name: str, shared: Path) -> None:
    target = "stm32f746/tflm"
    priced = room_of(_file(shared, f"mlperf_{name}_fp32"), target, "int8").ram
    real = room_of(_file(shared, f"mlperf_{name}_int8"), target).ram.need_bytes
    assert priced.least_bytes <= real <= (priced.most_bytes or 0) <= real + 64


def test_flash_holds_the_file_and_the_code_of_the_runtime(shared: Path) -> None:
    path = _file(shared, "mlperf_kws_int8")
    found = room_of(path, "stm32f746/tflm").flash
    assert found is not None
    assert [part.least_bytes for part in found.parts] == [path.stat().st_size, 16 << 10]
    assert (found.limit_bytes, found.most_bytes) == (1 << 20, path.stat().st_size + (128 << 10))


def test_between_the_least_and_the_most_of_the_code_nobody_can_tell(shared: Path) -> None:
    path = _file(shared, "mlperf_kws_int8")
    size = path.stat().st_size
    answers = [
        room_of(path, board("stm32f746/tflm", ram=1 << 20, flash=size + code)).fits
        for code in ((16 << 10) - 1, 16 << 10, (128 << 10) - 1, 128 << 10)
    ]
    assert answers == [False, None, None, True]


def test_the_arena_of_a_microcontroller_lies_in_one_bank(shared: Path) -> None:
    # 512 + 288 + 128 + 64 KiB: the sum would hold what the largest bank does not.
    found = room_of(_file(shared, "mp_hand_recrop"), "stm32h743/tflm").ram
    assert (found.limit_bytes, found.fits) == (512 << 10, False)
    assert any("bank" in each for each in found.assumptions)


def test_optimised_kernels_may_ask_for_more_but_not_for_less(shared: Path) -> None:
    path = _file(shared, "mlperf_resnet8_int8")
    plain, tuned = (room_of(path, f"stm32f746/{each}").ram for each in ("tflm", "tflm-cmsis-nn"))
    assert tuned.least_bytes == plain.need_bytes
    # The widest filter, 3 x 3 x 64: two columns of 16 bits, and a sum of weights for each of 64 channels.
    assert tuned.need_bytes - plain.need_bytes == 4 * 3 * 3 * 64 + 4 * 64


def test_a_network_with_a_second_graph_fits_the_chip_that_it_was_made_for(shared: Path) -> None:
    found = room(needs(_file(shared, "pmw_okay_nabu")), sizeup.target("esp32-s3"), flash=8 << 20)
    assert found.fits is True
    assert (found.ram.most_bytes or 0) < 64 << 10


def test_what_the_interpreter_refuses_does_not_fit_however_large_the_board(shared: Path) -> None:
    found = room_of(_file(shared, "swiftnet_vww_uint8"), board("stm32f746/tflm", ram=1 << 30, flash=1 << 30))
    assert all(space.fits for space in found.spaces)
    assert found.fits is False
    assert "uint8" in (found.refused or "")


def test_a_runtime_without_kernels_for_a_type_refuses_it(shared: Path) -> None:
    found = room_of(_file(shared, "mlperf_kws_int8"), "stm32f746/tflm", "fp16")
    assert found.fits is False
    assert found.refused == "tflm has no kernels for fp16"


def test_a_memory_of_unknown_size_is_no_verdict(shared: Path) -> None:
    found = room_of(_file(shared, "mlperf_kws_int8"), "rp2040/tflm")
    assert found.flash is not None
    assert (found.ram.fits, found.flash.fits, found.fits) == (True, None, None)
    assert "--flash" in found.flash.unknown[0]
    given = room(needs(_file(shared, "mlperf_kws_int8")), sizeup.target("rp2040/tflm"), flash=2 << 20)
    assert given.fits is True


def test_a_card_holds_weights_beside_activations(shared: Path) -> None:
    path = _file(shared, "mp_hand_landmark_full")
    found = room_of(path, "rtx-4090")
    report = sizeup.analyze(path)
    assert found.flash is None
    assert found.ram.least_bytes == report.totals.weight_bytes + (report.memory.peak_bytes or 0)
    assert found.fits is True
    path = _file(shared, "mlperf_resnet8_fp32")
    whole, half = (room_of(path, "rtx-4090", each).ram for each in (None, "fp16"))
    assert 2 * half.least_bytes == whole.least_bytes


def test_a_runtime_that_packs_may_keep_weights_twice(shared: Path) -> None:
    path = _file(shared, "mp_hand_landmark_full")
    packed, plain = (room_of(path, f"rpi5/{each}").ram.parts[0] for each in ("litert-xnnpack", "litert"))
    assert plain.is_exact
    assert packed.most_bytes == 2 * plain.least_bytes == 2 * packed.least_bytes


def test_a_size_that_depends_on_data_is_a_lower_bound_only(shared: Path) -> None:
    found = needs(_file(shared, "mlperf_kws_int8"))
    tensors = list(found.graph.tensors)
    hidden = next(op.outputs[0] for op in found.graph.ops[2:])
    tensors[hidden] = replace(tensors[hidden], shape=None)
    graph = replace(found.graph, tensors=tuple(tensors))
    unsure = Needs(graph, sizeup.count(graph))
    assert room(unsure, sizeup.target("stm32f746/tflm")).ram.fits is None
    assert room(unsure, sizeup.target("rpi5")).fits is None
    assert room(unsure, board("stm32f746/tflm", ram=1000, flash=1 << 20)).ram.fits is False


@pytest.mark.alone
def test_a_sweep_over_targets_costs_next_to_nothing_once_needs_are_known(shared: Path) -> None:
    found = needs(_file(shared, "tflm_mobilenetv2_224"))
    targets = [sizeup.target(each.name) for each in sizeup.devices()]
    room(found, targets[0])
    for target in targets:  # whatever a target asks for is found once
        room(found, target)
    began = time.perf_counter()
    for target in targets:
        room(found, target)
    assert (time.perf_counter() - began) / len(targets) < 1e-3


@given(
    st.lists(st.tuples(st.integers(0, 99), st.none() | st.integers(0, 99)), max_size=5), st.integers(0, 200)
)
def test_a_verdict_holds_for_every_need_between_the_least_and_the_most(
    ranges: list[tuple[int, int | None]], limit: int
) -> None:
    parts = [Part("", least, None if more is None else least + more, "") for least, more in ranges]
    space = Space("ram", limit, tuple(parts))
    fits_at_least = sum(part.least_bytes for part in parts) <= limit
    most = [part.most_bytes for part in parts]
    fits_at_most = all(each is not None for each in most) and sum(each or 0 for each in most) <= limit
    assert space.fits is (True if fits_at_most else None if fits_at_least else False)


@pytest.mark.parametrize("name", ["resnet8", "vww96", "kws", "ad01"])
def test_a_file_at_another_precision_is_as_large_as_was_said(name: str, shared: Path) -> None:
    least, most = needs(_file(shared, f"mlperf_{name}_fp32"), "int8").stored_bytes
    assert least <= _file(shared, f"mlperf_{name}_int8").stat().st_size <= most
    own = _file(shared, f"mlperf_{name}_fp32").stat().st_size
    assert needs(_file(shared, f"mlperf_{name}_fp32")).stored_bytes == (own, own)
