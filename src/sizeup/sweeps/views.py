"""Ready-made questions to a sweep, as views of its table of points.

A point is certain where it is known to fit its device and every operator was counted. What is not known never
stands before what is: points whose fit cannot be told are ranked behind the certain ones, points of which not
every operator was counted (whose latency is at least what is said) behind both, and none of them pushes one
that is better known from a front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sizeup.errors import SizeupError
from sizeup.targets.names import suggestion

# What makes two points of two sweeps the same question; hashes and versions are what may have changed.
MATCH = ("model", "target", "precision", "batch", "shapes", "bind")
# What a table that is joined to the points may be joined by.
KEYS = ("model", "target", "device", "runtime", "precision", "batch", "shapes", "format", "model_hash")
DEFAULT = "summary"

# What could be used there, as far as it is known.
OPTION = "status = 'ok' AND fits IS NOT FALSE"
CERTAIN = "(fits IS TRUE AND known_ops IS NOT DISTINCT FROM ops)"
# 0: certain, 1: may not fit, 2: not all of it was counted.
DOUBT = "CASE WHEN known_ops IS DISTINCT FROM ops THEN 2 WHEN fits THEN 0 ELSE 1 END"
_TIMES = "ms, low_ms, high_ms"
_TIMED = f"{OPTION} AND ms IS NOT NULL"
_RANKED = f"""
target, precision, batch, row_number() OVER (
    PARTITION BY target, precision, batch ORDER BY doubt, ms, params NULLS LAST, model, shapes
) AS place, model, {_TIMES}, shapes, doubt = 0 AS certain, fits, params, macs, weight_bytes, energy_mj, basis
"""
_ROOM = "ram_need_bytes, ram_bytes, flash_need_bytes, flash_bytes"


@dataclass(frozen=True, slots=True)
class View:
    """A question by name: what it shows, its SQL over `points`, and the order in which it is read."""

    name: str
    shows: str
    sql: str
    order: str
    grouped: bool = False  # the first N are those of each target, precision and batch
    ranked: bool = False  # it has a column `place` that counts them
    first: int | None = None  # how many that are where nobody says
    timed: bool = True  # its rows are points that may have a latency
    unknown: str = ""  # of points that it leaves out because something of them is not known


@dataclass(frozen=True, slots=True)
class Axis:
    """A column that a front is drawn by, and whether more of it is better."""

    column: str
    most: bool = False

    @property
    def sql(self) -> str:
        """The column so that less is better."""
        return f"-{quoted(self.column)}" if self.most else quoted(self.column)


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever letters it has."""
    return '"' + name.replace('"', '""') + '"'


def axes_of(text: str) -> tuple[Axis, Axis]:
    """Two axes from a text such as `ms,max:accuracy`."""
    parts = [each.strip() for each in text.split(",")]
    if len(parts) != 2 or not all(part.removeprefix("max:").removeprefix("min:") for part in parts):
        raise SizeupError(f"{text!r} is not two columns, such as ms,weight_bytes or ms,max:accuracy")
    first, second = (
        Axis(part.removeprefix("max:").removeprefix("min:"), part.startswith("max:")) for part in parts
    )
    return first, second


def views(axes: tuple[Axis, Axis], compared: bool) -> Mapping[str, View]:
    """All views by name; those between two sweeps only where there are two."""
    found = [*_PLAIN, _pareto(*axes), *([_REGRESSIONS] if compared else ())]
    return {view.name: view for view in found}


def view_named(name: str, known: Mapping[str, View]) -> View:
    """The view of that name, or an error that tells what there is."""
    if name == _REGRESSIONS.name and name not in known:
        raise SizeupError("regressions are between two sweeps: name the earlier one with --against DIR")
    if name == "points":
        raise SizeupError('points are all rows, and what SQL selects from: ask "SELECT * FROM points"')
    if name not in known:
        near = suggestion(name, known)
        raise SizeupError(f"no view is called {name!r}{near or f'; there are {chr(44).join(known)}'}")
    return known[name]


def first_of_fastest(top: int) -> str:
    """The first places of `fastest`, without ranking all points.

    What takes longer than so many others of its group that are as well known has no place among the first.
    """
    return f"""
    WITH timed AS (SELECT *, {DOUBT} AS doubt FROM points WHERE {_TIMED}), last AS (
        SELECT target, precision, batch, doubt, list_max(min(ms, {top})) AS last_ms
        FROM timed GROUP BY target, precision, batch, doubt
    ), kept AS (
        SELECT timed.* FROM timed JOIN last
        ON timed.target = last.target AND timed.precision = last.precision AND timed.doubt = last.doubt
            AND timed.batch IS NOT DISTINCT FROM last.batch AND timed.ms <= last.last_ms
    )
    SELECT * FROM (SELECT {_RANKED} FROM kept) WHERE place <= {top}
    """


