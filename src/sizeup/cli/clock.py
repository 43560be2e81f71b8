"""Wall time since the process started, including the start of the interpreter and imports."""

from __future__ import annotations

import os
import time
from pathlib import Path

_IMPORTED = time.monotonic()
_START_FIELD = 19  # index of starttime (clock ticks since boot) after the program name in /proc/self/stat


def since_start() -> float:
    """Seconds since the process started, or since this module was imported if the system has no /proc."""
    imported = time.monotonic() - _IMPORTED
    try:
        fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
        started = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(imported, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError, AttributeError):
        return imported
