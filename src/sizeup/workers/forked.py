"""A worker forked from this process: it starts in milliseconds, with all modules that are imported here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import IO

CAN_FORK = sys.platform == "linux"
"""Whether workers are forked. On macOS, system libraries may crash after a fork; Windows has none."""


class ForkedWorker:
    """A process that calls `run` with a pipe to this one and ends; has what a supervisor uses of Popen."""

    stdin: IO[bytes] | None = None

    def __init__(self, run: Callable[[IO[bytes]], None]) -> None:
        reader, writer = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both processes would print what is buffered
        with warnings.catch_warnings():
            # Threads of a progress bar and of BLAS are not needed in the worker, and BLAS expects a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            if CAN_FORK:
                self.pid = os.fork()
        if CAN_FORK and self.pid == 0:
            code = 1
            try:
                os.setsid()
                os.close(reader)
                with os.fdopen(writer, "wb") as pipe:
                    run(pipe)
                code = 0
            finally:
                os._exit(code)  # never the cleanup of the process that it was forked from
        os.close(writer)
        self.stdout: IO[bytes] = os.fdopen(reader, "rb")
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end; returns the exit code, negative for a signal."""
        code = self._wait(0)
        assert code is not None
        return code

    def kill(self) -> None:
        """Kill it."""
        os.kill(self.pid, 9)

    def _wait(self, flags: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, flags)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code
