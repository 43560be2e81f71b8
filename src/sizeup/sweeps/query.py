"""Asking sweeps by SQL: DuckDB over the files of a store, with views of its points, and no way to change any.

DuckDB reads the files of the store and no other, changes no setting and loads no extension, and only one
statement that reads is passed on to it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
_ROWS = 50_000  # of a batch: a few megabytes
# What a front is drawn by where nobody says.
COSTS = (Axis("ms"), Axis("weight_bytes"))
_QUALITY = "accuracy"
# What SQL may not do is decided before any of it is read.
_LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """What is asked of a sweep: a view or SQL, of the points that are left by what narrows them."""

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


@dataclass(frozen=True, slots=True)
class Session:
    """An open question: the connection, the views that it has, and the statement that answers it."""

    connection: DuckDBPyConnection
    views: Mapping[str, View]
    question: QuerySpec

    def run(self, sql: str) -> Any:
        """The result of a statement, not fetched yet."""
        with self.explaining(sql):
            return self.connection.execute(sql)

    @contextmanager
    def explaining(self, sql: str) -> Iterator[None]:
        """Turn what DuckDB says of a statement into one line."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            raise _damage(error, self.question) or tables.explained(error, sql, self._columns) from error

    def number(self, sql: str) -> int:
        """The one number that a statement gives."""
        return int(self.run(sql).fetchone()[0])

    def _columns(self, name: str) -> list[str]:
        return [row[0] for row in self.connection.execute(f"DESCRIBE {quoted(name)}").fetchall()]

    @property
    def statement(self) -> str:
        """The SQL of the question, in its order, with as many rows as are asked for."""
        top = self.question.top
        if self.question.sql is not None:
            text = only_reading(self.connection, self.question.sql)
            return text if top is None else f"SELECT * FROM (\n{text}\n) LIMIT {top}"
        view = view_named(self.question.view or DEFAULT, self.views)
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
def session(question: QuerySpec) -> Iterator[Session]:
    """DuckDB with the tables and views of a question, closed to everything else."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise MissingLibrary("asking a sweep", "duckdb", "sweep") from error
    _check(question)
    with (
        tempfile.TemporaryDirectory(prefix="sizeup-") as scratch,
        duckdb.connect(":memory:", config={**_LOCKED, "temp_directory": scratch}) as connection,
    ):
        try:
            found = _set_up(connection, question)
        except duckdb.Error as error:
            raise _damage(error, question) or SizeupError(tables.shortened(error)) from error
        yield Session(connection, found, question)


def _set_up(connection: DuckDBPyConnection, question: QuerySpec) -> Mapping[str, View]:
    """Make the tables and views of a question, and close the connection to all else; the views."""
    is_whole = tables.ALL in _words(question)
    allowed = tables.attach(connection, "stored_points", Store(question.folder), is_whole)
    if question.against is not None:
        allowed += tables.attach(connection, "stored_before", Store(question.against))
    added = [tables.join(connection, path) for path in question.joined]
    narrowed = (question.devices, question.precisions, added)
    tables.narrow(connection, "considered", "stored_points", *narrowed)
    under = question.under_ms
    fast = "" if under is None else f" WHERE ms <= {under!r}"
    connection.execute(f"CREATE VIEW points AS SELECT * FROM considered{fast}")
    if question.against is not None:
        tables.narrow(connection, "before", "stored_before", *narrowed)
    found = views(_axes(question, added), question.against is not None)
    tables.check_axes(connection, question.axes or ())
    if question.view == "regressions" and question.against is not None:
        _check_pairs(connection, question)
    for view in _needed(question, found):
        connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    _lock(connection, allowed)
    return found


def _damage(error: Exception, question: QuerySpec) -> SizeupError | None:
    """What is wrong with the files of a store, where DuckDB complains of one."""
    if ".parquet" not in str(error):
        return None
    folders = (folder for folder in (question.folder, question.against) if folder is not None)
    return next((found for folder in folders if (found := Store(folder).damage())), None)


def _needed(question: QuerySpec, found: Mapping[str, View]) -> Iterator[View]:
    """The views that a question speaks of: to make one, DuckDB opens every file."""
    if question.sql is None:
        yield view_named(question.view or DEFAULT, found)
    else:
        words = _words(question)
        yield from (view for view in found.values() if view.name in words)


def _words(question: QuerySpec) -> set[str]:
    return set(re.findall(r"\w+", (question.sql or "").lower()))


def _axes(question: QuerySpec, added: Iterable[tables.Added]) -> tuple[Axis, Axis]:
    if question.axes is not None:
        return question.axes
    has_quality = any(_QUALITY in each.columns for each in added)
    return (COSTS[0], Axis(_QUALITY, most=True)) if has_quality else COSTS


def _check_pairs(connection: DuckDBPyConnection, question: QuerySpec) -> None:
    """Refuse to compare sweeps in which a point is there more than once: nobody could say which is meant."""
    names = ", ".join(MATCH)
    for table, folder in (("points", question.folder), ("before", question.against)):
        sql = f"SELECT model, target FROM {table} GROUP BY {names} HAVING count(*) > 1 LIMIT 1"
        twice = connection.execute(sql).fetchone()
        if twice is not None:
            raise SizeupError(
                f"{folder}: {twice[0]} on {twice[1]} is there more than once, of several models of that name;"
                " sweep into a new folder, or compare by model_hash in SQL"
            )


def _check(question: QuerySpec) -> None:
    if question.sql is not None and question.view is not None:
        raise SizeupError("a view or SQL is asked, not both; SQL may select from a view")
    if question.top is not None and question.top < 1:
        raise SizeupError(f"{question.top} is no number of rows")
    known = views(COSTS, compared=True)
    asked = known.get(question.view or DEFAULT)
    if question.under_ms is not None and question.sql is None and asked is not None and not asked.timed:
        raise SizeupError(f"{asked.name} is not about points with a latency, which --under asks for")


def _lock(connection: DuckDBPyConnection, allowed: Iterable[str]) -> None:
    listed = ", ".join(tables.text(path) for path in allowed)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def only_reading(connection: DuckDBPyConnection, sql: str) -> str:
    """The one statement of a text, which must be one that reads."""
    import duckdb

    try:
        found = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise tables.explained(error, sql) from error
    if len(found) != 1:
        raise SizeupError(f"a question is one SELECT; there are {len(found)} statements")
    text = found[0].query.strip().rstrip(";")
    if found[0].type == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE runs what it explains.
        explained = _EXPLAIN.match(text)
        only_reading(connection, text[explained.end() :] if explained else "")
    elif found[0].type != duckdb.StatementType.SELECT:
        kind = str(found[0].type).rpartition(".")[2]
        raise SizeupError(f"a question only reads: one SELECT, and no {kind}")
    return text


def columns_of(question: QuerySpec) -> tuple[str, ...]:
    """The names of the columns of an answer, without computing its rows; raises where SQL is wrong."""
    with session(question) as opened:
        return _columns(opened)


def _columns(opened: Session) -> tuple[str, ...]:
    statement = opened.statement
    if statement.lower().startswith("explain"):
        return tuple(each[0] for each in opened.run(statement).description)
    return tuple(row[0] for row in opened.run(f"DESCRIBE {statement}").fetchall())


@dataclass(frozen=True, slots=True)
class Glimpse:
    """The first rows of an answer, how many there are, and how many points a view cannot tell about."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int
    unknown: int


