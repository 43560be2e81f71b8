"""Device files: error messages, and the precedence of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sizeup import targets
from sizeup.errors import TargetError

GOOD = """\
[sources]
sheet = "data sheet, https://example.org/sheet.pdf"

[common]
kind = "microcontroller"
maker = "Acme"
recorded = "2026-01-02"

[[core]]
name = "acme-1"
title = "Acme 1"
architecture = "Acme"
macs_per_cycle = { int8 = 4, fp32 = 0.5 }
source = "sheet"

[[device]]
name = "acme-board"
title = "Acme Board"
aliases = ["board 7"]
runtimes = ["acme-run"]
source = "sheet"
verified = "2026-02-03"
units = [
  { core = "acme-1", cores = 2, clock = "100 MHz", boost = "200 MHz" },
  { kind = "npu", name = "Acme NPU", peak = { int8 = "1 TOPS" } },
]
memories = [
  { name = "SRAM", role = "ram", size = "1.5 KiB", bandwidth = "400 MB/s" },
  { name = "SDRAM", role = "external ram", size = "8 MiB", bus = "16 bit x 100 MT/s" },
  { name = "flash", role = "flash", size = "64 KiB" },
]
power = { idle = "5 mW", typical = "0.5 W" }
energy = { pj_per_mac = { int8 = 12.5 }, pj_per_byte = { SRAM = 3 }, source = "derived: 0.5 W / 40 GMAC/s" }

[[runtime]]
name = "acme-run"
title = "Acme Run"
units = ["cpu"]
dtypes = ["int8"]
fuses = ["activation"]
in_place = []
overhead = "5 us"
source = "measured: by hand"
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file to a separate folder, which is the first on the search path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))

    def written(text: str, name: str = "mine.toml") -> Path:
        folder = tmp_path / "own"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(text, "utf-8")
        monkeypatch.setenv("SIZEUP_TARGETS", str(path))
        return path

    return written


def test_a_file_of_ones_own_says_all_that_can_be_said(write: Write) -> None:
    path = write(GOOD)
    target = targets.target("Board-7/acme-run")
    device = target.device
    assert target.name == str(target) == "acme-board/acme-run"
    assert device.file == str(path)
    assert (device.recorded, device.verified) == ("2026-01-02", "2026-02-03")
    assert [unit.name for unit in target.units] == ["Acme 1"]
    assert target.peak("int8") == 2 * 200e6 * 4
    assert target.peak("fp32") == 2 * 200e6 * 0.5
    assert target.peak("fp16") is None
    assert device.peak("int8", "npu") == 0.5e12
    assert device.peak("int8", "gpu") is None
    assert target.overhead_seconds == pytest.approx(5e-6)
    assert device.ram_bytes == 1536
    assert device.flash_bytes == 65536
    assert [memory.bytes_per_second for memory in device.memories] == [400e6, 200e6, None]
    assert device.bandwidth == 400e6
    assert target.flops_per_byte("int8") == 2 * 1.6e9 / 400e6
    assert device.power is not None
    assert (device.power.idle_watts, device.power.typical_watts, device.power.tdp_watts) == (0.005, 0.5, None)
    assert device.energy is not None
    assert device.energy.pj_per_mac == {"int8": 12.5}
    assert device.energy.pj_per_byte == {"SRAM": 3}
    assert device.source == "data sheet, https://example.org/sheet.pdf"
    assert device.units[0].basis["int8"].startswith("derived: cores x clock x MACs per cycle of Acme 1")
    assert device.units[1].basis["int8"] == device.source
    assert (target.runtime.fusions, target.runtime.in_place) == (("activation",), ())