_PLAIN = (
    View(
        "summary",
        "of each target and precision how many points there are, fit, and are timed",
        """
        SELECT target, precision, count(DISTINCT model) AS models,
            count(*) FILTER (status = 'ok' AND fits) AS fit,
            count(*) FILTER (status = 'ok' AND NOT fits) AS too_large,
            count(*) FILTER (status = 'ok' AND fits IS NULL) AS fit_unknown,
            count(*) FILTER (status <> 'ok') AS errors, count(*) AS points,
            count(ms) AS timed, median(ms) AS median_ms
        FROM points GROUP BY target, precision
        """,
        "target, precision",
        timed=False,
    ),
    View(
        "fits",
        "points that are known to fit, the fastest first",
        f"""
        SELECT target, precision, model, batch, shapes, {_TIMES}, {CERTAIN} AS certain, {_ROOM},
            energy_mj, params, macs, basis
        FROM points WHERE status = 'ok' AND fits
        """,
        "target, precision, batch NULLS FIRST, NOT certain, ms NULLS LAST, model, shapes",
        grouped=True,
        unknown="status = 'ok' AND fits IS NULL",
    ),
    View(
        "misfits",
        "points that are known not to fit, and why",
        f"""
        SELECT target, precision, model, batch, shapes, fits_reason, {_ROOM}
        FROM points WHERE status = 'ok' AND NOT fits
        """,
        "target, precision, model, batch NULLS FIRST, shapes",
        grouped=True,
        timed=False,
    ),
    View(
        "fastest",
        "points by latency for each target, precision and batch, those best known first",
        f"SELECT {_RANKED} FROM (SELECT *, {DOUBT} AS doubt FROM points WHERE {_TIMED})",
        "target, precision, batch NULLS FIRST, place",
        grouped=True,
        ranked=True,
        first=1,
        unknown=f"{OPTION} AND ms IS NULL",
    ),
    View(
        "unknown",
        "points that could be evaluated, and of which something is not known, with the reasons",
        """
        SELECT target, precision, model, batch, shapes, concat_ws(', ',
                CASE WHEN fits IS NULL THEN 'fit' END,
                CASE WHEN ms IS NULL THEN 'latency' END,
                CASE WHEN known_ops IS DISTINCT FROM ops THEN 'operators' END) AS missing,
            fits_reason, latency_missing, counts_missing, known_ops, ops
        FROM points
        WHERE status = 'ok' AND (fits IS NULL OR ms IS NULL OR known_ops IS DISTINCT FROM ops)
        """,
        "model, target, precision, batch NULLS FIRST, shapes",
        timed=False,
    ),
    View(
        "errors",
        "models that could not be evaluated: why, and how many points that is",
        """
        SELECT model, error_kind, count(*) AS points, error
        FROM points WHERE status <> 'ok' GROUP BY model, error_kind, error
        """,
        "error_kind, model, error",
        timed=False,
    ),
)


def _pareto(first: Axis, second: Axis) -> View:
    """Points that no other on the same device beats in one axis without losing in the other.

    For every value of the first axis the least of the second is kept, then what all smaller values of the
    first attain: sorting, not comparing pairs. A point is held to those alone that are as well known as it
    is. To begin with, all that one good point of the device beats in both is left out, which is most.
    """
    a, b = first.sql, second.sql
    doubts = range(3)
    least = (f"min(axis_b) FILTER (doubt <= {doubt}) AS least_{doubt}" for doubt in doubts)
    earlier = (f"min(least_{doubt}) OVER earlier AS earlier_{doubt}" for doubt in doubts)
    unbeaten = (
        f"WHEN {doubt} THEN kept.axis_b = least_{doubt} AND coalesce(kept.axis_b < earlier_{doubt}, true)"
        for doubt in doubts
    )
    head = ("device", "model", "precision", first.column, second.column)
    shown = tuple(dict.fromkeys((*head, *_PARETO_COLUMNS)))
    columns = ", ".join(map(quoted, shown))
    return View(
        "pareto",
        "points of each device and batch that none beats in both of two columns (--axes)",
        f"""
        WITH option AS (
            SELECT {columns}, {a} AS axis_a, {b} AS axis_b, {DOUBT} AS doubt FROM points
            WHERE {OPTION} AND {a} IS NOT NULL AND {b} IS NOT NULL
        ), good_one AS (
            SELECT device, batch, arg_min(axis_a, good) AS good_a, arg_min(axis_b, good) AS good_b
            FROM (SELECT *, CAST(axis_a AS DOUBLE) * axis_b AS good FROM option WHERE doubt = 0)
            GROUP BY device, batch
        ), kept AS MATERIALIZED (
            SELECT option.* FROM option LEFT JOIN good_one
            ON option.device = good_one.device AND option.batch IS NOT DISTINCT FROM good_one.batch
            WHERE good_a IS NULL OR axis_a <= good_a OR axis_b <= good_b
        ), least AS (
            SELECT device, batch, axis_a, {", ".join(least)} FROM kept GROUP BY device, batch, axis_a
        ), so_far AS (
            SELECT *, {", ".join(earlier)} FROM least WINDOW earlier AS (
                PARTITION BY device, batch ORDER BY axis_a ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
        SELECT {", ".join(f"kept.{quoted(column)}" for column in shown[:_HEAD])}, kept.doubt = 0 AS certain,
            {", ".join(f"kept.{quoted(column)}" for column in shown[_HEAD:])}
        FROM kept JOIN so_far
        ON kept.device = so_far.device AND kept.batch IS NOT DISTINCT FROM so_far.batch
            AND kept.axis_a = so_far.axis_a
        WHERE CASE kept.doubt {" ".join(unbeaten)} END
        """,
        f"device, batch NULLS FIRST, NOT certain, {a}, {b}, model, precision, runtime, shapes",
        unknown=f"{OPTION} AND ({a} IS NULL OR {b} IS NULL)",
    )