def glimpse(question: QuerySpec, most: int) -> Glimpse:
    """At most so many rows of an answer."""
    with session(question) as opened:
        columns, statement = _columns(opened), opened.statement
        with opened.explaining(statement):
            rows, total = _counted(opened.connection.sql(statement), most)
        return Glimpse(columns, rows, total, _unknown(opened))


def _counted(result: DuckDBPyRelation, most: int) -> tuple[tuple[tuple[Any, ...], ...], int]:
    """The first rows of a result, and how many it has, from one run of it."""
    rows: list[tuple[Any, ...]] = []
    total = 0
    for batch in result.to_arrow_reader(_ROWS):
        if len(rows) < most:
            first = batch.slice(0, most - len(rows))
            rows += zip(*(column.to_pylist() for column in first.columns), strict=True)
        total += batch.num_rows
    return tuple(rows), total


def _unknown(opened: Session) -> int:
    """How many points a view leaves out because what it asks is not known of them."""
    question = opened.question
    view = None if question.sql is not None else opened.views[question.view or DEFAULT]
    if view is None or not view.unknown:
        return 0
    untimed = f" OR ({OPTION} AND ms IS NULL)" if question.under_ms is not None else ""
    return opened.number(f"SELECT count(*) FROM considered WHERE ({view.unknown}){untimed}")


@contextmanager
def reading(question: QuerySpec, rows: int = _ROWS) -> Iterator[Any]:
    """The answer as a reader of Arrow's record batches, made one by one: none of it is held but the last."""
    with session(question) as opened:
        statement = opened.statement
        with opened.explaining(statement):
            yield opened.connection.sql(statement).to_arrow_reader(rows)


def rows_of(question: QuerySpec) -> Iterator[tuple[Any, ...]]:
    """The rows of an answer as Python's own values, fetched piece by piece."""
    with session(question) as opened:
        statement = opened.statement
        with opened.explaining(statement):
            result = opened.run(statement)
            while found := result.fetchmany(_ROWS):
                yield from found


def table_of(question: QuerySpec) -> Any:
    """The whole answer as one table of Arrow."""
    with reading(question) as reader:
        return reader.read_all()


def save(question: QuerySpec, path: str | os.PathLike[str], *, raw_csv: bool = False) -> int:
    """Write an answer as its suffix says, .parquet or .csv, batch by batch; the number of rows."""
    with reading(question) as reader:
        return tables.write(reader, os.fspath(path), raw_csv=raw_csv)
