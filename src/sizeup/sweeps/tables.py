"""The tables of a query: the files of a store, joined tables and filters; and results written to files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import dtypes
from sizeup.csv_cells import REPLACEMENTS, neutralize
from sizeup.errors import SizeupError
from sizeup.files import atomic_path, is_file
from sizeup.sweeps.schema import FIELDS, NAMES
from sizeup.sweeps.storage import RemoteStorage
from sizeup.sweeps.store import TABLE, Manifest, Store, read_manifest
from sizeup.sweeps.views import KEYS, MATCH, Axis, quoted, views
from sizeup.targets import names

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TYPES = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}
ALL = "all_rows"
_RESERVED = frozenset({"points", "before", "considered", "stored_points", "stored_before", ALL})
_READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL")
_TABLES = ("points", "before", "summary", "fits", "misfits", "fastest", "serving", "pareto", "unknown",
           "errors", "regressions", ALL)  # fmt: skip
_NO_COLUMN = re.compile(r'Referenced column "(?P<name>.+?)" (?:was )?not found|column named "(?P<other>.+?)"')
_NO_TABLE = re.compile(r"Table with name (?P<name>.+?) does not exist")


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A table joined to the points: its name, key columns and added columns."""

    name: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]


def sql_literal(value: str) -> str:
    """A text as a quoted SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def attach(connection: DuckDBPyConnection, name: str, store: Store, with_all_rows: bool = False) -> list[str]:
    """Create a view of the current rows of a store, and optionally one of all rows; returns the files read.

    Columns missing in an older store are null.
    """
    import duckdb

    paths = store.paths()
    if not paths:
        raise SizeupError(f"{store.storage.address}: no sweep results found; run sizeup sweep first")
    allowed = list(paths)
    if isinstance(store.storage, RemoteStorage):
        system = store.storage.system
        connection.register_filesystem(system)
        # The same files in the spelling that fsspec passes to DuckDB.
        allowed += [system.unstrip_protocol(system._strip_protocol(path)) for path in paths]
    # The sorted files share a schema; shards may come from several versions.
    inside = store.storage.path(f"{TABLE}/")
    sorted_files = [path for path in paths if path.startswith(inside)]
    others = [path for path in paths if not path.startswith(inside)]
    parts = [
        _parquet_source(files, union) for files, union in ((sorted_files, "false"), (others, "true")) if files
    ]
    source = f"({' UNION ALL BY NAME '.join(f'SELECT * FROM {part}' for part in parts)})"
    try:
        columns = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    except duckdb.Error as error:
        reading_error = SizeupError(f"{store.storage.address}: {first_line(error)}")
        raise store.damage() or reading_error from error
    if not columns >= {"key", "model", "target", "status"}:
        raise SizeupError(f"{store.storage.address}: its files are not sweep results")
    fields = [
        quoted(field.name)
        if field.name in columns
        else f"CAST(NULL AS {_TYPES[field.type]}) AS {quoted(field.name)}"
        for field in FIELDS
    ]
    rows = f"SELECT {', '.join(fields)} FROM {source}"
    connection.execute(f"CREATE VIEW {name} AS {_current_rows(connection, name, read_manifest(store), rows)}")
    if with_all_rows:
        connection.execute(f"CREATE VIEW {ALL} AS {rows}")
    return allowed


def _current_rows(connection: DuckDBPyConnection, name: str, manifest: Manifest, rows: str) -> str:
    """SQL that drops the rows of earlier contents of a model, and rows superseded by a later evaluation.

    Without such rows, as in most stores, the SQL is unchanged.
    """
    if changed := manifest.changed:
        connection.register("current_models", changed)
        connection.execute(f"CREATE TABLE {name}_current AS SELECT * FROM current_models")
        connection.unregister("current_models")
        rows = f"""
        SELECT stored.* FROM ({rows}) AS stored
        LEFT JOIN (SELECT DISTINCT model FROM {name}_current) AS other ON stored.model = other.model
        LEFT JOIN {name}_current AS latest
        ON stored.model = latest.model AND stored.model_hash = latest.model_hash
        WHERE other.model IS NULL OR latest.model IS NOT NULL
        """
    if manifest.has_superseded_rows:
        listed = ", ".join(
            f"({', '.join(map(sql_literal, evaluation))}, {index})"
            for index, evaluation in enumerate(manifest.evaluations)
        )
        rows = f"""
        SELECT stored.* FROM ({rows}) AS stored
        LEFT JOIN (VALUES {listed}) AS evaluated(target, target_hash, version, number)
        ON stored.target = evaluated.target AND stored.target_hash = evaluated.target_hash
            AND stored.version = evaluated.version
        QUALIFY row_number() OVER (
            PARTITION BY stored.device, stored.model_hash, {", ".join(f"stored.{name}" for name in MATCH)}
            ORDER BY evaluated.number DESC NULLS LAST
        ) = 1
        """
    return rows


def _parquet_source(paths: Sequence[str], union: str) -> str:
    # The folder names repeat columns of the files, percent-encoded.
    listed = ", ".join(map(sql_literal, paths))
    return f"read_parquet([{listed}], union_by_name = {union}, hive_partitioning = false)"


def join(connection: DuckDBPyConnection, path: str) -> JoinedTable:
    """Read a user's table, whose columns are added to the points that match its keys."""
    import duckdb

    file = Path(path)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise SizeupError(f"{path}: cannot be joined; give a .csv, .tsv or .parquet file")
    if not is_file(file):
        raise SizeupError(f"{path}: no such file")
    name = "".join(letter if letter.isalnum() else "_" for letter in file.stem) or "joined"
    reserved = {*_RESERVED, *views((Axis("ms"), Axis("ms")), compared=True)}
    name += "_joined" if name.lower() in reserved else ""
    try:
        types = _types(connection, f"{reader}({sql_literal(path)})")
        fixed = [key for key in KEYS if key in types and key != "batch"]
        # A name that consists of digits is still text.
        typed = ", ".join(f"{sql_literal(key)}: 'VARCHAR'" for key in fixed)
        options = f", types = {{{typed}}}" if reader == "read_csv" and fixed else ""
        cleaned = [_without_nan(column, column_type) for column, column_type in types.items()]
        source = f"{reader}({sql_literal(path)}{options})"
        connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT {', '.join(cleaned)} FROM {source}")
    except duckdb.Error as error:
        raise SizeupError(f"{path}: {first_line(error)}") from error
    added = JoinedTable(
        name, tuple(key for key in KEYS if key in types), tuple(c for c in types if c not in KEYS)
    )
    _check_joined(connection, path, added)
    return added


