"""Tasks on Ray: of this machine, or of the cluster at an address.

Few tasks wait at any time, so the driver holds no more for a million models than for a hundred. Models that
take a second or less go several to a task: what Ray takes for one is then shared, and rows are brought to the
disk while the next model is evaluated. A worker or a node that dies takes tasks along that Ray runs again
elsewhere: a task writes its shards in one step each, so that doing it twice does no harm.
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
from sizeup.sweeps.models import Model
from sizeup.sweeps.task import Outcome, Settings, give_up, perform_each
from sizeup.sweeps.worker import Evaluator

_WAITING = 2  # tasks for each core: one that runs, and one that is ready when it ends
_SHARE = 16
_RETRIES = 5  # of a task whose worker or node died
_PATIENCE = 10.0  # seconds in which a cluster is to answer
# How often a Ray of our own looks at memory and loads, on the cores that work: not many times a second.
_CALM = {
    "RAY_memory_monitor_refresh_ms": "1000",
    "RAY_object_manager_timer_freq_ms": "1000",
    "RAY_gcs_pull_resource_loads_period_milliseconds": "5000",
}
_TOKEN = secrets.token_hex()  # of a Ray of our own; one for all, as Ray reads it once in a process
_LONGEST_FOLDER = 40  # the system's sockets have short names, and Ray makes them longer

# The evaluator of this process of Ray, which outlives tasks: starting its worker takes longer than most.
_evaluator: list[Evaluator] = []


def run(
    models: Iterator[Model], settings: Settings, address: str | None, workers: int | None
) -> Generator[Outcome, None, None]:
    """The outcomes of all tasks, in the order in which they end."""
    ray = _imported()
    with _connected(ray, address, workers):
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")(_perform)
        shared = ray.put(settings)
        waiting: dict[Any, Portion] = {}
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        portions = Portions(models, cores)
        while True:
            while len(waiting) < _WAITING * cores and (portion := portions.take()):
                waiting[remote.remote(portion, shared)] = portion
            if not waiting:
                portions.close()
                return
            # A share of those that wait at a time: looking at all of them for each would be quadratic.
            done, _ = ray.wait(list(waiting), num_returns=1 + len(waiting) // _SHARE, timeout=1.0)
            for each in done:
                for outcome in _outcomes(ray, each, waiting.pop(each), portions, settings):
                    portions.heard(outcome.seconds)
                    yield outcome


def _perform(portion: Portion, settings: Settings) -> list[Outcome]:
    found: list[Outcome] = []
    if settings.in_process:
        perform_each(portion, settings, None, found.append)
        return found
    if not _evaluator:
        _evaluator.append(Evaluator(settings.limits, settings.folders))
    perform_each(portion, settings, _evaluator[0], found.append)
    return found


def _outcomes(
    ray: Any, done: Any, portion: Portion, portions: Portions, settings: Settings
) -> Sequence[Outcome]:
    """What a task returned; a model that Ray gave up on leaves rows that say so, several are tried apart."""
    try:
        found: list[Outcome] = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SizeupError):  # without the lines of the worker that raised it
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        if len(portion) > 1:
            portions.give_back(portion)
            return ()
        return [give_up(portion[0], settings, "WorkerLost", f"its worker died ({type(error).__name__})")]
    return found


def _imported() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingLibrary("a sweep on Ray", "ray", "sweep") from error
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, workers: int | None) -> Iterator[None]:
    """Ray while the block lasts; what it says goes nowhere, what it writes to a temporary folder."""
    if ray.is_initialized():  # the caller's own, and the caller's to end
        yield
        return
    usual = tempfile.gettempdir()
    place = usual if len(usual) <= _LONGEST_FOLDER else "/tmp"
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    with contextlib.ExitStack() as stack:
        if address is None:
            scratch = tempfile.TemporaryDirectory(prefix="sizeup-ray-", dir=place, ignore_cleanup_errors=True)
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
    """Variables for a Ray of our own while the block lasts; what the user has set goes before."""
    added = {name: value for name, value in _CALM.items() if name not in os.environ}
    # Ray leaves a token in the home folder unless it has one.
    is_known = "RAY_AUTH_TOKEN_PATH" in os.environ or Path("~/.ray/auth_token").expanduser().exists()
    if "RAY_AUTH_TOKEN" not in os.environ and not is_known:
        added["RAY_AUTH_TOKEN"] = _TOKEN
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody listens at once; Ray itself waits for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():  # `auto`, or a name that Ray knows
        return
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise SizeupError(f"no cluster of Ray answers at {address}: {error}") from None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Ray talks on stdout, where results go."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


Portion: TypeAlias = tuple[Model, ...]

_SECONDS = 4.0  # that a task is to take
_MOST = 16  # models of one, however little they take
_AHEAD = 16  # models for each core that are looked at before they are due
# A core that is done early waits for the others at most as long as a share of what was left takes.
_SHARES = 4
_WEIGHT = 0.2  # of the newest time in the mean


class Portions:
    """Takes models from a list that may have no end, a few at a time."""

    def __init__(self, models: Iterator[Model], cores: int) -> None:
        self._models, self._cores = models, cores
        self._ahead: deque[Model] = deque()
        self._alone: deque[Model] = deque()
        self._error: Exception | None = None
        self._mean: float | None = None

    def take(self) -> Portion:
        """The models of the next task; empty where there are no more."""
        if self._alone:
            return (self._alone.popleft(),)
        self._look_ahead()
        count = min(self._wanted(), -(-len(self._ahead) // (_SHARES * self._cores)))
        return tuple(self._ahead.popleft() for _ in range(count))

    def heard(self, seconds: float) -> None:
        """A model took so long; the first are tried one by one, until that is known."""
        mean = seconds if self._mean is None else self._mean
        self._mean = mean + _WEIGHT * (seconds - mean)

    def give_back(self, portion: Portion) -> None:
        """Models whose task came to nothing, each of which is to have one of its own."""
        self._alone.extend(portion)

    def close(self) -> None:
        """Raise what kept the list from going on, now that all before it is done."""
        if self._error is not None:
            raise self._error

    def _wanted(self) -> int:
        if self._mean is None:
            return 1
        return max(1, min(_MOST, int(_SECONDS / self._mean))) if self._mean > 0 else _MOST

    def _look_ahead(self) -> None:
        while self._error is None and len(self._ahead) < _AHEAD * self._cores:
            try:
                model = next(self._models, None)
            except Exception as error:  # what was named before is evaluated first
                self._error = error
                return
            if model is None:
                return
            self._ahead.append(model)
