"""Measures the latency of one model, or of several in turns, in a real runtime in a worker."""

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
    failure_message,
    model_path,
    save_samples,
    scratch_folder,
)
from sizeup.workers import TIMED_OUT, Supervisor

if TYPE_CHECKING:
    from sizeup.workers.worker import Channel


class TimedRuntime(NamedTuple):
    """A runtime that can be timed: its library, the module with its timer, and the timer's options."""

    library: Library
    module: str
    formats: tuple[str, ...]
    is_default: bool = True  # of its formats
    options: Mapping[str, Any] = {}
    runs_modules: bool = False  # a module in memory, not a file


TIMED_RUNTIMES = {
    "ort": TimedRuntime(RUNTIMES["ort"], "ort", ("onnx",)),
    "litert": TimedRuntime(RUNTIMES["litert"], "litert", ("tflite",), False, {"delegate": False}),
    "litert-xnnpack": TimedRuntime(
        RUNTIMES["litert"]._replace(title="LiteRT with XNNPACK"),
        "litert",
        ("tflite",),
        options={"delegate": True},
    ),
    "tflm": TimedRuntime(RUNTIMES["tflm"], "tflm", ("tflite",), False),
    "torch-eager": TimedRuntime(
        Library("PyTorch (eager)", "torch", "torch", "torch"),
        "eager",
        ("torch", "torch.export"),
        runs_modules=True,
    ),
}

Progress = Callable[[int, float], None]  # runs so far, least seconds of a run
TurnProgress = Callable[[int, int], None]  # turns done, turns in total
_RunTime = tuple[float, float, bool]  # wall seconds, CPU seconds, and whether it is a warm-up run


@dataclass(frozen=True, slots=True)
class TimingOptions:
    """How long to measure: warm-up runs first, then runs until both the number and the time are reached."""

    seconds: float = 3.0
    warm_up: int = 3
    least_runs: int = 10
    most_runs: int = 10_000
    profiled_runs: int = 5


ROUNDS = 4
TURN = TimingOptions(seconds=0.1, warm_up=2, least_runs=3, most_runs=10_000, profiled_runs=5)
"""The effort per model and round."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a run in the profile of a runtime."""

    name: str
    op_kind: str
    seconds: float  # per run, the least of the profiled runs
    calls: int = 1  # per run
    module: str | None = None  # the path of its module, if the runtime reports it


class Timer(Protocol):
    """A loaded model with its inputs, ready to run."""

    version: str

    def invoke(self) -> None:
        """Run it once."""

    def profile(self, runs: int, /) -> list[Kernel]:
        """The kernels of a run; empty if the runtime has no profile."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall and CPU seconds of every run in order, and the runtime's profile."""

    runtime: str
    title: str
    version: str
    threads: int
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    warm_up_seconds: tuple[float, ...]
    loading_seconds: float
    kernels: tuple[Kernel, ...]  # empty if the runtime has no profile

    @property
    def minimum(self) -> float:
        """Seconds of the fastest run, the one least disturbed by other load."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Median seconds of a run."""
        return statistics.median(self.seconds)


