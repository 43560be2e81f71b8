"""One task of a sweep: evaluates the missing points of one model and writes them as one shard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

from sizeup.errors import CorruptStore, WorkerFailed, WriteError
from sizeup.sweeps.evaluate import classify_error
from sizeup.sweeps.models import Model, SizeClass
from sizeup.sweeps.points import PointSet
from sizeup.sweeps.schema import ERROR, batches_of
from sizeup.sweeps.storage import Draft
from sizeup.sweeps.store import CURRENT, Store
from sizeup.sweeps.worker import Evaluator, Limits, error_rows, rows_of

State = Literal["there", "done"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that all tasks of a sweep share."""

    store: str
    point_set: PointSet
    limits: Limits
    folders: tuple[str, ...] = ()
    retry_errors: bool = False
    in_process: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task: number of rows written and of errors among them, and the first error."""

    model: str
    state: State
    rows: int = 0
    errors: int = 0
    error_kind: str = ""
    reason: str = ""
    seconds: float = 0.0
    cpu_seconds: float | None = None  # of loading and evaluating only
    damaged: tuple[str, ...] = ()  # unreadable files that were replaced
    digest: str = ""  # of the model's content
    caveats: int = 0  # rows for which a symbolic dimension was set to 1
    bound: tuple[str, ...] = ()  # names in `bind` that match a symbolic dimension of the model
    size_class: SizeClass = ("", 0)
    is_first: bool = False  # the first of its worker: its time includes imports


def perform(model: Model, settings: Settings, evaluator: Evaluator | None) -> Outcome:
    """Evaluate the missing points of a model and write their rows; in this process if `evaluator` is None."""
    outcome, finish = _evaluate(model, settings, evaluator)
    finish()
    return outcome


def perform_each(
    models: Iterable[Model], settings: Settings, evaluator: Evaluator | None, done: Callable[[Outcome], None]
) -> None:
    """Perform the tasks of several models; `done` is called in another thread when rows are on disk.

    The rows of a model are synced to disk while the next model is evaluated.
    """
    with ThreadPoolExecutor(1) as writer:
        last: Future[None] | None = None
        for model in models:
            outcome, finish = _evaluate(model, settings, evaluator)
            if last is not None:
                last.result()  # raises its error; at most one write is pending
            last = writer.submit(_finish, outcome, finish, done)
        if last is not None:
            last.result()


def _finish(outcome: Outcome, finish: Callable[[], None], done: Callable[[Outcome], None]) -> None:
    finish()
    done(outcome)


def _evaluate(
    model: Model, settings: Settings, evaluator: Evaluator | None
) -> tuple[Outcome, Callable[[], None]]:
    """The outcome of a task, and a function that finishes its shard."""
    start = time.perf_counter()
    task = _Task(model, settings)
    if not task.missing.points:
        task.tidy()
        return task.completed(Outcome(model.name, "there", seconds=time.perf_counter() - start)), _do_nothing
    bound = set[str]()
    try:
        if evaluator is None:
            counter = task.write(batches_of(rows_of(model, task.identity, task.missing, bound=bound)))
        else:
            with evaluator.rows(model, task.identity, task.missing) as batches:
                counter = task.write(batches)
            bound.update(evaluator.bound)
    except WorkerFailed as failed:
        counter = task.fail(failed.kind, failed.reason)
    except Exception as error:
        # An OSError is a problem of this machine, not of the model.
        if evaluator is not None or isinstance(error, OSError | WriteError):
            raise
        counter = task.fail(*classify_error(error))
    cpu_seconds = None if evaluator is None else evaluator.cpu_seconds
    # The time to start a worker does not count for its first model.
    seconds = time.perf_counter() - start - (0.0 if evaluator is None else evaluator.start_seconds)
    outcome = counter.outcome(model.name, seconds, cpu_seconds)
    outcome = replace(
        outcome, bound=tuple(bound), is_first=evaluator is not None and evaluator.start_seconds > 0
    )
    return task.completed(outcome), task.finish


def give_up(model: Model, settings: Settings, error_kind: str, reason: str) -> Outcome:
    """Write error rows for all missing points of a model."""
    task = _Task(model, settings)
    outcome = task.completed(task.fail(error_kind, reason).outcome(model.name))
    task.finish()
    return outcome


def _do_nothing() -> None:
    """Does nothing: all rows exist already."""


class _Task:
    """A model, its missing points, and the store for their rows."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.identity, self.store = model, model.identity(), Store(settings.store)
        self.missing, self.failed, self._damaged_names = _missing(self.store, self.identity.digest, settings)
        self.damaged = tuple(map(self.store.storage.path, self._damaged_names))
        self._draft: Draft | None = None

    def write(self, batches: Iterable[Any]) -> _RowCounter:
        """Write a draft of a shard, or replace the error rows that were retried."""
        counter = _RowCounter()
        name = self.store.shard(self.identity.digest, self.missing.digest)
        if self.failed:
            self.store.replace(name, self.failed, counter(batches))
        else:
            self._draft = self.store.draft(name, counter(batches))
        return counter

    def fail(self, error_kind: str, reason: str) -> _RowCounter:
        """Write error rows for the missing points."""
        return self.write(batches_of(error_rows(self.model, self.identity, self.missing, error_kind, reason)))

    def finish(self) -> None:
        """Publish the shard and remove the files that it replaces."""
        if self._draft is not None:
            try:
                self._draft.commit()
            except BaseException:
                self._draft.discard()
                raise
        self.tidy(self.store.shard(self.identity.digest, self.missing.digest))

    def completed(self, outcome: Outcome) -> Outcome:
        """The outcome with the model's digest, damaged files and size class."""
        return replace(
            outcome,
            digest=self.identity.content_digest,
            damaged=self.damaged,
            size_class=self.model.size_class,
        )

    def tidy(self, written: str = "") -> None:
        """Remove unreadable files whose rows have been written again."""
        if self._damaged_names:
            self.store.storage.remove(CURRENT)  # the sorted table may contain their rows
        for name in self._damaged_names:
            if name != written:
                self.store.storage.remove(name)