def _without_nan(column: str, column_type: str) -> str:
    """A column with NaN replaced by NULL."""
    name = quoted(column)
    return (
        f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS {name}"
        if column_type in ("DOUBLE", "FLOAT")
        else name
    )


def _types(connection: DuckDBPyConnection, source: str) -> dict[str, str]:
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}


def _check_joined(connection: DuckDBPyConnection, path: str, added: JoinedTable) -> None:
    if not added.keys:
        raise SizeupError(f"{path}: no key column; it needs one of {', '.join(KEYS)}")
    clash = [column for column in added.columns if column.lower() in (*NAMES, "certain")]
    if clash:
        raise SizeupError(f"{path}: column {clash[0]!r} exists in points already; rename it")
    keys = ", ".join(map(quoted, added.keys))
    twice = connection.execute(
        f"SELECT {keys} FROM {quoted(added.name)} GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
    ).fetchone()
    if twice is not None:
        key_values = ", ".join(f"{key} {value}" for key, value in zip(added.keys, twice, strict=True))
        raise SizeupError(f"{path}: more than one row for {key_values}")


def create_filtered_view(
    connection: DuckDBPyConnection,
    name: str,
    source: str,
    devices: Sequence[str],
    precisions: Sequence[str],
    added: Iterable[JoinedTable],
) -> None:
    """Create a view of the rows with the given devices and precisions, with the columns of joined tables."""
    conditions = [
        *_device_conditions(connection, source, devices),
        *_precision_conditions(connection, source, precisions),
    ]
    where_clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    joins, columns = "", [f"{source}.*"]
    for table in added:
        pairs = " AND ".join(
            f"{source}.{quoted(key)} = {quoted(table.name)}.{quoted(key)}" for key in table.keys
        )
        joins += f" LEFT JOIN {quoted(table.name)} ON {pairs}"
        columns += [f"{quoted(table.name)}.{quoted(column)}" for column in table.columns]
    inner = f"(SELECT * FROM {source}{where_clause}) AS {source}"
    connection.execute(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {inner}{joins}")


def _device_conditions(connection: DuckDBPyConnection, source: str, devices: Sequence[str]) -> Iterator[str]:
    """An SQL condition for devices or targets; spelling variants are accepted."""
    if not devices:
        return
    rows = connection.execute(f"SELECT DISTINCT device, target FROM {source}").fetchall()
    known = sorted({value for row in rows for value in row if value is not None})
    matches = [_resolved_name(name, known, "no points for device or target") for name in devices]
    listed = ", ".join(sql_literal(name) for name in matches)
    yield f"(device IN ({listed}) OR target IN ({listed}))"


def _precision_conditions(
    connection: DuckDBPyConnection, source: str, precisions: Sequence[str]
) -> Iterator[str]:
    if not precisions:
        return
    rows = connection.execute(f"SELECT DISTINCT precision FROM {source}").fetchall()
    known = sorted(row[0] for row in rows if row[0] is not None)
    matches = [
        _resolved_name(_canonical_precision(name), known, "no points at precision") for name in precisions
    ]
    yield f"precision IN ({', '.join(sql_literal(name) for name in matches)})"


def _canonical_precision(name: str) -> str:
    try:
        return dtypes.precision_name(dtypes.precision(name))
    except SizeupError:
        return name


def _resolved_name(name: str, known: Sequence[str], complaint: str) -> str:
    """The known name that a name typed by the user matches; raises SizeupError if there is none."""
    for candidate in known:
        if names.lookup_key(candidate) == names.lookup_key(name):
            return candidate
    near = names.suggestion(name, known) or (f"; known: {', '.join(known)}" if len(known) < 20 else "")
    raise SizeupError(f"{complaint} {name!r}{near}")


def check_axes(connection: DuckDBPyConnection, axes: Iterable[Axis]) -> None:
    """Raise SizeupError if a column does not exist or is not numeric."""
    types = _types(connection, "points")
    numbers = [
        column for column, column_type in types.items() if any(numeric in column_type for numeric in _NUMBERS)
    ]
    for axis in axes:
        if axis.column not in numbers:
            problem = "is not numeric" if axis.column in types else "does not exist"
            near = names.suggestion(axis.column, numbers) or f"; known: {', '.join(numbers)}"
            raise SizeupError(f"--axes: column {axis.column!r} {problem}{near}")


def write(reader: Any, path: str, *, raw_csv: bool = False) -> int:
    """Write record batches as .parquet or .csv; returns the number of rows."""
    from pyarrow import ArrowInvalid, csv, parquet

    rows = 0
    is_parquet = Path(path).suffix.lower() == ".parquet"
    schema, batches = (reader.schema, reader) if is_parquet or raw_csv else _neutralized(reader)
    try:
        with atomic_path(path) as new:
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
    """The schema and rows with text escaped that a spreadsheet would run as a formula (see `csv_cells`)."""
    import pyarrow as pa
    from pyarrow import compute

    schema = pa.schema([field.with_name(neutralize(field.name)) for field in reader.schema])

    def safe(column: Any) -> Any:
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        for pattern, new in REPLACEMENTS if is_text else ():
            column = compute.replace_substring_regex(column, pattern, new)
        return column

    return schema, (
        pa.RecordBatch.from_arrays([*map(safe, batch.columns)], schema=schema) for batch in reader
    )


def sql_error(error: Exception, sql: str, columns: Callable[[str], list[str]] | None = None) -> SizeupError:
    """An error of DuckDB in one line; for an unknown name, with the names that exist."""
    message, _, location = str(error).partition("\n\nLINE ")
    text = re.sub(r"^\w[\w ]* Error: ", "", message.splitlines()[0] if message else str(error)).rstrip("!")
    missing = _NO_TABLE.search(text)
    if missing is not None:
        return SizeupError(f"unknown table {missing['name']!r}; known: {', '.join(_TABLES)}")
    column = _NO_COLUMN.search(text)
    if column is not None and columns is not None:
        return SizeupError(f"{text}{_nearest_columns(column['name'] or column['other'], sql, columns)}")
    line = f" (line {location.splitlines()[0]})" if location else ""
    return SizeupError(f"{text}{line}")


def _nearest_columns(name: str, sql: str, columns: Callable[[str], list[str]]) -> str:
    """The nearest columns of the tables that a statement names; all of them if none is near."""
    tables = [table for table in _TABLES if re.search(rf"\b{table}\b", sql, re.IGNORECASE)]
    known = dict.fromkeys(column for table in tables for column in _columns_of(table, columns))
    near = names.suggestion(name, known)
    return f'{near}; "DESCRIBE {tables[0]}" lists all' if near else f"; {_columns_in(sql, columns)}"


def _columns_in(sql: str, columns: Callable[[str], list[str]]) -> str:
    """The columns of the tables that a statement names."""
    named = [name for name in _TABLES if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
    listed = [f"{name} has {', '.join(_columns_of(name, columns))}" for name in named]
    return "; ".join(entry for entry in listed if not entry.endswith(" has "))


def _columns_of(name: str, columns: Callable[[str], list[str]]) -> list[str]:
    import duckdb

    try:
        return columns(name)
    except duckdb.Error:
        return []


def first_line(error: Any) -> str:
    """The first line of an error of DuckDB, without its type."""
    return re.sub(r"^\w[\w ]* Error: ", "", str(error).splitlines()[0])
