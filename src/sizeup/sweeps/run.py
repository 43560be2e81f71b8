"""Runs a sweep: plans and performs its tasks, counts outcomes and reports progress."""

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
from sizeup.files import make_folder, write_errors
from sizeup.sweeps.compact import Pruned, prune
from sizeup.sweeps.expand import count_models, importable, models_of
from sizeup.sweeps.models import Identity, Model, SizeClass
from sizeup.sweeps.points import PointSet, bindings_of
from sizeup.sweeps.spec import Spec
from sizeup.sweeps.storage import LocalStorage, writing
from sizeup.sweeps.store import LOG, ManifestWriter, Store
from sizeup.sweeps.task import Outcome, Settings
from sizeup.sweeps.worker import Limits

Engine = Literal["local", "ray"]
ENGINES: tuple[Engine, ...] = ("local", "ray")
_FEW = 20  # error examples that are reported
_NEWEST = 9  # latest times per size class that the median is over
# Between size classes, seconds are assumed to grow with the square root of the bytes: they are proportional
# for files with many ops, and nearly constant for files with large weights.
_SLOPE = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a sweep: models done, in total (None: unknown), with errors and with existing rows; seconds
    since the start, and estimated seconds left (None: unknown).
    """

    done: int
    total: int | None
    failed: int
    existing: int
    seconds: float
    seconds_left: float | None = None

    @property
    def rate(self) -> float | None:
        """Models evaluated per second; None before the first."""
        fresh = self.done - self.existing
        return fresh / self.seconds if fresh and self.seconds else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The result of a sweep: numbers of models, points per model, rows and errors, with examples."""

    store: str
    engine: str
    models: int
    points: int
    existing: int  # models whose rows all existed already
    rows: int
    errors: int
    failed: int  # models with at least one error
    error_types: dict[str, int]  # error rows by kind of error
    error_examples: dict[str, str]
    seconds: float
    corrupt_shards: int = 0  # unreadable files that were replaced
    corrupt_shard: str = ""  # the first of them
    pruned: Pruned | None = None  # what was removed, if pruning was requested
    caveats: int = 0  # rows for which a symbolic dimension was set to 1
    unknown_bind: tuple[str, ...] = ()  # names in `bind` that match no dimension of the evaluated models


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How a sweep runs: engine, address of Ray, number of workers, limits."""

    engine: Engine = "local"
    address: str | None = None
    workers: int | None = None
    limits: Limits | None = None
    retry_errors: bool = False
    in_process: bool = False
    prune: bool = False


def sweep(
    spec: Spec,
    out: str | os.PathLike[str],
    options: SweepOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Evaluate the points of a spec that are missing in a store."""
    options = options or SweepOptions()
    store = Store(out)
    settings = Settings(
        store.storage.address,
        spec.point_set,
        options.limits or spec.limits,
        (str(spec.folder), str(Path.cwd())),
        options.retry_errors,
        options.in_process,
    )
    with store.lock(), importable(spec.folder):
        store.storage.clean()
        plan = count_models(spec)
        total = None if plan is None else plan.total()
        tally, manifest, planned_models = _Tally(plan, progress), ManifestWriter(), set[str]()
        with _log(store) as log, closing(_outcomes(models_of(spec), settings, options, total)) as outcomes:
            try:
                for outcome in outcomes:
                    tally.add(outcome)
                    log.write(_log_line(outcome))
                    manifest.add(outcome.model, outcome.digest)
                    if options.prune:
                        planned_models.add(Identity(outcome.model, outcome.digest).digest)
            finally:  # the manifest lists the models done so far, also after an error
                manifest.write(store, spec.point_set)
        pruned = None
        if planned_models:  # a spec that matches no model at all does not empty the store
            pruned = prune(store, planned_models, spec.point_set)
            manifest.write(store, spec.point_set, reset=True)
        store.storage.clean()
    result = tally.result(store.storage.address, options.engine, len(spec.point_set.points))
    return replace(result, pruned=pruned, unknown_bind=tally.unknown_bind(spec.point_set))


def _outcomes(
    models: Iterator[Model], settings: Settings, options: SweepOptions, total: int | None
) -> Generator[Outcome, None, None]:
    if options.engine == "ray":
        from sizeup.sweeps.engine import ray

        return ray.run(models, settings, options.address, options.workers)
    if options.engine != "local":
        raise SizeupError(f"unknown engine {options.engine!r}; known: {', '.join(ENGINES)}")
    from sizeup.sweeps.engine import local

    return local.run(models, settings, min(options.workers or os.cpu_count() or 1, total or 2**16))


