"""Running models in a runtime, in a worker: models crash interpreters, and that must be news, not the end."""

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
from sizeup.formats.onnx.outside import check_files_beside
from sizeup.workers import RAISED, TIMED_OUT, Supervisor

Array: TypeAlias = np.ndarray[Any, Any]
Sample: TypeAlias = Sequence[Array]  # one array for each input, in the model's order
Model: TypeAlias = str | os.PathLike[str] | bytes


class Library(NamedTuple):
    """What runs a model: its name for people, the module to import, and the package that has it."""

    title: str
    module: str
    package: str
    extra: str

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported here; nothing is."""
        return importlib.util.find_spec(self.module) is not None

    def check_installed(self, what: str) -> None:
        """Raise MissingLibrary if it cannot be imported; `what` is what a model would have been in for."""
        if not self.is_installed:
            raise MissingLibrary(f"{what} a model in {self.title}", self.package, self.extra)


RUNTIMES = {
    "tflm": Library("TFLite Micro", "tflite_micro", "tflite-micro", "measure"),
    "litert": Library("LiteRT", "ai_edge_litert", "ai-edge-litert", "tflite"),
    "ort": Library("ONNX Runtime", "onnxruntime", "onnxruntime", "measure"),
}

_ARENA = re.compile(r"Arena allocation (head|tail) (\d+) bytes")
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Arena:
    """Memory that TFLite Micro's interpreter recorded: planned anew in every run, and kept for good."""

    head_bytes: int
    tail_bytes: int

    @property
    def total_bytes(self) -> int:
        """What firmware must set aside."""
        return self.head_bytes + self.tail_bytes


@dataclass(frozen=True, slots=True)
class Run:
    """What a runtime made of samples, one tuple of arrays for each; `arena` where the runtime reports it."""

    runtime: str
    outputs: tuple[tuple[Array, ...], ...]
    arena: Arena | None = None

    @property
    def title(self) -> str:
        """The runtime's name for people."""
        return RUNTIMES[self.runtime].title

    @property
    def distinct_outputs(self) -> int:
        """How many different answers the samples brought: with one alone, equal answers prove little."""
        return len({b"".join(each.tobytes() for each in outputs) for outputs in self.outputs})


class Server:
    """A runtime in a worker that runs model after model until `close`: starting takes longer than a run."""

    def __init__(self, runtime: str, timeout: float = 600) -> None:
        self.library = RUNTIMES[runtime]
        self.library.check_installed("running")
        self._runtime, self._timeout = runtime, timeout
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(scratch_folder())
            self._supervisor = stack.enter_context(Supervisor())
            self._resources = stack.pop_all()
        self._samples = 0

    def keep(self, samples: Sequence[Sample]) -> str:
        """Hand over samples once; the word that comes back stands for them."""
        self._samples += 1
        path = self._folder / f"samples_{self._samples}.npz"
        save_samples(path, samples)
        return str(path)

    def run(self, model: Model, samples: str) -> list[list[Array]]:
        """The outputs of a model for each sample; raises RunFailed if it is refused or takes too long."""
        path, outputs = place_model(self._runtime, model, self._folder), self._folder / "outputs.npz"
        try:
            self._supervisor.call(
                _execute, self._runtime, str(path), samples, str(outputs), seconds=self._timeout
            )
        except WorkerFailed as failed:
            message = refusal(failed, self._runtime, self.library.title, self.stderr())
            where = f" on {path.name}" if failed.kind == TIMED_OUT and path.parent != self._folder else ""
            raise RunFailed(message + where) from failed
        return load_samples(outputs)

    def stderr(self) -> str:
        """What the runtime printed in the last run."""
        return self._supervisor.stderr()

    def close(self) -> None:
        """End the worker and remove its files."""
        self._resources.close()


def run(runtime: str, model: Model, samples: Sequence[Sample] = (), *, timeout: float = 600) -> Run:
    """Run a model file, or its content, on samples one after the other; without samples only load it.

    Raises RunFailed where the runtime refuses the model, crashes or takes longer than `timeout` seconds.
    """
    with contextlib.closing(Server(runtime, timeout)) as server:
        outputs = server.run(model, server.keep(samples))
        return Run(runtime, tuple(map(tuple, outputs)), _arena(server.stderr()))


_kept: dict[str, list[list[Array]]] = {}  # in a worker: samples that it has read


def _execute(runtime: str, model: str, samples: str, outputs: str, _channel: object) -> None:
    """In a worker: run a model on samples and leave the outputs in a file."""
    execute = importlib.import_module(f"sizeup.runtimes.{runtime}").execute
    if samples not in _kept:
        _kept[samples] = load_samples(Path(samples))
    save_samples(Path(outputs), execute(model, _kept[samples]))


def refusal(failed: WorkerFailed, runtime: str, title: str, said: str) -> str:
    """What to say of a model that a runtime did not run; `said` is what the runtime printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if failed.kind != RAISED and failed.code <= 0:
        return f"{title} {failed}"
    reason = str(failed) if failed.kind == RAISED else " ".join(lines[-1:])
    if runtime == "tflm" and lines:
        reason = lines[0]  # the interpreter prints what it dislikes, and raises something less telling
    return f"{title} does not run it: {' '.join(reason.split())[:_LONGEST_REASON]}"


def place_model(runtime: str, model: Model, folder: Path) -> Path:
    """Where a worker finds a model: its file, or one in `folder` with its content."""
    if not isinstance(model, bytes):
        return _file_of(runtime, model)
    path = folder / "model"
    with _writing(path):
        path.write_bytes(model)
    return path


def _file_of(runtime: str, model: str | os.PathLike[str]) -> Path:
    """The path of a model file, whose external data is in its folder: runtimes open what a model names."""
    path = Path(model).absolute()
    if runtime == "ort" and path.is_file():
        check_files_beside(path)
    return path


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for what is handed to a worker, gone afterwards."""
    with _writing(Path(tempfile.gettempdir())):
        scratch = tempfile.TemporaryDirectory(prefix="sizeup-", ignore_cleanup_errors=True)
    with scratch as name:
        yield Path(name)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a limit on file sizes into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise RunFailed(
            f"{path} cannot be written for the runtime ({error.strerror or error}); free some space, or set"
            " TMPDIR to another folder"
        ) from error


def save_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Leave samples where the other process finds them."""
    arrays = {
        f"{index}.{place}": each for index, sample in enumerate(samples) for place, each in enumerate(sample)
    }
    with _writing(path):
        np.savez(path, allow_pickle=False, **arrays)


def load_samples(path: Path) -> list[list[Array]]:
    """What `save_samples` left: one list of arrays a sample."""
    found: dict[int, dict[int, Array]] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                index, _, place = key.partition(".")
                found.setdefault(int(index), {})[int(place)] = file[key]
    except (OSError, ValueError, LookupError, EOFError, BadZipFile) as error:
        raise RunFailed(f"{path.name}, which the runtime left, cannot be read: {error}") from error
    return [[found[index][place] for place in sorted(found[index])] for index in sorted(found)]


def _arena(said: str) -> Arena | None:
    sizes = {part: int(size) for part, size in _ARENA.findall(said)}
    return Arena(sizes["head"], sizes["tail"]) if len(sizes) == 2 else None
