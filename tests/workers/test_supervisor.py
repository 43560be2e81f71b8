"""A supervisor and its worker: answers, and every way in which there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sizeup.errors import WorkerFailed
from sizeup.workers import CRASHED, OUT_OF_MEMORY, RAISED, TIMED_OUT, Supervisor
from workers import called

TESTS = Path(__file__).parent.parent
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def python_path() -> str:
    """The folders of this process, and that of the tests. No empty entry: it is the working directory."""
    return os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setenv("PYTHONPATH", python_path())
    with Supervisor() as supervisor:
        yield supervisor


def failure_of(supervisor: Supervisor, function: Callable[..., Any], seconds: float = 60) -> WorkerFailed:
    with pytest.raises(WorkerFailed) as failed:
        supervisor.call(function, seconds=seconds)
    return failed.value


def is_running(process: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(process):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_answers_messages_bytes_and_prints_are_kept_apart(supervisor: Supervisor) -> None:
    reports: list[int] = []
    assert supervisor.call(called.talks, seconds=60, progress=reports.append) == "done"
    assert (reports, supervisor.payload.read(), supervisor.stderr()) == ([1, 2], b"one\ntwo\n", "no answer\n")
    assert supervisor.call(called.adds, 2, 3, seconds=60) == 5
    assert (supervisor.payload.read(), supervisor.stderr()) == (b"", "")


def test_modules_in_the_working_directory_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "ctypes", "numpy", "sizeup", "called"):
        (tmp_path / f"{name}.py").write_text(
            f"raise SystemExit('{name} of the working directory')\n", "utf-8"
        )
    monkeypatch.setenv("PYTHONPATH", python_path())
    monkeypatch.chdir(tmp_path)
    with Supervisor() as supervisor:
        assert supervisor.call(called.adds, 2, 3, seconds=60) == 5


def test_requests_are_not_on_stdin(supervisor: Supervisor) -> None:
    assert supervisor.call(called.reads_stdin, seconds=60) == ""
    assert supervisor.call(called.adds, 1, 1, seconds=60) == 2


@pytest.mark.parametrize(
    ("function", "reason"), [(called.raises, "ValueError: no such name"), (called.leaves, "SystemExit: 3")]
)
def test_an_error_is_reported_and_the_worker_goes_on(
    supervisor: Supervisor, function: Callable[..., Any], reason: str
) -> None:
    failed = failure_of(supervisor, function)
    assert (failed.kind, failed.reason) == (RAISED, reason)
    assert supervisor.is_started
    assert supervisor.call(called.adds, 2, 3, seconds=60) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="has no signals")
@pytest.mark.parametrize(
    ("function", "reason", "code"),
    [(called.crashes, "crashed (SIGSEGV)", -11), (called.exits, "crashed (exit code 7)", 7)],
)
def test_another_worker_takes_the_place_of_one_that_crashed(
    supervisor: Supervisor, function: Callable[..., Any], reason: str, code: int
) -> None:
    failed = failure_of(supervisor, function)
    assert (failed.kind, failed.reason, failed.code) == (CRASHED, reason, code)
    assert not supervisor.is_started
    assert supervisor.call(called.adds, 2, 3, seconds=60) == 5
    assert supervisor.payload.read() == b""


def test_a_call_that_takes_too_long_ends(supervisor: Supervisor) -> None:
    started = time.monotonic()
    failed = failure_of(supervisor, called.sleeps, 0.5)
    assert (failed.kind, failed.reason) == (TIMED_OUT, "took longer than 0.5 s")
    assert time.monotonic() - started < 20
    assert supervisor.call(called.adds, 2, 3, seconds=60) == 5


@linux
@pytest.mark.parametrize("function", [called.fills_shared_memory, called.wants_memory])
def test_memory_has_a_limit(supervisor: Supervisor, function: Callable[..., Any]) -> None:
    with Supervisor(256 << 20) as limited:
        failed = failure_of(limited, function)
        assert (failed.kind, failed.reason) == (OUT_OF_MEMORY, "takes more than 256 MiB")
        assert limited.call(called.adds, 2, 3, seconds=60) == 5


@linux
def test_what_a_worker_started_ends_with_it(supervisor: Supervisor) -> None:
    reports: list[int] = []
    with pytest.raises(WorkerFailed, match="took longer"):
        supervisor.call(called.starts_another, seconds=3, progress=reports.append)
    wait_until_gone(reports[0])


def test_whoever_waits_can_be_interrupted(supervisor: Supervisor) -> None:
    threading.Timer(1.0, supervisor.stop).start()
    with pytest.raises(KeyboardInterrupt):
        supervisor.call(called.sleeps, seconds=60)
    with pytest.raises(KeyboardInterrupt):
        supervisor.call(called.adds, 2, 3, seconds=60)
    assert not supervisor.is_started


@linux
def test_a_worker_ends_with_a_supervisor_that_is_killed(supervisor: Supervisor) -> None:
    code = """
        import os, signal
        from sizeup.workers import Supervisor
        from workers import called
        supervisor = Supervisor()
        supervisor.call(called.adds, 1, 1, seconds=60)
        print(supervisor._worker.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    wait_until_gone(int(done.stdout))