MUTATIONS = [
    ("clock = ", "clok = ", "device acme-board: units[0]: unknown key 'clok'; nearest: clock"),
    ("[common]", "[comon]", "top level: unknown key 'comon'; nearest: common"),
    ('"100 MHz"', "100", "units[0]: clock is 100, not a text"),
    ('"100 MHz"', '"100"', "clock: '100' is not a clock such as '216 MHz'"),
    ('"100 MHz"', '"100 KiB"', "'100 KiB' is not a clock"),
    ('"100 MHz"', '"-100 MHz"', "'-100 MHz' is not a clock"),
    ('"100 MHz"', '"0 MHz"', "'0 MHz' is out of range for a clock (1000 to 2e+10 Hz)"),
    ('"100 MHz"', '"100000 GHz"', "is out of range for a clock"),
    ('boost = "200 MHz"', 'boost = "50 MHz"', "boost needs a clock"),
    (
        '"1.5 KiB"',
        '"1.5 Kbit"',
        "memories[0]: size: '1.5 Kbit' is not a size such as '320 KiB'",
    ),
    ('"1.5 KiB"', '"0.3 KiB"', "size is not a whole number of bytes"),
    ('"1.5 KiB"', '"1.5 Gbit"', "is not a size"),
    ('"400 MB/s"', '"400 MB"', "bandwidth: '400 MB' is not a bandwidth"),
    ('"16 bit x 100 MT/s"', '"100 MT/s"', "is not a memory bus such as '64 bit x 4266 MT/s'"),
    ('bus = "16 bit', 'bandwidth = "1 GB/s", bus = "16 bit', "bandwidth and bus are alternatives; keep one"),
    ('role = "flash"', 'role = "flahs"', "memories[2]: role is 'flahs'; nearest: flash"),
    ('kind = "npu"', 'kind = "tpu"', "units[1]: kind is 'tpu'"),
    ('kind = "microcontroller"', 'kind = "toaster"', "kind is 'toaster'; known: microcontroller"),
    ("cores = 2", "cores = 0", "units[0]: cores is 0, not within 1 to"),
    ("cores = 2", "cores = 2.5", "cores is 2.5, not a whole number"),
    ("cores = 2", "cores = true", "cores is True, not a whole number"),
    ('core = "acme-1"', 'core = "acme-2"', "core 'acme-2' is not described in any file"),
    ('"1 TOPS"', '"1 TB"', "units[1]: peak: int8: '1 TB' is not a rate such as '26 TOPS'"),
    ('peak = { int8 = "1 TOPS" }', "macs_per_cycle = { int8 = 4 }", "macs_per_cycle needs a clock"),
    ("peak = { int8", "peak = { int9", "units[1]: peak: unknown key 'int9'; nearest: int8"),
    ("fp32 = 0.5", "fp32 = -1", "core acme-1: macs_per_cycle: fp32 is -1, not within"),
    ("fp32 = 0.5", "fp32 = nan", "fp32 is nan, not a number"),
    ("pj_per_mac = { int8 = 12.5 }", "pj_per_mac = 12.5", "energy: pj_per_mac is 12.5, not a table"),
    ('source = "derived: 0.5', 'sauce = "derived: 0.5', "energy: unknown key 'sauce'; nearest: source"),
    (', source = "derived: 0.5 W / 40 GMAC/s"', "", "energy: source is missing"),
    ('typical = "0.5 W"', 'typical = "500 kW"', "power: typical: '500 kW' is out of range for a power"),
    ('dtypes = ["int8"]', 'dtypes = ["int3"]', "runtime acme-run: dtypes is 'int3'"),
    ('dtypes = ["int8"]', "", "runtime acme-run: dtypes is missing"),
    ('fuses = ["activation"]', 'fuses = ["activations"]', "fuses is 'activations'; nearest: activation"),
    ("in_place = []", 'in_place = "view"', "in_place is 'view', not a list of texts"),
    ('overhead = "5 us"', 'overhead = "5 min"', "overhead: '5 min' is not a time such as '5 us'"),
    (
        'source = "sheet"\nverified',
        'source = "shet"\nverified',
        "source 'shet' is not a key of [sources]",
    ),
    ('source = "sheet"\nverified', "verified", "device acme-board: source is missing"),
    (
        '"2026-02-03"',
        '"last week"',
        "device acme-board: verified is 'last week', not a date such as 2026-01-31",
    ),
    ('"2026-02-03"', '"2026-02-30"', "verified is '2026-02-30', not a date"),
    ("https://example.org/sheet.pdf", "page 7", "sources: sheet is not a URL"),
    ('title = "Acme Board"\n', "", "device acme-board: title is missing"),
    ('title = "Acme Board"', 'title = ""', "title is empty"),
    ('aliases = ["board 7"]', 'aliases = "board 7"', "aliases is 'board 7', not a list of texts"),
    ('name = "acme-board"\n', "", "device 0: name is missing"),
    ("memories = [", "memories = [ 7, ", "memories is not a list of tables"),
    (
        "[[device]]",
        '[[device]]\nname = "board7"\n\n[[device]]',
        "duplicate name 'board7', also of board7",
    ),
    ("[[device]]", "[[device]", "not a TOML file"),
]


@pytest.mark.parametrize(("old", "new", "message"), MUTATIONS, ids=[each[2] for each in MUTATIONS])
def test_a_slip_in_a_file_is_refused_where_it_stands(write: Write, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) >= 1
    path = write(GOOD.replace(old, new, 1))
    with pytest.raises(TargetError) as refused:
        targets.target("acme-board/acme-run")
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_a_device_without_units_is_refused(write: Write) -> None:
    start, rest = GOOD.split("units = [\n", 1)
    write(start + rest.split("]\n", 1)[1])
    with pytest.raises(TargetError, match="device acme-board: no units"):
        targets.device("acme-board")


