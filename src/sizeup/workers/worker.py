"""The worker, a process that a supervisor starts: calls one function per request.

A request is a pickled function with its arguments. Responses are JSON and plain bytes, never a pickle: a
worker runs untrusted code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

_LONGEST_REASON = 300
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


class Channel:
    """The connection to the supervisor, passed to every function as its last argument."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, content: Any) -> None:
        """Add bytes to the payload of the answer."""
        self.send({}, bytes(content))

    def report(self, progress: Any) -> None:
        """Send a message before the answer."""
        self.send({"progress": progress})

    def send(self, message: dict[str, Any], content: bytes = b"") -> None:
        """Send a line of JSON followed by bytes."""
        self._file.write(json.dumps({**message, "bytes": len(content)}).encode() + b"\n" + content)
        self._file.flush()


def main(parent: str, memory_bytes: str) -> int:
    """Answer requests until the input ends."""
    _die_with_parent(int(parent))
    _limit_resources(int(memory_bytes))
    requests, channel = os.fdopen(os.dup(0), "rb"), Channel(os.fdopen(os.dup(1), "wb"))
    _ignore_input()
    os.dup2(2, 1)  # output of models and libraries must not mix with answers
    while size := requests.readline():
        request = requests.read(int(size))
        channel.send(_answer(functools.partial(_unpickled, request, channel)))
    return 0


def run_forked(
    pipe: IO[bytes],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    parent: int,
    memory_bytes: int,
    output: int | None,
    confine: Callable[[], None] | None,
) -> None:
    """Answer one call in a process that was just forked; `output` takes what it prints, None: as before."""
    _die_with_parent(parent)
    _limit_resources(memory_bytes)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    _ignore_input()
    if confine is not None:
        confine()
    channel = Channel(pipe)
    channel.send(_answer(lambda: function(*arguments, channel)))


def _ignore_input() -> None:
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def _unpickled(request: bytes, channel: Channel) -> Any:
    function, arguments = pickle.loads(request)
    return function(*arguments, channel)


def _answer(call: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"answer": call()}
    # The code of a model may raise anything, SystemExit included.
    except BaseException as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return {"raised": reason[:_LONGEST_REASON]}


def _die_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent dies."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def limit_output(most_bytes: int) -> None:
    """Limit the size of files that this process writes, also that of what it prints."""
    with contextlib.suppress(ModuleNotFoundError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def _limit_resources(memory_bytes: int) -> None:
    """Limit the memory of this process, unless 0, and disable core dumps."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows: only the supervisor checks memory
        return
    # Private writable memory, not address space: mapped files do not count.
    limits = {resource.RLIMIT_CORE: 0, **({resource.RLIMIT_DATA: memory_bytes} if memory_bytes else {})}
    for which, most in limits.items():
        with contextlib.suppress(ValueError, OSError):
            _, hard = resource.getrlimit(which)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))
