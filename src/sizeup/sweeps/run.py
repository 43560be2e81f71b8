"""A sweep from beginning to end: plan, run, keep count, tell how far it is."""

from __future__ import annotations

import itertools
import json
import math
import os
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import IO, Literal

from sizeup.errors import SizeupError
from sizeup.files import write_errors
from sizeup.sweeps.compact import Pruned, prune
from sizeup.sweeps.expand import importable, models_of, planned
from sizeup.sweeps.models import Identity, Model, SizeClass
from sizeup.sweeps.places import Local, writing
from sizeup.sweeps.points import PointSet, bindings_of
from sizeup.sweeps.spec import Spec
from sizeup.sweeps.store import LOG, Record, Store
from sizeup.sweeps.task import Outcome, Settings
from sizeup.sweeps.worker import Limits

Engine = Literal["here", "ray"]
ENGINES: tuple[Engine, ...] = ("here", "ray")
_FEW = 20  # error reasons that are told
_NEWEST = 9  # times of a class that count
# From one size to another seconds grow with the square root of the bytes: in proportion for files of many
# operators, hardly for files of large weights.
_SLOPE = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is: models done, of how many (None: unknown), those with errors, seconds since it
    started, and seconds that are left by the time that models of the same size took (None: unknown).
    """

    done: int
    total: int | None
    failed: int
    there: int
    seconds: float
    left: float | None = None

    @property
    def rate(self) -> float | None:
        """Models evaluated a second; None before the first."""
        fresh = self.done - self.there
        return fresh / self.seconds if fresh and self.seconds else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep did: models, points of each, rows written, and errors by kind with an example each."""

    store: str
    engine: str
    models: int
    points: int
    there: int  # models whose rows were all there already
    rows: int
    errors: int
    failed: int  # models with at least one error
    kinds: dict[str, int]  # rows by kind of error
    examples: dict[str, str]
    seconds: float
    damaged: int = 0  # files that could not be read, and were replaced
    damaged_file: str = ""  # the first of them
    pruned: Pruned | None = None  # what was removed, where that was asked for
    caveats: int = 0  # rows for which a symbolic dimension was set to 1
    unknown_bind: tuple[str, ...] = ()  # names in `bind` that no model evaluated now has a dimension for


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """The way in which a sweep runs: engine, address of Ray, workers, limits."""

    engine: Engine = "here"
    address: str | None = None
    workers: int | None = None
    limits: Limits | None = None
    retry_errors: bool = False
    in_process: bool = False
    prune: bool = False