DERIVED = """\
[[device]]
name = "{name}"
title = "Title of {name}"
like = "{like}"
memories = [{{ name = "SRAM", role = "ram", size = "8 KiB", source = "measured: by hand" }}]
"""


def test_a_device_may_be_like_one_that_comes_along(write: Write) -> None:
    write(DERIVED.format(name="own", like="STM32F746NG"))
    own, theirs = targets.device("own"), targets.device("stm32f746")
    assert own.units == theirs.units
    assert (own.vendor, own.device_class, own.runtimes) == (
        theirs.vendor,
        theirs.device_class,
        theirs.runtimes,
    )
    assert own.source == theirs.source  # written out, though the word for it is not of this file
    assert (own.ram_bytes, theirs.ram_bytes) == (8192, 320 * 1024)
    assert (own.title, own.aliases) == ("Title of own", ())
    assert theirs.verified
    assert own.verified == ""  # its own values were not compared with a document


def test_a_device_may_replace_the_one_of_its_name_and_be_like_it(write: Write) -> None:
    write(DERIVED.format(name="rpi5", like="rpi5"))
    assert targets.device("raspberry pi 5").ram_bytes == 8192
    assert [unit.name for unit in targets.device("rpi5").units] == ["Cortex-A76", "VideoCore VII"]
    assert sum(device.name == "rpi5" for device in targets.devices()) == 1


def test_devices_that_are_like_each_other_are_refused(write: Write) -> None:
    write(DERIVED.format(name="one", like="two") + DERIVED.format(name="two", like="one"))
    with pytest.raises(TargetError, match="like 'one': no other device has that name"):
        targets.device("one")


def test_a_device_like_nothing_is_refused_with_the_nearest_names(write: Write) -> None:
    write(DERIVED.format(name="own", like="stm32f745"))
    with pytest.raises(TargetError, match=r"like 'stm32f745'.*stm32f746"):
        targets.device("own")


def test_the_first_place_wins(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(DERIVED.format(name="own", like="rp2040")).parent
    single = tmp_path / "single.toml"
    single.write_text(DERIVED.format(name="own", like="rp2350").replace("8 KiB", "9 KiB"), "utf-8")
    settings = tmp_path / "settings" / "sizeup" / "targets"
    settings.mkdir(parents=True)
    text = DERIVED.format(name="own", like="rpi4") + DERIVED.format(name="other", like="rpi4")
    (settings / "any.toml").write_text(text, "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))

    monkeypatch.setenv("SIZEUP_TARGETS", os.pathsep.join(map(str, (single, folder))))
    assert targets.device("own").ram_bytes == 9 * 1024
    monkeypatch.setenv("SIZEUP_TARGETS", os.pathsep.join(map(str, (folder, single))))
    assert targets.device("own").units == targets.device("rp2040").units
    monkeypatch.delenv("SIZEUP_TARGETS")
    assert targets.device("own").units == targets.device("other").units == targets.device("rpi4").units


def test_settings_are_looked_for_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".config" / "sizeup" / "targets"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(DERIVED.format(name="own", like="rp2040"), "utf-8")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SIZEUP_TARGETS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert targets.device("own").file == str(folder / "mine.toml")


def test_a_place_that_does_not_exist_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path / "absent"))
    with pytest.raises(TargetError, match="absent: no such file; SIZEUP_TARGETS names"):
        targets.devices()


def test_a_target_without_a_runtime_takes_the_usual_one() -> None:
    assert targets.target("stm32f746").name == "stm32f746/tflm-cmsis-nn"
    assert targets.target("RTX 4090/inductor").name == "rtx-4090/torch-inductor"


def test_a_runtime_computes_on_the_units_that_it_knows() -> None:
    assert {unit.unit_class for unit in targets.target("stm32n657/stedgeai").units} == {"npu"}
    assert {unit.unit_class for unit in targets.target("stm32n657/tflm").units} == {"cpu"}
    assert {unit.unit_class for unit in targets.target("rpi5/torch-eager").units} == {"cpu"}
    assert {unit.unit_class for unit in targets.target("rpi5/ncnn-vulkan").units} == {"gpu"}
    assert {unit.unit_class for unit in targets.target("jetson-agx-orin/torch-eager").units} == {"gpu"}
    assert len(targets.target("snapdragon-855/litert").units) == 3


def test_a_pair_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TargetError, match="tensorrt does not run on stm32f746; its runtimes: tflm-cmsis-nn"):
        targets.target("stm32f746/tensorrt")


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(TargetError, match=r"unknown device 'stm32f745'; nearest: .*stm32f746"):
        targets.device("stm32f745")
    with pytest.raises(TargetError, match=r"unknown runtime 'tflmm'; nearest: tflm"):
        targets.target("stm32f746/tflmm")
    with pytest.raises(TargetError, match="sizeup devices lists all"):
        targets.device("qqqqqqqqqqqq")
