"""The store of a sweep's results: one Parquet shard per model and set of points, named by digests.

    DIR/shards/ab/cd/abcd...-01....parquet   the rows of one model
    DIR/table/GENERATION/device=.../...     the same rows sorted for queries, if compacted
    DIR/table/current.json                  the current generation
    DIR/newest.parquet                      the manifest: which rows are current
    DIR/log/...jsonl                        the seconds per model

An existing shard is complete and is not computed again. A shard without a Parquet footer, because something
truncated it, counts as missing.
"""

from __future__ import annotations

import errno
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
from sizeup.files import exists, target_of, write_errors
from sizeup.settings import parse_json
from sizeup.sweeps.points import PointSet
from sizeup.sweeps.schema import arrow_schema, conformed
from sizeup.sweeps.storage import Draft, LocalStorage, Storage, open_storage, writing

SHARDS, TABLE, LOG = "shards", "table", "log"
CURRENT, MERGED = f"{TABLE}/current.json", "merged.txt"
_LOCK = ".lock"
_GENERATION = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")
# Other files in the folder are ignored. DuckDB expands wildcards in names, which these patterns exclude.
_PART = re.compile(
    rf"{TABLE}/{_GENERATION.pattern}/device=[\w.~%-]+/precision=[\w.~%-]+/part-[0-9]+\.parquet", re.ASCII
)
_SHARD = re.compile(rf"{SHARDS}/[0-9a-f]{{2}}/[0-9a-f]{{2}}/[0-9a-f]{{32}}-[0-9a-f]{{16}}\.parquet")
_MOST_CURRENT = 1 << 16  # bytes of the file that names the sorted table
_LEAST_ROW = 8  # bytes of a row in a file: each has a digest, which cannot be compressed
_DIGITS = 16  # of shortened digests
# A Parquet file ends with the length of its metadata (4 bytes) and this magic number.
_END, _END_BYTES = b"PAR1", 8
_TRUNCATED = "truncated, or not a Parquet file"
_RECREATE = "run the sweep again to recreate it, or remove it if the sweep no longer has its model"