def _missing(store: Store, model: str, settings: Settings) -> tuple[PointSet, list[str], list[str]]:
    """The points without a row, the shards with errors to retry, and the damaged shards."""
    point_set = settings.point_set
    if not settings.retry_errors and store.has(store.shard(model, point_set.digest)):
        return point_set.subset(()), [], []
    known: set[str] = set()
    failed, damaged = [], []
    for shard in store.shards_of(model):
        try:
            statuses = store.statuses([shard])
        except CorruptStore:
            damaged.append(shard)
            continue
        errors = {key for key, status in statuses.items() if status == ERROR and settings.retry_errors}
        known |= statuses.keys() - errors
        failed += [shard] * bool(errors)
    missing = [point for point in point_set.points if point_set.key(model, point) not in known]
    is_all = len(missing) == len(point_set.points)
    return (point_set if is_all else point_set.subset(missing)), failed, damaged


class _RowCounter:
    """Counts the rows, errors and caveats of record batches as they pass through."""

    def __init__(self) -> None:
        self.rows = self.errors = self.caveats = 0
        self.error_kind = self.reason = ""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            self.rows += batch.num_rows
            statuses = batch.column("status").to_pylist()
            self.errors += statuses.count(ERROR)
            self.caveats += batch.num_rows - batch.column("caveat").null_count
            if self.errors and not self.error_kind:
                index = statuses.index(ERROR)
                self.error_kind = batch.column("error_kind")[index].as_py()
                self.reason = batch.column("error")[index].as_py()
            yield batch

    def outcome(self, model: str, seconds: float = 0.0, cpu_seconds: float | None = None) -> Outcome:
        return Outcome(
            model,
            "done",
            self.rows,
            self.errors,
            self.error_kind,
            self.reason,
            seconds,
            cpu_seconds,
            caveats=self.caveats,
        )
