"""One task of a sweep: all that is still to be found out about one model, written as one shard."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sizeup.sweeps.evaluate import described
from sizeup.sweeps.keeper import Keeper, Refused
from sizeup.sweeps.limits import Limits
from sizeup.sweeps.models import Model
from sizeup.sweeps.points import Questions
from sizeup.sweeps.rows import error_rows, rows_of
from sizeup.sweeps.schema import ERROR, batches_of
from sizeup.sweeps.store import Store

State = Literal["there", "done"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What all tasks of a sweep share."""

    store: str
    asked: Questions
    limits: Limits = Limits()
    folders: tuple[str, ...] = ()
    retry_errors: bool = False
    trusted: bool = False


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


def perform(model: Model, settings: Settings, keeper: Keeper | None) -> Outcome:
    """Find out what is missing about a model and write it down; without a keeper in this process."""
    start = time.perf_counter()
    store, model_hash = Store(settings.store), model.hash
    asked, failed = _missing(store, model_hash, settings)
    if not asked.points:
        return Outcome(model.name, "there", seconds=time.perf_counter() - start)
    shard, counted = store.shard(model_hash, asked.digest), _Counted()
    try:
        if keeper is None:
            _write(store, shard, failed, counted(batches_of(rows_of(model, model_hash, asked))))
        else:
            with keeper.evaluated(model, model_hash, asked) as batches:
                _write(store, shard, failed, counted(batches))
    except (OSError, KeyboardInterrupt):
        raise
    except Exception as error:
        kind, reason = (error.kind, error.reason) if isinstance(error, Refused) else described(error)
        counted = _Counted()
        rows = error_rows(model, model_hash, asked, kind, reason)
        _write(store, shard, failed, counted(batches_of(rows)))
    return Outcome(
        model.name,
        "done",
        counted.rows,
        counted.errors,
        counted.kind,
        counted.reason,
        time.perf_counter() - start,
    )


def _missing(store: Store, model_hash: str, settings: Settings) -> tuple[Questions, list[str]]:
    """The questions without an answer, and the shards that hold errors to be tried again."""
    asked = settings.asked
    if not settings.retry_errors and store.has(store.shard(model_hash, asked.digest)):
        return asked.only(()), []
    known: set[str] = set()
    failed = []
    for shard in store.shards_of(model_hash):
        states = store.states([shard])
        errors = {key for key, state in states.items() if state == ERROR} if settings.retry_errors else set()
        known |= states.keys() - errors
        failed += [shard] * bool(errors)
    wanted = [point for point in asked.points if asked.key(model_hash, point) not in known]
    return (asked if len(wanted) == len(asked.points) else asked.only(wanted)), failed


def _write(store: Store, name: str, failed: Sequence[str], batches: Iterable[Any]) -> None:
    """Write a new shard, or rows in place of the errors that they were tried again for."""
    if not failed:
        store.write(name, batches)
    else:
        store.replace(name, failed, batches)


class _Counted:
    """Counts rows and errors as they pass."""

    def __init__(self) -> None:
        self.rows = self.errors = 0
        self.kind = self.reason = ""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            self.rows += batch.num_rows
            states = batch.column("status").to_pylist()
            self.errors += states.count(ERROR)
            if self.errors and not self.kind:
                place = states.index(ERROR)
                self.kind = batch.column("error_kind")[place].as_py()
                self.reason = batch.column("error")[place].as_py()
            yield batch
