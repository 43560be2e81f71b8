"""What to do when whoever read our output has gone, as `| head` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PIPE_CLOSED = 128 + 13
"""As a shell reports a program that SIGPIPE ended."""


@contextmanager
def leaving_quietly() -> Iterator[None]:
    """Leave with the code of a closed pipe instead of a traceback."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        raise SystemExit(PIPE_CLOSED) from None


def forget_output() -> None:
    """Send what is left to nowhere, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
