"""The leaderboard of a sweep: the first points of each target, precision and batch, and how many others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sizeup.sweeps.query import QuerySpec, Session, session
from sizeup.sweeps.views import DOUBT

MOST_ROWS = 25_000
"""Rows of a page: a few megabytes, which a browser opens at once."""
MOST_ERRORS = 200
STANDINGS = ("certain", "may not fit", "not all counted", "no latency", "too large")
COLUMNS = (
    *("place", "standing", "model", "shapes", "ms", "low_ms", "high_ms", "basis", "params", "macs"),
    *("weight_bytes", "peak_bytes", "ram_need_bytes", "ram_bytes", "flash_need_bytes", "flash_bytes"),
    *("fits_reason", "latency_missing", "energy_mj", "ops", "known_ops"),
)
_GROUP = ("target", "precision", "batch")
# What is known to run, in time, first; then what may; then what has no latency; then what is too large.
_STANDING = f"CASE WHEN fits IS FALSE THEN 4 WHEN ms IS NULL THEN 3 ELSE {DOUBT} END"
_GROUPS = """
SELECT target, precision, batch, count(*) AS points, count(*) FILTER (status <> 'ok') AS errors,
    count(*) FILTER (status = 'ok' AND fits) AS fit,
    count(*) FILTER (status = 'ok' AND NOT fits) AS too_large,
    count(*) FILTER (status = 'ok' AND fits IS NULL) AS fit_unknown, count(ms) AS timed
FROM points GROUP BY target, precision, batch ORDER BY target, precision, batch NULLS FIRST
"""


@dataclass(frozen=True, slots=True)
class Board:
    """What a page shows: groups with their counts, rows in the order of groups and places, and errors."""

    groups: tuple[dict[str, Any], ...]
    rows: tuple[dict[str, Any], ...]
    top: int  # rows of each group at most
    models: int
    errors: tuple[dict[str, Any], ...]  # models that failed, at most MOST_ERRORS of them
    failed: int  # how many there are
    version: str
    columns: tuple[str, ...] = COLUMNS
    standings: tuple[str, ...] = STANDINGS


def board(question: QuerySpec) -> Board:
    """Rank the points that a question is about."""
    with session(question) as opened:
        groups = _rows(opened, _GROUPS)
        top = max(1, min(question.top or MOST_ROWS, MOST_ROWS // max(len(groups), 1)))
        rows = _rows(opened, _ranked(top))
        errors = _rows(opened, f"{_FAILED} LIMIT {MOST_ERRORS}")
        return Board(
            groups,
            rows,
            top,
            opened.number("SELECT count(DISTINCT model) FROM points"),
            errors,
            opened.number(f"SELECT count(*) FROM ({_FAILED})"),
            opened.run(_VERSIONS).fetchone()[0] or "",
        )


_VERSIONS = "SELECT string_agg(DISTINCT version, ', ' ORDER BY version) FROM points"
_FAILED = """
SELECT model, error_kind, count(*) AS points, error FROM points WHERE status <> 'ok'
GROUP BY model, error_kind, error ORDER BY error_kind, model, error
"""


def _ranked(top: int) -> str:
    wanted = ", ".join((*_GROUP, *COLUMNS))
    return f"""
    SELECT {wanted} FROM (
        SELECT *, row_number() OVER (
            PARTITION BY target, precision, batch
            ORDER BY standing, ms NULLS LAST, params NULLS LAST, model, shapes
        ) AS place FROM (SELECT *, {_STANDING} AS standing FROM points WHERE status = 'ok')
    ) WHERE place <= {top} ORDER BY target, precision, batch NULLS FIRST, place LIMIT {MOST_ROWS}
    """


def _rows(opened: Session, sql: str) -> tuple[dict[str, Any], ...]:
    result = opened.run(sql)
    names = [each[0] for each in result.description]
    return tuple(dict(zip(names, row, strict=True)) for row in result.fetchall())
