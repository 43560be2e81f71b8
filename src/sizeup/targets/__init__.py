"""Hardware and what runs on it, as data: one file a family of devices, every value with its source."""

from __future__ import annotations

from collections.abc import Sequence

from sizeup.errors import TargetError
from sizeup.targets.catalog import (
    BUILT_IN,
    VARIABLE,
    Catalog,
    current,
    listed,
    names_in,
    own_folder,
    places,
    read_again,
)
from sizeup.targets.device import DEVICE_KINDS, RATE_TYPES, Core, Device, Energy, Memory, Power, Unit
from sizeup.targets.gpu_specs import template
from sizeup.targets.names import key, suggestion
from sizeup.targets.runtime import (
    IN_PLACE,
    RATES_SCHEMA,
    Code,
    Fit,
    Reach,
    Runtime,
    Target,
    WeightOnly,
    word_bits_of,
)

__all__ = [
    "BUILT_IN",
    "DEVICE_KINDS",
    "IN_PLACE",
    "RATES_SCHEMA",
    "RATE_TYPES",
    "VARIABLE",
    "Catalog",
    "Code",
    "Core",
    "Device",
    "Energy",
    "Fit",
    "Memory",
    "Power",
    "Reach",
    "Runtime",
    "Target",
    "Unit",
    "WeightOnly",
    "current",
    "device",
    "devices",
    "fits",
    "listed",
    "names_in",
    "own_folder",
    "places",
    "read_again",
    "runtime",
    "runtimes",
    "target",
    "template",
    "word_bits_of",
]


def device(name: str) -> Device:
    """The device of that name or alias; case, spaces and dashes do not matter."""
    return current().device(name)


def devices(name: str | None = None, *, kind: str | None = None) -> list[Device]:
    """Every device of a kind; with a name the one that bears it, or all whose description holds that word."""
    catalog = current()
    if name is not None and catalog.has_device(name):
        found = [catalog.device(name)]
    else:
        word = "" if name is None else key(name)
        found = [each for each in catalog.devices() if word in _described(each)]
    wanted = None if kind is None else _kind(kind)
    found = [each for each in found if wanted in (None, each.kind)]
    if not found and name is not None:
        catalog.device(name)  # knows which names are near
        raise TargetError(f"{name} is no {wanted}")
    return found


def fits(device: Device) -> list[Fit]:
    """What was measured on a device, one fit a runtime."""
    return [each for each in current().fits() if each.name.partition("/")[0] == device.name]


def runtime(name: str) -> Runtime:
    """The runtime of that name or alias."""
    return current().runtime(name)


def runtimes(on: Sequence[Device] | None = None) -> list[Runtime]:
    """Every runtime that is described, or those that some devices name, in that order."""
    catalog = current()
    if on is None:
        return catalog.runtimes()
    return [catalog.runtime(name) for name in dict.fromkeys(name for each in on for name in each.runtimes)]


def target(name: str) -> Target:
    """The target behind `device/runtime`; a device alone takes its usual runtime."""
    return current().target(name)


def _described(device: Device) -> str:
    texts = (device.name, device.title, device.maker, *device.aliases, *(unit.name for unit in device.units))
    return " ".join(map(key, texts))


def _kind(typed: str) -> str:
    short = {"mcu": "microcontroller", "sbc": "single-board computer"}
    found = short.get(key(typed)) or next((kind for kind in DEVICE_KINDS if key(kind) == key(typed)), None)
    if found is None:
        hint = suggestion(typed, DEVICE_KINDS) or f"; known: {', '.join(DEVICE_KINDS)}"
        raise TargetError(f"no kind of device is called {typed!r}{hint}")
    return found
