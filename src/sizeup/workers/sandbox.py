"""What a worker that reads files of others may reach: a folder to read, a temporary one to write, no network.

Landlock of Linux denies the rest, without root. The package landlockpy (0BSD, 12 KB, no dependencies; extra
`sandbox`) makes its three system calls.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import site
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, get_args

from sizeup.errors import MissingLibrary, SizeupError
from sizeup.files import is_folder
from sizeup.workers.forked import CAN_FORK

VARIABLE = "SIZEUP_SANDBOX"
Mode = Literal["auto", "required", "off"]
# What an interpreter and the libraries that it loads read: programs, their settings, and the system's state.
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/nix/store", "/opt", "/proc", "/sbin", "/sys", "/usr")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm")


def sandbox_mode() -> Mode:
    """The value of the environment variable SIZEUP_SANDBOX: auto, required or off."""
    text = os.environ.get(VARIABLE, "").lower() or "auto"
    for mode in get_args(Mode):
        if text == mode:
            return mode  # type: ignore[no-any-return]
    raise SizeupError(f"{VARIABLE}={text} is not one of {', '.join(get_args(Mode))}")


def confinement(readable: Iterable[Path], writable: Path) -> Callable[[], None] | None:
    """A function that confines the process that calls it; None if this system has no sandbox, or it is off.

    Raises SizeupError if a sandbox is required and there is none.
    """
    mode = sandbox_mode()
    reason = "" if mode == "off" else _unavailable_reason()
    if reason and mode == "required":
        raise SizeupError(f"{VARIABLE}=required, but {reason}")
    if mode == "off" or reason:
        return None
    folders = [*map(Path, readable), *_program_folders()]
    return lambda: _confine(folders, writable)


def _unavailable_reason() -> str:
    """Why this system cannot confine a process; empty if it can."""
    if not CAN_FORK:
        return f"{sys.platform} has no Landlock"
    if importlib.util.find_spec("landlockpy") is None:
        return str(MissingLibrary("confining a worker", "landlockpy", "sandbox"))
    import landlockpy

    return "" if landlockpy.supported() else "this kernel has no Landlock (Linux 5.13 or newer has)"


def _program_folders() -> list[Path]:
    """The folders that Python, its packages and the system's libraries are loaded from."""
    named = [folder for folder in sys.path if Path(folder).is_absolute()]
    homes = [sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()]
    executable = [os.path.realpath(sys.executable)]
    return [Path(name) for name in (*_SYSTEM, *named, *homes, *executable)]


def _confine(readable: Iterable[Path], writable: Path) -> None:
    """Deny this process and its children all files but these, TCP, and signals and sockets to others."""
    from landlockpy import AccessFS, Ruleset, Scope

    reading = AccessFS.READ_FILE | AccessFS.READ_DIR | AccessFS.EXECUTE
    of_files = AccessFS.READ_FILE | AccessFS.EXECUTE
    writing = ~(AccessFS.MAKE_CHAR | AccessFS.MAKE_BLOCK)
    _leave_network()
    with Ruleset(scoped=Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL) as ruleset:
        for path in dict.fromkeys(readable):
            with contextlib.suppress(OSError):  # not every system has all of them
                ruleset.allow_path(path, reading if is_folder(path) else of_files)
        for device in _DEVICES:
            with contextlib.suppress(OSError):
                ruleset.allow_path(device, writing if is_folder(device) else of_files | AccessFS.WRITE_FILE)
        ruleset.allow_path(writable, AccessFS(writing))
        ruleset.restrict()


def _leave_network() -> None:
    """Move to a network without interfaces, if Python and the system allow it: Landlock denies TCP alone."""
    with contextlib.suppress(AttributeError, OSError):  # before Python 3.12; user namespaces may be off
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)  # type: ignore[attr-defined]
