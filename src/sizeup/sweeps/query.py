"""Read-only SQL over the results of sweeps: DuckDB on the files of a store, with views of its points.

DuckDB can read only the files of the store, cannot change settings or load extensions, and gets exactly one
statement, which must be a SELECT or EXPLAIN, with limits of memory, temporary files, threads and time.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.errors import MissingLibrary, SizeupError
from sizeup.sweeps import tables
from sizeup.sweeps.store import Store
from sizeup.sweeps.views import (
    DEFAULT,
    MATCH,
    OPTION,
    Axis,
    View,
    first_of_fastest,
    quoted,
    view_named,
    views,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_EXPLAIN = re.compile(r"\s*explain\b\s*(analyze\b)?\s*(\((analyze|format)\b[^()]*\))?", re.IGNORECASE)
_ROWS = 50_000  # per record batch: a few megabytes
# The default axes of a Pareto front.
COSTS = (Axis("ms"), Axis("weight_bytes"))
_QUALITY = "accuracy"
# Settings that restrict the connection before any SQL is read.
_LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
MEMORY_BYTES, LEAST_MEMORY_BYTES = 1 << 30, 1 << 26
SECONDS = 300.0  # of a statement
_MOST_THREADS = 8
_SPILLED = 4  # times the memory, in temporary files
_PATIENCE = 0.1  # seconds between interrupts of a statement that does not end


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query of a store: a view or SQL, and the filters on its points."""

    folder: str
    sql: str | None = None
    view: str | None = None
    against: str | None = None
    devices: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    under_ms: float | None = None
    top: int | None = None
    axes: tuple[Axis, Axis] | None = None
    joined: tuple[str, ...] = ()
    memory_bytes: int = MEMORY_BYTES
    seconds: float = SECONDS

    @property
    def settings(self) -> dict[str, str]:
        """The settings of DuckDB that limit a query."""
        return {
            "memory_limit": f"{self.memory_bytes}B",
            "max_temp_directory_size": f"{_SPILLED * self.memory_bytes}B",
            "threads": str(min(os.cpu_count() or 1, _MOST_THREADS)),
        }


@dataclass(frozen=True, slots=True)
class Session:
    """An open connection with the views of a query."""

    connection: DuckDBPyConnection
    views: Mapping[str, View]
    query: QuerySpec

    def run(self, sql: str) -> Any:
        """Execute a statement; the result is not fetched yet."""
        with self.translated_errors(sql):
            return self.connection.execute(sql)

    @contextmanager
    def translated_errors(self, sql: str) -> Iterator[None]:
        """Turns errors of DuckDB about a statement into a SizeupError of one line."""
        import duckdb

        with _limits(self.connection, self.query):
            try:
                yield
            except (duckdb.OutOfMemoryException, duckdb.InterruptException):
                raise
            except duckdb.Error as error:
                raise _damage(error, self.query) or tables.sql_error(error, sql, self._columns) from error

    def number(self, sql: str) -> int:
        """The single number that a statement returns."""
        return int(self.run(sql).fetchone()[0])

    def _columns(self, name: str) -> list[str]:
        return [row[0] for row in self.connection.execute(f"DESCRIBE {quoted(name)}").fetchall()]

    @property
    def statement(self) -> str:
        """The SQL of the query, ordered and limited to the requested number of rows."""
        top = self.query.top
        if self.query.sql is not None:
            text = read_only_statement(self.connection, self.query.sql)
            return text if top is None else f"SELECT * FROM (\n{text}\n) LIMIT {top}"
        view = view_named(self.query.view or DEFAULT, self.views)
        top = view.first if top is None else top
        if top is None:
            return f"SELECT * FROM {view.name} ORDER BY {view.order}"
        if not view.grouped:
            return f"SELECT * FROM {view.name} ORDER BY {view.order} LIMIT {top}"
        if view.ranked:
            return f"SELECT * FROM ({first_of_fastest(top)}) ORDER BY {view.order}"
        return (
            f"SELECT * FROM {view.name} QUALIFY row_number() OVER "
            f"(PARTITION BY target, precision, batch ORDER BY {view.order}) <= {top} ORDER BY {view.order}"
        )


