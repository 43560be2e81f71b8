"""Functions for workers to call, good and bad ones."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time

from sizeup.workers.worker import Channel


def adds(left: int, right: int, _channel: Channel) -> int:
    """Something to answer."""
    return left + right


def talks(channel: Channel) -> str:
    """Messages, bytes, and what is neither."""
    sys.stdout.write("no answer\n")
    sys.stdout.flush()
    channel.report(1)
    channel.write(b"one\n")
    channel.report(2)
    channel.write(b"two\n")
    return "done"


def reads_stdin(_channel: Channel) -> str:
    """What is on stdin, where requests come in."""
    return sys.stdin.read()


def raises(_channel: Channel) -> None:
    """An error of two lines."""
    raise ValueError("no\n  such name")


def leaves(_channel: Channel) -> None:
    """Ends the program as code may."""
    sys.exit(3)


def exits(_channel: Channel) -> None:
    """Ends the process without a word."""
    os._exit(7)


def crashes(channel: Channel) -> None:
    """In the middle of a payload."""
    channel.write(b"half")
    os.kill(os.getpid(), signal.SIGSEGV)


def sleeps(_channel: Channel) -> None:
    """Longer than any timeout."""
    time.sleep(600)


def fills_shared_memory(_channel: Channel) -> None:
    """Memory that no limit of the system counts."""
    memory = mmap.mmap(-1, 1 << 30)
    for place in range(0, 1 << 30, 4096):
        memory[place] = 1
    time.sleep(600)


def wants_memory(_channel: Channel) -> None:
    """More than the system allows."""
    bytearray(8 << 30)


def starts_another(channel: Channel) -> None:
    """Start a subprocess and report its process id."""
    channel.report(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
    time.sleep(600)
