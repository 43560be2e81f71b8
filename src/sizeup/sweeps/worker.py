"""Evaluates models in a worker, so that a crash, a hang or exhausted memory does not end the sweep."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from sizeup.errors import SizeupError, WorkerFailed
from sizeup.sweeps.evaluate import Row, classify_error, evaluate, failure_row
from sizeup.sweeps.models import Identity, Model, language_models
from sizeup.sweeps.points import Point, PointSet
from sizeup.units import size
from sizeup.workers import CRASHED, OUT_OF_MEMORY, TIMED_OUT, Supervisor

if TYPE_CHECKING:
    from sizeup.workers.worker import Channel

_START_SECONDS = 300.0  # limit for the start of a worker
# One thread per worker: there are as many workers as cores.
_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes per try, and the number of tries before a model gets error rows."""

    seconds: float = 300.0
    memory_bytes: int = 4 << 30
    tries: int = 2


class Evaluator:
    """Evaluates models one after the other in a worker."""

    def __init__(self, limits: Limits, folders: Sequence[str] = ()) -> None:
        self.limits, self.folders = limits, tuple(folders)
        self._supervisor = Supervisor(limits.memory_bytes, _ENVIRONMENT)
        self.stop, self.close = self._supervisor.stop, self._supervisor.close
        self.cpu_seconds: float | None = None  # of the last model
        self.bound: tuple[str, ...] = ()  # names in `bind` that match a dimension of the last model
        self.start_seconds = 0.0  # spent on starting workers for the last model

    @contextlib.contextmanager
    def rows(self, model: Model, identity: Identity, point_set: PointSet) -> Iterator[Iterator[Any]]:
        """The rows of a model as record batches, to be read inside the block.

        Raises WorkerFailed if all tries fail.
        """
        import pyarrow as pa

        self.cpu_seconds, self.start_seconds, self.bound = None, 0.0, ()
        answer = self._evaluate((model, identity, point_set), self.limits.tries - 1)
        self.cpu_seconds, self.bound = answer["cpu_seconds"], tuple(answer["bound"])
        try:
            with pa.ipc.open_stream(self._supervisor.payload) as stream:
                yield _check_rows(stream, answer["rows"])
        except pa.ArrowInvalid as error:
            raise WorkerFailed(CRASHED, "its rows cannot be read") from error

    def _evaluate(self, work: tuple[Model, Identity, PointSet], left: int) -> dict[str, Any]:
        """The worker's answer; `left` is the number of further tries if a worker fails."""
        self._start()
        try:
            answer: dict[str, Any] = self._supervisor.call(
                _evaluate, *work, not left, seconds=self.limits.seconds
            )
        except WorkerFailed as failed:
            reason = f"the worker {failed}" if failed.kind == CRASHED else str(failed)
            answer = {"kind": failed.kind, "error": reason}
        if "kind" not in answer:
            return answer
        if left and answer["kind"] in (CRASHED, OUT_OF_MEMORY, TIMED_OUT):
            return self._evaluate(work, left - 1)
        raise WorkerFailed(answer["kind"], answer["error"])

    def _start(self) -> None:
        """Starts a worker if none is running; raises SizeupError if it does not start."""
        if self._supervisor.is_started:
            return
        start = time.perf_counter()
        try:
            self._supervisor.call(_prepare, self.folders, seconds=_START_SECONDS)
        except WorkerFailed as failed:
            limit = size(self.limits.memory_bytes)
            raise SizeupError(f"a worker with {limit} of memory does not start: {failed}") from failed
        self.start_seconds += time.perf_counter() - start


def _prepare(folders: Sequence[str], _channel: Channel) -> None:
    """Runs in a worker: imports everything before the time limit of the first model starts."""
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    for name in ("pyarrow", "sizeup.sweeps.worker"):
        importlib.import_module(name)


def _evaluate(
    model: Model, identity: Identity, point_set: PointSet, is_last: bool, channel: Channel
) -> dict[str, Any]:
    """Runs in a worker: writes the rows of a model as record batches."""
    from sizeup.sweeps.schema import arrow_schema, batches_of

    start, count, bound = time.process_time(), 0, set[str]()
    channel.write(arrow_schema().serialize())
    try:
        for batch in batches_of(rows_of(model, identity, point_set, is_last=is_last, bound=bound)):
            channel.write(batch.serialize())
            count += batch.num_rows
    # The code of a model may raise anything, SystemExit included.
    except BaseException as error:
        error_kind, reason = classify_error(error)
        if error_kind == OUT_OF_MEMORY:
            raise MemoryError from error
        return {"kind": error_kind, "error": reason}
    return {"rows": count, "cpu_seconds": time.process_time() - start, "bound": sorted(bound)}


def _check_rows(stream: Any, expected: int) -> Iterator[Any]:
    """The batches of a stream; raises WorkerFailed if the number of rows differs from the expected one."""
    rows = 0
    for batch in stream:
        rows += batch.num_rows
        yield batch
    if rows != expected:
        raise WorkerFailed(CRASHED, f"{rows:,} of {expected:,} rows arrived")


def rows_of(
    model: Model,
    identity: Identity,
    point_set: PointSet,
    *,
    is_last: bool = True,
    bound: set[str] | None = None,
) -> Iterator[Row]:
    """The rows of a model, one per point, evaluated in this process.

    Raises MemoryError if memory runs out and another try is left.
    """
    source = model.load_source()
    served = point_set.subset(point for point in point_set.points if point.serving is not None)
    others = point_set.subset(point for point in point_set.points if point.serving is None)
    rows = chain(
        evaluate(source, others, model.file_bytes, is_last=is_last, bound=bound) if others.points else (),
        language_models().evaluate_serving(source, served, is_last=is_last) if served.points else (),
    )
    for point, row in rows:
        if "error" in row:
            row["error"] = _without_path(row["error"], model)
        yield {**row, **_identity_columns(identity, point_set, point)}


def error_rows(
    model: Model, identity: Identity, point_set: PointSet, error_kind: str, reason: str
) -> Iterator[Row]:
    """The rows of a model that could not be evaluated."""
    for point in point_set.points:
        yield {
            **failure_row(point, error_kind, _without_path(reason, model)),
            **_identity_columns(identity, point_set, point),
        }


def _without_path(reason: str, model: Model) -> str:
    """A reason with the model's name in place of its path, which may change between runs."""
    return reason.replace(model.source, model.name) if model.source else reason


def _identity_columns(identity: Identity, point_set: PointSet, point: Point) -> Row:
    return {
        "key": point_set.key(identity.digest, point),
        "model": identity.name,
        "model_hash": identity.content_digest,
        "target_hash": point_set.target_digests[point.target],
        "version": point_set.version,
    }
