"""One task of a sweep: all that is still to be found out about one model, written as one shard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

from sizeup.errors import CorruptStore, WorkerFailed, WriteError
from sizeup.sweeps.evaluate import described
from sizeup.sweeps.models import Model, SizeClass
from sizeup.sweeps.places import Draft
from sizeup.sweeps.points import PointSet
from sizeup.sweeps.schema import ERROR, batches_of
from sizeup.sweeps.store import CURRENT, Store
from sizeup.sweeps.worker import Evaluator, Limits, error_rows, rows_of

State = Literal["there", "done"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What all tasks of a sweep share."""

    store: str
    asked: PointSet
    limits: Limits
    folders: tuple[str, ...] = ()
    retry_errors: bool = False
    in_process: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended: rows that it wrote, those of them that are errors, and the first reason of one."""

    model: str
    state: State
    rows: int = 0
    errors: int = 0
    kind: str = ""
    reason: str = ""
    seconds: float = 0.0
    cpu_seconds: float | None = None  # of loading and evaluating alone
    damaged: tuple[str, ...] = ()  # files that could not be read, and were replaced
    digest: str = ""  # of the model's content
    caveats: int = 0  # rows for which a symbolic dimension was set to 1
    bound: tuple[str, ...] = ()  # names in `bind` that the model has a symbolic dimension for
    size_class: SizeClass = ("", 0)
    is_first: bool = False  # of its process, and so it waited for imports


def perform(model: Model, settings: Settings, evaluator: Evaluator | None) -> Outcome:
    """Find out what is missing about a model and write it down; without an evaluator in this process."""
    outcome, finish = _evaluated(model, settings, evaluator)
    finish()
    return outcome


def perform_each(
    models: Iterable[Model], settings: Settings, evaluator: Evaluator | None, done: Callable[[Outcome], None]
) -> None:
    """The same for one model after the other; `done` hears of each when its rows are safe, in another thread.

    While the rows of one are brought to the disk, the next is evaluated: a disk takes its time.
    """
    with ThreadPoolExecutor(1) as writer:
        last: Future[None] | None = None
        for model in models:
            outcome, finish = _evaluated(model, settings, evaluator)
            if last is not None:
                last.result()  # what went wrong there ends it, and never do two wait
            last = writer.submit(_finished, outcome, finish, done)
        if last is not None:
            last.result()


def _finished(outcome: Outcome, finish: Callable[[], None], done: Callable[[Outcome], None]) -> None:
    finish()
    done(outcome)


def _evaluated(
    model: Model, settings: Settings, evaluator: Evaluator | None
) -> tuple[Outcome, Callable[[], None]]:
    """How a task ends, and what is left to do until it has."""
    start = time.perf_counter()
    task = _Task(model, settings)
    if not task.asked.points:
        task.tidy()
        return task.told(Outcome(model.name, "there", seconds=time.perf_counter() - start)), _nothing
    bound = set[str]()
    try:
        if evaluator is None:
            counted = task.write(batches_of(rows_of(model, task.identity, task.asked, bound=bound)))
        else:
            with evaluator.evaluated(model, task.identity, task.asked) as batches:
                counted = task.write(batches)
            bound.update(evaluator.bound)
    except WorkerFailed as failed:
        counted = task.fail(failed.kind, failed.reason)
    except Exception as error:
        # What the system refuses is news about this machine, not about the model.
        if evaluator is not None or isinstance(error, OSError | WriteError):
            raise
        counted = task.fail(*described(error))
    cpu_seconds = None if evaluator is None else evaluator.cpu_seconds
    # Starting a process is no work of the model that happens to be its first.
    seconds = time.perf_counter() - start - (0.0 if evaluator is None else evaluator.start_seconds)
    outcome = counted.outcome(model.name, seconds, cpu_seconds)
    outcome = replace(
        outcome, bound=tuple(bound), is_first=evaluator is not None and evaluator.start_seconds > 0
    )
    return task.told(outcome), task.finish


def give_up(model: Model, settings: Settings, kind: str, reason: str) -> Outcome:
    """Write down that nothing could be found out about a model."""
    task = _Task(model, settings)
    outcome = task.told(task.fail(kind, reason).outcome(model.name))
    task.finish()
    return outcome


def _nothing() -> None:
    """All is done already."""


class _Task:
    """A model, what is still asked about it, and where its answers go."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.identity, self.store = model, model.identity(), Store(settings.store)
        self.asked, self.failed, self._broken = _missing(self.store, self.identity.digest, settings)
        self.damaged = tuple(map(self.store.place.path, self._broken))
        self._draft: Draft | None = None

    def write(self, batches: Iterable[Any]) -> _Counted:
        """Write a shard that is still to be finished, or rows in place of errors that were tried again."""
        counted = _Counted()
        name = self.store.shard(self.identity.digest, self.asked.digest)
        if self.failed:
            self.store.replace(name, self.failed, counted(batches))
        else:
            self._draft = self.store.draft(name, counted(batches))
        return counted

    def fail(self, kind: str, reason: str) -> _Counted:
        """Write rows that say why there are no answers."""
        return self.write(batches_of(error_rows(self.model, self.identity, self.asked, kind, reason)))

    def finish(self) -> None:
        """Let the rows appear, and what they replace go away."""
        if self._draft is not None:
            try:
                self._draft.finish()
            except BaseException:
                self._draft.drop()
                raise
        self.tidy(self.store.shard(self.identity.digest, self.asked.digest))

    def told(self, outcome: Outcome) -> Outcome:
        """How it ended, with what is known of the model and its files."""
        return replace(
            outcome, digest=self.identity.hash, damaged=self.damaged, size_class=self.model.size_class
        )

    def tidy(self, written: str = "") -> None:
        """Remove files that cannot be read, whose rows are in others now."""
        if self._broken:
            self.store.place.remove(CURRENT)  # the sorted table may hold what they held
        for name in self._broken:
            if name != written:
                self.store.place.remove(name)


def _missing(store: Store, model: str, settings: Settings) -> tuple[PointSet, list[str], list[str]]:
    """The questions without an answer, shards with errors to be tried again, and shards that are damaged."""
    asked = settings.asked
    if not settings.retry_errors and store.has(store.shard(model, asked.digest)):
        return asked.only(()), [], []
    known: set[str] = set()
    failed, damaged = [], []
    for shard in store.shards_of(model):
        try:
            states = store.states([shard])
        except CorruptStore:
            damaged.append(shard)
            continue
        errors = {key for key, state in states.items() if state == ERROR} if settings.retry_errors else set()
        known |= states.keys() - errors
        failed += [shard] * bool(errors)
    wanted = [point for point in asked.points if asked.key(model, point) not in known]
    return (asked if len(wanted) == len(asked.points) else asked.only(wanted)), failed, damaged


class _Counted:
    """Counts rows and errors as they pass."""

    def __init__(self) -> None:
        self.rows = self.errors = self.caveats = 0
        self.kind = self.reason = ""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            self.rows += batch.num_rows
            states = batch.column("status").to_pylist()
            self.errors += states.count(ERROR)
            self.caveats += batch.num_rows - batch.column("caveat").null_count
            if self.errors and not self.kind:
                place = states.index(ERROR)
                self.kind = batch.column("error_kind")[place].as_py()
                self.reason = batch.column("error")[place].as_py()
            yield batch

    def outcome(self, model: str, seconds: float = 0.0, cpu_seconds: float | None = None) -> Outcome:
        return Outcome(
            model,
            "done",
            self.rows,
            self.errors,
            self.kind,
            self.reason,
            seconds,
            cpu_seconds,
            caveats=self.caveats,
        )
