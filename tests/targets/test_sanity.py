"""Values of shipped devices that contradict each other, such as a typical power above the design power."""

from __future__ import annotations

import math

import pytest

from sizeup import targets
from sizeup.targets import Device

DEVICES = targets.Catalog((targets.BUILT_IN,)).devices()
NARROWER = (("fp32", "fp16"), ("fp32", "int8"), ("fp16", "int8"))


def test_typical_power_is_not_above_the_design_power() -> None:
    known = [
        (device.name, power.idle_watts, power.typical_watts, power.tdp_watts)
        for device in DEVICES
        if (power := device.power) is not None
    ]
    assert len(known) >= 100
    for name, *watts in known:
        levels = [level for level in watts if level is not None]
        assert levels == sorted(levels), name


def test_jetsons_have_no_power_of_a_slower_mode() -> None:
    # Their rates are those of the fastest mode, of which documents state at most the budget.
    jetsons = [device for device in DEVICES if device.name.startswith("jetson")]
    assert len(jetsons) >= 9
    for device in jetsons:
        assert device.power is None or device.power.typical_watts is None, device.name
        assert device.power is not None or "power unknown" in device.note, device.name


def test_rates_of_a_unit_are_those_of_its_cores() -> None:
    compared = 0
    for device in DEVICES:
        for unit in device.units:
            clock = unit.boost_hz or unit.clock_hz
            if unit.core is None or clock is None:
                continue
            for dtype, macs in unit.core.macs_per_cycle.items():
                if f" of {unit.core.title} " in unit.basis[dtype]:
                    expected = (unit.cores or 1) * clock * macs
                    assert unit.macs_per_second[dtype] == pytest.approx(expected), (device.name, dtype)
                    compared += 1
    assert compared >= 300


def test_rates_stated_by_vendors_are_whole_operations_per_cycle() -> None:
    """Rates of accelerators divided by cores and clock are powers of two, within rounding."""
    compared = 0
    for device in DEVICES:
        for unit in device.units:
            clock = unit.boost_hz or unit.clock_hz
            if unit.core is not None or clock is None or unit.cores is None:
                continue
            for dtype, rate in unit.macs_per_second.items():
                exponent = math.log2(rate / unit.cores / clock)
                assert abs(exponent - round(exponent)) < 0.1, (device.name, dtype)
                compared += 1
    assert compared >= 150


def _mentions(device: Device, dtype: str) -> bool:
    notes = [device.note, *(unit.note for unit in device.units)]
    notes += [unit.core.note for unit in device.units if unit.core is not None]
    return any(dtype in note for note in notes)


@pytest.mark.parametrize(("wider", "narrower"), NARROWER)
def test_a_narrower_dtype_is_not_slower_unless_a_note_explains_it(wider: str, narrower: str) -> None:
    compared = 0
    for device in DEVICES:
        units = [unit.macs_per_second for unit in device.units]
        kinds = {unit.unit_class for unit in device.units}
        peaks = [{dtype: device.peak(dtype, kind) for dtype in (wider, narrower)} for kind in kinds]
        for rates in (*units, *peaks):
            slow, fast = rates.get(wider), rates.get(narrower)
            if slow is not None and fast is not None:
                assert fast >= slow or _mentions(device, narrower), (device.name, narrower)
                compared += 1
    assert compared >= 50


@pytest.mark.parametrize("runtime", ["tflm", "tflm-cmsis-nn", "tflm-esp-nn", "esp-dl", "stedgeai"])
def test_runtimes_of_microcontrollers_use_one_core(runtime: str) -> None:
    assert targets.runtime(runtime).cores == 1


def test_the_peak_of_a_target_is_that_of_the_cores_it_uses() -> None:
    pico = targets.target("rp2040/tflm")
    assert pico.device.peak("int8") == 2 * 200e6 / 2  # half a MAC per cycle and core at 200 MHz
    assert (pico.cores, pico.peak("int8")) == (1, 100e6)
    assert targets.target("esp32/tflm-esp-nn").peak("fp32") == 240e6
    # One of six fast cores at 4.7 GHz, of 16 MACs per cycle, and none of the eight slow ones.
    laptop = targets.target("i7-12700h/tflm")
    assert laptop.peak("fp32") == 16 * 4.7e9
    bandwidth = laptop.device.bandwidth
    assert bandwidth is not None
    assert laptop.flops_per_byte("fp32") == 2 * 16 * 4.7e9 / bandwidth
    assert targets.target("i7-12700h/ort").cores == 14
    # An accelerator is not a core.
    assert targets.target("stm32n657/stedgeai").peak("int8") == 300e9