class _Tally:
    """Counts outcomes and reports progress."""

    def __init__(self, plan: Counter[SizeClass] | None, show: Callable[[Progress], None] | None) -> None:
        self.total = None if plan is None else plan.total()
        self.remaining = None if plan is None else Remaining(plan)
        self.show, self.start = show, time.monotonic()
        self.done = self.reused = self.rows = self.errors = self.failed = self.caveats = 0
        self.kinds: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.damaged, self.damaged_file = 0, ""
        self.bound: set[str] = set()

    def add(self, outcome: Outcome) -> None:
        self.done += 1
        self.damaged += len(outcome.damaged)
        self.damaged_file = self.damaged_file or next(iter(outcome.damaged), "")
        self.reused += outcome.state == "there"
        self.rows += outcome.rows
        self.caveats += outcome.caveats
        self.bound.update(outcome.bound)
        if outcome.errors:
            self.failed += 1
            self.errors += outcome.errors
            self.kinds[outcome.error_kind] += outcome.errors
            if len(self.examples) < _FEW:
                self.examples.setdefault(outcome.error_kind, _example(outcome))
        seconds = time.monotonic() - self.start
        if self.remaining is not None:
            fresh = None if outcome.state == "there" else outcome.seconds
            is_first = outcome.is_first or self.done - self.reused == 1
            self.remaining.add(outcome.size_class, fresh, seconds, is_first)
        if self.show is not None:
            left = None if self.remaining is None else self.remaining.seconds(seconds)
            self.show(Progress(self.done, self.total, self.failed, self.reused, seconds, left))

    def unknown_bind(self, point_set: PointSet) -> tuple[str, ...]:
        """Names in `bind` that match no dimension of any model; empty if no model was evaluated."""
        if self.done == self.reused:
            return ()
        texts = dict.fromkeys(point.shape for point in point_set.points)
        names = dict.fromkeys(name for shape in texts for name in bindings_of(shape)[2])
        return tuple(name for name in names if name not in self.bound)

    def result(self, store: str, engine: str, points: int) -> Sweep:
        return Sweep(
            store,
            engine,
            self.done,
            points,
            self.reused,
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
    """The error, prefixed with the model unless it names it."""
    is_named = outcome.reason.startswith((outcome.model, outcome.model.rpartition("/")[2]))
    return outcome.reason if is_named else f"{outcome.model}: {outcome.reason}"


def _log_line(outcome: Outcome) -> str:
    entry = {
        "model": outcome.model,
        "state": outcome.state,
        "rows": outcome.rows,
        "errors": outcome.errors,
        "seconds": round(outcome.seconds, 6),
        "cpu_seconds": None if outcome.cpu_seconds is None else round(outcome.cpu_seconds, 6),
    }
    return json.dumps(entry) + "\n"


@contextmanager
def _log(store: Store) -> Iterator[IO[str]]:
    """A log file, separate from the rows: times differ between runs, rows do not."""
    name = next(
        name for index in itertools.count() if not store.storage.has(name := f"{LOG}/{index:06}.jsonl")
    )
    if isinstance(store.storage, LocalStorage):
        path = store.storage.inside(name)
        with write_errors(path):
            make_folder(path.parent, store.storage.root)
            lines = path.open("x", encoding="utf-8", buffering=1)
        with lines:
            yield lines
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".jsonl") as file:
        yield file
        file.flush()
        with writing(store.storage, name) as path:
            path.write_bytes(Path(file.name).read_bytes())


class Remaining:
    """Estimates the seconds of the remaining models from those of similar format and file size."""

    def __init__(self, planned: Counter[SizeClass]) -> None:
        self._left = planned.copy()
        self._newest: dict[SizeClass, deque[float]] = {}
        self._medians: dict[SizeClass, float] = {}
        self._first: dict[SizeClass, float] = {}  # times that include imports; used if there are no others
        self._busy, self._begin = 0.0, math.inf

    def add(self, size_class: SizeClass, seconds: float | None, now: float, is_first: bool = False) -> None:
        """Record a model that is done, with its seconds; None if its rows existed already."""
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
        """Estimated seconds until the end; None before the first measurement."""
        if not self._medians and not self._first:
            return None
        left = {size_class: count for size_class, count in self._left.items() if count > 0}
        costs = {size_class: self._expected(size_class) for size_class in left}
        # The number of models evaluated in parallel, without the time before the first one.
        at_once = max(self._busy, 1e-9) / max(now - self._begin, 1e-9)
        together = sum(cost * left[size_class] for size_class, cost in costs.items()) / at_once
        return max(together, *costs.values(), 0.0)

    def _expected(self, size_class: SizeClass) -> float:
        """The expected seconds of one model, from the nearest measured size, preferably of its format."""
        format_name, bits = size_class
        known = self._medians or self._first
        same_format = [candidate for candidate in known if candidate[0] == format_name] or known
        nearest = min(same_format, key=lambda candidate: abs(candidate[1] - bits))
        return float(known[nearest] * 2 ** (_SLOPE * (bits - nearest[1])))
