"""The leaderboard of a sweep: the best points per target, precision and batch, with counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sizeup.sweeps.query import QuerySpec, Session, open_session
from sizeup.sweeps.views import FIT_TIER

MOST_ROWS = 25_000
"""Rows of a page at most: a few megabytes."""
MOST_ERRORS = 200
STANDINGS = ("certain", "may not fit", "not all counted", "no latency", "too large")
COLUMNS = (
    *("rank", "standing", "model", "shapes", "ms", "low_ms", "high_ms", "basis", "params", "macs"),
    *("weight_bytes", "peak_bytes", "ram_need_bytes", "ram_bytes", "flash_need_bytes", "flash_bytes"),
    *("fits_reason", "latency_missing", "energy_mj", "ops", "known_ops"),
)
_GROUP = ("target", "precision", "batch")
# Points that fit first, then those that may fit, then those without a latency, then those too large.
_STANDING = f"CASE WHEN fits IS FALSE THEN 4 WHEN ms IS NULL THEN 3 ELSE {FIT_TIER} END"
_GROUPS = """
SELECT target, precision, batch, count(*) AS points, count(*) FILTER (status <> 'ok') AS errors,
    count(*) FILTER (status = 'ok' AND fits) AS fit,
    count(*) FILTER (status = 'ok' AND NOT fits) AS too_large,
    count(*) FILTER (status = 'ok' AND fits IS NULL) AS fit_unknown, count(ms) AS timed
FROM points GROUP BY target, precision, batch ORDER BY target, precision, batch NULLS FIRST
"""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The data of a page: groups with counts, rows ordered by group and rank, and errors."""

    groups: tuple[dict[str, Any], ...]
    rows: tuple[dict[str, Any], ...]
    top: int  # rows per group at most
    models: int
    errors: tuple[dict[str, Any], ...]  # models that failed, at most MOST_ERRORS
    failed: int  # number of models that failed
    version: str
    columns: tuple[str, ...] = COLUMNS
    standings: tuple[str, ...] = STANDINGS

    @property
    def first_group(self) -> int:
        """The group to show first: with a latency if one has any, and of these with most points that fit."""
        groups = self.groups
        return max(
            range(len(groups)),
            key=lambda index: (groups[index]["timed"] > 0, groups[index]["fit"]),
            default=0,
        )


def leaderboard(query: QuerySpec) -> Leaderboard:
    """Rank the points of a query."""
    with open_session(query) as session:
        groups = _rows(session, _GROUPS)
        top = max(1, min(query.top or MOST_ROWS, MOST_ROWS // max(len(groups), 1)))
        rows = _rows(session, _ranked(top))
        errors = _rows(session, f"{_FAILED} LIMIT {MOST_ERRORS}")
        return Leaderboard(
            groups,
            rows,
            top,
            session.number("SELECT count(DISTINCT model) FROM points"),
            errors,
            session.number(f"SELECT count(*) FROM ({_FAILED})"),
            session.run(_VERSIONS).fetchone()[0] or "",
        )


_VERSIONS = "SELECT string_agg(DISTINCT version, ', ' ORDER BY version) FROM points"
_FAILED = """
SELECT model, error_kind, count(*) AS points, error FROM points WHERE status <> 'ok'
GROUP BY model, error_kind, error ORDER BY error_kind, model, error
"""


def _ranked(top: int) -> str:
    columns = ", ".join((*_GROUP, *COLUMNS))
    return f"""
    SELECT {columns} FROM (
        SELECT *, row_number() OVER (
            PARTITION BY target, precision, batch
            ORDER BY standing, ms NULLS LAST, params NULLS LAST, model, shapes
        ) AS rank FROM (SELECT *, {_STANDING} AS standing FROM points WHERE status = 'ok')
    ) WHERE rank <= {top} ORDER BY target, precision, batch NULLS FIRST, rank LIMIT {MOST_ROWS}
    """


def _rows(session: Session, sql: str) -> tuple[dict[str, Any], ...]:
    result = session.run(sql)
    names = [column[0] for column in result.description]
    return tuple(dict(zip(names, row, strict=True)) for row in result.fetchall())
