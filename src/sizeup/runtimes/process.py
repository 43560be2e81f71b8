"""Runs models in a runtime, in a worker: a model that crashes the interpreter must not end this process."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from sizeup.errors import MissingLibrary, RunFailed, WorkerFailed
from sizeup.files import is_file
from sizeup.workers import RAISED, TIMED_OUT, Supervisor

Array: TypeAlias = np.ndarray[Any, Any]
Sample: TypeAlias = Sequence[Array]  # one array per input, in the model's order
Model: TypeAlias = str | os.PathLike[str] | bytes


class Library(NamedTuple):
    """A library that runs models: its display name, the module to import, and its package."""

    title: str
    module: str
    package: str
    extra: str
    honors_plans: bool = False  # it uses memory plans that are stored in files
    prints_reason: bool = False  # its first line is more specific than its exceptions
    opens_files: bool = False  # it opens files that a model refers to

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported; it is not imported by this."""
        return importlib.util.find_spec(self.module) is not None

    def check_installed(self, action: str) -> None:
        """Raise MissingLibrary if it cannot be imported; `action` is a verb such as "running"."""
        if not self.is_installed:
            raise MissingLibrary(f"{action} a model in {self.title}", self.package, self.extra)


RUNTIMES = {
    "tflm": Library(
        "TFLite Micro", "tflite_micro", "tflite-micro", "measure", honors_plans=True, prints_reason=True
    ),
    "litert": Library("LiteRT", "ai_edge_litert", "ai-edge-litert", "tflite"),
    "ort": Library("ONNX Runtime", "onnxruntime", "onnxruntime", "measure", opens_files=True),
}

_ARENA = re.compile(r"Arena allocation (head|tail) (\d+) bytes")
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Arena:
    """The arena that TFLite Micro's interpreter reported: its planned head and persistent tail."""

    head_bytes: int
    tail_bytes: int

    @property
    def total_bytes(self) -> int:
        """The bytes that firmware must reserve."""
        return self.head_bytes + self.tail_bytes


@dataclass(frozen=True, slots=True)
class Run:
    """The outputs of a runtime, one tuple of arrays per sample; `arena` if the runtime reports it."""

    runtime: str
    outputs: tuple[tuple[Array, ...], ...]
    arena: Arena | None = None

    @property
    def title(self) -> str:
        """The runtime's display name."""
        return RUNTIMES[self.runtime].title

    @property
    def distinct_outputs(self) -> int:
        """The number of distinct outputs; with only one, equal outputs prove little."""
        return len({b"".join(array.tobytes() for array in outputs) for outputs in self.outputs})


class Server:
    """A runtime in a worker that runs models until `close`: starting takes longer than a run."""

    def __init__(self, runtime: str, timeout: float = 600) -> None:
        self.library = RUNTIMES[runtime]
        self.library.check_installed("running")
        self._runtime, self._timeout = runtime, timeout
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(scratch_folder())
            self._supervisor = stack.enter_context(Supervisor())
            self._resources = stack.pop_all()
        self._samples = 0

    def store_samples(self, samples: Sequence[Sample]) -> str:
        """Store samples for several runs; returns the key to pass to `run`."""
        self._samples += 1
        path = self._folder / f"samples_{self._samples}.npz"
        save_samples(path, samples)
        return str(path)

    def run(self, model: Model, samples: str) -> list[list[Array]]:
        """The outputs of a model per sample; raises RunFailed if the runtime rejects it or times out."""
        path, outputs = model_path(self._runtime, model, self._folder), self._folder / "outputs.npz"
        try:
            self._supervisor.call(
                _execute, self._runtime, str(path), samples, str(outputs), seconds=self._timeout
            )
        except WorkerFailed as failed:
            message = failure_message(failed, self._runtime, self.library.title, self.stderr())
            suffix = f" on {path.name}" if failed.kind == TIMED_OUT and path.parent != self._folder else ""
            raise RunFailed(message + suffix) from failed
        return load_samples(outputs)

    def stderr(self) -> str:
        """The output of the runtime in the last run."""
        return self._supervisor.stderr()

    def close(self) -> None:
        """End the worker and remove its files."""
        self._resources.close()


