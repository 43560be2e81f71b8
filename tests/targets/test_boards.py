"""Boards: their files, their names as targets, and the memory that they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sizeup import targets
from sizeup.errors import TargetError
from sizeup.sweeps.points import target_digest
from sizeup.sweeps.spec import read_spec
from sizeup.targets.table import is_source

Write = Callable[[str], Path]
BOARDS = targets.boards()

# From the makers' documents: usable RAM and flash in bytes, and external RAM.
FACTS = {
    "nano33ble": (0x40000 - 0x200, 0xF0000, None),  # linker script of ArduinoCore-mbed
    "feather-nrf52840": (248_832, 815_104, None),  # PlatformIO, with SoftDevice S140
    "xiao-nrf52840": (237_568, 811_008, None),  # boards.txt of Seeed
    "pico": (264 << 10, 2 << 20, None),
    "pico-2": (520 << 10, 4 << 20, None),
    "teensy-4.1": (512 << 10, 8_126_464, None),
    "esp32-s3-eye": (392 << 10, (8 << 20) - (64 << 10), 8 << 20),
    "32f746gdiscovery": (320 << 10, 1 << 20, 8 << 20),
    "portenta-h7": (523_624, 1_966_080, 8 << 20),
    "sparkfun-edge": (384 << 10, 983_040, None),
    # The larger flashes of these kits are not connected, or not what they boot from.
    "mimxrt1060-evk": (512 << 10, 8 << 20, 32 << 20),  # MicroPython: MICROPY_HW_FLASH_SIZE
    "mimxrt1170-evk": (1280 << 10, 16 << 20, 64 << 20),
    "grove-vision-ai-v2": ((2 << 20) - 0x1F000, 16 << 20, None),  # W25Q128JW
    "rpi5-4gb": (4 << 30, None, None),
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """A file of one's own with boards."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))

    def written(text: str) -> Path:
        path = tmp_path / "boards.toml"
        path.write_text(text, "utf-8")
        monkeypatch.setenv(targets.VARIABLE, str(path))
        targets.clear_cache()
        return path

    yield written
    monkeypatch.undo()
    targets.clear_cache()


def test_there_are_boards_of_many_makers() -> None:
    assert len(BOARDS) >= 80
    assert len({board.vendor for board in BOARDS}) >= 15


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_value_of_a_board_has_a_source_and_none_is_zero(board: targets.Board) -> None:
    amounts = [each for each in (board.usable, board.reserve) if each is not None]
    assert all(
        is_source(text) and "://" in text for text in (board.source, *(m.source for m in board.memories))
    )
    assert all(is_source(each.source) for each in amounts)
    assert all("://" in each.source or "assumption" in each.source for each in amounts)
    sizes = [size for each in amounts for size in (each.ram_bytes, each.flash_bytes)]
    assert 0 not in [*sizes, *(memory.bytes for memory in board.memories)]
    assert board.recorded
    device = board.equip(targets.device(board.device))
    if device.device_class == "microcontroller":
        assert any(each.ram_bytes for each in amounts), "neither usable RAM nor a reserve"
        limit = board.ram_limit(device)
        assert limit is not None
        assert board.ram_reserve < limit
        assert limit <= max(memory.bytes or 0 for memory in device.memories if memory.role == "ram")


@pytest.mark.parametrize("name", FACTS)
def test_memories_are_those_of_the_documents(name: str) -> None:
    board = targets.boards(name)[0]
    device = board.equip(targets.device(board.device))
    limits = board.ram_limit(device), board.flash_limit(device), device.largest_bytes("external ram")
    assert limits == FACTS[name]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("nano33ble", "nano33ble/tflm-cmsis-nn"),
        ("Arduino Nano 33 BLE Sense", "nano33ble-sense/tflm-cmsis-nn"),
        ("nano-33-ble/tflm", "nano33ble/tflm"),
        ("STM32F746G-DISCO/tinyengine", "32f746gdiscovery/tinyengine"),
        ("raspberry pi pico", "pico/tflm-cmsis-nn"),
    ],
)
def test_names_and_aliases_of_boards_are_targets(text: str, name: str) -> None:
    target = targets.target(text)
    assert target.name == name
    assert target.board is not None
    assert targets.target(target.name) == target
    assert targets.device(text.partition("/")[0]).name == target.board.device


def test_a_board_has_the_calibration_of_its_device_and_a_digest_of_its_own() -> None:
    catalog = targets.current_catalog()
    device, board = map(targets.target, ("stm32f746/tinyengine", "nucleo-f746zg/tinyengine"))
    assert catalog.calibration(board) == catalog.calibration(device) is not None
    assert target_digest(board) != target_digest(device)
    assert target_digest(board) != target_digest(targets.target("32f746gdiscovery/tinyengine"))


def test_an_unknown_board_is_reported_without_a_list_of_all() -> None:
    with pytest.raises(TargetError, match=r"^unknown board 'zzz'; sizeup devices --boards lists all$"):
        targets.boards("zzz")


def test_a_runtime_that_does_not_run_on_a_board_is_refused_by_name() -> None:
    with pytest.raises(TargetError, match="hailort does not run on nano33ble; its runtimes: tflm"):
        targets.target("nano33ble/hailort")
    with pytest.raises(TargetError, match="unknown device 'nano34ble'; nearest: nano33ble"):
        targets.target("nano34ble")


