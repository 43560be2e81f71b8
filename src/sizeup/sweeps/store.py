"""The results of sweeps: one Parquet file for each model and set of questions, under names made of digests.

    DIR/shards/ab/cd/abcd...-01....parquet   the rows of one model
    DIR/table/GENERATION/device=.../...     the same rows sorted for questions, where they were compacted
    DIR/table/current.json                  which generation that is, and which shards it holds
    DIR/newest.parquet                      which of the rows count now
    DIR/log/...jsonl                        how long every shard took

Whatever exists is complete and need not be computed again, unless others cut it off: a shard without the end
of a Parquet file is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from sizeup.errors import CorruptStore, MissingLibrary, SizeupError
from sizeup.files import write_errors
from sizeup.sweeps.places import Draft, Local, Place, place_of, writing
from sizeup.sweeps.points import PointSet
from sizeup.sweeps.schema import arrow_schema, conformed

SHARDS, TABLE, LOG = "shards", "table", "log"
CURRENT, MERGED = f"{TABLE}/current.json", "merged.txt"
_LOCK = ".lock"
# What others put beside the shards is none of them.
_SHARD = re.compile(rf"{SHARDS}/[0-9a-f]{{2}}/[0-9a-f]{{2}}/[0-9a-f]{{32}}-[0-9a-f]{{16}}\.parquet")
_DIGITS = 16  # of digests that only have to tell few things apart
# A Parquet file ends with four bytes that tell the length of what describes it, and these.
_END, _END_BYTES = b"PAR1", 8
_CUT = "cut off or no Parquet file"
_PLANNED = "a sweep that still plans its model makes it anew when it is run again; else remove it"


class Store:
    """A folder or an address with the results of sweeps."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingLibrary("a store of sweeps", "pyarrow", "sweep") from error
        self.place: Place = place_of(address)

    def __repr__(self) -> str:
        return f"<Store at {self.place.address}>"

    def shard(self, model: str, digest: str) -> str:
        """The name of the file with a model's answers to some questions, both by their digests."""
        return f"{_folder(model)}/{model}-{digest[:_DIGITS]}.parquet"

    def shards(self) -> list[str]:
        """The names of all shards."""
        return [name for name in self.place.names(SHARDS) if _SHARD.fullmatch(name)]

    def shards_of(self, model: str) -> list[str]:
        """The names of the shards of one model."""
        folder = _folder(model)
        names = (name for name in self.place.names(folder) if name.startswith(f"{folder}/{model}-"))
        return [name for name in names if _SHARD.fullmatch(name)]

    def has(self, name: str) -> bool:
        """Whether a shard is there, and complete as far as its end tells."""
        end = self.place.tail(name, _END_BYTES)
        return end is not None and len(end) == _END_BYTES and end.endswith(_END)

    def damage(self) -> CorruptStore | None:
        """What is wrong with the files that hold the rows, as far as their ends tell; None: nothing."""
        names = [name for name in self.parts() if not self.has(name)]
        if not names:
            return None
        more = len(names) - 1
        others = f", like {more:,} other{'s' * (more > 1)}" if more else ""
        return self._damaged(names[0], f"{_CUT}{others}")

    def _damaged(self, name: str, why: str) -> CorruptStore:
        is_sorted = name.startswith(f"{TABLE}/")
        again = f"sizeup sweep -o {self.place.address} --compact makes it anew"
        how = again if is_sorted else _PLANNED
        return CorruptStore(f"{self.place.path(name)}: not a whole table of a sweep ({why}); {how}")

    def write(self, name: str, batches: Iterable[Any], schema: Any = None) -> int:
        """Write record batches to a file that appears when all of them are in it; the number of rows."""
        with writing(self.place, name) as path:
            return _written(path, batches, schema or arrow_schema())

    def draft(self, name: str, batches: Iterable[Any]) -> Draft:
        """The same as a file that is still to appear: bringing it to the disk takes longer than all else."""
        found = self.place.draft(name)
        try:
            with write_errors(self.place.path(name)):
                _written(found.path, batches, arrow_schema())
        except BaseException:
            found.drop()
            raise
        return found

    def read(self, names: Iterable[str], columns: list[str] | None = None) -> Iterator[Any]:
        """The tables in some files, one by one."""
        yield from (self._table(name, columns) for name in names)

    def _table(self, name: str, columns: list[str] | None) -> Any:
        from pyarrow import ArrowException, parquet

        try:
            with self.place.reading(name) as file:
                found = parquet.read_table(file, columns=columns)
        except (ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # news about this machine
                raise
            why = str(error).splitlines()[0] if self.has(name) else _CUT
            raise self._damaged(name, why) from error
        if not set(columns or ("model",)) <= set(found.column_names):
            raise self._damaged(name, "a table of something else")
        return conformed(found) if columns is None and "key" in found.column_names else found

    def states(self, names: Iterable[str]) -> dict[str, str]:
        """The state of every row of some shards, by its key."""
        found: dict[str, str] = {}
        for table in self.read(names, ["key", "status"]):
            found.update(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))
        return found

    def replace(self, name: str, shards: Iterable[str], batches: Iterable[Any]) -> None:
        """Write rows in the place of those of the same keys in some shards, and the rest as a new one.

        Each file changes in one step, and no key is ever in two of them.
        """
        import pyarrow as pa
        from pyarrow import compute

        left = pa.Table.from_batches(batches, arrow_schema())
        self.place.remove(CURRENT)  # the sorted table holds what is replaced now
        for shard in shards:
            old = next(self.read([shard]))
            here = compute.is_in(left["key"], old["key"])
            kept = old.filter(compute.invert(compute.is_in(old["key"], left["key"])))
            self.write(shard, pa.concat_tables([kept, left.filter(here)]).to_batches())
            left = left.filter(compute.invert(here))
        if len(left):
            self.write(name, left.to_batches())

    def parts(self) -> list[str]:
        """The names of files that together hold every row once: the sorted table, and newer shards."""
        shards = self.shards()
        if not self.place.has(CURRENT):
            return shards
        with self.place.reading(CURRENT) as file:
            generation = json.loads(file.read())["generation"]
        folder = f"{TABLE}/{generation}"
        files = [name for name in self.place.names(folder) if name.endswith(".parquet")]
        if generation.startswith(digest_of_names(shards)):
            return files
        with self.place.reading(f"{folder}/{MERGED}") as file:
            merged = set(file.read().decode().splitlines())
        return [*files, *(name for name in shards if name not in merged)]

    def paths(self) -> list[str]:
        """The addresses of the same files."""
        return [self.place.path(name) for name in self.parts()]

    def _opened_lock(self, root: Path) -> IO[str]:
        try:
            root.mkdir(parents=True, exist_ok=True)
            return (root / _LOCK).open("w")
        except OSError as error:
            raise SizeupError(f"{self.place.address}: cannot be written to: {error.strerror}") from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Only one writes to a local store at a time; where the system cannot tell, nobody is refused."""
        fcntl = _locks()
        if not isinstance(self.place, Local) or fcntl is None:
            yield
            return
        with self._opened_lock(self.place.root) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SizeupError(
                    f"{self.place.address}: another sweep is writing there; wait until it has ended"
                ) from None
            yield


def _written(path: Path, batches: Iterable[Any], schema: Any) -> int:
    from pyarrow import parquet

    rows = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _folder(model: str) -> str:
    """So many folders that none of them holds many shards: a task looks through its own."""
    return f"{SHARDS}/{model[:2]}/{model[2:4]}"


def model_of(shard: str) -> str:
    """The digest of the model whose rows a shard holds."""
    return shard.rpartition("/")[2].partition("-")[0]


def digest_of_names(names: Iterable[str]) -> str:
    """The same for the same shards."""
    found = hashlib.sha256()
    for name in names:
        found.update(f"{name}\n".encode())
    return found.hexdigest()[:_DIGITS]


def _locks() -> Any:
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    return fcntl


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
