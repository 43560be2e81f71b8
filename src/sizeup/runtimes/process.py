"""Starting a runtime apart from ourselves: models crash interpreters, and that must be news, not the end."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from sizeup.errors import MissingLibrary, RunFailed
from sizeup.formats.onnx.outside import check_files_beside

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


def run(
    runtime: str,
    model: str | os.PathLike[str] | bytes,
    samples: Sequence[Sample] = (),
    *,
    timeout: float = 600,
) -> Run:
    """Run a model file, or its content, on samples one after the other; without samples only load it.

    Raises RunFailed where the runtime refuses the model, crashes or takes longer than `timeout` seconds.
    """
    library = RUNTIMES[runtime]
    if not library.is_installed:
        raise MissingLibrary(f"running a model in {library.title}", library.package, library.extra)
    with scratch_folder() as folder:
        if isinstance(model, bytes):
            path = folder / "model"
            save_model(path, model)
        else:
            path = file_of(runtime, model)
        said = _work(library, runtime, path, samples, folder, timeout)
        return Run(runtime, tuple(map(tuple, load_samples(folder / "outputs.npz"))), _arena(said))


def file_of(runtime: str, model: str | os.PathLike[str]) -> Path:
    """The path of a model file, whose external data is in its folder: runtimes open what a model names."""
    path = Path(model).absolute()
    if runtime == "ort" and path.is_file():
        check_files_beside(path)
    return path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for what is handed to a worker, gone afterwards."""
    with _writing(Path(tempfile.gettempdir())):
        scratch = tempfile.TemporaryDirectory(prefix="sizeup-", ignore_cleanup_errors=True)
    with scratch as name:
        yield Path(name)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a limit on file sizes into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise RunFailed(
            f"{path} cannot be written for the runtime ({error.strerror or error}); free some space, or set"
            " TMPDIR to another folder"
        ) from error


def save_model(path: Path, model: bytes) -> None:
    """Leave a model where the worker finds it."""
    with _writing(path):
        path.write_bytes(model)


def _work(
    library: Library, runtime: str, model: Path, samples: Sequence[Sample], folder: Path, timeout: float
) -> str:
    """Let a process of its own do it; returns what was said on the way."""
    save_samples(folder / "inputs.npz", samples)
    command = [sys.executable, "-m", "sizeup.runtimes.worker", runtime, str(model), str(folder)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=timeout,
            check=False,
            env=environment(),
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{library.title} took longer than {timeout:g} s on {model.name}") from error
    except OSError as error:
        raise RunFailed(f"{library.title} cannot be started: {error.strerror or error}") from error
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        raise RunFailed(f"{library.title} {reason_of(done.returncode, runtime, folder, said)}")
    return said


def environment() -> dict[str, str]:
    """Ours, with the folder that sizeup was imported from, also where that is no installed one."""
    home = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([home, known] if known else [home])}


def reason_of(code: int, runtime: str, folder: Path, said: str) -> str:
    """Why a process that ran a model ended as it did, in words that follow the runtime's name."""
    if code < 0:
        return f"crashed ({signal.Signals(-code).name})"
    told = folder / "error.txt"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = told.read_text("utf-8") if told.exists() else " ".join(lines[-1:])
    if runtime == "tflm" and lines:
        reason = lines[0]  # the interpreter prints what it dislikes, and raises something less telling
    return f"does not run it: {' '.join(reason.split())[:_LONGEST_REASON]}"


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
