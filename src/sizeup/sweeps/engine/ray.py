"""The Ray engine: tasks on this machine, or on the cluster at an address.

The number of queued tasks is bounded, so the memory of the driver does not grow with the number of models.
Fast models are grouped into batches, which amortizes Ray's overhead per task and lets rows be synced to disk
while the next model is evaluated. Ray reruns the tasks of a worker or node that dies. A task writes each of
its shards atomically, so running it twice is harmless.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sizeup.errors import MissingLibrary, SizeupError
from sizeup.files import exists
from sizeup.sweeps.models import Model
from sizeup.sweeps.task import Outcome, Settings, give_up, perform_each
from sizeup.sweeps.worker import Evaluator

_BATCHES_PER_CORE = 2  # batches per core: one that runs, and one that is queued
_WAIT_SHARE = 16
_RETRIES = 5  # of a batch whose worker or node died
_CONNECT_SECONDS = 10.0  # seconds until a cluster must answer
# Longer polling intervals for a Ray that sizeup starts: its defaults take time from the cores that work.
_POLLING = {
    "RAY_memory_monitor_refresh_ms": "1000",
    "RAY_object_manager_timer_freq_ms": "1000",
    "RAY_gcs_pull_resource_loads_period_milliseconds": "5000",
}
_TOKEN = secrets.token_hex()  # for a Ray that sizeup starts; Ray reads it once per process
_LONGEST_FOLDER = 40  # characters: Ray appends to it, and socket paths are limited

# The evaluator of this Ray process, shared by its batches: starting a worker takes longer than most models.
_evaluator: list[Evaluator] = []


def run(
    models: Iterator[Model], settings: Settings, address: str | None, workers: int | None
) -> Generator[Outcome, None, None]:
    """The outcomes of all tasks, in order of completion."""
    ray = _import_ray()
    with _ray_session(ray, address, workers):
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")(_perform)
        shared = ray.put(settings)
        waiting: dict[Any, TaskBatch] = {}
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        batcher = TaskBatcher(models, cores)
        while True:
            while len(waiting) < _BATCHES_PER_CORE * cores and (batch := batcher.take()):
                waiting[remote.remote(batch, shared)] = batch
            if not waiting:
                batcher.close()
                return
            # Wait for a share of the queued batches at a time: one by one would be quadratic.
            done, _ = ray.wait(list(waiting), num_returns=1 + len(waiting) // _WAIT_SHARE, timeout=1.0)
            for reference in done:
                for outcome in _outcomes(ray, reference, waiting.pop(reference), batcher, settings):
                    batcher.record_time(outcome.seconds)
                    yield outcome


def _perform(batch: TaskBatch, settings: Settings) -> list[Outcome]:
    outcomes: list[Outcome] = []
    if settings.in_process:
        perform_each(batch, settings, None, outcomes.append)
        return outcomes
    if not _evaluator:
        _evaluator.append(Evaluator(settings.limits, settings.folders))
    perform_each(batch, settings, _evaluator[0], outcomes.append)
    return outcomes


def _outcomes(
    ray: Any, done: Any, batch: TaskBatch, batcher: TaskBatcher, settings: Settings
) -> Sequence[Outcome]:
    """The outcomes of a batch. If Ray gave up on it, its models are retried alone, or get error rows."""
    try:
        outcomes: list[Outcome] = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SizeupError):  # without the traceback of the worker
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        if len(batch) > 1:
            batcher.retry_alone(batch)
            return ()
        return [give_up(batch[0], settings, "WorkerLost", f"its worker died ({type(error).__name__})")]
    return outcomes


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingLibrary("a sweep on Ray", "ray", "ray") from error
    return ray


@contextlib.contextmanager
def _ray_session(ray: Any, address: str | None, workers: int | None) -> Iterator[None]:
    """Runs Ray inside the block, without output on stdout and with its files in a temporary folder."""
    if ray.is_initialized():  # by the caller, who also shuts it down
        yield
        return
    default = tempfile.gettempdir()
    parent = default if len(default) <= _LONGEST_FOLDER else "/tmp"
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    with contextlib.ExitStack() as stack:
        if address is None:
            scratch = tempfile.TemporaryDirectory(
                prefix="sizeup-ray-", dir=parent, ignore_cleanup_errors=True
            )
            options |= {"num_cpus": workers, "include_dashboard": False}
            options |= {"_temp_dir": stack.enter_context(scratch)}
            stack.enter_context(_environment())
        else:
            options |= {"address": address}
            _check_reachable(address)
        with _silent():
            try:
                ray.init(**options)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise SizeupError(f"Ray does not start: {error}") from error
        try:
            yield
        finally:
            with _silent():
                ray.shutdown()


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Environment variables for a Ray that sizeup starts; those set by the user take precedence."""
    added = {name: value for name, value in _POLLING.items() if name not in os.environ}
    # Without a token Ray writes one to the home folder.
    is_known = "RAY_AUTH_TOKEN_PATH" in os.environ or exists(Path("~/.ray/auth_token").expanduser())
    if "RAY_AUTH_TOKEN" not in os.environ and not is_known:
        added["RAY_AUTH_TOKEN"] = _TOKEN
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _check_reachable(address: str) -> None:
    """Raise SizeupError if an address is not reachable; Ray itself waits for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():  # `auto`, or another name that Ray resolves
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise SizeupError(f"no Ray cluster answers at {address}: {error}") from None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Redirects stdout to /dev/null: Ray prints there, but stdout is for results."""
    sys.stdout.flush()
    stdout = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


TaskBatch: TypeAlias = tuple[Model, ...]

_SECONDS = 4.0  # intended time per batch
_MOST = 16  # models per batch at most
_AHEAD = 16  # models per core that are read ahead
# A batch has at most 1/_SHARES of a core's part of the models read ahead, so that cores finish together.
_SHARES = 4
_WEIGHT = 0.2  # of the latest time in the running mean


class TaskBatcher:
    """Groups the models of an iterator, which may be endless, into batches."""

    def __init__(self, models: Iterator[Model], cores: int) -> None:
        self._models, self._cores = models, cores
        self._ahead: deque[Model] = deque()
        self._alone: deque[Model] = deque()
        self._error: Exception | None = None
        self._mean: float | None = None

    def take(self) -> TaskBatch:
        """The next batch; empty if there are no more models."""
        if self._alone:
            return (self._alone.popleft(),)
        self._read_ahead()
        count = min(self._batch_size(), -(-len(self._ahead) // (_SHARES * self._cores)))
        return tuple(self._ahead.popleft() for _ in range(count))

    def record_time(self, seconds: float) -> None:
        """Record the time of a model; until the first is known, batches have one model."""
        mean = seconds if self._mean is None else self._mean
        self._mean = mean + _WEIGHT * (seconds - mean)

    def retry_alone(self, batch: TaskBatch) -> None:
        """Return the models of a failed batch, to be retried one by one."""
        self._alone.extend(batch)

    def close(self) -> None:
        """Raise the error of the iterator, after all models before it are done."""
        if self._error is not None:
            raise self._error

    def _batch_size(self) -> int:
        if self._mean is None:
            return 1
        return max(1, min(_MOST, int(_SECONDS / self._mean))) if self._mean > 0 else _MOST

    def _read_ahead(self) -> None:
        while self._error is None and len(self._ahead) < _AHEAD * self._cores:
            try:
                model = next(self._models, None)
            except Exception as error:  # raised in `close`, after the models before it
                self._error = error
                return
            if model is None:
                return
            self._ahead.append(model)
