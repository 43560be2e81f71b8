"""Which content of every model, and which description of every target, a sweep asked about last.

Rows of earlier content stay in a store; this file tells them from those that count now:

    DIR/newest.parquet    one row a model and content; whether the store holds rows of other content of it
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from sizeup.errors import CorruptStore
from sizeup.sweeps.points import PointSet
from sizeup.sweeps.store import Store

NEWEST = "newest.parquet"
_ANSWERS = b"sizeup.answers"  # under which the file itself tells of targets and versions
_PIECE = 1 << 14  # models that are held as Python's own text
# A target, the digest of what is known of it, and the version of sizeup that answered.
Answer: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Newest:
    """The content that counts of all models, and answers in the order in which they were asked for."""

    models: Any  # a table of Arrow: model, model_hash, changed
    answers: tuple[Answer, ...]

    @property
    def changed(self) -> Any:
        """The models of which there are rows of other content, with the content that counts."""
        return self.models.filter(self.models["changed"]).select(["model", "model_hash"])

    @property
    def is_answered_twice(self) -> bool:
        """Whether some target was described otherwise, or asked about by another version, before."""
        return len({target for target, _, _ in self.answers}) < len(self.answers)


def newest_of(store: Store) -> Newest:
    """What a store tells; nothing where it is older than this file."""
    import pyarrow as pa

    if not store.place.has(NEWEST):
        return Newest(pa.table(_columns(), _schema()), ())
    (table,) = store.read([NEWEST])
    answers = json.loads((table.schema.metadata or {}).get(_ANSWERS, b"[]"))
    return Newest(table, tuple((target, digest, version) for target, digest, version in answers))


def _before(store: Store) -> Newest:
    try:
        return newest_of(store)
    except CorruptStore:
        store.place.remove(NEWEST)
        return newest_of(store)


class Record:
    """Takes note of the models that a sweep asks about, and tells the store at the end."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._names: list[str] = []
        self._hashes: list[str] = []

    def add(self, model: str, digest: str) -> None:
        """A model that was asked about, and the digest of its content."""
        self._names.append(model)
        self._hashes.append(digest)
        if len(self._names) >= _PIECE:
            self._set_down()

    def _set_down(self) -> None:
        import pyarrow as pa

        columns = _columns(self._names, self._hashes)
        self._pieces.append(pa.table(columns, _schema()))
        self._names, self._hashes = [], []

    def write(self, store: Store, asked: PointSet, *, alone: bool = False) -> None:
        """Put what is known now in the place of what was; `alone`: what was before counts no more."""
        import pyarrow as pa

        self._set_down()
        before = _before(store)
        now = pa.concat_tables(self._pieces).group_by(_schema().names, use_threads=False).aggregate([])
        models = _merged(before.models.slice(0, 0) if alone else before.models, now)
        answers = _answers(() if alone else before.answers, asked)
        if (models.num_rows, answers) == (before.models.num_rows, before.answers) and models == before.models:
            return
        told = {_ANSWERS: json.dumps(answers)}
        store.write(NEWEST, models.to_batches(), models.schema.with_metadata(told))


def _merged(before: Any, now: Any) -> Any:
    """Models that were asked about now as they are now; the others as they were."""
    import pyarrow as pa
    from pyarrow import compute

    again = before.filter(compute.is_in(before["model"], now["model"]))
    is_other = compute.invert(compute.is_in(_pairs(again), _pairs(now)))
    other = again.filter(compute.or_(is_other, again["changed"]))["model"]
    now = now.set_column(2, "changed", compute.is_in(now["model"], other))
    rest = before.filter(compute.invert(compute.is_in(before["model"], now["model"])))
    return pa.concat_tables([rest.replace_schema_metadata(None), now]).sort_by("model").combine_chunks()


def _pairs(table: Any) -> Any:
    from pyarrow import compute

    return compute.binary_join_element_wise(table["model"], table["model_hash"], "\0")


def _answers(before: tuple[Answer, ...], asked: PointSet) -> tuple[Answer, ...]:
    now = tuple((target, digest, asked.version) for target, digest in sorted(asked.target_hashes.items()))
    return (*(each for each in before if each not in now), *now)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("model", pa.string()), ("model_hash", pa.string()), ("changed", pa.bool_())])


def _columns(names: list[str] | None = None, hashes: list[str] | None = None) -> dict[str, list[Any]]:
    return {"model": names or [], "model_hash": hashes or [], "changed": [False] * len(names or [])}
