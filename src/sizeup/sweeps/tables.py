"""The tables of a question: files of a store, tables joined to them, what narrows them; answers as files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import dtypes
from sizeup.csv_cells import FORMULA, neutral
from sizeup.errors import SizeupError
from sizeup.files import replacing
from sizeup.sweeps.places import Remote
from sizeup.sweeps.schema import FIELDS, NAMES
from sizeup.sweeps.store import TABLE, Newest, Store, newest_of
from sizeup.sweeps.views import KEYS, Axis, quoted, views
from sizeup.targets import names

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TYPES = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}
ALL = "all_rows"
_OWN = frozenset({"points", "before", "considered", "stored_points", "stored_before", ALL})
_READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL")
_TABLES = ("points", "before", "summary", "fits", "misfits", "fastest", "pareto", "unknown", "errors",
           "regressions", ALL)  # fmt: skip
_NO_COLUMN = re.compile(r'Referenced column "(?P<name>.+?)" (?:was )?not found|column named "(?P<other>.+?)"')
_NO_TABLE = re.compile(r"Table with name (?P<name>.+?) does not exist")


@dataclass(frozen=True, slots=True)
class Added:
    """A table that is joined to the points: its name, what it is joined by, and the columns that it adds."""

    name: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]


def text(value: str) -> str:
    """A text as SQL takes it, whatever letters it has."""
    return "'" + value.replace("'", "''") + "'"


def attach(connection: DuckDBPyConnection, name: str, store: Store, whole: bool = False) -> list[str]:
    """Make a view of the rows of a store that count now, perhaps one of all rows; the files that it reads.

    Columns that an older store does not have are null.
    """
    import duckdb

    paths = store.paths()
    if not paths:
        raise SizeupError(f"{store.place.address}: no results of a sweep are there (sizeup sweep makes them)")
    allowed = list(paths)
    if isinstance(store.place, Remote):
        system = store.place.system
        connection.register_filesystem(system)
        # The same files as fsspec spells them to DuckDB.
        allowed += [system.unstrip_protocol(system._strip_protocol(path)) for path in paths]
    # The sorted files are written at once and alike; shards may be from several versions.
    inside = store.place.path(f"{TABLE}/")
    alike = [path for path in paths if path.startswith(inside)]
    others = [path for path in paths if not path.startswith(inside)]
    parts = [_reading(files, union) for files, union in ((alike, "false"), (others, "true")) if files]
    source = f"({' UNION ALL BY NAME '.join(f'SELECT * FROM {part}' for part in parts)})"
    try:
        there = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    except duckdb.Error as error:
        said = SizeupError(f"{store.place.address}: {shortened(error)}")
        raise store.damage() or said from error
    if not there >= {"key", "model", "target", "status"}:
        raise SizeupError(f"{store.place.address}: its files are no results of a sweep")
    fields = [
        quoted(each.name)
        if each.name in there
        else f"CAST(NULL AS {_TYPES[each.kind]}) AS {quoted(each.name)}"
        for each in FIELDS
    ]
    rows = f"SELECT {', '.join(fields)} FROM {source}"
    connection.execute(f"CREATE VIEW {name} AS {_counting(connection, name, newest_of(store), rows)}")
    if whole:
        connection.execute(f"CREATE VIEW {ALL} AS {rows}")
    return allowed


def _counting(connection: DuckDBPyConnection, name: str, newest: Newest, rows: str) -> str:
    """The rows that are not of earlier content of a model, nor of an earlier answer where there is a later.

    Most stores hold no such rows, and pay nothing for it.
    """
    if changed := newest.changed:
        connection.register("given", changed)
        connection.execute(f"CREATE TABLE {name}_newest AS SELECT * FROM given")
        connection.unregister("given")
        rows = f"""
        SELECT stored.* FROM ({rows}) AS stored
        LEFT JOIN (SELECT DISTINCT model FROM {name}_newest) AS other ON stored.model = other.model
        LEFT JOIN {name}_newest AS newest
        ON stored.model = newest.model AND stored.model_hash = newest.model_hash
        WHERE other.model IS NULL OR newest.model IS NOT NULL
        """
    if newest.is_answered_twice:
        listed = ", ".join(
            f"({', '.join(map(text, answer))}, {place})" for place, answer in enumerate(newest.answers)
        )
        rows = f"""
        SELECT stored.* FROM ({rows}) AS stored
        LEFT JOIN (VALUES {listed}) AS answered(target, target_hash, version, place)
        ON stored.target = answered.target AND stored.target_hash = answered.target_hash
            AND stored.version = answered.version
        QUALIFY row_number() OVER (
            PARTITION BY stored.device, stored.precision, stored.target, stored.model, stored.model_hash,
                stored.batch, stored.shapes, stored.bind
            ORDER BY answered.place DESC NULLS LAST
        ) = 1
        """
    return rows


def _reading(paths: Sequence[str], union: str) -> str:
    # Names of folders repeat what the files hold, in other letters where a name has unusual ones.
    listed = ", ".join(map(text, paths))
    return f"read_parquet([{listed}], union_by_name = {union}, hive_partitioning = false)"


def join(connection: DuckDBPyConnection, path: str) -> Added:
    """Read a table of a user's own, whose columns every point gets that it has a row for."""
    import duckdb

    file = Path(path)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise SizeupError(f"{path}: a table to join is a .csv, .tsv or .parquet file")
    if not file.is_file():
        raise SizeupError(f"{path}: no such file")
    name = "".join(letter if letter.isalnum() else "_" for letter in file.stem) or "joined"
    taken = {*_OWN, *views((Axis("ms"), Axis("ms")), compared=True)}
    name += "_joined" if name.lower() in taken else ""
    try:
        found = _types(connection, f"{reader}({text(path)})")
        fixed = [key for key in KEYS if key in found and key != "batch"]
        # A name of digits alone is still a name.
        typed = ", ".join(f"{text(key)}: 'VARCHAR'" for key in fixed)
        options = f", types = {{{typed}}}" if reader == "read_csv" and fixed else ""
        cleaned = [_without_nan(column, kind) for column, kind in found.items()]
        connection.execute(
            f"CREATE TABLE {quoted(name)} AS SELECT {', '.join(cleaned)} FROM {reader}({text(path)}{options})"
        )
    except duckdb.Error as error:
        raise SizeupError(f"{path}: {shortened(error)}") from error
    added = Added(name, tuple(key for key in KEYS if key in found), tuple(c for c in found if c not in KEYS))
    _check_joined(connection, path, added)
    return added


