"""Tasks on Ray: of this machine, or of the cluster at an address.

Few tasks wait at any time, so the driver holds no more for a million models than for a hundred. A worker or a
node that dies takes tasks along that Ray runs again elsewhere: a task writes its shard in one step, so that
doing it twice does no harm.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from sizeup.errors import MissingLibrary, SizeupError
from sizeup.sweeps.keeper import Keeper
from sizeup.sweeps.models import Model
from sizeup.sweeps.task import Outcome, Settings, give_up, perform

_WAITING = 2  # tasks for each core: one that runs, and one that is ready when it ends
_SHARE = 16
_RETRIES = 5  # of a task whose worker or node died
_PATIENCE = 10.0  # seconds in which a cluster is to answer
_LONGEST_FOLDER = 40  # the system's sockets have short names, and Ray makes them longer

# The keeper of this worker process, which outlives tasks: starting its child takes longer than most of them.
_keeper: list[Keeper] = []


def run(
    models: Iterator[Model], settings: Settings, address: str | None, workers: int | None
) -> Generator[Outcome, None, None]:
    """The outcomes of all tasks, in the order in which they end."""
    ray = _imported()
    with _connected(ray, address, workers):
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")(_perform)
        shared = ray.put(settings)
        waiting: dict[Any, Model] = {}
        most = max(2, _WAITING * int(ray.cluster_resources().get("CPU", 1)))
        while True:
            while len(waiting) < most and (model := next(models, None)) is not None:
                waiting[remote.remote(model, shared)] = model
            if not waiting:
                return
            # A share of those that wait at a time: looking at all of them for each would be quadratic.
            done, _ = ray.wait(list(waiting), num_returns=1 + len(waiting) // _SHARE, timeout=1.0)
            for each in done:
                yield _outcome(ray, each, waiting.pop(each), settings)


def _perform(model: Model, settings: Settings) -> Outcome:
    if settings.trusted:
        return perform(model, settings, None)
    if not _keeper:
        _keeper.append(Keeper(settings.limits, settings.folders))
    return perform(model, settings, _keeper[0])


def _outcome(ray: Any, done: Any, model: Model, settings: Settings) -> Outcome:
    """What a task returned; a task that Ray gave up on leaves rows that say so."""
    try:
        found: Outcome = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SizeupError):  # without the lines of the worker that raised it
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        return give_up(model, settings, "WorkerLost", f"its worker died ({type(error).__name__})")
    return found


def _imported() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingLibrary("a sweep on Ray", "ray", "sweep") from error
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, workers: int | None) -> Iterator[None]:
    """Ray while the block lasts; what it says goes nowhere, what it writes to a folder of its own."""
    if ray.is_initialized():  # the caller's own, and the caller's to end
        yield
        return
    with _own_home() as folder:
        options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if address is None:
            options |= {"num_cpus": workers, "include_dashboard": False, "_temp_dir": folder}
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
def _own_home() -> Iterator[str]:
    """A folder for what Ray writes, its token in the home folder included."""
    usual = tempfile.gettempdir()
    place = usual if len(usual) <= _LONGEST_FOLDER else "/tmp"
    home = os.environ.get("HOME")
    with tempfile.TemporaryDirectory(prefix="sizeup-ray-", dir=place, ignore_cleanup_errors=True) as folder:
        os.environ["HOME"] = folder
        try:
            yield folder
        finally:
            if home is None:
                del os.environ["HOME"]
            else:
                os.environ["HOME"] = home


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
