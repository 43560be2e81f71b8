"""How long a model takes in a real runtime on this machine, in a worker: one for long, or many in turns."""

from __future__ import annotations

import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sizeup.errors import RunFailed, WorkerFailed
from sizeup.runtimes.process import (
    RUNTIMES,
    Library,
    Sample,
    place_model,
    refusal,
    save_samples,
    scratch_folder,
)
from sizeup.workers import TIMED_OUT, Supervisor

if TYPE_CHECKING:
    from sizeup.workers.worker import Channel


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
TurnProgress = Callable[[int, int], None]  # turns that ended, turns in all
_Timed = tuple[float, float, bool]  # seconds by the clock and of the CPU, and whether it was to warm up


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: warm-up runs first, then runs until there are enough and time has passed."""

    seconds: float = 3.0
    warm_up: int = 3
    least_runs: int = 10
    most_runs: int = 10_000
    profiled_runs: int = 5


ROUNDS = 4
TURN = Effort(seconds=0.1, warm_up=2, least_runs=3, most_runs=10_000, profiled_runs=5)
"""What one model has of one round."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a run as the runtime's own profile has it."""

    name: str
    kind: str
    seconds: float  # of one run, the least of those profiled
    calls: int = 1  # in one run
    module: str | None = None  # the path of the module that it ran in, if the runtime tells


class Timer(Protocol):
    """A model that is loaded and given its inputs, ready to run."""

    version: str

    def invoke(self) -> None:
        """Run it once."""

    def profile(self, runs: int, /) -> list[Kernel]:
        """The kernels of a run; an empty list where the runtime tells nothing."""


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