class Store:
    """A folder or an address with the results of sweeps."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingLibrary("a sweep store", "pyarrow", "sweep") from error
        self.storage: Storage = open_storage(address)

    def __repr__(self) -> str:
        return f"<Store at {self.storage.address}>"

    def shard(self, model: str, digest: str) -> str:
        """The name of the shard for a model and a set of points, both given by digest."""
        return f"{_folder(model)}/{model}-{digest[:_DIGITS]}.parquet"

    def shards(self) -> list[str]:
        """The names of all shards."""
        return [name for name in self.storage.names(SHARDS) if _SHARD.fullmatch(name)]

    def shards_of(self, model: str) -> list[str]:
        """The names of the shards of one model."""
        folder = _folder(model)
        names = (name for name in self.storage.names(folder) if name.startswith(f"{folder}/{model}-"))
        return [name for name in names if _SHARD.fullmatch(name)]

    def has(self, name: str) -> bool:
        """Whether a shard exists and ends with a Parquet footer."""
        end = self.storage.tail(name, _END_BYTES)
        return end is not None and len(end) == _END_BYTES and end.endswith(_END)

    def damage(self) -> CorruptStore | None:
        """The error for files without a Parquet footer; None if all have one."""
        names = [name for name in self.parts() if not self.has(name)]
        if not names:
            return None
        more = len(names) - 1
        others = f"; {more:,} other file{'s' * (more > 1)} too" if more else ""
        return self.damage_error(names[0], f"{_TRUNCATED}{others}")

    def damage_error(self, name: str, reason: str) -> CorruptStore:
        """The error for a damaged file, with how to recreate it."""
        is_sorted = name.startswith(f"{TABLE}/")
        again = f"recreate it with sizeup sweep -o {self.storage.address} --compact"
        advice = again if is_sorted else _RECREATE
        return CorruptStore(f"{self.storage.path(name)}: damaged ({reason}); {advice}")

    def write(self, name: str, batches: Iterable[Any], schema: Any = None) -> int:
        """Write record batches to a file, which appears when complete; returns the number of rows."""
        with writing(self.storage, name) as path:
            return _write_parquet(path, batches, schema or arrow_schema())

    def draft(self, name: str, batches: Iterable[Any]) -> Draft:
        """Write record batches to a draft; finishing it syncs to disk, which takes longest."""
        draft = self.storage.draft(name)
        try:
            with write_errors(self.storage.path(name)):
                _write_parquet(draft.path, batches, arrow_schema())
        except BaseException:
            draft.discard()
            raise
        return draft

    def read(self, names: Iterable[str], columns: list[str] | None = None) -> Iterator[Any]:
        """The tables of some files, one by one."""
        yield from (self._table(name, columns) for name in names)

    def _table(self, name: str, columns: list[str] | None) -> Any:
        from pyarrow import ArrowException, parquet

        try:
            with self.storage.reading(name) as file:
                size = file.seek(0, os.SEEK_END)
                parts = parquet.ParquetFile(file)
                if parts.metadata.num_rows > size // _LEAST_ROW:
                    raise self.damage_error(name, "more rows than fit in its size")
                table = parts.read(columns)
        except (ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # a problem of this machine
                raise
            reason = str(error).splitlines()[0] if self.has(name) else _TRUNCATED
            raise self.damage_error(name, reason) from error
        if not set(columns or ("model",)) <= set(table.column_names):
            raise self.damage_error(name, "not a table of a sweep")
        if len(set(table.column_names)) < len(table.column_names):
            raise self.damage_error(name, "two columns of one name")
        return conformed(table) if columns is None and "key" in table.column_names else table

    def statuses(self, names: Iterable[str]) -> dict[str, str]:
        """The status of every row of some shards, by key."""
        statuses: dict[str, str] = {}
        for table in self.read(names, ["key", "status"]):
            statuses.update(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))
        return statuses

    def replace(self, name: str, shards: Iterable[str], batches: Iterable[Any]) -> None:
        """Replace the rows with the same keys in some shards, and write the others as a new shard.

        Each file changes atomically, and a key is never in two files.
        """
        import pyarrow as pa
        from pyarrow import compute

        left = pa.Table.from_batches(batches, arrow_schema())
        self.storage.remove(CURRENT)  # the sorted table contains the replaced rows
        for shard in shards:
            old = next(self.read([shard]))
            is_replacement = compute.is_in(left["key"], old["key"])
            unchanged = old.filter(compute.invert(compute.is_in(old["key"], left["key"])))
            self.write(shard, pa.concat_tables([unchanged, left.filter(is_replacement)]).to_batches())
            left = left.filter(compute.invert(is_replacement))
        if len(left):
            self.write(name, left.to_batches())

    def parts(self) -> list[str]:
        """The names of files that together contain every row once: the sorted table, and newer shards."""
        shards = self.shards()
        generation = self._generation()
        if generation is None:
            return shards
        folder = f"{TABLE}/{generation}"
        files = [name for name in self.storage.names(folder) if _PART.fullmatch(name)]
        if generation.startswith(digest_of_names(shards)):
            return files
        name = f"{folder}/{MERGED}"
        if not self.storage.has(name):
            raise self.damage_error(name, "missing")
        with self.storage.reading(name) as file:
            merged = set(file.read().decode("utf-8", "replace").splitlines())
        return [*files, *(name for name in shards if name not in merged)]

    def _generation(self) -> str | None:
        """The name of the current sorted table; None if there is none."""
        if not self.storage.has(CURRENT):
            return None
        with self.storage.reading(CURRENT) as file:
            text = file.read(_MOST_CURRENT)
        try:
            generation = parse_json(text.decode())["generation"]
            if _GENERATION.fullmatch(generation):
                return str(generation)
        except (ValueError, TypeError, KeyError):
            pass
        raise self.damage_error(CURRENT, "does not name a sorted table")

    def paths(self) -> list[str]:
        """The full addresses of `parts`."""
        return [self.storage.path(name) for name in self.parts()]

    def _open_lock(self, storage: LocalStorage) -> IO[bytes]:
        try:
            lock = target_of(storage.inside(_LOCK), storage.root)
            if lock is None:
                raise OSError(errno.EINVAL, "not a regular file")
            storage.root.mkdir(exist_ok=True)
            return lock.open("ab")  # keeps its content
        except OSError as error:
            reason = error.strerror or error
            raise SizeupError(f"{self.storage.address}: cannot be written to: {reason}") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks a local store against other writers; does nothing if the system has no file locks."""
        fcntl = _fcntl()
        if isinstance(self.storage, LocalStorage) and not exists(self.storage.root.absolute().parent):
            # As for every other output.
            raise SizeupError(f"{self.storage.address}: no such folder {self.storage.root.absolute().parent}")
        if not isinstance(self.storage, LocalStorage) or fcntl is None:
            yield
            return
        with self._open_lock(self.storage) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SizeupError(
                    f"{self.storage.address}: another sweep is writing to it; wait until it ends"
                ) from None
            yield


