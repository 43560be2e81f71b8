"""Queries on the results of sweeps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sizeup.results.query import QueryResult


def query(
    folder: str | os.PathLike[str],
    sql: str | None = None,
    *,
    view: str | None = None,
    devices: str | Iterable[str] = (),
    precisions: str | Iterable[str] = (),
    under: float | str | None = None,
    top: int | None = None,
    axes: str | None = None,
    against: str | os.PathLike[str] | None = None,
    join: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    memory_limit: int | str | None = None,
    time_limit: float | str | None = None,
) -> QueryResult:
    """Query the results of a sweep by a view, or by SQL on `points` and the views.

    Views are summary, fits, misfits, fastest, serving (language models), pareto (over two `axes`, e.g.
    "ms,max:accuracy"), unknown, errors, and regressions relative to an earlier sweep (`against`, table
    `before` in SQL). `devices` (or targets), `precisions` and `under` (a latency such as "20 ms", or seconds)
    filter the points; `join` names tables with further columns per model. `top` limits the rows, in fits,
    misfits and fastest per target, precision and batch. DuckDB stops a query that needs more memory than
    `memory_limit` ("1 GiB") or a statement of more than `time_limit` ("300 s", or seconds).
    """
    from sizeup.checks.limits import parse_limit
    from sizeup.results.query import QueryResult
    from sizeup.sweeps.query import MEMORY_BYTES, SECONDS, QuerySpec, columns_of
    from sizeup.sweeps.views import axes_of
    from sizeup.targets import quantities

    seconds = parse_limit(under, quantities.TIME, "--under")
    most_bytes = parse_limit(memory_limit, quantities.SIZE, "--memory-limit")
    most_seconds = parse_limit(time_limit, quantities.TIME, "--time-limit")
    spec = QuerySpec(
        folder=os.fspath(folder),
        sql=sql,
        view=view,
        against=None if against is None else os.fspath(against),
        devices=_as_tuple(devices),
        precisions=_as_tuple(precisions),
        under_ms=None if seconds is None else 1e3 * seconds,
        top=top,
        axes=None if axes is None else axes_of(axes),
        joined=_as_tuple(join),
        memory_bytes=MEMORY_BYTES if most_bytes is None else int(most_bytes),
        seconds=SECONDS if most_seconds is None else most_seconds,
    )
    return QueryResult(spec, columns_of(spec))


def _as_tuple(values: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(values, str | os.PathLike):
        return (os.fspath(values),)
    return tuple(os.fspath(value) for value in values)
