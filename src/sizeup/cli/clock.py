"""Wall time since the process began, the start of the interpreter and imports included."""

from __future__ import annotations

import os
import time
from pathlib import Path

_IMPORTED = time.monotonic()
_START_FIELD = 19  # of those after the name of the program in /proc/self/stat: clock ticks since boot


def since_start() -> float:
    """Seconds since the process began; where the system does not say that, since this module was imported."""
    imported = time.monotonic() - _IMPORTED
    try:
        fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
        started = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(imported, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError, AttributeError):
        return imported
