"""What can be known of the machine that this runs on."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

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