def test_a_pattern_of_a_sweep_matches_boards_with_a_runtime() -> None:
    spec = {"models": ["m.tflite"], "targets": ["nano33ble*/tflm", "pico-2"]}
    names = [point.target for point in read_spec(spec).point_set.points]
    assert names == ["nano33ble/tflm", "nano33ble-sense/tflm", "pico-2/tflm-cmsis-nn"]


BOARD = """
[[board]]
name = "my-board"
title = "My board"
maker = "me"
device = "stm32f746"
source = "https://example.com/my-board"
recorded = "2026-11-17"
usable = { ram = "300 KiB", source = "https://example.com/my-board" }
memories = [{ name = "PSRAM", role = "external ram", size = "8 MiB" }]
"""


def _reserve(name: str, size: str) -> str:
    return f'reserve = {{ {name} = "{size}", source = "derived: assumption" }}\nmemories = ['


def test_a_board_in_a_file_of_ones_own_is_a_target(write: Write) -> None:
    write(BOARD)
    target = targets.target("my-board/tflm")
    assert target.board is not None
    assert target.board.ram_limit(target.device) == 300 << 10
    assert target.device.largest_bytes("external ram") == 8 << 20
    assert target.title == "My board"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "My', 'titel = "My', r"boards.toml: board my-board: unknown key 'titel'; nearest: title"),
        ('ram = "300 KiB"', 'sram = "300 KiB"', r"board my-board: usable: unknown key 'sram'"),
        ('ram = "300 KiB"', 'ram = "300"', r"usable: ram: '300' is not a size such as '320 KiB'"),
        ('ram = "300 KiB", ', "", r"usable: ram or flash is missing"),
        ('ram = "300 KiB"', 'ram = "0 KiB"', r"usable: ram: '0 KiB' is out of range"),
        ('stm32f746"', 'stm32f747"', r"board my-board: unknown device 'stm32f747'; nearest: .*stm32f746"),
        ('source = "https://example.com/my-board"\nrec', "rec", r"board my-board: source is missing"),
        ('"2026-11-17"', '"yesterday"', r"recorded is 'yesterday', not a date"),
        ('"external ram"', '"psram"', r"memories\[0\]: role is 'psram'"),
        # Contradictions of the chip, which has 320 KiB of RAM and 1 MiB of flash.
        ('"300 KiB"', '"320 MiB"', r"usable: ram is '320 MiB', more than the ram of stm32f746, 320 KiB$"),
        ('"300 KiB"', '"321 KiB"', r"usable: ram is '321 KiB', more than the ram of stm32f746, 320 KiB$"),
        ('ram = "300 KiB"', 'flash = "2 MiB"', r"usable: flash is '2 MiB', more than the flash of stm32f746"),
        (
            'usable = { ram = "300 KiB"',
            'reserve = { ram = "1 MiB"',
            r"reserve: ram is '1 MiB', more than the",
        ),
        (
            "memories = [",
            _reserve("ram", "301 KiB"),
            r"reserve: ram is '301 KiB', more than the ram for applications",
        ),
        ("memories = [", _reserve("flash", "2 MiB"), r"reserve: flash is '2 MiB', more than the flash for"),
        (
            'ram = "300 KiB"',
            'flash = "1 MiB"',
            r"board my-board: neither usable RAM nor a reserve; add usable = ",
        ),
        ('role = "external ram"', 'role = "ram"', r"memories\[0\]: PSRAM: stm32f746 has no ram of that name"),
        (
            '"PSRAM", role = "external ram"',
            '"ITCM", role = "ram"',
            r"ITCM: stm32f746 has no ram of that name",
        ),
        (
            '"PSRAM", role = "external ram"',
            '"ITCM", role = "instruction ram"',
            r"memories\[0\]: size is '8 MiB', more than ITCM of stm32f746, 16.0 KiB$",
        ),
        (
            '"2026-11-17"',
            '"2026-11-17"\nverified = "2026-11-16"',
            r"verified is '2026-11-16', before recorded",
        ),
        (
            '"https://example.com/my-board"\nrec',
            '"derived: x"\nverified = "2026-11-18"\nrec',
            "names no document",
        ),
        ('"https://example.com/my-board"\nrec', '"see ://"\nrec', r"source 'see ://' is not a key of"),
    ],
)
def test_a_slip_in_a_board_is_refused_by_name(write: Write, old: str, new: str, message: str) -> None:
    assert old in BOARD
    path = write(BOARD.replace(old, new, 1))
    with pytest.raises(TargetError, match=message) as raised:
        targets.target("my-board")
    assert str(raised.value).startswith(f"{path}: board my-board: ")


def test_a_device_of_ones_own_takes_precedence_over_a_board_of_that_name(write: Write) -> None:
    write('[[device]]\nname = "pico"\ntitle = "Mine"\nlike = "stm32f746"\n')
    target = targets.target("pico")
    assert target.board is None
    assert target.device.title == "Mine"
    assert "pico" not in [board.name for board in targets.boards()]


def test_names_of_boards_are_completed() -> None:
    assert targets.names_of_kind("board") == [board.name for board in BOARDS]
