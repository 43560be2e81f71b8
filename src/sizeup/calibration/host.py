"""Describe the machine that sizeup runs on, and compare it with devices."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sizeup.targets import Device

NAME = "this-machine"
"""Default name of the device."""


@dataclass(frozen=True, slots=True)
class Host:
    """The processor, number of cores, RAM and per-core cache of a machine."""

    title: str
    maker: str
    cores: int
    ram_bytes: int | None
    cache_bytes: int | None
    architecture: str = ""  # platform.machine()
    board: str = ""  # name of a single-board computer, such as Raspberry Pi 5 Model B Rev 1.0

    def __str__(self) -> str:
        return f"{self.board or self.title} ({self.architecture or 'unknown architecture'})"


def detect_host() -> Host:
    """Return the current machine; unknown values are None."""
    title = _processor()
    maker = next(
        (name for name in ("Intel", "AMD", "Apple", "Arm") if name.lower() in title.lower()), "unknown"
    )
    return Host(title, maker, os.cpu_count() or 1, _ram(), _cache(), platform.machine(), _board())


def _processor() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        match = None
    named = match[1] if match else platform.processor() or platform.machine() or "unknown processor"
    return " ".join(re.sub(r"\((R|TM)\)", "", named).split())


def _board() -> str:
    """Return the board name from the device tree; x86 machines have none."""
    try:
        return Path("/proc/device-tree/model").read_text("utf-8", "replace").strip("\0 \n")
    except OSError:
        return ""


def _ram() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _cache() -> int | None:
    """Return the size of the L2 cache of one core."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text("utf-8").strip()
    except OSError:
        return None
    match = re.fullmatch(r"(\d+)([KM]?)", text)
    return int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[match[2]] if match else None


# Python does not run on microcontrollers, and runtimes are timed on the CPU.
_WITHOUT_CPU = ("microcontroller", "gpu", "npu", "accelerator")
_FAMILIES = (
    ("x86", ("x86", "amd64", "i386", "i486", "i586", "i686")),
    ("arm", ("arm", "aarch64")),
    ("riscv", ("risc",)),
)
_FAMILY_BY_MAKER = {"Intel": "x86", "AMD": "x86", "Apple": "arm", "Qualcomm": "arm", "Raspberry Pi": "arm"}
_FEWEST_WORDS = 2  # of a device name; an alias such as m1 is too short
_MODEL = re.compile(r"(?<![\d.])[a-z]?\d{3,}[a-z]*\d*\+?")  # 12700h of i7-12700H, 8480+, n100
_FREQUENCY = re.compile(r"@.*|\d+(\.\d+)? ?[gm]hz", re.IGNORECASE)


def is_device(machine: Host, device: Device, known: Iterable[Device] = ()) -> bool | None:
    """Return whether a machine is a device; None if undetermined.

    A machine whose name matches one of the `known` devices is no other device of that kind. Without a match,
    device kind, CPU architecture, maker and model numbers are compared.
    """
    if device.title.endswith(f"({machine.title})"):  # written by calibrate
        return True
    # A computer may contain a processor that is a device as well.
    same_kind = [other for other in known if other.device_class == device.device_class]
    named = _match_names((machine.board, machine.title), [device, *same_kind])
    if named:
        return device.name in named
    if device.device_class in _WITHOUT_CPU or _are_different(
        architecture_family(device), _family(machine.architecture)
    ):
        return False
    return False if _is_other_processor(machine, device) else None


def architecture_family(device: Device) -> str | None:
    """Return the CPU architecture family of a device, or None if unknown."""
    cores = [unit.core for unit in device.units if unit.unit_class == "cpu" and unit.core is not None]
    families = {_family(core.architecture) for core in cores}
    return families.pop() if len(families) == 1 else _FAMILY_BY_MAKER.get(device.vendor)


def _family(architecture: str) -> str | None:
    text = architecture.lower()
    return next((name for name, starts in _FAMILIES if text.startswith(starts)), None)


def _match_names(names: Iterable[str], devices: Iterable[Device]) -> set[str]:
    """Return the devices whose title or alias is the longest one contained in a name."""
    best, longest = set[str](), 0
    texts = [_words(name) for name in names]
    for device in devices:
        for spelling in (device.title, *device.aliases):
            words = _words(spelling)
            if len(words) < max(longest, _FEWEST_WORDS) or not any(_contains(text, words) for text in texts):
                continue
            best = {*best, device.name} if len(words) == longest else {device.name}
            longest = len(words)
    return best


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9+]+", text.lower())


def _contains(text: list[str], words: list[str]) -> bool:
    """Return whether a text contains a sequence of whole words: Raspberry Pi 400 is not Raspberry Pi 4."""
    return any(text[start : start + len(words)] == words for start in range(len(text) - len(words) + 1))


def _is_other_processor(machine: Host, device: Device) -> bool:
    """Return whether makers or model numbers differ; virtual machines often hide theirs."""
    if device.device_class != "cpu":
        return False
    makers = {machine.maker, device.vendor}
    if len(makers) == 2 and makers <= _FAMILY_BY_MAKER.keys():
        return True
    ours, theirs = (
        set(_MODEL.findall(_FREQUENCY.sub("", described.title.lower()))) for described in (machine, device)
    )
    return bool(ours and theirs and not ours & theirs)


def _are_different(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