def sweep(
    spec: Spec,
    out: str | os.PathLike[str],
    how: SweepOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Evaluate what is missing in a store, and tell what that was."""
    how = how or SweepOptions()
    store = Store(out)
    settings = Settings(
        store.place.address,
        spec.asked,
        how.limits or spec.limits,
        (str(spec.folder), str(Path.cwd())),
        how.retry_errors,
        how.in_process,
    )
    with store.alone(), importable(spec.folder):
        store.place.clean()
        plan = planned(spec)
        total = None if plan is None else plan.total()
        tally, record, kept = _Tally(plan, progress), Record(), set[str]()
        with _log(store) as log, closing(_outcomes(models_of(spec), settings, how, total)) as outcomes:
            try:
                for outcome in outcomes:
                    tally.add(outcome)
                    log.write(_line(outcome))
                    record.add(outcome.model, outcome.digest)
                    if how.prune:
                        kept.add(Identity(outcome.model, outcome.digest).digest)
            finally:  # what was asked about until now counts from now on, whatever ended it
                record.write(store, spec.asked)
        pruned = None
        if kept:  # who plans nothing at all has lost its models, not its interest in them
            pruned = prune(store, kept, spec.asked)
            record.write(store, spec.asked, alone=True)
        store.place.clean()
    done = tally.told(store.place.address, how.engine, len(spec.asked.points))
    return replace(done, pruned=pruned, unknown_bind=tally.unknown_bind(spec.asked))


def _outcomes(
    models: Iterator[Model], settings: Settings, how: SweepOptions, total: int | None
) -> Generator[Outcome, None, None]:
    if how.engine == "ray":
        from sizeup.sweeps.engine import ray

        return ray.run(models, settings, how.address, how.workers)
    if how.engine != "here":
        raise SizeupError(f"no engine is called {how.engine!r}; there are {', '.join(ENGINES)}")
    from sizeup.sweeps.engine import here

    return here.run(models, settings, min(how.workers or os.cpu_count() or 1, total or 2**16))


class _Tally:
    """Counts outcomes and shows how far it is."""

    def __init__(self, plan: Counter[SizeClass] | None, show: Callable[[Progress], None] | None) -> None:
        self.total = None if plan is None else plan.total()
        self.remaining = None if plan is None else Remaining(plan)
        self.show, self.start = show, time.monotonic()
        self.done = self.there = self.rows = self.errors = self.failed = self.caveats = 0
        self.kinds: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.damaged, self.damaged_file = 0, ""
        self.bound: set[str] = set()

    def add(self, outcome: Outcome) -> None:
        self.done += 1
        self.damaged += len(outcome.damaged)
        self.damaged_file = self.damaged_file or next(iter(outcome.damaged), "")
        self.there += outcome.state == "there"
        self.rows += outcome.rows
        self.caveats += outcome.caveats
        self.bound.update(outcome.bound)
        if outcome.errors:
            self.failed += 1
            self.errors += outcome.errors
            self.kinds[outcome.kind] += outcome.errors
            if len(self.examples) < _FEW:
                self.examples.setdefault(outcome.kind, _example(outcome))
        seconds = time.monotonic() - self.start
        if self.remaining is not None:
            fresh = None if outcome.state == "there" else outcome.seconds
            is_first = outcome.is_first or self.done - self.there == 1
            self.remaining.add(outcome.size_class, fresh, seconds, is_first)
        if self.show is not None:
            left = None if self.remaining is None else self.remaining.seconds(seconds)
            self.show(Progress(self.done, self.total, self.failed, self.there, seconds, left))

    def unknown_bind(self, asked: PointSet) -> tuple[str, ...]:
        """Names in `bind` that no model has a dimension for; empty if no model was evaluated."""
        if self.done == self.there:
            return ()
        texts = dict.fromkeys(point.shape for point in asked.points)
        names = dict.fromkeys(name for shape in texts for name in bindings_of(shape)[2])
        return tuple(name for name in names if name not in self.bound)

    def told(self, store: str, engine: str, points: int) -> Sweep:
        return Sweep(
            store,
            engine,
            self.done,
            points,
            self.there,
            self.rows,
            self.errors,
            self.failed,
            dict(self.kinds.most_common()),
            self.examples,
            time.monotonic() - self.start,
            self.damaged,
            self.damaged_file,
            caveats=self.caveats,
        )


def _example(outcome: Outcome) -> str:
    """A model and its error; most errors name the file themselves."""
    is_named = outcome.reason.startswith((outcome.model, outcome.model.rpartition("/")[2]))
    return outcome.reason if is_named else f"{outcome.model}: {outcome.reason}"


def _line(outcome: Outcome) -> str:
    told = {
        "model": outcome.model,
        "state": outcome.state,
        "rows": outcome.rows,
        "errors": outcome.errors,
        "seconds": round(outcome.seconds, 6),
        "cpu_seconds": None if outcome.cpu_seconds is None else round(outcome.cpu_seconds, 6),
    }
    return json.dumps(told) + "\n"


@contextmanager
def _log(store: Store) -> Iterator[IO[str]]:
    """A file beside the table: tables of two runs are equal, times never are."""
    name = next(name for index in itertools.count() if not store.place.has(name := f"{LOG}/{index:06}.jsonl"))
    if isinstance(store.place, Local):
        path = Path(store.place.path(name))
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.open("x", encoding="utf-8", buffering=1)
        with lines:
            yield lines
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".jsonl") as file:
        yield file
        file.flush()
        with writing(store.place, name) as path:
            path.write_bytes(Path(file.name).read_bytes())


class Remaining:
    """Estimates the seconds of models not done yet, by what others of their format and file size took."""

    def __init__(self, planned: Counter[SizeClass]) -> None:
        self._left = planned.copy()
        self._newest: dict[SizeClass, deque[float]] = {}
        self._medians: dict[SizeClass, float] = {}
        self._first: dict[SizeClass, float] = {}  # of models that waited for imports, until there are others
        self._busy, self._begin = 0.0, math.inf

    def add(self, size_class: SizeClass, seconds: float | None, now: float, is_first: bool = False) -> None:
        """A model is done, in so many seconds; None if its rows were there already."""
        self._left[size_class] -= 1
        if seconds is None:
            return
        self._busy += seconds
        self._begin = min(self._begin, now - seconds)
        if is_first:
            self._first[size_class] = seconds
            return
        newest = self._newest.setdefault(size_class, deque(maxlen=_NEWEST))
        newest.append(seconds)
        self._medians[size_class] = median(newest)

    def seconds(self, now: float) -> float | None:
        """Seconds from now to the end; None before the first measurement."""
        if not self._medians and not self._first:
            return None
        left = {each: count for each, count in self._left.items() if count > 0}
        costs = {each: self._expected(each) for each in left}
        # Models that are evaluated in parallel; what it took to start is no part of what is left.
        at_once = max(self._busy, 1e-9) / max(now - self._begin, 1e-9)
        together = sum(cost * left[each] for each, cost in costs.items()) / at_once
        return max(together, *costs.values(), 0.0)

    def _expected(self, size_class: SizeClass) -> float:
        """The seconds of one model: those of the nearest measured size, of its format if there is one."""
        kind, bits = size_class
        known = self._medians or self._first
        alike = [each for each in known if each[0] == kind] or known
        nearest = min(alike, key=lambda each: abs(each[1] - bits))
        return float(known[nearest] * 2 ** (_SLOPE * (bits - nearest[1])))
