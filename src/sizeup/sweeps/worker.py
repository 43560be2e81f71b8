"""Evaluating models in a worker: one that crashes, hangs or exhausts memory takes it along, not the sweep."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizeup.errors import SizeupError, WorkerFailed
from sizeup.sweeps.evaluate import Row, described, evaluate, failure
from sizeup.sweeps.models import Identity, Model
from sizeup.sweeps.points import Point, PointSet
from sizeup.units import size
from sizeup.workers import CRASHED, OUT_OF_MEMORY, TIMED_OUT, Supervisor

if TYPE_CHECKING:
    from sizeup.workers.worker import Channel

_START_SECONDS = 300.0  # in which a worker is to be ready
# One thread per worker: there are as many workers as cores.
_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes of one try, and how many tries a model has before its rows say what went wrong."""

    seconds: float = 300.0
    memory_bytes: int = 4 << 30
    tries: int = 2


class Evaluator:
    """Evaluates one model after the other in a worker."""

    def __init__(self, limits: Limits, folders: Sequence[str] = ()) -> None:
        self.limits, self.folders = limits, tuple(folders)
        self._supervisor = Supervisor(limits.memory_bytes, _ENVIRONMENT)
        self.stop, self.close = self._supervisor.stop, self._supervisor.close
        self.cpu_seconds: float | None = None  # of the last model that was evaluated
        self.bound: tuple[str, ...] = ()  # names in `bind` that the last model has a dimension for
        self.start_seconds = 0.0  # that new workers took to start for it

    @contextlib.contextmanager
    def evaluated(self, model: Model, identity: Identity, asked: PointSet) -> Iterator[Iterator[Any]]:
        """The rows of a model as record batches, to be read in the block; WorkerFailed after all tries."""
        import pyarrow as pa

        self.cpu_seconds, self.start_seconds, self.bound = None, 0.0, ()
        answer = self._evaluate((model, identity, asked), self.limits.tries - 1)
        self.cpu_seconds, self.bound = answer["cpu_seconds"], tuple(answer["bound"])
        try:
            with pa.ipc.open_stream(self._supervisor.payload) as stream:
                yield _checked(stream, answer["rows"])
        except pa.ArrowInvalid as error:
            raise WorkerFailed(CRASHED, "its rows cannot be read") from error

    def _evaluate(self, work: tuple[Model, Identity, PointSet], left: int) -> dict[str, Any]:
        """The worker's answer; so many further workers may be asked if one does not survive it."""
        self._start()
        try:
            answer: dict[str, Any] = self._supervisor.call(
                _evaluate, *work, not left, seconds=self.limits.seconds
            )
        except WorkerFailed as failed:
            reason = f"the process that read it {failed}" if failed.kind == CRASHED else str(failed)
            answer = {"kind": failed.kind, "error": reason}
        if "kind" not in answer:
            return answer
        if left and answer["kind"] in (CRASHED, OUT_OF_MEMORY, TIMED_OUT):
            return self._evaluate(work, left - 1)
        raise WorkerFailed(answer["kind"], answer["error"])

    def _start(self) -> None:
        """Have a worker that is ready; one that cannot even start is no fault of a model."""
        if self._supervisor.is_started:
            return
        start = time.perf_counter()
        try:
            self._supervisor.call(_prepare, self.folders, seconds=_START_SECONDS)
        except WorkerFailed as failed:
            limit = size(self.limits.memory_bytes)
            raise SizeupError(f"a process with {limit} of memory does not start: {failed}") from failed
        self.start_seconds += time.perf_counter() - start


def _prepare(folders: Sequence[str], _channel: Channel) -> None:
    """In a worker: import what evaluates, before the time of the first model begins."""
    sys.path[:0] = [each for each in folders if each not in sys.path]
    for name in ("pyarrow", "sizeup.sweeps.worker"):
        importlib.import_module(name)


def _evaluate(
    model: Model, identity: Identity, asked: PointSet, is_last: bool, channel: Channel
) -> dict[str, Any]:
    """In a worker: write the rows of a model as record batches."""
    from sizeup.sweeps.schema import arrow_schema, batches_of

    start, count, bound = time.process_time(), 0, set[str]()
    channel.write(arrow_schema().serialize())
    try:
        for batch in batches_of(rows_of(model, identity, asked, is_last=is_last, bound=bound)):
            channel.write(batch.serialize())
            count += batch.num_rows
    # Whatever a model's code raises, leaving the program included, is the answer that the caller waits for.
    except BaseException as error:
        kind, reason = described(error)
        if kind == OUT_OF_MEMORY:
            raise MemoryError from error
        return {"kind": kind, "error": reason}
    return {"rows": count, "cpu_seconds": time.process_time() - start, "bound": sorted(bound)}


def _checked(stream: Any, promised: int) -> Iterator[Any]:
    """The batches of a stream; fewer rows than were promised are no answer."""
    rows = 0
    for batch in stream:
        rows += batch.num_rows
        yield batch
    if rows != promised:
        raise WorkerFailed(CRASHED, f"{rows:,} of {promised:,} rows arrived")


def rows_of(
    model: Model,
    identity: Identity,
    asked: PointSet,
    *,
    is_last: bool = True,
    bound: set[str] | None = None,
) -> Iterator[Row]:
    """The rows of a model, one per point, evaluated in this process; MemoryError if another try is left."""
    for point, row in evaluate(model.opened(), asked, model.file_bytes, is_last=is_last, bound=bound):
        if "error" in row:
            row["error"] = _by_name(row["error"], model)
        yield {**row, **_names(identity, asked, point)}


def error_rows(model: Model, identity: Identity, asked: PointSet, kind: str, reason: str) -> Iterator[Row]:
    """The rows of a model of which nothing could be found out."""
    for point in asked.points:
        yield {**failure(point, kind, _by_name(reason, model)), **_names(identity, asked, point)}


def _by_name(reason: str, model: Model) -> str:
    """A reason that speaks of the model's name, not of where its file lies today."""
    return reason.replace(model.source, model.name) if model.source else reason


def _names(identity: Identity, asked: PointSet, point: Point) -> Row:
    return {
        "key": asked.key(identity.digest, point),
        "model": identity.name,
        "model_hash": identity.hash,
        "target_hash": asked.target_hashes[point.target],
        "version": asked.version,
    }
