"""The supervisor: starts a worker, has it call functions, and ends it if it takes too much time or memory."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sizeup.errors import WorkerFailed
from sizeup.units import size

TIMED_OUT, OUT_OF_MEMORY, CRASHED, RAISED = "TimedOut", "OutOfMemory", "Crashed", "Raised"
_POLL_SECONDS = 0.25  # between two looks at the memory of a worker
_MEMORY_WORDS = ("bad_alloc", "MemoryError", "Cannot allocate memory", "out of memory")


class Supervisor:
    """Has a worker call functions; another takes the place of one that ended."""

    def __init__(self, memory_bytes: int = 0, environment: Mapping[str, str] | None = None) -> None:
        """`memory_bytes` is what a worker may take, 0 for any amount; variables of our own go before."""
        self.memory_bytes, self._environment = memory_bytes, environment or {}
        # Files without a name: whoever is killed leaves none of them behind.
        self.payload = tempfile.TemporaryFile()  # noqa: SIM115 - until `close`
        self._stderr = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - until `close`
        self._worker: subprocess.Popen[bytes] | None = None
        self._killed_for: WorkerFailed | None = None
        self._is_stopped = False

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_started(self) -> bool:
        """Whether a worker is ready for calls."""
        return self._worker is not None and self._worker.poll() is None

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        seconds: float,
        progress: Callable[[Any], None] | None = None,
    ) -> Any:
        """The answer of a function in the worker, whose last argument is a `Channel`; raises WorkerFailed.

        The time includes the start of a worker. Bytes that it wrote are in `payload` until the next call.
        """
        for file in (self.payload, self._stderr):
            file.seek(0)
            file.truncate()
        request = pickle.dumps((function, arguments))
        try:
            worker = self._started()
            with self._watched(worker, seconds):
                answer = self._exchange(worker, b"%d\n%b" % (len(request), request), progress)
        except BaseException as error:
            if not isinstance(error, WorkerFailed) or error.kind != RAISED or self._killed_for is not None:
                self._end()
            raise
        is_large = self.memory_bytes and resident_bytes(worker.pid) > self.memory_bytes // 2
        if is_large or self._killed_for is not None:
            self._end()  # the next call shall have its share
        self.payload.seek(0)
        return answer

    def stderr(self) -> str:
        """What was printed during the last call, on stdout too."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def stop(self) -> None:
        """Let whoever waits for an answer, in another thread, be interrupted."""
        self._is_stopped = True
        if (worker := self._worker) is not None:
            _kill(worker)

    def close(self) -> None:
        """End the worker and remove its files."""
        self._end()
        self.payload.close()
        self._stderr.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._worker is None or self._worker.poll() is not None:
            self._end()
            try:
                self._worker = subprocess.Popen(
                    [sys.executable, "-m", "sizeup.workers.worker", str(os.getpid()), str(self.memory_bytes)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._stderr,
                    env={**self._environment, **_environment()},
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerFailed(CRASHED, f"cannot be started: {error.strerror or error}") from error
        if self._is_stopped:
            raise KeyboardInterrupt
        return self._worker

    def _exchange(
        self, worker: subprocess.Popen[bytes], request: bytes, progress: Callable[[Any], None] | None
    ) -> Any:
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(request)
            worker.stdin.flush()
        while (line := worker.stdout.readline()).endswith(b"\n"):
            message = json.loads(line)
            self.payload.write(worker.stdout.read(message["bytes"]))
            if "answer" in message:
                return message["answer"]
            if "raised" in message and self.memory_bytes and message["raised"].startswith("MemoryError:"):
                raise self._too_large()
            if "raised" in message:
                raise WorkerFailed(RAISED, message["raised"])
            if progress is not None and "progress" in message:
                progress(message["progress"])
        raise self._ended(worker)

    @contextlib.contextmanager
    def _watched(self, worker: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
        """Kill a worker that takes too long or too much memory, while the block lasts."""
        is_over, deadline = threading.Event(), time.monotonic() + seconds

        def watch() -> None:
            while not is_over.wait(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
                if time.monotonic() >= deadline:
                    self._killed_for = WorkerFailed(TIMED_OUT, f"took longer than {seconds:g} s")
                elif self.memory_bytes and resident_bytes(worker.pid) > self.memory_bytes:
                    self._killed_for = self._too_large()
                else:
                    continue
                _kill(worker)
                return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()

    def _ended(self, worker: subprocess.Popen[bytes]) -> WorkerFailed:
        """Why a worker ended before it answered."""
        if self._is_stopped:
            raise KeyboardInterrupt
        code = worker.wait()
        if self._killed_for is not None:
            return self._killed_for
        if self.memory_bytes and any(word in self.stderr() for word in _MEMORY_WORDS):
            return self._too_large()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerFailed(CRASHED, f"crashed ({how})", code)

    def _too_large(self) -> WorkerFailed:
        return WorkerFailed(OUT_OF_MEMORY, f"takes more than {size(self.memory_bytes)}")

    def _end(self) -> None:
        """End the worker and all that it started."""
        worker, self._worker, self._killed_for = self._worker, None, None
        if worker is None:
            return
        _kill(worker)
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def resident_bytes(process: int) -> int:
    """The memory that a process holds; 0 if the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _environment() -> dict[str, str]:
    """Ours, with the folder that sizeup was imported from, also where that is no installed one."""
    home = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([home, known] if known else [home])}


def _kill(worker: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    if not hasattr(os, "killpg"):  # Windows
        worker.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
