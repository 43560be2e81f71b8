"""Forked workers: answers, limits, and what is left when they end."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from sizeup.errors import WorkerFailed
from sizeup.workers import CRASHED, OUT_OF_MEMORY, RAISED, TIMED_OUT, Supervisor
from sizeup.workers.forked import CAN_FORK
from workers.test_supervisor import wait_until_gone

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="workers are forked on Linux alone")


def forked(function: Callable[..., Any], seconds: float = 60, memory_bytes: int = 0) -> Any:
    with Supervisor(memory_bytes, forks=True) as supervisor:
        return supervisor.call(function, seconds=seconds)


def test_closure_is_called_in_another_process() -> None:
    here = [os.getpid()]

    def work(_channel: object) -> list[int]:
        here.append(0)
        return [*here, os.getpid()]

    first, _, other = forked(work)
    assert first == os.getpid() != other
    assert here == [os.getpid()]


def test_messages_bytes_and_prints_are_kept_apart() -> None:
    def talks(channel: Any) -> str:
        os.write(1, b"printed\n")
        os.write(2, b"native")
        channel.report(1)
        channel.write(b"content")
        return os.read(0, 10).decode()

    reports: list[int] = []
    with Supervisor(forks=True) as supervisor:
        assert supervisor.call(talks, seconds=60, progress=reports.append) == ""
        assert (supervisor.payload.read(), reports) == (b"content", [1])
        assert supervisor.stderr() == "printed\nnative"


def test_output_is_that_of_this_process_unless_silent(capfd: pytest.CaptureFixture[str]) -> None:
    sys.stdout.write("before\n")
    with Supervisor(forks=True, is_silent=False) as supervisor:
        supervisor.call(lambda _: sys.stdout.write("in the worker\n"), seconds=60)
    assert capfd.readouterr().out == "before\nin the worker\n"


def fails(_channel: object) -> None:
    raise ValueError("no\n  such name")


def leaves(_channel: object) -> None:
    os._exit(7)


def crashes(channel: Any) -> None:
    faulthandler.disable()  # pytest's
    channel.write(b"half")
    os.kill(os.getpid(), signal.SIGSEGV)


def sleeps(_channel: object) -> None:
    time.sleep(600)


def fills(_channel: object) -> None:
    bytearray(8 << 30)


def answers_garbage(channel: Any) -> None:
    channel._file.write(b'{"answer": \n')


def answers_without_end(channel: Any) -> None:
    channel._file.write(b'{"bytes": -1, "answer": 1}\n')


@pytest.mark.parametrize(
    ("function", "kind", "reason"),
    [
        (fails, RAISED, "ValueError: no such name"),
        (leaves, CRASHED, "crashed (exit code 7)"),
        (crashes, CRASHED, "crashed (SIGSEGV)"),
        (sleeps, TIMED_OUT, "took longer than 0.5 s"),
        (fills, OUT_OF_MEMORY, "takes more than 1.00 GiB"),
        (answers_garbage, CRASHED, "answered what cannot be read"),
    ],
)
def test_failures_are_told_apart(function: Callable[..., Any], kind: str, reason: str) -> None:
    with pytest.raises(WorkerFailed) as failed:
        forked(function, seconds=0.5 if function is sleeps else 60, memory_bytes=1 << 30)
    assert (failed.value.kind, str(failed.value)) == (kind, reason)


def test_length_below_zero_does_not_wait_for_more() -> None:
    assert forked(answers_without_end, seconds=20) == 1


def test_subprocesses_end_with_the_worker() -> None:
    pids: list[int] = []

    def starts_another(channel: Any) -> None:
        channel.report(subprocess.Popen(["sleep", "600"]).pid)
        time.sleep(600)

    with Supervisor(forks=True) as supervisor, pytest.raises(WorkerFailed, match="took longer"):
        supervisor.call(starts_another, seconds=1, progress=pids.append)
    wait_until_gone(pids[0])


def test_cleanup_of_this_process_is_not_run_in_the_worker() -> None:
    script = (
        "import atexit, sys\n"
        "from sizeup.workers import Supervisor\n"
        "atexit.register(print, 'cleaned up')\n"
        "with Supervisor(forks=True) as supervisor:\n"
        "    print(supervisor.call(lambda _: 5, seconds=60))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("5\ncleaned up\n", "")


def test_memory_of_this_process_is_not_part_of_the_limit() -> None:
    held = bytearray(b"1") * (400 << 20)
    assert forked(lambda _: len(bytearray(100 << 20)), memory_bytes=200 << 20) == 100 << 20
    with pytest.raises(WorkerFailed) as failed:
        forked(lambda _: len(bytearray(b"1") * (300 << 20)), memory_bytes=200 << 20)
    assert failed.value.kind == OUT_OF_MEMORY
    assert len(held) == 400 << 20
