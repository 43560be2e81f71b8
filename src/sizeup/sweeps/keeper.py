"""The parent of a process that loads models: hands over one at a time, and ends it when it takes too much."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from sizeup.errors import SizeupError, WorkerFailed
from sizeup.runtimes.process import environment
from sizeup.sweeps.evaluate import OUT_OF_MEMORY
from sizeup.sweeps.limits import Limits, resident_bytes
from sizeup.sweeps.models import Identity, Model
from sizeup.sweeps.points import Questions
from sizeup.units import size

_START = 300.0  # seconds in which a child is to be ready
_GLANCE = 0.25  # seconds between two looks at a child that works
_TOLD_OF_MEMORY = ("bad_alloc", "MemoryError", "Cannot allocate memory", "out of memory")
_HEARD = 4096  # bytes of what a child said last
# One thread a child: there are as many children as cores.
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Keeper:
    """Keeps a child that evaluates models; a new one takes the place of one that ended."""

    def __init__(self, limits: Limits, folders: Sequence[str] = ()) -> None:
        self.limits, self.folders = limits, tuple(folders)
        # Files without a name: whoever is killed leaves none of them behind.
        self._work, self._rows, self._said = (tempfile.TemporaryFile() for _ in range(3))  # noqa: SIM115 - until `close`
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self.cpu_seconds: float | None = None  # of the last model that was evaluated
        self.bound: tuple[str, ...] = ()  # names in `bind` that the last model has a dimension for
        self.start_seconds = 0.0  # that new children took to start for it

    @contextlib.contextmanager
    def evaluated(self, model: Model, identity: Identity, asked: Questions) -> Iterator[Iterator[Any]]:
        """A model's rows as record batches, to be read within the block; WorkerFailed after all tries."""
        import pyarrow as pa

        self.cpu_seconds, self.start_seconds, self.bound = None, 0.0, ()
        answer = self._asked((model, identity, asked), self.limits.tries - 1)
        promised, self.cpu_seconds = answer["rows"], answer["cpu_seconds"]
        self.bound = tuple(answer["bound"])
        self._rows.seek(0)
        try:
            with pa.ipc.open_stream(self._rows) as stream:
                yield _checked(stream, promised)
        except pa.ArrowInvalid as error:
            raise WorkerFailed("Crashed", "its rows cannot be read") from error
        finally:
            _fill(self._rows, b"")

    def stop(self) -> None:
        """Let whoever waits for the child, in another thread, wait no longer."""
        self._is_stopped = True
        child = self._child
        if child is not None:
            _kill(child)

    def close(self) -> None:
        """End the child and remove its files."""
        self._end()
        for file in (self._work, self._rows, self._said):
            file.close()

    def _asked(self, work: tuple[Model, Identity, Questions], left: int) -> dict[str, Any]:
        """The child's answer; so many further children may be asked where one does not survive it."""
        _fill(self._work, pickle.dumps((*work, not left)))
        try:
            return self._ask()
        except WorkerFailed as failed:
            if failed.is_final or not left:
                raise
        return self._asked(work, left - 1)

    def _ask(self) -> dict[str, Any]:
        child = self._living()
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(b"\n")
            child.stdin.flush()
        line = self._wait(child, self.limits.seconds)
        if not line:
            raise self._ended(child)
        answer: dict[str, Any] = json.loads(line)
        if answer.get("kind") == OUT_OF_MEMORY:
            self._end()
            raise self._too_large()
        if "kind" in answer:
            raise WorkerFailed(answer["kind"], answer["error"])
        if (resident_bytes(child.pid) or 0) > self.limits.memory_bytes // 2:
            self._end()  # the next model shall have its share
        return answer

    def _wait(self, child: subprocess.Popen[bytes], seconds: float) -> bytes:
        """The line that the child answers; empty where it ended. Raises where it takes too much."""
        assert child.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as waiting:
            waiting.register(child.stdout, selectors.EVENT_READ)
            while not waiting.select(_GLANCE):
                if time.monotonic() > deadline:
                    self._end()
                    raise WorkerFailed("TimedOut", f"took longer than {seconds:g} s", is_final=False)
                if (resident_bytes(child.pid) or 0) > self.limits.memory_bytes:
                    self._end()
                    raise self._too_large()
        return child.stdout.readline()

    def _ended(self, child: subprocess.Popen[bytes]) -> WorkerFailed:
        if self._is_stopped:
            raise KeyboardInterrupt
        code = child.wait()
        heard = self._heard()
        self._end()
        if any(word in heard for word in _TOLD_OF_MEMORY):
            return self._too_large()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerFailed("Crashed", f"the process that read it crashed ({how})", is_final=False)

    def _too_large(self) -> WorkerFailed:
        return WorkerFailed(
            OUT_OF_MEMORY, f"takes more than {size(self.limits.memory_bytes)}", is_final=False
        )

    def _living(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._end()
            start = time.perf_counter()
            self._child = self._started()
            self.start_seconds += time.perf_counter() - start
        return self._child

    def _started(self) -> subprocess.Popen[bytes]:
        """A new child that is ready for work; one that cannot even start is no fault of a model."""
        _fill(self._said, b"")
        files = [self._work.fileno(), self._rows.fileno()]
        known = (self.limits.memory_bytes, os.getpid(), *files)
        child = self._child = subprocess.Popen(
            [sys.executable, "-m", "sizeup.sweeps.child", *map(str, known), *self.folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**_THREADS, **environment()},
            pass_fds=files,
            start_new_session=True,
        )
        try:
            is_ready = bool(self._wait(child, _START))
        except WorkerFailed:
            is_ready = False
        if not is_ready and not self._is_stopped:
            limit = size(self.limits.memory_bytes)
            last = self._heard().strip().rpartition("\n")[2]
            raise SizeupError(f"a process with {limit} of memory does not start{last and f': {last}'}")
        return child

    def _heard(self) -> str:
        """The last that the child said."""
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _HEARD))
        return self._said.read().decode(errors="replace")

    def _end(self) -> None:
        """End the child and all that it started."""
        child, self._child = self._child, None
        if child is None:
            return
        _kill(child)
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def _fill(file: IO[bytes], content: bytes) -> None:
    """Let a file hold that and nothing else."""
    file.seek(0)
    file.truncate()
    file.write(content)
    file.flush()


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _checked(stream: Any, promised: int) -> Iterator[Any]:
    """The batches of a stream; fewer rows than were promised are no answer."""
    rows = 0
    for batch in stream:
        rows += batch.num_rows
        yield batch
    if rows != promised:
        raise WorkerFailed("Crashed", f"{rows:,} of {promised:,} rows arrived")