def _write_parquet(path: Path, batches: Iterable[Any], schema: Any) -> int:
    from pyarrow import parquet

    rows = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _folder(model: str) -> str:
    """The folder of a model's shards; two levels keep folders small, because tasks list them."""
    return f"{SHARDS}/{model[:2]}/{model[2:4]}"


def model_of(shard: str) -> str:
    """The digest of a shard's model."""
    return shard.rpartition("/")[2].partition("-")[0]


def digest_of_names(names: Iterable[str]) -> str:
    """A digest of file names."""
    sha256 = hashlib.sha256()
    for name in names:
        sha256.update(f"{name}\n".encode())
    return sha256.hexdigest()[:_DIGITS]


def _fcntl() -> Any:
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    return fcntl


NEWEST = "newest.parquet"
_EVALUATIONS = b"sizeup.answers"  # metadata key of the targets and versions
_CHUNK_MODELS = 1 << 14  # models held as Python strings
# A target, its digest, and the version of sizeup that evaluated it.
Evaluation: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The current content of all models, and the evaluated targets and versions, oldest first."""

    models: Any  # an Arrow table: model, model_hash, changed
    evaluations: tuple[Evaluation, ...]

    @property
    def changed(self) -> Any:
        """The models that have rows of earlier content, with their current content."""
        return self.models.filter(self.models["changed"]).select(["model", "model_hash"])

    @property
    def has_superseded_rows(self) -> bool:
        """Whether a target was evaluated with several descriptions or versions."""
        return len({target for target, _, _ in self.evaluations}) < len(self.evaluations)


def read_manifest(store: Store) -> Manifest:
    """Read the manifest of a store; empty if the store has none."""
    import pyarrow as pa

    if not store.storage.has(NEWEST):
        return Manifest(pa.table(_columns(), _schema()), ())
    (table,) = store.read([NEWEST])
    try:
        evaluations = parse_json((table.schema.metadata or {}).get(_EVALUATIONS, b"[]").decode())
        entries = tuple((target, digest, version) for target, digest, version in evaluations)
    except (ValueError, TypeError):
        entries = ((0, 0, 0),)
    are_texts = all(isinstance(part, str) for entry in entries for part in entry)
    if not are_texts or not table.schema.equals(_schema()):
        raise store.damage_error(NEWEST, "not the manifest of a sweep")
    return Manifest(table, entries)


def _previous_manifest(store: Store) -> Manifest:
    try:
        return read_manifest(store)
    except CorruptStore:
        store.storage.remove(NEWEST)
        return read_manifest(store)


class ManifestWriter:
    """Collects the models of a sweep and writes them to the manifest at the end."""

    def __init__(self) -> None:
        self._tables: list[Any] = []
        self._names: list[str] = []
        self._hashes: list[str] = []

    def add(self, model: str, digest: str) -> None:
        """Add a model and the digest of its content."""
        self._names.append(model)
        self._hashes.append(digest)
        if len(self._names) >= _CHUNK_MODELS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        columns = _columns(self._names, self._hashes)
        self._tables.append(pa.table(columns, _schema()))
        self._names, self._hashes = [], []

    def write(self, store: Store, point_set: PointSet, *, reset: bool = False) -> None:
        """Update the manifest; with `reset`, drop its earlier entries."""
        import pyarrow as pa

        self._flush()
        before = _previous_manifest(store)
        now = pa.concat_tables(self._tables).group_by(_schema().names, use_threads=False).aggregate([])
        models = _merged_models(before.models.slice(0, 0) if reset else before.models, now)
        evaluations = _merged_evaluations(() if reset else before.evaluations, point_set)
        if (models.num_rows, evaluations) == (
            before.models.num_rows,
            before.evaluations,
        ) and models == before.models:
            return
        metadata = {_EVALUATIONS: json.dumps(evaluations)}
        store.write(NEWEST, models.to_batches(), models.schema.with_metadata(metadata))


def _merged_models(before: Any, now: Any) -> Any:
    """The earlier entries, replaced by those of now for the same models."""
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


def _merged_evaluations(before: tuple[Evaluation, ...], point_set: PointSet) -> tuple[Evaluation, ...]:
    now = tuple(
        (target, digest, point_set.version) for target, digest in sorted(point_set.target_digests.items())
    )
    return (*(entry for entry in before if entry not in now), *now)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("model", pa.string()), ("model_hash", pa.string()), ("changed", pa.bool_())])


def _columns(names: list[str] | None = None, hashes: list[str] | None = None) -> dict[str, list[Any]]:
    return {"model": names or [], "model_hash": hashes or [], "changed": [False] * len(names or [])}
