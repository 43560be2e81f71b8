"""Removing what a sweep does not plan: rows of models that changed or left it, and of other questions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from sizeup.errors import CorruptStore
from sizeup.sweeps.points import Questions
from sizeup.sweeps.store import CURRENT, MERGED, TABLE, Store, model_of

# What sorting writes; whatever else lies beside it is not ours.
_SORTED = re.compile(rf"{TABLE}/\w+-\w+/(device=[^/]+/precision=[^/]+/part-\d+\.parquet|{re.escape(MERGED)})")

_FEW = 20  # models that are named


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed: files, rows, of how many models, and the rows of the first of these by name."""

    files: int
    rows: int
    models: int
    examples: dict[str, int]


def prune(store: Store, planned: set[str], asked: Questions) -> Pruned:
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
