"""The supervisor: starts a worker, calls functions in it, and kills it at a time or memory limit."""

from __future__ import annotations

import contextlib
import errno
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
from typing import IO, Any, NamedTuple, TypeAlias

from sizeup.errors import WorkerFailed
from sizeup.units import size
from sizeup.workers.forked import ForkedWorker

_Process: TypeAlias = "subprocess.Popen[bytes] | ForkedWorker"

TIMED_OUT, OUT_OF_MEMORY, CRASHED, RAISED = "TimedOut", "OutOfMemory", "Crashed", "Raised"
_LONGEST_ANSWER = 1 << 28  # bytes of a line; a check of a model takes some kilobytes
_POLL_SECONDS = 0.25  # between two checks of a worker's memory
# Not `python -m`, which looks for modules in the working directory first: it may hold files of others.
_START = (
    "import sys; sys.path[:] = [folder for folder in sys.path if folder];"
    " from sizeup.workers.worker import main; sys.exit(main(*sys.argv[1:]))"
)
# ONNX Runtime reports models to its vendor and stores an identifier of the machine. It reads these variables
# when it is imported; the name changed between releases.
_NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "ORT_TELEMETRY_DISABLED": "1"}
_NO_MEMORY = ("MemoryError:", f"OSError: [Errno {errno.ENOMEM}]")
_MEMORY_WORDS = ("bad_alloc", "MemoryError", "Cannot allocate memory", "out of memory")


class Supervisor:
    """Calls functions in a worker and replaces a worker that ended."""

    def __init__(
        self,
        memory_bytes: int = 0,
        environment: Mapping[str, str] | None = None,
        *,
        forks: bool = False,
        is_silent: bool = True,
        confine: Callable[[], None] | None = None,
    ) -> None:
        """`memory_bytes` limits a worker; 0: no limit. Variables of this process override `environment`.

        With `forks`, each call has a new worker, forked from this process. It may call any function,
        prints to this process's streams unless `is_silent`, and calls `confine` before the function.
        The memory that it has from this process does not count.
        """
        self.memory_bytes, self._environment = memory_bytes, environment or {}
        self._forks, self._is_silent, self._confine = forks, is_silent, confine
        # Unnamed files: nothing is left behind if this process is killed.
        self.payload = tempfile.TemporaryFile()  # noqa: SIM115 - until `close`
        self._stderr = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - until `close`
        self._worker: _Process | None = None
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

        `seconds` includes the start of a worker. The bytes it wrote are in `payload` until the next call.
        """
        for file in (self.payload, self._stderr):
            file.seek(0)
            file.truncate()
        try:
            worker = self._forked(function, arguments) if self._forks else self._running_worker()
            with self._enforced_limits(worker, seconds):
                if worker.stdin is not None:
                    _send(worker.stdin, pickle.dumps((function, arguments)))
                answer = self._exchange(worker, progress)
        except BaseException as error:
            if not isinstance(error, WorkerFailed) or error.kind != RAISED or self._killed_for is not None:
                self._end()
            raise
        is_large = self.memory_bytes and memory_of(worker.pid).resident > self.memory_bytes // 2
        if self._forks or is_large or self._killed_for is not None:
            self._end()  # leave the memory to the next call
        self.payload.seek(0)
        return answer

    def stderr(self) -> str:
        """The output of the last call on stderr and stdout."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def stop(self) -> None:
        """Interrupt a call in another thread: it raises KeyboardInterrupt."""
        self._is_stopped = True
        if (worker := self._worker) is not None:
            _kill(worker)

    def close(self) -> None:
        """End the worker and remove its files."""
        self._end()
        self.payload.close()
        self._stderr.close()

    def _running_worker(self) -> _Process:
        if self._worker is None or self._worker.poll() is not None:
            self._end()
            try:
                self._worker = subprocess.Popen(
                    [sys.executable, "-c", _START, str(os.getpid()), str(self.memory_bytes)],
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

    def _forked(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> ForkedWorker:
        from sizeup.workers.worker import run_forked

        parent, output = os.getpid(), self._stderr.fileno() if self._is_silent else None
        # What this process holds, the worker holds too; it is not part of the limit.
        limit = self.memory_bytes and self.memory_bytes + memory_of(parent).private
        settings = (function, arguments, parent, limit, output, self._confine)
        self._worker = worker = ForkedWorker(lambda pipe: run_forked(pipe, *settings))
        return worker

    def _exchange(self, worker: _Process, progress: Callable[[Any], None] | None) -> Any:
        assert worker.stdout is not None
        while (line := worker.stdout.readline(_LONGEST_ANSWER)).endswith(b"\n"):
            try:
                message = json.loads(line)
                self.payload.write(worker.stdout.read(abs(int(message["bytes"]))))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise WorkerFailed(CRASHED, "answered what cannot be read") from error
            if "answer" in message:
                return message["answer"]
            if "raised" in message and self.memory_bytes and message["raised"].startswith(_NO_MEMORY):
                raise self._out_of_memory()
            if "raised" in message:
                raise WorkerFailed(RAISED, message["raised"])
            if progress is not None and "progress" in message:
                progress(message["progress"])
        raise self._failure(worker)

    @contextlib.contextmanager
    def _enforced_limits(self, worker: _Process, seconds: float) -> Iterator[None]:
        """Kills a worker that exceeds its time or memory inside the block."""
        is_over, deadline = threading.Event(), time.monotonic() + seconds
        most_bytes = self.memory_bytes + (memory_of(os.getpid()).resident if self._forks else 0)

        def watch() -> None:
            while not is_over.wait(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
                if time.monotonic() >= deadline:
                    self._killed_for = WorkerFailed(TIMED_OUT, f"took longer than {seconds:g} s")
                elif self.memory_bytes and memory_of(worker.pid).resident > most_bytes:
                    self._killed_for = self._out_of_memory()
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

    def _failure(self, worker: _Process) -> WorkerFailed:
        """The reason why a worker ended without an answer."""
        if self._is_stopped:
            raise KeyboardInterrupt
        code = worker.wait()
        if self._killed_for is not None:
            return self._killed_for
        if self.memory_bytes and any(word in self.stderr() for word in _MEMORY_WORDS):
            return self._out_of_memory()
        status = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerFailed(CRASHED, f"crashed ({status})", code)

    def _out_of_memory(self) -> WorkerFailed:
        return WorkerFailed(OUT_OF_MEMORY, f"takes more than {size(self.memory_bytes)}")

    def _end(self) -> None:
        """Kill the worker and its subprocesses."""
        worker, self._worker, self._killed_for = self._worker, None, None
        if worker is None:
            return
        _kill(worker)
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


class Memory(NamedTuple):
    """Bytes of memory of a process, 0 if unavailable: in RAM, and private and writable."""

    resident: int = 0
    private: int = 0


def memory_of(process: int) -> Memory:
    """The memory of a process."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text("ascii").split()
        page = os.sysconf("SC_PAGE_SIZE")
        return Memory(int(pages[1]) * page, int(pages[5]) * page)
    except (OSError, ValueError, IndexError):
        return Memory()


def _send(stdin: IO[bytes], request: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        stdin.write(b"%d\n%b" % (len(request), request))
        stdin.flush()


def _environment() -> dict[str, str]:
    """The environment of this process, with the folder of sizeup in PYTHONPATH even if not installed."""
    home = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([home, known] if known else [home])
    return {**os.environ, **_NO_TELEMETRY, "PYTHONPATH": path}


def _kill(worker: _Process) -> None:
    """Kill a process and its subprocesses."""
    if not hasattr(os, "killpg"):  # Windows
        worker.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
