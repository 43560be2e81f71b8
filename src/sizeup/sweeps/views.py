"""Predefined SQL views of a sweep's points.

A point is certain if it is known to fit its device, the cost of every op is known, and its latency has an
upper end if it has any. Uncertain points rank after certain ones: first those whose fit or upper end is
undetermined, then those with ops of unknown cost, whose latency is a lower bound. An uncertain point never
removes a more certain one from a Pareto front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sizeup.errors import SizeupError
from sizeup.targets.names import suggestion

# The columns that identify a point in two sweeps; digests and versions may differ.
_SERVED = ("input_tokens", "output_tokens", "concurrency", "requested_kv", "requested_layout")
MATCH = ("model", "target", "precision", "batch", "shapes", "bind", *_SERVED)
# The columns that a table can be joined by.
KEYS = ("model", "target", "device", "runtime", "precision", "batch", "shapes", "format", "model_hash")
DEFAULT = "summary"

# Points that may fit.
OPTION = "status = 'ok' AND fits IS NOT FALSE"
_BOUNDED = "(ms IS NULL OR high_ms IS NOT NULL)"
CERTAIN = f"(fits IS TRUE AND known_ops IS NOT DISTINCT FROM ops AND {_BOUNDED})"
# How certain the fit of a point is: 0 certain, 1 may not fit, 2 has ops of unknown cost.
FIT_TIER = "CASE WHEN known_ops IS DISTINCT FROM ops THEN 2 WHEN fits THEN 0 ELSE 1 END"
# How certain a point is: 0 certain, 1 may not fit or take longer than any bound, 2 has ops of unknown cost.
TIER = f"CASE WHEN known_ops IS DISTINCT FROM ops THEN 2 WHEN fits AND {_BOUNDED} THEN 0 ELSE 1 END"
_TIMES = "ms, low_ms, high_ms"
_TIMED = f"{OPTION} AND ms IS NOT NULL"
_RANKED = f"""
target, precision, batch, row_number() OVER (
    PARTITION BY target, precision, batch ORDER BY _tier, ms, params NULLS LAST, model, shapes
) AS rank, model, {_TIMES}, shapes, _tier = 0 AS certain, fits, params, macs, weight_bytes, energy_mj, basis
"""
_MEMORY_COLUMNS = "ram_need_bytes, ram_bytes, flash_need_bytes, flash_bytes"
# What distinguishes the points of a language model on a target; null for other models.
_SERVED_COLUMNS = "concurrency, kv, layout, input_tokens, output_tokens"


@dataclass(frozen=True, slots=True)
class View:
    """A view: its name, description, SQL over `points`, and order."""

    name: str
    description: str
    sql: str
    order: str
    grouped: bool = False  # --top applies per target, precision and batch
    ranked: bool = False  # it has a column `rank` with the rank in the group
    first: int | None = None  # the default of --top
    timed: bool = True  # its rows are points that can have a latency
    unknown: str = ""  # SQL condition of the points it leaves out because a value is unknown


@dataclass(frozen=True, slots=True)
class Axis:
    """A column of a Pareto front, and whether it is maximized."""

    column: str
    maximize: bool = False

    @property
    def sql(self) -> str:
        """The column as an expression to minimize."""
        return f"-{quoted(self.column)}" if self.maximize else quoted(self.column)


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def axes_of(text: str) -> tuple[Axis, Axis]:
    """Parse two axes from a text such as `ms,max:accuracy`."""
    parts = [each.strip() for each in text.split(",")]
    if len(parts) != 2 or not all(part.removeprefix("max:").removeprefix("min:") for part in parts):
        raise SizeupError(
            f"{text!r} does not name two columns; give them as ms,weight_bytes or ms,max:accuracy"
        )
    first, second = (
        Axis(part.removeprefix("max:").removeprefix("min:"), part.startswith("max:")) for part in parts
    )
    return first, second


def views(axes: tuple[Axis, Axis], compared: bool) -> Mapping[str, View]:
    """All views by name, including those that compare two sweeps if `compared`."""
    known = [*_PLAIN, _pareto(*axes), *([_REGRESSIONS] if compared else ())]
    return {view.name: view for view in known}


def view_named(name: str, known: Mapping[str, View]) -> View:
    """The view of that name; raises SizeupError with the known names if there is none."""
    if name == _REGRESSIONS.name and name not in known:
        raise SizeupError("regressions compare two sweeps; give the earlier one with --against DIR")
    if name == "points":
        raise SizeupError('points is a table, not a view; query it with "SELECT * FROM points"')
    if name not in known:
        names = tuple(dict.fromkeys((*known, _REGRESSIONS.name)))  # the last needs an earlier sweep
        raise SizeupError(f"unknown view {name!r}{suggestion(name, names)}; known: {', '.join(names)}")
    return known[name]


def first_of_fastest(top: int) -> str:
    """The first ranks of `fastest`, without ranking all points.

    A point slower than `top` others of its group and certainty cannot be among them.
    """
    return f"""
    WITH timed AS (SELECT *, {TIER} AS _tier FROM points WHERE {_TIMED}), last AS (
        SELECT target, precision, batch, _tier, list_max(min(ms, {top})) AS last_ms
        FROM timed GROUP BY target, precision, batch, _tier
    ), kept AS (
        SELECT timed.* FROM timed JOIN last
        ON timed.target = last.target AND timed.precision = last.precision AND timed._tier = last._tier
            AND timed.batch IS NOT DISTINCT FROM last.batch AND timed.ms <= last.last_ms
    )
    SELECT * FROM (SELECT {_RANKED} FROM kept) WHERE rank <= {top}
    """


_PLAIN = (
    View(
        "summary",
        "number of points per target and precision, and how many fit and have a latency",
        """
        SELECT target, precision, count(DISTINCT model) AS models,
            count(*) FILTER (status = 'ok' AND fits) AS fit,
            count(*) FILTER (status = 'ok' AND NOT fits) AS too_large,
            count(*) FILTER (status = 'ok' AND fits IS NULL) AS fit_unknown,
            count(*) FILTER (status <> 'ok') AS errors, count(*) AS points,
            count(coalesce(ms, tpot_ms)) AS timed, median(ms) AS median_ms
        FROM points GROUP BY target, precision
        """,
        "target, precision",
        timed=False,
    ),
    View(
        "fits",
        "points that fit, fastest first",
        f"""
        SELECT target, precision, model, batch, shapes, {_TIMES}, tpot_ms, ttft_ms, {CERTAIN} AS certain,
            {_MEMORY_COLUMNS}, energy_mj, params, macs, basis, {_SERVED_COLUMNS}
        FROM points WHERE status = 'ok' AND fits
        """,
        "target, precision, batch NULLS FIRST, NOT certain, coalesce(ms, tpot_ms) NULLS LAST, model, shapes,"
        " ram_need_bytes,"
        f" {_SERVED_COLUMNS}",
        grouped=True,
        unknown="status = 'ok' AND fits IS NULL",
    ),
    View(
        "misfits",
        "points that do not fit, with the reason",
        f"""
        SELECT target, precision, model, batch, shapes, fits_reason, {_MEMORY_COLUMNS}, {_SERVED_COLUMNS}
        FROM points WHERE status = 'ok' AND NOT fits
        """,
        f"target, precision, model, batch NULLS FIRST, shapes, ram_need_bytes, {_SERVED_COLUMNS}",
        grouped=True,
        timed=False,
    ),
    View(
        "fastest",
        "points by latency per target, precision and batch, certain ones first",
        f"SELECT {_RANKED} FROM (SELECT *, {TIER} AS _tier FROM points WHERE {_TIMED})",
        "target, precision, batch NULLS FIRST, rank",
        grouped=True,
        ranked=True,
        first=1,
        unknown=f"{OPTION} AND ms IS NULL",
    ),
    View(
        "serving",
        "language models: fit, TPOT, TTFT, largest context, most sequences, memory of the fullest GPU",
        """
        SELECT model, target, precision AS weights, concurrency, fits, tpot_ms, ttft_ms, max_sequences,
            max_context, kv, layout, input_tokens, output_tokens, tpot_low_ms, tpot_high_ms, ttft_low_ms,
            ttft_high_ms, user_tokens_per_second, gpu_tokens_per_second, times_missing, free_bytes,
            ram_need_bytes, ram_bytes, weight_bytes, gpu_weight_bytes, kv_token_bytes, sequence_bytes,
            max_sequences_low, max_sequences_high, params, fits_reason, assumptions
        FROM points WHERE status = 'ok' AND concurrency IS NOT NULL
        """,
        "model, target, weights, kv, input_tokens, output_tokens, concurrency, layout",
        timed=False,
    ),
    View(
        "unknown",
        "evaluated points with an unknown fit, latency or op cost, with the reasons",
        f"""
        SELECT target, precision, model, batch, shapes, concat_ws(', ',
                CASE WHEN fits IS NULL THEN 'fit' END,
                CASE WHEN ms IS NULL AND concurrency IS NULL THEN 'latency' END,
                CASE WHEN known_ops IS DISTINCT FROM ops THEN 'operators' END) AS missing,
            fits_reason, latency_missing, counts_missing, known_ops, ops, {_SERVED_COLUMNS}
        FROM points
        WHERE status = 'ok' AND (fits IS NULL OR (ms IS NULL AND concurrency IS NULL)
            OR known_ops IS DISTINCT FROM ops)
        """,
        f"model, target, precision, batch NULLS FIRST, shapes, {_SERVED_COLUMNS}",
        timed=False,
    ),
    View(
        "errors",
        "models that could not be evaluated, with the reason and the number of points",
        """
        SELECT model, error_kind, count(*) AS points, error
        FROM points WHERE status <> 'ok' GROUP BY model, error_kind, error
        """,
        "error_kind, model, error",
        timed=False,
    ),
)


def _pareto(first: Axis, second: Axis) -> View:
    """The Pareto front per device and batch.

    Computes the minimum of the second axis per value of the first, and its running minimum over smaller
    values, which needs a sort instead of comparing pairs. A point is compared only with points at least as
    certain as itself. Points that one good point of the device dominates are removed first, which are most.
    """
    a, b = first.sql, second.sql
    tiers = range(3)
    least = (f"min(axis_b) FILTER (_tier <= {tier}) AS least_{tier}" for tier in tiers)
    earlier = (f"min(least_{tier}) OVER earlier AS earlier_{tier}" for tier in tiers)
    unbeaten = (
        f"WHEN {tier} THEN kept.axis_b = least_{tier} AND coalesce(kept.axis_b < earlier_{tier}, true)"
        for tier in tiers
    )
    head = ("device", "model", "precision", first.column, second.column)
    shown = tuple(dict.fromkeys((*head, *_PARETO_COLUMNS)))
    columns = ", ".join(map(quoted, shown))
    return View(
        "pareto",
        "Pareto front over two columns (--axes), per device and batch",
        f"""
        WITH option AS (
            SELECT {columns}, {a} AS axis_a, {b} AS axis_b, {TIER} AS _tier FROM points
            WHERE {OPTION} AND {a} IS NOT NULL AND {b} IS NOT NULL
        ), good_one AS (
            SELECT device, batch, arg_min(axis_a, good) AS good_a, arg_min(axis_b, good) AS good_b
            FROM (SELECT *, CAST(axis_a AS DOUBLE) * axis_b AS good FROM option WHERE _tier = 0)
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
        SELECT {", ".join(f"kept.{quoted(column)}" for column in shown[:_HEAD])}, kept._tier = 0 AS certain,
            {", ".join(f"kept.{quoted(column)}" for column in shown[_HEAD:])}
        FROM kept JOIN so_far
        ON kept.device = so_far.device AND kept.batch IS NOT DISTINCT FROM so_far.batch
            AND kept.axis_a = so_far.axis_a
        WHERE CASE kept._tier {" ".join(unbeaten)} END
        """,
        f"device, batch NULLS FIRST, NOT certain, {a}, {b}, model, precision, runtime, shapes",
        unknown=f"{OPTION} AND ({a} IS NULL OR {b} IS NULL)",
    )


_HEAD = 7  # columns before `certain`
_PARETO_COLUMNS = (
    *("ms", "low_ms", "high_ms", "runtime", "batch", "shapes"),
    *("weight_bytes", "peak_bytes", "params", "macs", "fits"),
)

_PAIRS = " AND ".join(f"now.{name} IS NOT DISTINCT FROM was.{name}" for name in MATCH)
# Sums over ops can be compared only if the cost of every op is known in both sweeps.
_WHOLE = "now.known_ops IS NOT DISTINCT FROM now.ops AND was.known_ops IS NOT DISTINCT FROM was.ops"
_REGRESSIONS = View(
    "regressions",
    "points worse than in the earlier sweep: errors, no longer fit, larger, or slower than the interval",
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
