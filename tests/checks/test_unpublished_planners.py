"""Fit verdicts for runtimes of microcontrollers whose memory planner is not published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sizeup
from checks.boards import board, needs, room_of
from sizeup.checks import fit_memory
from sizeup.targets import Memory

pytestmark = pytest.mark.extras
_KIB = 1024
# What ST reports for MobileNet 0.25 at 96 x 96 pixels, which mlperf_vww96 is apart from its head and input:
# activations and runtime, https://github.com/STMicroelectronics/stm32ai-modelzoo, tag v3.2.0.
_REPORTED = (66.96 + 16.33) * _KIB


def _model(shared: Path, name: str = "mlperf_vww96_int8") -> Path:
    return shared / "models" / f"{name}.tflite"


def test_st_edge_ai_needs_a_range_that_contains_what_st_reports(shared: Path) -> None:
    ram = room_of(_model(shared), "stm32h747/stedgeai").ram
    assert ram.low_bytes < _REPORTED < (ram.high_bytes or 0)
    assert [part.name for part in ram.parts] == ["tensors", "runtime"]


def test_a_limit_within_the_range_is_undetermined(shared: Path) -> None:
    path = _model(shared)
    ram = room_of(path, "stm32h747/stedgeai").ram
    limits = (ram.low_bytes - 1, ram.low_bytes, (ram.high_bytes or 0) - 1, ram.high_bytes)
    fits = [room_of(path, board("stm32h747/stedgeai", ram=size, flash=1 << 21)).ram.fits for size in limits]
    assert fits == [False, None, None, True]


def test_activations_may_be_spread_over_banks_but_not_beyond_them(shared: Path) -> None:
    path = _model(shared)
    target = sizeup.target("stm32h747/stedgeai")

    def fits(*sizes: int) -> bool | None:
        banks = tuple(Memory(f"bank {size}", "ram", "a test", size) for size in sizes)
        device = replace(target.device, memories=banks)
        return fit_memory(needs(path), replace(target, device=device)).ram.fits

    need = room_of(path, target).ram
    assert fits(need.high_bytes or 0, 16) is True
    # No bank holds the least, both together do: which tensors go where is not modeled.
    assert fits(need.low_bytes - 1, need.low_bytes - 1) is None
    assert fits(need.low_bytes // 2 - 1, need.low_bytes // 2 - 1) is False
    # TFLite Micro has one arena.
    arena = room_of(path, "stm32h747/tflm").ram.need_bytes
    small = tuple(Memory(name, "ram", "a test", arena - 16) for name in ("a", "b"))
    micro = sizeup.target("stm32h747/tflm")
    assert (
        fit_memory(needs(path), replace(micro, device=replace(micro.device, memories=small))).ram.fits
        is False
    )


def test_a_single_bank_is_not_split(shared: Path) -> None:
    low = room_of(_model(shared), "stm32h747/stedgeai").ram.low_bytes
    ram = room_of(_model(shared), board("stm32h747/stedgeai", ram=low)).ram
    assert [part.name for part in ram.parts] == ["tensors", "runtime"]


def test_given_ram_is_one_bank(shared: Path) -> None:
    assert (
        fit_memory(needs(_model(shared)), sizeup.target("stm32h747/stedgeai"), ram=30 * _KIB).ram.fits
        is False
    )


def test_the_npu_of_an_stm32n6_has_a_lower_bound_only(shared: Path) -> None:
    fit = room_of(_model(shared), "stm32n657/stedgeai")
    assert fit.ram.high_bytes is None
    assert fit.ram.fits is None
    assert fit.ram.low_bytes == 36 * _KIB  # 48 x 48 x 16 between the first two pointwise convolutions
    assert fit.flash is not None
    assert (fit.flash.parts[0].name, fit.flash.parts[0].low_bytes) == ("model", 0)
    small = board("stm32n657/stedgeai", ram=36 * _KIB - 1)
    assert room_of(_model(shared), small).ram.fits is False


def test_flash_of_generated_code_is_between_the_weights_and_the_file(shared: Path) -> None:
    path = _model(shared)
    flash = room_of(path, "stm32h747/stedgeai").flash
    assert flash is not None
    model, code = flash.parts
    assert model.high_bytes == path.stat().st_size
    # 0.9 of the reported weights of the same network with another head.
    assert 0.9 * 214.69 * _KIB < model.low_bytes < path.stat().st_size
    operators = len(sizeup.load(path).ops)
    assert (code.low_bytes, code.high_bytes) == (4 * _KIB, (128 + operators) * _KIB)