@contextmanager
def open_session(query: QuerySpec) -> Iterator[Session]:
    """DuckDB with the tables and views of a query, without access to any other file."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise MissingLibrary("querying a sweep", "duckdb", "sweep") from error
    _check(query)
    with (
        tempfile.TemporaryDirectory(prefix="sizeup-") as scratch,
        duckdb.connect(
            ":memory:", config={**_LOCKED, **query.settings, "temp_directory": scratch}
        ) as connection,
    ):
        with _limits(connection, query):
            try:
                views_by_name = _create_views(connection, query)
            except (duckdb.OutOfMemoryException, duckdb.InterruptException):
                raise
            except duckdb.Error as error:
                raise _damage(error, query) or SizeupError(tables.first_line(error)) from error
        yield Session(connection, views_by_name, query)


@contextmanager
def _limits(connection: DuckDBPyConnection, query: QuerySpec) -> Iterator[None]:
    """Interrupts what takes longer than the limit; raises SizeupError if a limit was exceeded."""
    import duckdb

    is_done, is_late = threading.Event(), threading.Event()

    def watch() -> None:
        if not is_done.wait(query.seconds):
            is_late.set()
            while not is_done.wait(_PATIENCE):
                connection.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:  # reading of record batches raises errors of Arrow
        if is_late.is_set():
            raise SizeupError(
                f"the query was stopped after {query.seconds:g} s; --time-limit (time_limit=) allows more"
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "Out of Memory" in str(error):
            limit = units.size(query.memory_bytes)
            raise SizeupError(
                f"the query needs more than {limit} of memory or {_SPILLED} times that of temporary files;"
                " --memory-limit (memory_limit=) allows more"
            ) from error
        raise
    finally:
        is_done.set()
        watcher.join()


def _create_views(connection: DuckDBPyConnection, query: QuerySpec) -> Mapping[str, View]:
    """Create the tables and views of a query and lock the connection; returns the views."""
    has_all_rows = tables.ALL in _identifiers_in(query)
    allowed = tables.attach(connection, "stored_points", Store(query.folder), has_all_rows)
    if query.against is not None:
        allowed += tables.attach(connection, "stored_before", Store(query.against))
    added = [tables.join(connection, path) for path in query.joined]
    filters = (query.devices, query.precisions, added)
    tables.create_filtered_view(connection, "considered", "stored_points", *filters)
    under = query.under_ms
    fast = "" if under is None else f" WHERE ms <= {under!r}"
    connection.execute(f"CREATE VIEW points AS SELECT * FROM considered{fast}")
    if query.against is not None:
        tables.create_filtered_view(connection, "before", "stored_before", *filters)
    views_by_name = views(_axes(query, added), query.against is not None)
    tables.check_axes(connection, query.axes or ())
    if query.view == "regressions" and query.against is not None:
        _check_pairs(connection, query)
    for view in _used_views(query, views_by_name):
        connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    _lock(connection, allowed)
    return views_by_name


def _damage(error: Exception, query: QuerySpec) -> SizeupError | None:
    """The damaged file of a store, if the error of DuckDB names a Parquet file."""
    if ".parquet" not in str(error):
        return None
    folders = (folder for folder in (query.folder, query.against) if folder is not None)
    return next((damage for folder in folders if (damage := Store(folder).damage())), None)


def _used_views(query: QuerySpec, views_by_name: Mapping[str, View]) -> Iterator[View]:
    """The views that a query uses; creating a view makes DuckDB open every file."""
    if query.sql is None:
        yield view_named(query.view or DEFAULT, views_by_name)
    else:
        words = _identifiers_in(query)
        yield from (view for view in views_by_name.values() if view.name in words)


def _identifiers_in(query: QuerySpec) -> set[str]:
    return set(re.findall(r"\w+", (query.sql or "").lower()))


def _axes(query: QuerySpec, added: Iterable[tables.JoinedTable]) -> tuple[Axis, Axis]:
    if query.axes is not None:
        return query.axes
    has_quality = any(_QUALITY in table.columns for table in added)
    return (COSTS[0], Axis(_QUALITY, maximize=True)) if has_quality else COSTS


def _check_pairs(connection: DuckDBPyConnection, query: QuerySpec) -> None:
    """Raise SizeupError if a sweep has several rows for one point: the comparison would be ambiguous."""
    names = ", ".join(MATCH)
    for table, folder in (("points", query.folder), ("before", query.against)):
        sql = f"SELECT model, target FROM {table} GROUP BY {names} HAVING count(*) > 1 LIMIT 1"
        twice = connection.execute(sql).fetchone()
        if twice is not None:
            raise SizeupError(
                f"{folder}: several rows for {twice[0]} on {twice[1]}, from different models of that name;"
                " sweep into a new folder, or compare by model_hash in SQL"
            )


def _check(query: QuerySpec) -> None:
    if query.sql is not None and query.view is not None:
        raise SizeupError("give a view or SQL, not both; SQL can select from a view")
    if query.memory_bytes < LEAST_MEMORY_BYTES:
        raise SizeupError(f"--memory-limit is at least {units.size(LEAST_MEMORY_BYTES)}")
    if query.top is not None and query.top < 1:
        raise SizeupError(f"top is {query.top}; give a number of rows from 1 up")
    known = views(COSTS, compared=True)
    view = known.get(query.view or DEFAULT)
    if query.under_ms is not None and query.sql is None and view is not None and not view.timed:
        raise SizeupError(f"--under needs a view with latencies, which {view.name} does not have")


def _lock(connection: DuckDBPyConnection, allowed: Iterable[str]) -> None:
    listed = ", ".join(tables.sql_literal(path) for path in allowed)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def read_only_statement(connection: DuckDBPyConnection, sql: str) -> str:
    """The statement of a text; raises SizeupError unless it is exactly one SELECT or EXPLAIN."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise tables.sql_error(error, sql) from error
    if len(statements) != 1:
        raise SizeupError(f"give one SELECT statement; this SQL has {len(statements)} statements")
    text = statements[0].query.strip().rstrip(";")
    if statements[0].type == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE executes its statement.
        prefix = _EXPLAIN.match(text)
        read_only_statement(connection, text[prefix.end() :] if prefix else "")
    elif statements[0].type != duckdb.StatementType.SELECT:
        statement_type = str(statements[0].type).rpartition(".")[2]
        raise SizeupError(f"queries are read-only: give one SELECT, not {statement_type}")
    return text


