"""How long a model takes in a real runtime on this machine, in a process of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sizeup.errors import MissingLibrary, RunFailed
from sizeup.runtimes.process import (
    RUNTIMES,
    Library,
    Sample,
    environment,
    file_of,
    reason_of,
    save_model,
    save_samples,
    scratch_folder,
)
from sizeup.runtimes.stopwatch import Kernel


class Clocked(NamedTuple):
    """A runtime that can be timed: its library, the module that does it, and how the runtime is set up."""

    library: Library
    module: str
    options: Mapping[str, Any] = {}


TIMED = {
    "ort": Clocked(RUNTIMES["ort"], "ort"),
    "litert": Clocked(RUNTIMES["litert"], "litert", {"delegate": False}),
    "litert-xnnpack": Clocked(
        RUNTIMES["litert"]._replace(title="LiteRT with XNNPACK"), "litert", {"delegate": True}
    ),
    "tflm": Clocked(RUNTIMES["tflm"], "tflm"),
    "torch-eager": Clocked(Library("PyTorch (eager)", "torch", "torch", "torch"), "eager"),
}

Progress = Callable[[int, float], None]  # runs so far, the least seconds of one


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: warm-up runs first, then runs until there are enough and time has passed."""

    seconds: float = 3.0
    warm_up: int = 3
    least_runs: int = 10
    most_runs: int = 10_000
    profiled_runs: int = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall and CPU seconds of every run in the order in which they ran, and the runtime's own profile."""

    runtime: str
    title: str
    version: str
    threads: int
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    warm_up_seconds: tuple[float, ...]
    loading_seconds: float
    kernels: tuple[Kernel, ...]  # empty where the runtime gives no profile

    @property
    def least(self) -> float:
        """Seconds of the fastest run: what other work on the machine disturbed least."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Seconds of the run in the middle."""
        return statistics.median(self.seconds)


def time_model(
    runtime: str,
    model: str | os.PathLike[str] | bytes,
    samples: Sequence[Sample] = (),
    *,
    threads: int = 1,
    effort: Effort | None = None,
    progress: Progress | None = None,
    timeout: float = 600,
) -> Timing:
    """Run a model file, or its content, over and over on one sample; PyTorch's is one that `source` writes.

    Raises RunFailed where the runtime refuses the model, crashes or takes longer than `timeout` seconds.
    """
    clocked = TIMED[runtime]
    if find_spec(clocked.library.module) is None:
        raise MissingLibrary(
            f"timing a model in {clocked.library.title}", clocked.library.package, clocked.library.extra
        )
    effort = effort or Effort()
    with scratch_folder() as folder:
        save_samples(folder / "inputs.npz", samples)
        settings = {
            **{key: getattr(effort, key) for key in Effort.__slots__},
            **clocked.options,
            "module": clocked.module,
            "model": _placed(runtime, model, folder),
            "threads": threads,
            "path": sys.path,
        }
        (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
        rows = _listen(runtime, clocked.library, folder, timeout, progress)
        result = json.loads((folder / "result.json").read_text("utf-8"))
    kept = [row for row in rows if not row["warm_up"]]
    return Timing(
        runtime,
        clocked.library.title,
        result["version"],
        threads,
        tuple(row["seconds"] for row in kept),
        tuple(row["cpu"] for row in kept),
        tuple(row["seconds"] for row in rows if row["warm_up"]),
        result["loading"],
        tuple(Kernel(**each) for each in result["kernels"]),
    )


def _placed(runtime: str, model: str | os.PathLike[str] | bytes, folder: Path) -> str:
    if not isinstance(model, bytes):
        return str(file_of(runtime, model))
    save_model(folder / "model", model)
    return str(folder / "model")


def _listen(
    runtime: str, library: Library, folder: Path, timeout: float, progress: Progress | None
) -> list[dict[str, Any]]:
    """Start the process and take down each run as it ends."""
    command = [sys.executable, "-m", "sizeup.runtimes.stopwatch", str(folder)]
    rows: list[dict[str, Any]] = []
    least = float("inf")
    with (
        (folder / "said").open("wb") as said,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL, env=environment()
        ) as process,
        _Limit(process, timeout) as limit,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            rows.append(json.loads(line))
            if progress is not None and not rows[-1]["warm_up"]:
                least = min(least, rows[-1]["seconds"])
                progress(len(rows), least)
        code = process.wait()
    if limit.reached:
        raise RunFailed(f"{library.title} took longer than {timeout:g} s")
    if code:
        heard = (folder / "said").read_text("utf-8", errors="replace")
        raise RunFailed(f"{library.title} {reason_of(code, runtime, folder, heard)}")
    return rows


class _Limit:
    """Ends a process that takes too long."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self.reached = False
        self._process = process
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def _end(self) -> None:
        self.reached = True
        self._process.kill()

    def __enter__(self) -> _Limit:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if sys.exc_info()[0] is not None:  # whoever waited gave up
            self._process.kill()
