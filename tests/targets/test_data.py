"""Properties of all shipped files: sources, dates, no zeros, unique names."""

from __future__ import annotations

import csv
import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from sizeup import targets
from sizeup.errors import TargetError
from sizeup.settings import parse_toml
from sizeup.targets import target_files
from sizeup.targets.catalog import FITS
from sizeup.targets.target_files import BUILT_IN
from timing import cpu_seconds

DEVICES = targets.Catalog((targets.BUILT_IN,)).devices()
RUNTIMES = targets.Catalog((targets.BUILT_IN,)).runtimes()
ORIGIN = re.compile(r"https://\S+\.\S+|^(derived|measured): \S")


def parts(value: Any) -> Iterator[Any]:
    """A value and everything within it."""
    yield value
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield from parts(getattr(value, each.name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from parts(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from parts(inner)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_every_value_of_a_device_has_a_source(device: targets.Device) -> None:
    tables: list[Any] = [part for part in parts(device) if dataclasses.is_dataclass(part)]
    assert len(tables) >= 2
    for table in tables:
        assert ORIGIN.search(table.source), table
    for unit in device.units:
        assert set(unit.basis) == set(unit.macs_per_second)
        assert all(ORIGIN.search(basis) for basis in unit.basis.values())
    for memory in device.memories:
        assert bool(memory.basis) == (memory.bytes_per_second is not None)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_what_is_not_known_is_absent_and_never_zero(device: targets.Device) -> None:
    numbers = [part for part in parts(device) if isinstance(part, int | float)]
    assert numbers, "a device of which nothing is known"
    assert all(number > 0 for number in numbers)


def test_every_entry_says_when_it_was_recorded() -> None:
    dates = [device.recorded for device in DEVICES] + [runtime.recorded for runtime in RUNTIMES]
    assert all(date(2026, 1, 1) <= date.fromisoformat(text) <= date(2100, 1, 1) for text in dates)


def test_a_verified_device_names_the_document_that_it_was_compared_with() -> None:
    verified = [device for device in DEVICES if device.verified]
    assert len(verified) >= 60
    for device in verified:
        assert date.fromisoformat(device.verified) >= date.fromisoformat(device.recorded)
        assert "https://" in device.source, device.name


def test_every_runtime_has_a_source_and_number_types() -> None:
    assert len(RUNTIMES) >= 20
    for runtime in RUNTIMES:
        assert ORIGIN.search(runtime.source)
        assert runtime.dtypes


def test_every_device_runs_with_every_runtime_that_it_names() -> None:
    pairs = [(device, name) for device in DEVICES for name in device.runtimes]
    assert len(pairs) > 200
    for device, name in pairs:
        target = targets.target(f"{device.name}/{name}")
        assert target.device.name == device.name
        assert target.runtime.name == name
        assert {unit.unit_class for unit in target.units} <= set(target.runtime.units)


def test_every_runtime_runs_somewhere() -> None:
    named = {name for device in DEVICES for name in device.runtimes}
    assert named == {runtime.name for runtime in RUNTIMES}


def test_every_device_has_a_usual_runtime() -> None:
    assert [device.name for device in DEVICES if not device.runtimes] == []


# Names of the measurements that targets are fitted to and judged by.
MEASURED = {
    "NVIDIA RTX 3090": "rtx-3090",
    "NVIDIA RTX 4090": "rtx-4090",
    "NVIDIA RTX 5090": "rtx-5090",
    "NVIDIA RTX PRO 6000 Max-Q": "rtx-pro-6000-max-q",
    "Intel i7-12700H": "i7-12700h",
    "Intel i9-10940X": "i9-10940x",
    "NVIDIA GTX 1080 Ti": "gtx-1080-ti",
    "NVIDIA RTX 2080 Ti": "rtx-2080-ti",
    "NVIDIA Titan RTX": "titan-rtx",
    "NVIDIA Titan Xp": "titan-xp",
    "NVIDIA V100": "v100-sxm2",
    "Intel Xeon Gold 6226": "xeon-gold-6226",
    "Intel Xeon Silver 4210R": "xeon-silver-4210r",
    "Raspberry Pi 4 (BCM2711)": "rpi4",
    "Raspberry Pi 4 (ARM A72)": "rpi4",
    "Raspberry Pi 5 (1x Cortex-A76 pinned)": "rpi5",
    "Google Pixel 2 (SD835)": "snapdragon-835",
    "Google Pixel 3 (SD845)": "snapdragon-845",
    "STM32H747I-DISCO": "stm32h747",
    "STM32N6570-DK": "stm32n657",
    "NUCLEO-U3C5ZI-Q (With HSP)": "stm32u3c5",
    "STM32F746 (Cortex-M7 216MHz, 320kB SRAM, 1MB flash)": "stm32f746",
    "DISCO-F746NG": "stm32f746",
    "NUCLEO-L4R5ZI": "stm32l4r5",
    "xG24-DK2601B": "efr32mg24",
    "EK-RA8D1": "ra8d1",
    "nRF5340 DK": "nrf5340",
    "HAILO8L": "hailo-8l",
    "HAILO15H": "hailo-15h",
    "Coral USB on rp4b": "edgetpu",
    "Samsung Galaxy S24": "galaxy-s24",
    "Snapdragon X Elite CRD": "snapdragon-x-elite",
    "Tesla_V100-PCIE-32GB": "v100-pcie",
    "NVIDIA_H100_80GB_HBM3": "h100-sxm",
    "AMD_Instinct_MI210": "mi210",
    "a40": "a40",
    "a100": "a100-80gb-sxm",
    "h100": "h100-sxm",
    "NVIDIA Jetson AGX Orin (Cortex-A78AE 2.2 GHz x 12 + Ampere@1.3 GHz Tensor Cores 64)": "jetson-agx-orin",
    "Raspberry Pi 5 Broadcom BCM2712, Cortex-A76 (ARMv8) (2.4GHz x 4)": "rpi5",
    "Intel® Xeon® Platinum 8480+ CPU-only": "xeon-platinum-8480+",
    "TPU v5e": "tpu-v5e",
}


@pytest.mark.parametrize("name", MEASURED)
def test_names_of_measured_hardware_lead_to_it(name: str) -> None:
    assert targets.device(name).name == MEASURED[name]


@pytest.mark.parametrize("table", ["neusight_e2e", "stm32_modelzoo", "coral_ref"])
def test_all_hardware_of_a_table_of_measurements_is_described(shared: Path, table: str) -> None:
    with (shared / "truth" / f"{table}.csv").open(encoding="utf-8") as file:
        names = {row["device"] for row in csv.DictReader(file)}
    assert len(names) >= 5
    assert {name for name in names if not targets.devices(name)} == set()


@pytest.mark.parametrize("name", ["Google Pixel (NNAPI NPU delegate)", "MacBook Pro", "Eyeriss ASIC"])
def test_names_that_may_mean_several_things_lead_to_nothing(name: str) -> None:
    with pytest.raises(TargetError, match="unknown device"):
        targets.device(name)


@pytest.mark.parametrize("text", ["", "/etc/passwd"])
def test_a_target_without_a_device_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(TargetError, match=f"'{text}' is not a target such as nano33ble"):
        targets.target(text)


def test_importing_sizeup_reads_no_file_of_devices() -> None:
    code = "import sys, sizeup; print([name for name in sys.modules if 'toml' in name or 'targets' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_one_device_is_made_without_making_the_others() -> None:
    catalog = targets.Catalog((targets.BUILT_IN,))
    catalog.device("rpi5")
    assert {name for kind, name in catalog._cache if kind == "device"} == {"rpi5"}


@pytest.mark.alone
def test_reading_all_files_costs_little_more_than_parsing_them() -> None:
    # About 30 ms on an idle core, nearly all of it in the parser. A bound in milliseconds judges the machine.
    paths = list(targets.BUILT_IN.rglob("*.toml"))
    ours = theirs = float("inf")
    for _ in range(15):
        ours = min(ours, cpu_seconds(lambda: targets.Catalog((targets.BUILT_IN,))))
        theirs = min(theirs, cpu_seconds(lambda: [target_files._read_toml(path) for path in paths]))
        if ours <= 1.5 * theirs:
            break
    assert ours <= 1.5 * theirs


@pytest.mark.parametrize(
    "path", [*target_files.files_of(BUILT_IN), *FITS.glob("*.toml")], ids=lambda path: str(path.stem)
)
def test_tables_that_are_parsed_one_by_one_are_those_of_the_whole_file(path: Path) -> None:
    whole = parse_toml(path.read_text("utf-8"))
    common = whole.get("common", {})

    def own(values: Mapping[str, Any]) -> str:
        # The names are asked for first: they need no parsing.
        named = [values.get(key) for key in ("name", "title", "aliases")]
        items = [(key, values[key]) for key in values if common.get(key) != values[key]]
        return repr((named, sorted(items)))

    expected = [(kind, own(each)) for kind in target_files.KINDS for each in whole.get(kind, ())]
    assert expected
    assert sorted((kind, own(table.values)) for kind, table in target_files._tables(path)) == sorted(expected)
