"""Maintenance of a store: sorts rows by device, precision and model, and removes unplanned rows."""

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
from sizeup.sweeps.points import PointSet
from sizeup.sweeps.storage import writing
from sizeup.sweeps.store import CURRENT, MERGED, TABLE, Store, digest_of_names, model_of

_CHUNK = 1 << 17  # rows sorted at a time
_MOST = 1 << 20  # rows held in memory until their files are written
_ORDER = (
    *("device", "precision", "model", "model_hash", "runtime", "shapes", "batch", "bind"),
    *("input_tokens", "output_tokens", "concurrency", "requested_kv", "requested_layout", "version"),
)
# Files that compaction writes; other files in the folder are left alone.
_SORTED = re.compile(rf"{TABLE}/\w+-\w+/(device=[^/]+/precision=[^/]+/part-\d+\.parquet|{re.escape(MERGED)})")
_FEW = 20  # models named as examples


def compact(store: Store) -> int:
    """Write a sorted copy of all shards; returns the number of rows.

    Readers see the old table until the new one is complete. Shards are kept: a sweep resumes from them.
    """
    with store.lock():
        shards = store.shards()
        if not shards:
            raise SizeupError(f"{store.storage.address}: no sweep results found")
        generation = f"{digest_of_names(shards)}-{uuid.uuid4().hex[:8]}"
        parts = _Parts(store, f"{TABLE}/{generation}")
        for chunk in _chunks(_models(store, shards)):
            parts.add(chunk)
        rows = parts.finish()
        with writing(store.storage, f"{TABLE}/{generation}/{MERGED}") as path:
            path.write_text("".join(f"{name}\n" for name in shards), "utf-8")
        with writing(store.storage, CURRENT) as path:
            path.write_text(json.dumps({"generation": generation, "rows": rows}) + "\n", "utf-8")
        _remove_other_generations(store, generation)
    return rows


def _remove_other_generations(store: Store, generation: str) -> None:
    current = (generation, CURRENT.rpartition("/")[2])
    for name in {path.split("/")[1] for path in store.storage.names(TABLE)}:
        if name not in current:
            store.storage.remove(f"{TABLE}/{name}")


def _models(store: Store, shards: Iterable[str]) -> Iterator[Any]:
    """The rows per model, by name, with unique keys."""
    named = sorted((_model(store, shard), shard) for shard in shards)
    for _, group in groupby(named, key=lambda entry: (entry[0], entry[1].rpartition("-")[0])):
        yield _unique_rows([*store.read(shard for _, shard in group)])


def _model(store: Store, shard: str) -> str:
    name: str = next(store.read([shard], ["model"]))["model"][0].as_py()
    return name


def _unique_rows(tables: list[Any]) -> Any:
    """The tables concatenated; of rows with the same key, the first is kept."""
    import pyarrow as pa

    together = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    keys = together["key"].to_pylist()
    first = {key: index for index, key in reversed([*enumerate(keys)])}
    return together if len(first) == len(keys) else together.take(sorted(first.values()))


def _chunks(tables: Iterable[Any]) -> Iterator[Any]:
    """Concatenates small tables into larger ones."""
    import pyarrow as pa

    pending: list[Any] = []
    rows = 0
    for table in tables:
        pending.append(table)
        rows += len(table)
        if rows >= _CHUNK:
            yield pa.concat_tables(pending)
            pending, rows = [], 0
    if pending:
        yield pa.concat_tables(pending)


class _Parts:
    """Files with one device and precision each, written when enough rows have accumulated."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder
        self.pending: dict[tuple[str, str], list[Any]] = {}
        self.waiting = self.rows = 0
        self.files: dict[tuple[str, str], int] = {}

    def add(self, chunk: Any) -> None:
        """Add rows of models that sort after all models added before."""
        ordered = chunk.sort_by([(name, "ascending") for name in _ORDER])
        for part, rows in _split(ordered):
            self.pending.setdefault(part, []).append(rows)
            self.waiting += len(rows)
        if self.waiting >= _MOST:
            self._write_all()

    def finish(self) -> int:
        """Write the remaining rows; returns the total number of rows."""
        self._write_all()
        return self.rows

    def _write_all(self) -> None:
        for part in [*self.pending]:
            self._write(part)

    def _write(self, part: tuple[str, str]) -> None:
        tables = self.pending.pop(part)
        number = self.files[part] = self.files.get(part, -1) + 1
        device, precision = (quote(value, safe="") for value in part)
        name = f"{self.folder}/device={device}/precision={precision}/part-{number:05}.parquet"
        rows = self.store.write(name, (batch for table in tables for batch in table.to_batches()))
        self.waiting -= rows
        self.rows += rows


def _split(ordered: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """Slices of one device and precision each, from a table sorted by them."""
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
    """The numbers of files, rows and models removed, and the rows of the first models by name."""

    files: int
    rows: int
    models: int
    examples: dict[str, int]


def prune(store: Store, planned: set[str], point_set: PointSet) -> Pruned:
    """Remove all rows except those of the planned models (by digest) at the planned points."""
    removed: Counter[str] = Counter()
    files = 0
    for shard in store.shards():
        model = model_of(shard)
        if model in planned and shard == store.shard(model, point_set.digest):
            continue  # all rows are planned
        unplanned, is_all = _remove_unplanned(
            store, shard, set(point_set.keys(model)) if model in planned else set()
        )
        if unplanned or is_all:
            _remove_sorted_table(store)
        if is_all:
            store.storage.remove(shard)
            files += 1
        removed.update(unplanned)
    return Pruned(files, removed.total(), len(removed), dict(sorted(removed.items())[:_FEW]))


def _remove_unplanned(store: Store, shard: str, keys: set[str]) -> tuple[Counter[str], bool]:
    """Remove the unplanned rows of a shard; returns their counts by model, and whether no row is planned."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        table: Any = next(store.read([shard]))
    except CorruptStore:  # unreadable: remove it
        return Counter(), True
    is_planned = compute.is_in(table["key"], pa.array(sorted(keys), pa.string()))
    planned = table.filter(is_planned)
    unplanned = Counter(table.filter(compute.invert(is_planned))["model"].to_pylist())
    if unplanned and len(planned):
        store.write(shard, planned.to_batches())
    return unplanned, not len(planned)


def _remove_sorted_table(store: Store) -> None:
    """Remove the sorted table, which contains the removed rows."""
    if store.storage.has(CURRENT):
        store.storage.remove(CURRENT)
        for name in store.storage.names(TABLE):
            if _SORTED.fullmatch(name):
                store.storage.remove(name)