def _without_nan(column: str, kind: str) -> str:
    """A column in which what is no number is not known."""
    name = quoted(column)
    return (
        f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS {name}"
        if kind in ("DOUBLE", "FLOAT")
        else name
    )


def _types(connection: DuckDBPyConnection, source: str) -> dict[str, str]:
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}


def _check_joined(connection: DuckDBPyConnection, path: str, added: Added) -> None:
    if not added.keys:
        raise SizeupError(f"{path}: none of its columns says which points it is about ({', '.join(KEYS)})")
    clash = [column for column in added.columns if column.lower() in (*NAMES, "certain")]
    if clash:
        raise SizeupError(f"{path}: points have a column {clash[0]!r} of their own; give it another name")
    keys = ", ".join(map(quoted, added.keys))
    twice = connection.execute(
        f"SELECT {keys} FROM {quoted(added.name)} GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
    ).fetchone()
    if twice is not None:
        told = ", ".join(f"{key} {value}" for key, value in zip(added.keys, twice, strict=True))
        raise SizeupError(f"{path}: there is more than one row for {told}")


def narrow(
    connection: DuckDBPyConnection,
    name: str,
    source: str,
    devices: Sequence[str],
    precisions: Sequence[str],
    added: Iterable[Added],
) -> None:
    """Make a view of the rows on some devices and at some precisions, with the columns of joined tables."""
    wanted = [*_places(connection, source, devices), *_precisions(connection, source, precisions)]
    where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
    joins, columns = "", [f"{source}.*"]
    for each in added:
        pairs = " AND ".join(
            f"{source}.{quoted(key)} = {quoted(each.name)}.{quoted(key)}" for key in each.keys
        )
        joins += f" LEFT JOIN {quoted(each.name)} ON {pairs}"
        columns += [f"{quoted(each.name)}.{quoted(column)}" for column in each.columns]
    inner = f"(SELECT * FROM {source}{where}) AS {source}"
    connection.execute(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {inner}{joins}")


def _places(connection: DuckDBPyConnection, source: str, asked: Sequence[str]) -> Iterator[str]:
    """A condition for devices and targets, spelt as people do."""
    if not asked:
        return
    rows = connection.execute(f"SELECT DISTINCT device, target FROM {source}").fetchall()
    known = sorted({each for row in rows for each in row if each is not None})
    found = [_meant(name, known, "no point is on") for name in asked]
    listed = ", ".join(text(name) for name in found)
    yield f"(device IN ({listed}) OR target IN ({listed}))"


def _precisions(connection: DuckDBPyConnection, source: str, asked: Sequence[str]) -> Iterator[str]:
    if not asked:
        return
    rows = connection.execute(f"SELECT DISTINCT precision FROM {source}").fetchall()
    known = sorted(row[0] for row in rows if row[0] is not None)
    found = [_meant(_spelt(name), known, "no point is at") for name in asked]
    yield f"precision IN ({', '.join(text(name) for name in found)})"


def _spelt(name: str) -> str:
    try:
        return dtypes.precision_name(dtypes.precision(name))
    except SizeupError:
        return name


def _meant(name: str, known: Sequence[str], complaint: str) -> str:
    """The name among those of a sweep that a typed one stands for."""
    for each in known:
        if names.key(each) == names.key(name):
            return each
    near = names.suggestion(name, known) or (f"; there are {', '.join(known)}" if len(known) < 20 else "")
    raise SizeupError(f"{complaint} {name!r}{near}")


def check_axes(connection: DuckDBPyConnection, axes: Iterable[Axis]) -> None:
    """Refuse columns that are not there, or hold no numbers, before a view is made of them."""
    there = _types(connection, "points")
    numbers = [column for column, kind in there.items() if any(each in kind for each in _NUMBERS)]
    for axis in axes:
        if axis.column not in numbers:
            what = "holds no numbers" if axis.column in there else "is not there"
            near = names.suggestion(axis.column, numbers) or f"; there are {', '.join(numbers)}"
            raise SizeupError(f"--axes: the column {axis.column!r} {what}{near}")


def write(reader: Any, path: str, *, raw_csv: bool = False) -> int:
    """Write what a reader gives as .parquet or .csv, batch by batch; the number of rows."""
    from pyarrow import ArrowInvalid, csv, parquet

    rows = 0
    is_parquet = Path(path).suffix.lower() == ".parquet"
    schema, batches = (reader.schema, reader) if is_parquet or raw_csv else _neutralized(reader)
    try:
        with replacing(path) as new:
            writer: Any = (
                parquet.ParquetWriter(new, schema, compression="zstd")
                if is_parquet
                else csv.CSVWriter(new, schema, write_options=csv.WriteOptions(quoting_style="needed"))
            )
            with writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
    except ArrowInvalid as error:
        raise SizeupError(f"{path}: {error}") from error
    return rows


def _neutralized(reader: Any) -> tuple[Any, Iterator[Any]]:
    """Names and rows in which no text is taken for a formula by a spreadsheet (see `csv_cells`)."""
    import pyarrow as pa
    from pyarrow import compute

    schema = pa.schema([field.with_name(neutral(field.name)) for field in reader.schema])

    def safe(column: Any) -> Any:
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        return compute.replace_substring_regex(column, FORMULA, r"'\1") if is_text else column

    return schema, (pa.RecordBatch.from_arrays([*map(safe, each.columns)], schema=schema) for each in reader)


def explained(error: Exception, sql: str, columns: Callable[[str], list[str]] | None = None) -> SizeupError:
    """An error in one line: DuckDB's own words, and what there is where a name is not known."""
    said, _, place = str(error).partition("\n\nLINE ")
    text = re.sub(r"^\w[\w ]* Error: ", "", said.splitlines()[0] if said else str(error)).rstrip("!")
    missing = _NO_TABLE.search(text)
    if missing is not None:
        return SizeupError(f"there is no table {missing['name']!r}; there are {', '.join(_TABLES)}")
    if _NO_COLUMN.search(text) is not None and columns is not None:
        return SizeupError(f"{text}; {_columns_in(sql, columns)}")
    where = f" (line {place.splitlines()[0]})" if place else ""
    return SizeupError(f"{text}{where}")


def _columns_in(sql: str, columns: Callable[[str], list[str]]) -> str:
    """The columns of the tables that a statement names."""
    named = [name for name in _TABLES if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
    listed = [f"{name} has {', '.join(_columns_of(name, columns))}" for name in named]
    return "; ".join(each for each in listed if not each.endswith(" has "))


def _columns_of(name: str, columns: Callable[[str], list[str]]) -> list[str]:
    import duckdb

    try:
        return columns(name)
    except duckdb.Error:
        return []


def shortened(error: Any) -> str:
    """The first line of what DuckDB says, without the kind of error."""
    return re.sub(r"^\w[\w ]* Error: ", "", str(error).splitlines()[0])