def columns_of(query: QuerySpec) -> tuple[str, ...]:
    """The column names of a result, without computing its rows; raises SizeupError if the SQL is invalid."""
    with open_session(query) as session:
        return _columns(session)


def _columns(session: Session) -> tuple[str, ...]:
    statement = session.statement
    if statement.lower().startswith("explain"):
        return tuple(each[0] for each in session.run(statement).description)
    return tuple(row[0] for row in session.run(f"DESCRIBE {statement}").fetchall())


@dataclass(frozen=True, slots=True)
class Preview:
    """The first rows of a result, the number of its rows, and the number of undetermined points."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int
    unknown: int


def preview(query: QuerySpec, limit: int) -> Preview:
    """At most `limit` rows of a result."""
    with open_session(query) as session:
        columns, statement = _columns(session), session.statement
        with session.translated_errors(statement):
            rows, total = _first_rows(session.connection.sql(statement), limit)
        return Preview(columns, rows, total, _unknown(session))


def _first_rows(result: DuckDBPyRelation, most: int) -> tuple[tuple[tuple[Any, ...], ...], int]:
    """The first rows of a result and the number of its rows, from one execution."""
    rows: list[tuple[Any, ...]] = []
    total = 0
    for batch in result.to_arrow_reader(_ROWS):
        if len(rows) < most:
            first = batch.slice(0, most - len(rows))
            rows += zip(*(column.to_pylist() for column in first.columns), strict=True)
        total += batch.num_rows
    return tuple(rows), total


def _unknown(session: Session) -> int:
    """The number of points that a view leaves out because the values it needs are unknown."""
    query = session.query
    view = None if query.sql is not None else session.views[query.view or DEFAULT]
    if view is None or not view.unknown:
        return 0
    untimed = f" OR ({OPTION} AND ms IS NULL)" if query.under_ms is not None else ""
    return session.number(f"SELECT count(*) FROM considered WHERE ({view.unknown}){untimed}")


@contextmanager
def open_reader(query: QuerySpec, rows: int = _ROWS) -> Iterator[Any]:
    """The result as an Arrow record batch reader, which holds one batch in memory at a time."""
    with open_session(query) as session:
        statement = session.statement
        with session.translated_errors(statement):
            yield session.connection.sql(statement).to_arrow_reader(rows)


def rows_of(query: QuerySpec) -> Iterator[tuple[Any, ...]]:
    """The rows of a result as Python values, fetched in chunks."""
    with open_session(query) as session:
        statement = session.statement
        result = session.run(statement)
        while True:
            with session.translated_errors(statement):
                rows = result.fetchmany(_ROWS)
            if not rows:
                return
            yield from rows


def table_of(query: QuerySpec) -> Any:
    """The result as an Arrow table."""
    with open_reader(query) as reader:
        return reader.read_all()


def save(query: QuerySpec, path: str | os.PathLike[str], *, raw_csv: bool = False) -> int:
    """Write a result batch by batch as .parquet or .csv, by suffix; returns the number of rows."""
    with open_reader(query) as reader:
        return tables.write(reader, os.fspath(path), raw_csv=raw_csv)
