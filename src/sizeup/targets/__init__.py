"""Devices and runtimes from TOML files: one file per family of devices, each value with its source."""

from __future__ import annotations

from collections.abc import Sequence

from sizeup.errors import TargetError
from sizeup.targets.board import Board, MemoryAmounts
from sizeup.targets.catalog import (
    Catalog,
    clear_cache,
    current_catalog,
    names_of_kind,
    search_path,
    user_folder,
)
from sizeup.targets.device import DEVICE_CLASSES, RATE_TYPES, Core, Device, Energy, Memory, Power, Unit
from sizeup.targets.gpu_specs import template
from sizeup.targets.names import lookup_key, suggestion
from sizeup.targets.runtime import (
    IN_PLACE,
    RATES_SCHEMA,
    CodeSize,
    GpuProcess,
    Runtime,
    Slowdown,
    Target,
    TargetCalibration,
    WeightOnly,
    word_bits_of,
)
from sizeup.targets.standing import LATENCY_STANDINGS, LatencyStanding, Standing, best_of
from sizeup.targets.target_files import BUILT_IN, VARIABLE, names_in

__all__ = [
    "BUILT_IN",
    "DEVICE_CLASSES",
    "IN_PLACE",
    "LATENCY_STANDINGS",
    "RATES_SCHEMA",
    "RATE_TYPES",
    "VARIABLE",
    "Board",
    "Catalog",
    "CodeSize",
    "Core",
    "Device",
    "Energy",
    "GpuProcess",
    "LatencyStanding",
    "Memory",
    "MemoryAmounts",
    "Power",
    "Runtime",
    "Slowdown",
    "Standing",
    "Target",
    "TargetCalibration",
    "Unit",
    "WeightOnly",
    "best_of",
    "boards",
    "calibrations",
    "clear_cache",
    "current_catalog",
    "device",
    "devices",
    "names_in",
    "names_of_kind",
    "runtime",
    "runtimes",
    "search_path",
    "target",
    "template",
    "user_folder",
    "word_bits_of",
]


def device(name: str) -> Device:
    """The device of that name or alias, ignoring case, spaces and dashes."""
    return current_catalog().device(name)


def devices(name: str | None = None, *, kind: str | None = None) -> list[Device]:
    """All devices, or those of a kind; with a name, the device of that name or all that mention it.

    The name of a board stands for its device, that of a kind, e.g. phone or GPUs, for its devices. Raises
    TargetError if a name matches no device.
    """
    catalog = current_catalog()
    if name is not None and (catalog.has_device(name) or catalog.has_board(name)):
        matches = [catalog.device(name)]
    elif name is not None and (named_kind := _kind_named(name)) is not None:
        matches = [device for device in catalog.devices() if device.device_class == named_kind]
    else:
        word = "" if name is None else lookup_key(name)
        matches = [device for device in catalog.devices() if word in _described(device)]
    device_kind = None if kind is None else _kind(kind)
    matches = [device for device in matches if device_kind in (None, device.device_class)]
    if not matches and name is not None:
        catalog.device(name)  # raises with the nearest names if the device is unknown
        raise TargetError(f"{name} is not a device of kind {device_kind}")
    return matches


def boards(name: str | None = None) -> list[Board]:
    """All boards; with a name, the board of that name or all that mention it or carry that device.

    Raises TargetError if a name matches no board.
    """
    catalog = current_catalog()
    if name is not None and catalog.has_board(name):
        return [catalog.board(name)]
    word = "" if name is None else lookup_key(name)
    matches = [board for board in catalog.boards() if word in _board_described(board)]
    if not matches and name is not None:
        catalog.board(name)  # raises with the nearest names
    return matches


def calibrations(device: Device) -> list[TargetCalibration]:
    """The calibrations of a device, one per runtime."""
    return [
        calibration
        for calibration in current_catalog().calibrations()
        if calibration.name.partition("/")[0] == device.name
    ]


def runtime(name: str) -> Runtime:
    """The runtime of that name or alias."""
    return current_catalog().runtime(name)


def runtimes(on: Sequence[Device] | None = None) -> list[Runtime]:
    """All runtimes, or those of some devices in the devices' order."""
    catalog = current_catalog()
    if on is None:
        return catalog.runtimes()
    return [
        catalog.runtime(name) for name in dict.fromkeys(name for device in on for name in device.runtimes)
    ]


def target(name: str) -> Target:
    """The target of `device/runtime` or `board/runtime`, with the default runtime if it is omitted."""
    return current_catalog().target(name)


def _described(device: Device) -> str:
    texts = (device.name, device.title, device.vendor, *device.aliases, *(unit.name for unit in device.units))
    return " ".join(map(lookup_key, texts))


def _board_described(board: Board) -> str:
    return " ".join(map(lookup_key, (board.name, board.title, board.vendor, board.device, *board.aliases)))


_KINDS = {lookup_key(name): name for name in DEVICE_CLASSES}
_KINDS |= {"mcu": "microcontroller", "sbc": "single-board computer"}


def _kind_named(text: str) -> str | None:
    """The device kind of that name, abbreviation or plural, if there is one."""
    key = lookup_key(text)
    return _KINDS.get(key) or _KINDS.get(key.removesuffix("s"))


def _kind(text: str) -> str:
    name = _kind_named(text)
    if name is None:
        hint = suggestion(text, DEVICE_CLASSES) or f"; known: {', '.join(DEVICE_CLASSES)}"
        raise TargetError(f"unknown device kind {text!r}{hint}")
    return name
