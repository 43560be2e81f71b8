"""The machine that this runs on: what it is, and whether a calibration was made on the same one."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sizeup.targets import Device

NAME = "this-machine"
"""What the device is called that nobody gave a name to."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor by its name, its cores, the memory of the machine, and a core's own cache."""

    title: str
    maker: str
    cores: int
    ram_bytes: int | None
    cache_bytes: int | None
    architecture: str = ""  # as platform.machine() has it
    board: str = ""  # a single-board computer's own name, such as Raspberry Pi 5 Model B Rev 1.0

    def __str__(self) -> str:
        return f"{self.board or self.title} ({self.architecture or 'unknown architecture'})"


def this_machine() -> Machine:
    """The machine at hand; what it does not tell is None."""
    title = _processor()
    maker = next(
        (each for each in ("Intel", "AMD", "Apple", "Arm") if each.lower() in title.lower()), "unknown"
    )
    return Machine(title, maker, os.cpu_count() or 1, _ram(), _cache(), platform.machine(), _board())


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        found = None
    named = found[1] if found else platform.processor() or platform.machine() or "unknown processor"
    return " ".join(re.sub(r"\((R|TM)\)", "", named).split())


def _board() -> str:
    """What the device tree calls a board; x86 machines have none."""
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
    """The largest cache that one core has to itself: the second level."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text("utf-8").strip()
    except OSError:
        return None
    found = re.fullmatch(r"(\d+)([KM]?)", text)
    return int(found[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[found[2]] if found else None


# Python does not run on the first, and runtimes are timed on the CPU.
_WITHOUT_CPU = ("microcontroller", "gpu", "npu", "accelerator")
_FAMILIES = (
    ("x86", ("x86", "amd64", "i386", "i486", "i586", "i686")),
    ("arm", ("arm", "aarch64")),
    ("riscv", ("risc",)),
)
_FAMILY_BY_MAKER = {"Intel": "x86", "AMD": "x86", "Apple": "arm", "Qualcomm": "arm", "Raspberry Pi": "arm"}
_FEWEST_WORDS = 2  # of a name that is looked for; an alias such as m1 is too short
_MODEL = re.compile(r"(?<![\d.])[a-z]?\d{3,}[a-z]*\d*\+?")  # 12700h of i7-12700H, 8480+, n100
_FREQUENCY = re.compile(r"@.*|\d+(\.\d+)? ?[gm]hz", re.IGNORECASE)


def is_device(machine: Machine, device: Device, known: Iterable[Device] = ()) -> bool | None:
    """Whether a machine is a device; None if neither can be shown.

    A machine that names itself as one of the `known` devices is no other one of that kind. Without a name
    the kind of the device, its CPU architecture, its maker and the model numbers of both processors decide.
    """
    if device.title.endswith(f"({machine.title})"):  # calibrate described it
        return True
    # A computer may contain a processor that is a device as well.
    alike = [each for each in known if each.kind == device.kind]
    same = _named((machine.board, machine.title), [device, *alike])
    if same:
        return device.name in same
    if device.kind in _WITHOUT_CPU or _differs(family(device), _family(machine.architecture)):
        return False
    return False if _is_other_processor(machine, device) else None


def family(device: Device) -> str | None:
    """The family of a device's CPU architecture, or None if its file does not say."""
    cores = [unit.core for unit in device.units if unit.kind == "cpu" and unit.core is not None]
    families = {_family(core.architecture) for core in cores}
    return families.pop() if len(families) == 1 else _FAMILY_BY_MAKER.get(device.maker)


def _family(architecture: str) -> str | None:
    text = architecture.lower()
    return next((name for name, starts in _FAMILIES if text.startswith(starts)), None)


def _named(names: Iterable[str], devices: Iterable[Device]) -> set[str]:
    """The devices whose title or alias a name contains, those with the longest one."""
    best, longest = set[str](), 0
    texts = [_words(name) for name in names]
    for device in devices:
        for spelling in (device.title, *device.aliases):
            words = _words(spelling)
            if len(words) < max(longest, _FEWEST_WORDS) or not any(_contains(each, words) for each in texts):
                continue
            best = {*best, device.name} if len(words) == longest else {device.name}
            longest = len(words)
    return best


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9+]+", text.lower())


def _contains(text: list[str], words: list[str]) -> bool:
    """Whether whole words follow each other in a text: a Raspberry Pi 400 is no Raspberry Pi 4."""
    return any(text[start : start + len(words)] == words for start in range(len(text) - len(words) + 1))


def _is_other_processor(machine: Machine, device: Device) -> bool:
    """Whether makers or model numbers differ; virtual machines often hide theirs."""
    if device.kind != "cpu":
        return False
    makers = {machine.maker, device.maker}
    if len(makers) == 2 and makers <= _FAMILY_BY_MAKER.keys():
        return True
    ours, theirs = (set(_MODEL.findall(_FREQUENCY.sub("", each.title.lower()))) for each in (machine, device))
    return bool(ours and theirs and not ours & theirs)


def _differs(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
