"""Questions to the results of sweeps."""

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
) -> QueryResult:
    """Ask the results of a sweep, by a view or by SQL that reads from `points` and from the views.

    Views are summary, fits, misfits, fastest, pareto (by two `axes`, as "ms,max:accuracy"), unknown, errors,
    and regressions from an earlier sweep (`against`, `before` in SQL). Devices or targets, precisions and a
    latency (`under`, a text such as "20 ms" or seconds) narrow the points first; `join` names tables, by
    whose rows points get further columns. `top` is how many rows there are, in fits, misfits and fastest for
    each target, precision and batch.
    """
    from sizeup.results.query import QueryResult
    from sizeup.sweeps.query import QuerySpec, columns_of
    from sizeup.sweeps.views import axes_of
    from sizeup.targets import quantities

    seconds = quantities.asked(under, quantities.TIME)
    question = QuerySpec(
        folder=os.fspath(folder),
        sql=sql,
        view=view,
        against=None if against is None else os.fspath(against),
        devices=_several(devices),
        precisions=_several(precisions),
        under_ms=None if seconds is None else 1e3 * seconds,
        top=top,
        axes=None if axes is None else axes_of(axes),
        joined=_several(join),
    )
    return QueryResult(question, columns_of(question))


def _several(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(given, str | os.PathLike):
        return (os.fspath(given),)
    return tuple(os.fspath(each) for each in given)