_HEAD = 7  # columns before the one that says whether a point is certain
_PARETO_COLUMNS = (
    *("ms", "low_ms", "high_ms", "runtime", "batch", "shapes"),
    *("weight_bytes", "peak_bytes", "params", "macs", "fits"),
)

_PAIRS = " AND ".join(f"now.{name} IS NOT DISTINCT FROM was.{name}" for name in MATCH)
# Sums over all operators can be compared only where all were counted, then and now.
_WHOLE = "now.known_ops IS NOT DISTINCT FROM now.ops AND was.known_ops IS NOT DISTINCT FROM was.ops"
_REGRESSIONS = View(
    "regressions",
    "points that are worse than in the earlier sweep: failing, too large, larger, or slower beyond the range",
    f"""
    WITH pair AS (
        SELECT now.model, now.target, now.precision, now.batch, now.shapes,
            was.status = 'ok' AND now.status <> 'ok' AS fails,
            was.fits AND NOT now.fits AS misfit,
            now.status = 'ok' AND ((was.fits IS NOT NULL AND now.fits IS NULL)
                OR (was.ms IS NOT NULL AND now.ms IS NULL)
                OR (was.known_ops = was.ops AND now.known_ops IS DISTINCT FROM now.ops)) AS lost,
            {_WHOLE} AS whole,
            was.macs AS macs_before, now.macs AS macs,
            was.weight_bytes AS weight_bytes_before, now.weight_bytes AS weight_bytes,
            was.peak_bytes AS peak_bytes_before, now.peak_bytes AS peak_bytes,
            was.arena_bytes AS arena_bytes_before, now.arena_bytes AS arena_bytes,
            was.read_bytes + was.written_bytes AS moved_bytes_before,
            now.read_bytes + now.written_bytes AS moved_bytes,
            was.ms AS ms_before, was.high_ms AS high_ms_before, now.ms AS ms,
            now.error AS error, now.fits_reason AS fits_reason
        FROM points AS now JOIN before AS was ON {_PAIRS}
    ), judged AS (
        SELECT *, concat_ws(', ',
                CASE WHEN fails THEN 'fails' END,
                CASE WHEN misfit THEN 'no longer fits' END,
                CASE WHEN whole AND ms > high_ms_before THEN 'slower' END,
                CASE WHEN whole AND macs > macs_before THEN 'more MACs' END,
                CASE WHEN weight_bytes > weight_bytes_before THEN 'more weights' END,
                CASE WHEN peak_bytes > peak_bytes_before OR arena_bytes > arena_bytes_before
                    THEN 'more memory' END,
                CASE WHEN whole AND moved_bytes > moved_bytes_before THEN 'more traffic' END,
                CASE WHEN lost THEN 'less is known' END) AS worse,
            ms / nullif(ms_before, 0) - 1 AS ms_growth,
            macs / nullif(macs_before, 0) - 1 AS macs_growth
        FROM pair
    )
    SELECT worse, model, target, precision, ms_growth, macs_growth, batch, shapes, ms_before, high_ms_before,
        ms, macs_before, macs, weight_bytes_before, weight_bytes, peak_bytes_before, peak_bytes,
        arena_bytes_before, arena_bytes, moved_bytes_before, moved_bytes, error, fits_reason
    FROM judged WHERE worse <> ''
    """,
    "NOT contains(worse, 'fails'), NOT contains(worse, 'no longer fits'), NOT contains(worse, 'slower'),"
    " ms_growth DESC NULLS LAST, model, target, precision, batch NULLS FIRST, shapes",
    timed=False,
)
