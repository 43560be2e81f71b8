"""Upkeep of a store: its rows sorted by device, precision and model, and removal of unplanned ones."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any
from urllib.parse import quote

import numpy as np

from sizeup.errors import CorruptStore, SizeupError
from sizeup.sweeps.places import writing
from sizeup.sweeps.points import PointSet
from sizeup.sweeps.store import CURRENT, MERGED, TABLE, Store, digest_of_names, model_of

_CHUNK = 1 << 17  # rows that are sorted at a time
_MOST = 1 << 20  # rows that are held in memory until their files are written
_ORDER = ("device", "precision", "model", "model_hash", "runtime", "shapes", "batch", "bind", "version")
# What sorting writes; whatever else lies beside it is not ours.
_SORTED = re.compile(rf"{TABLE}/\w+-\w+/(device=[^/]+/precision=[^/]+/part-\d+\.parquet|{re.escape(MERGED)})")
_FEW = 20  # models that are named


def compact(store: Store) -> int:
    """Write a sorted copy of all shards beside them; the number of rows.

    Readers see the old table until the new one is whole. Shards stay: they are what a sweep resumes from.
    """
    with store.alone():
        shards = store.shards()
        if not shards:
            raise SizeupError(f"{store.place.address}: no rows of a sweep are there")
        generation = f"{digest_of_names(shards)}-{uuid.uuid4().hex[:8]}"
        parts = _Parts(store, f"{TABLE}/{generation}")
        for chunk in _chunks(_models(store, shards)):
            parts.add(chunk)
        rows = parts.finish()
        with writing(store.place, f"{TABLE}/{generation}/{MERGED}") as path:
            path.write_text("".join(f"{name}\n" for name in shards), "utf-8")
        with writing(store.place, CURRENT) as path:
            path.write_text(json.dumps({"generation": generation, "rows": rows}) + "\n", "utf-8")
        _forget_others(store, generation)
    return rows


def _forget_others(store: Store, generation: str) -> None:
    kept = (generation, CURRENT.rpartition("/")[2])
    for name in {each.split("/")[1] for each in store.place.names(TABLE)}:
        if name not in kept:
            store.place.remove(f"{TABLE}/{name}")


def _models(store: Store, shards: Iterable[str]) -> Iterator[Any]:
    """The rows of one model after the other, by name, no key twice."""
    named = sorted((_model(store, shard), shard) for shard in shards)
    for _, group in groupby(named, key=lambda each: (each[0], each[1].rpartition("-")[0])):
        yield _once([*store.read(shard for _, shard in group)])


def _model(store: Store, shard: str) -> str:
    found: str = next(store.read([shard], ["model"]))["model"][0].as_py()
    return found


def _once(tables: list[Any]) -> Any:
    """Tables as one, of rows with the same key the first."""
    import pyarrow as pa

    together = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    keys = together["key"].to_pylist()
    first = {key: place for place, key in reversed([*enumerate(keys)])}
    return together if len(first) == len(keys) else together.take(sorted(first.values()))


def _chunks(tables: Iterable[Any]) -> Iterator[Any]:
    """Many tables as few."""
    import pyarrow as pa

    held: list[Any] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += len(table)
        if rows >= _CHUNK:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if held:
        yield pa.concat_tables(held)


class _Parts:
    """Files of one device and precision each, written when enough rows have come together."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder
        self.held: dict[tuple[str, str], list[Any]] = {}
        self.waiting = self.rows = 0
        self.files: dict[tuple[str, str], int] = {}

    def add(self, chunk: Any) -> None:
        """Take rows of models that come after all that were taken before."""
        ordered = chunk.sort_by([(name, "ascending") for name in _ORDER])
        for part, rows in _split(ordered):
            self.held.setdefault(part, []).append(rows)
            self.waiting += len(rows)
        if self.waiting >= _MOST:
            self._write_all()

    def finish(self) -> int:
        """Write what is left; the number of all rows."""
        self._write_all()
        return self.rows

    def _write_all(self) -> None:
        for part in [*self.held]:
            self._write(part)

    def _write(self, part: tuple[str, str]) -> None:
        tables = self.held.pop(part)
        number = self.files[part] = self.files.get(part, -1) + 1
        device, precision = (quote(each, safe="") for each in part)
        name = f"{self.folder}/device={device}/precision={precision}/part-{number:05}.parquet"
        rows = self.store.write(name, (batch for table in tables for batch in table.to_batches()))
        self.waiting -= rows
        self.rows += rows


def _split(ordered: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """Rows of one device and precision each, of a table in which they lie together."""
    codes = [
        ordered[name].combine_chunks().dictionary_encode().indices.to_numpy()
        for name in ("device", "precision")
    ]
    changes = np.flatnonzero((np.diff(codes[0]) != 0) | (np.diff(codes[1]) != 0)) + 1
    starts = [0, *changes.tolist(), len(ordered)]
    for start, end in pairwise(starts):
        rows = ordered.slice(start, end - start)
        yield (rows["device"][0].as_py(), rows["precision"][0].as_py()), rows


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed: files, rows, of how many models, and the rows of the first of these by name."""

    files: int
    rows: int
    models: int
    examples: dict[str, int]


def prune(store: Store, planned: set[str], asked: PointSet) -> Pruned:
    """Remove all rows but those of some models, by their digests, and these questions about them."""
    removed: Counter[str] = Counter()
    files = 0
    for shard in store.shards():
        model = model_of(shard)
        if model in planned and shard == store.shard(model, asked.digest):
            continue  # all of it is planned
        gone, is_all = _stray(store, shard, set(asked.keys(model)) if model in planned else set())
        if gone or is_all:
            _forget_sorted(store)
        if is_all:
            store.place.remove(shard)
            files += 1
        removed.update(gone)
    return Pruned(files, removed.total(), len(removed), dict(sorted(removed.items())[:_FEW]))


def _stray(store: Store, shard: str, keys: set[str]) -> tuple[Counter[str], bool]:
    """The rows of a shard that are not planned, by model, and whether these are all; some are taken out."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        table: Any = next(store.read([shard]))
    except CorruptStore:  # nothing can be said of it, nor kept
        return Counter(), True
    is_planned = compute.is_in(table["key"], pa.array(sorted(keys), pa.string()))
    kept = table.filter(is_planned)
    gone = Counter(table.filter(compute.invert(is_planned))["model"].to_pylist())
    if gone and len(kept):
        store.write(shard, kept.to_batches())
    return gone, not len(kept)


def _forget_sorted(store: Store) -> None:
    """The sorted table holds what is removed now."""
    if store.place.has(CURRENT):
        store.place.remove(CURRENT)
        for name in store.place.names(TABLE):
            if _SORTED.fullmatch(name):
                store.place.remove(name)