def run(runtime: str, model: Model, samples: Sequence[Sample] = (), *, timeout: float = 600) -> Run:
    """Run a model file, or its content, on samples; without samples only load it.

    Raises RunFailed if the runtime rejects the model, crashes or takes longer than `timeout` seconds.
    """
    with contextlib.closing(Server(runtime, timeout)) as server:
        outputs = server.run(model, server.store_samples(samples))
        return Run(runtime, tuple(map(tuple, outputs)), _arena(server.stderr()))


_samples_read: dict[str, list[list[Array]]] = {}  # in a worker: the samples read so far


def _execute(runtime: str, model: str, samples: str, outputs: str, _channel: object) -> None:
    """Runs in a worker: runs a model on samples and writes the outputs to a file."""
    execute = importlib.import_module(f"sizeup.runtimes.{runtime}").execute
    if samples not in _samples_read:
        _samples_read[samples] = load_samples(Path(samples))
    save_samples(Path(outputs), execute(model, _samples_read[samples]))


def failure_message(failed: WorkerFailed, runtime: str, title: str, output: str) -> str:
    """The error message for a model that a runtime did not run; `output` is what the runtime printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if failed.kind != RAISED and failed.code <= 0:
        return f"{title} {failed}"
    reason = str(failed) if failed.kind == RAISED else " ".join(lines[-1:])
    if lines and runtime in RUNTIMES and RUNTIMES[runtime].prints_reason:
        reason = lines[0]
    return f"{title} cannot run it: {' '.join(reason.split())[:_LONGEST_REASON]}"


def model_path(runtime: str, model: Model, folder: Path) -> Path:
    """The path of a model for a worker: its file, or one written to `folder` with its content."""
    if not isinstance(model, bytes):
        return _checked_path(runtime, model)
    path = folder / "model"
    with _translated_write_errors(path):
        path.write_bytes(model)
    return path


def _checked_path(runtime: str, model: str | os.PathLike[str]) -> Path:
    """The path of a model file; raises if it refers to data outside its folder, which runtimes would open."""
    path = Path(model).absolute()
    if runtime in RUNTIMES and RUNTIMES[runtime].opens_files and is_file(path):
        from sizeup.formats.onnx.external_data import check_external_files

        check_external_files(path)
    return path


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder for files passed to a worker."""
    with _translated_write_errors(Path(tempfile.gettempdir())):
        scratch = tempfile.TemporaryDirectory(prefix="sizeup-", ignore_cleanup_errors=True)
    with scratch as name:
        yield Path(name)


@contextlib.contextmanager
def _translated_write_errors(path: Path) -> Iterator[None]:
    """Turns a full disk or a file size limit into a RunFailed with advice."""
    try:
        yield
    except OSError as error:
        raise RunFailed(
            f"{path}: cannot be written for the runtime ({error.strerror or error}); free disk space, or set"
            " TMPDIR to another folder"
        ) from error


def save_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Write samples to a file for another process."""
    arrays: dict[str, Any] = {
        f"{index}.{position}": array
        for index, sample in enumerate(samples)
        for position, array in enumerate(sample)
    }
    with _translated_write_errors(path):
        np.savez(path, **arrays)


def load_samples(path: Path) -> list[list[Array]]:
    """Read the file of `save_samples`: one list of arrays per sample."""
    samples: dict[int, dict[int, Array]] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                index, _, position = key.partition(".")
                samples.setdefault(int(index), {})[int(position)] = file[key]
    except (OSError, ValueError, LookupError, EOFError, BadZipFile) as error:
        raise RunFailed(f"{path.name}: the output of the runtime cannot be read: {error}") from error
    return [[samples[index][position] for position in sorted(samples[index])] for index in sorted(samples)]


def _arena(output: str) -> Arena | None:
    sizes = {part: int(size) for part, size in _ARENA.findall(output)}
    return Arena(sizes["head"], sizes["tail"]) if len(sizes) == 2 else None