@dataclass(slots=True)
class Turns:
    """What all turns of one model brought; `failure` where the runtime would not run it."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    kernels: tuple[Kernel, ...] = ()
    version: str = ""
    failure: str = ""

    def add(self, timed: dict[str, Any]) -> None:
        """Note one more turn."""
        self.version = timed["version"]
        self.wall += [wall for wall, _, is_warm_up in timed["runs"] if not is_warm_up]
        self.cpu += [cpu for _, cpu, is_warm_up in timed["runs"] if not is_warm_up]
        self.kernels = tuple(Kernel(**each) for each in timed["kernels"]) or self.kernels


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
    clocked.library.check_installed("timing")
    runs: list[_Timed] = []
    least = float("inf")

    def show(row: _Timed) -> None:
        nonlocal least
        wall, _, is_warm_up = row
        runs.append(row)
        if progress is not None and not is_warm_up:
            least = min(least, wall)
            progress(len(runs), least)

    with scratch_folder() as folder, _Stopwatch(runtime, threads, effort or Effort(), timeout) as stopwatch:
        save_samples(folder / "inputs.npz", samples)
        try:
            timed = stopwatch.time(folder, place_model(runtime, model, folder), show)
        except WorkerFailed as failed:
            raise RunFailed(stopwatch.refusal(failed)) from failed
    return Timing(
        runtime,
        clocked.library.title,
        timed["version"],
        threads,
        tuple(wall for wall, _, is_warm_up in runs if not is_warm_up),
        tuple(cpu for _, cpu, is_warm_up in runs if not is_warm_up),
        tuple(wall for wall, _, is_warm_up in runs if is_warm_up),
        timed["loading"],
        tuple(Kernel(**each) for each in timed["kernels"]),
    )


def time_series(
    runtime: str,
    models: Sequence[tuple[bytes, Sequence[Sample]]],
    *,
    threads: int = 1,
    effort: Effort = TURN,
    rounds: int = ROUNDS,
    progress: TurnProgress | None = None,
    timeout: float = 3600,
) -> list[Turns]:
    """Time the content of model files, each on its sample, a short while in every round, in one worker: what
    disturbs the machine for a while disturbs all alike.

    A model that the runtime refuses, or that ends the worker, has its failure noted, and the others go on.
    Raises MissingLibrary where the runtime is not there, RunFailed where they take longer than `timeout`.
    """
    TIMED[runtime].library.check_installed("timing")
    found = [Turns() for _ in models]
    left = [(index, step == rounds - 1) for step in range(rounds) for index in range(len(models))]
    total = len(left)
    with scratch_folder() as home, _Stopwatch(runtime, threads, effort, timeout) as stopwatch:
        for index, (model, samples) in enumerate(models):
            (home / str(index)).mkdir()
            place_model(runtime, model, home / str(index))
            save_samples(home / str(index) / "inputs.npz", samples)
        while left:
            index, is_last = left[0]
            try:
                timed = stopwatch.time(home / str(index), home / str(index) / "model", profile=is_last)
            except WorkerFailed as failed:
                found[index] = Turns(failure=stopwatch.refusal(failed))
                left = [each for each in left if each[0] != index]
            else:
                found[index].add(timed)
                del left[0]
            if progress is not None:
                progress(total - len(left), total)
    return found


class _Stopwatch:
    """A worker that times models, and the time that is left for all of them."""

    def __init__(self, runtime: str, threads: int, effort: Effort, timeout: float) -> None:
        self._runtime, self._clocked, self._timeout = runtime, TIMED[runtime], timeout
        self._settings = {**asdict(effort), **self._clocked.options, "threads": threads}
        self._deadline = time.monotonic() + timeout
        self._supervisor = Supervisor()

    def __enter__(self) -> _Stopwatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.close()

    def time(
        self, folder: Path, model: Path, show: Callable[[_Timed], None] | None = None, *, profile: bool = True
    ) -> dict[str, Any]:
        """What `_time` answers; with `show` that gets each run as it ends, and the answer has none."""
        settings = {**self._settings, "model": str(model), "shows": show is not None}
        if not profile:
            settings["profiled_runs"] = 0
        if not self._supervisor.is_started:
            try:
                self._call(_import, self._clocked.module, sys.path)
            except WorkerFailed as failed:
                raise RunFailed(self.refusal(failed)) from failed
        answer: dict[str, Any] = self._call(_time, self._clocked.module, folder, settings, progress=show)
        return answer

    def refusal(self, failed: WorkerFailed) -> str:
        """What to say of a model that was not timed."""
        return refusal(failed, self._runtime, self._clocked.library.title, self._supervisor.stderr())

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return self._supervisor.call(
                function, *arguments, seconds=self._deadline - time.monotonic(), **options
            )
        except WorkerFailed as failed:
            if failed.kind != TIMED_OUT:
                raise
            title = self._clocked.library.title
            raise RunFailed(f"{title} took longer than {self._timeout:g} s") from failed


def _import(module: str, path: Sequence[str], _channel: object) -> None:
    """In a worker: load a runtime, and find the model's code."""
    sys.path += [each for each in path if each not in sys.path]
    importlib.import_module(f"sizeup.runtimes.{module}")


def _time(module: str, folder: Path, settings: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """In a worker: load, warm up, time, profile."""
    started = time.perf_counter()
    timer: Timer = importlib.import_module(f"sizeup.runtimes.{module}").timer(folder, settings)
    loading = time.perf_counter() - started
    runs = []
    for run in _runs(timer.invoke, settings):
        if settings["shows"]:
            channel.report(run)
        else:
            runs.append(run)
    kernels = timer.profile(settings["profiled_runs"]) if settings["profiled_runs"] else []
    return {
        "version": timer.version,
        "loading": loading,
        "runs": runs,
        "kernels": [asdict(each) for each in kernels],
    }


def _runs(invoke: Callable[[], None], settings: Mapping[str, Any]) -> Iterator[_Timed]:
    """Run until there are enough runs and enough time has passed."""
    deadline = None
    runs = 0
    while deadline is None or runs < settings["least_runs"] or time.perf_counter() < deadline:
        wall, cpu = time.perf_counter(), time.process_time()
        invoke()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        is_warm_up = runs < settings["warm_up"] and deadline is None
        runs += 1
        yield wall, cpu, is_warm_up
        if is_warm_up:
            continue
        if deadline is None:
            deadline = time.perf_counter() + settings["seconds"]
            runs = 1
        if runs >= settings["most_runs"]:
            break