@dataclass(slots=True)
class TurnTimes:
    """The times of one model over all turns; `failure` if the runtime did not run it."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    kernels: tuple[Kernel, ...] = ()
    version: str = ""
    failure: str = ""

    def add(self, timed: dict[str, Any]) -> None:
        """Add the times of one turn."""
        self.version = timed["version"]
        self.wall += [wall for wall, _, is_warm_up in timed["runs"] if not is_warm_up]
        self.cpu += [cpu for _, cpu, is_warm_up in timed["runs"] if not is_warm_up]
        self.kernels = tuple(Kernel(**kernel) for kernel in timed["kernels"]) or self.kernels


def time_model(
    runtime: str,
    model: str | os.PathLike[str] | bytes,
    samples: Sequence[Sample] = (),
    *,
    threads: int = 1,
    effort: TimingOptions | None = None,
    progress: Progress | None = None,
    timeout: float = 600,
) -> Timing:
    """Run a model file, or its content, repeatedly on one sample; for PyTorch, a file that `source` writes.

    Raises RunFailed if the runtime rejects the model, crashes or takes longer than `timeout` seconds.
    """
    clocked = TIMED_RUNTIMES[runtime]
    clocked.library.check_installed("timing")
    runs: list[_RunTime] = []
    least = float("inf")

    def show(row: _RunTime) -> None:
        nonlocal least
        wall, _, is_warm_up = row
        runs.append(row)
        if progress is not None and not is_warm_up:
            least = min(least, wall)
            progress(len(runs), least)

    with (
        scratch_folder() as folder,
        _Stopwatch(runtime, threads, effort or TimingOptions(), timeout) as stopwatch,
    ):
        save_samples(folder / "inputs.npz", samples)
        try:
            timed = stopwatch.time(folder, model_path(runtime, model, folder), show)
        except WorkerFailed as failed:
            raise RunFailed(stopwatch.failure_message(failed)) from failed
    return Timing(
        runtime,
        clocked.library.title,
        timed["version"],
        threads,
        tuple(wall for wall, _, is_warm_up in runs if not is_warm_up),
        tuple(cpu for _, cpu, is_warm_up in runs if not is_warm_up),
        tuple(wall for wall, _, is_warm_up in runs if is_warm_up),
        timed["loading"],
        tuple(Kernel(**kernel) for kernel in timed["kernels"]),
    )


def time_series(
    runtime: str,
    models: Sequence[tuple[bytes, Sequence[Sample]]],
    *,
    threads: int = 1,
    effort: TimingOptions = TURN,
    rounds: int = ROUNDS,
    progress: TurnProgress | None = None,
    timeout: float = 3600,
) -> list[TurnTimes]:
    """Time models, each on its sample, for a short time per round in one worker, so that temporary load
    affects all of them.

    A model that the runtime rejects or that crashes the worker gets a `failure`; the others go on. Raises
    MissingLibrary if the runtime is not installed, RunFailed if all take longer than `timeout` seconds.
    """
    TIMED_RUNTIMES[runtime].library.check_installed("timing")
    turns = [TurnTimes() for _ in models]
    pending = [(index, step == rounds - 1) for step in range(rounds) for index in range(len(models))]
    total = len(pending)
    with scratch_folder() as home, _Stopwatch(runtime, threads, effort, timeout) as stopwatch:
        for index, (model, samples) in enumerate(models):
            (home / str(index)).mkdir()
            model_path(runtime, model, home / str(index))
            save_samples(home / str(index) / "inputs.npz", samples)
        while pending:
            index, is_last = pending[0]
            try:
                timed = stopwatch.time(home / str(index), home / str(index) / "model", profile=is_last)
            except WorkerFailed as failed:
                turns[index] = TurnTimes(failure=stopwatch.failure_message(failed))
                pending = [turn for turn in pending if turn[0] != index]
            else:
                turns[index].add(timed)
                del pending[0]
            if progress is not None:
                progress(total - len(pending), total)
    return turns


class _Stopwatch:
    """A worker that times models within one timeout for all of them."""

    def __init__(self, runtime: str, threads: int, effort: TimingOptions, timeout: float) -> None:
        self._runtime, self._timed_runtime, self._timeout = runtime, TIMED_RUNTIMES[runtime], timeout
        self._settings = {**asdict(effort), **self._timed_runtime.options, "threads": threads}
        self._deadline = time.monotonic() + timeout
        self._supervisor = Supervisor()

    def __enter__(self) -> _Stopwatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.close()

    def time(
        self,
        folder: Path,
        model: Path,
        show: Callable[[_RunTime], None] | None = None,
        *,
        profile: bool = True,
    ) -> dict[str, Any]:
        """The answer of `_time_in_worker`; with `show`, runs are passed to it as they end instead."""
        settings = {**self._settings, "model": str(model), "shows": show is not None}
        if not profile:
            settings["profiled_runs"] = 0
        if not self._supervisor.is_started:
            try:
                self._call(_import_runtime, self._timed_runtime.module, sys.path)
            except WorkerFailed as failed:
                raise RunFailed(self.failure_message(failed)) from failed
        answer: dict[str, Any] = self._call(
            _time_in_worker, self._timed_runtime.module, folder, settings, progress=show
        )
        return answer

    def failure_message(self, failed: WorkerFailed) -> str:
        """The error message for a model that was not timed."""
        return failure_message(
            failed, self._runtime, self._timed_runtime.library.title, self._supervisor.stderr()
        )

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return self._supervisor.call(
                function, *arguments, seconds=self._deadline - time.monotonic(), **options
            )
        except WorkerFailed as failed:
            if failed.kind != TIMED_OUT:
                raise
            title = self._timed_runtime.library.title
            raise RunFailed(f"{title} took longer than {self._timeout:g} s") from failed


def _import_runtime(module: str, path: Sequence[str], _channel: object) -> None:
    """Runs in a worker: imports a runtime and sets the import path for the model's code."""
    sys.path += [folder for folder in path if folder not in sys.path]
    importlib.import_module(f"sizeup.runtimes.{module}")


def _time_in_worker(
    module: str, folder: Path, settings: Mapping[str, Any], channel: Channel
) -> dict[str, Any]:
    """Runs in a worker: load, warm up, time, profile."""
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
        "kernels": [asdict(kernel) for kernel in kernels],
    }


def _runs(invoke: Callable[[], None], settings: Mapping[str, Any]) -> Iterator[_RunTime]:
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
