"""How long and how much memory one model may take, and how often it is tried."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes of one try, and how many tries a model has before its rows say what went wrong."""

    seconds: float = 300.0
    memory_bytes: int = 4 << 30
    tries: int = 2


def confine(memory_bytes: int, parent: int) -> None:
    """Let this process have no more memory than that, leave no core behind, and end with its parent."""
    _end_with(parent)
    try:
        import resource
    except ModuleNotFoundError:  # Windows: the parent watches alone
        return
    # Private writable memory, not address space: a file that is mapped takes none of it.
    for which, most in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):
            _, hard = resource.getrlimit(which)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))


def _end_with(parent: int) -> None:
    """A parent that is killed cannot tell its children: the system does."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def resident_bytes(process: int) -> int | None:
    """The memory that a process holds; None where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
