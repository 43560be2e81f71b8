"""A comparison as plain data, JSON, CSV and a data frame. Raw numbers, the unit in every key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sizeup import csv_cells
from sizeup.dtypes import precision_name
from sizeup.render import envelope
from sizeup.render.data.frames import frame_of
from sizeup.render.data.report import latency_to_dict
from sizeup.render.vocabulary import unfit_reason
from sizeup.results.comparison import Figures, Row

if TYPE_CHECKING:
    from sizeup.results.comparison import Comparison, Pattern
    from sizeup.results.report import Report

_FIGURES = tuple(Figures.__slots__)


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """Returns the comparison as plain data."""
    return {**_head(comparison), "rows": [_row(row) for row in comparison.rows]}


def json_lines(comparison: Comparison) -> Iterator[str]:
    """Yields the comparison as JSON text, one key or row per line."""
    yield "{\n"
    for key, value in _head(comparison).items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    rows = ",\n    ".join(json.dumps(_row(row)) for row in comparison.rows)
    yield f'  "rows": [\n    {rows}\n  ]\n}}\n' if rows else '  "rows": []\n}\n'


def _head(comparison: Comparison) -> dict[str, Any]:
    differences = comparison.differences
    return {
        **envelope.head(),
        "a": _model(comparison.a),
        "b": _model(comparison.b),
        "headline": comparison.headline,
        "totals": {
            total.name: {"a": total.a, "b": total.b, "difference": total.difference}
            for total in comparison.totals
        },
        "macs": {
            "difference": differences.macs,
            "explained": dict(differences.explained_macs),
            "unexplained": differences.unexplained_macs,
            "unexplained_rows": len(differences.unexplained_rows),
            "uncounted_rows": sum(not row.known for row in comparison.rows),
        },
        "params": {
            "by_status": dict(differences.params_by_status),
            "unused": differences.unused_params,
        },
        "traffic_bytes": {"by_status": dict(differences.traffic_by_status)},
        "verdict": comparison.verdict,
        "counts": dict(comparison.counts),
        "patterns": [_pattern(pattern) for pattern in comparison.patterns],
    }


def _pattern(pattern: Pattern) -> dict[str, Any]:
    return {
        "status": pattern.status,
        "description": pattern.description,
        "reason": pattern.reason,
        "rows": pattern.rows,
        "macs": pattern.macs,
        "params": pattern.params,
        "seconds": pattern.seconds,
    }


def _model(report: Report) -> dict[str, Any]:
    usage = report.memory.usage
    unknown: dict[str, Any] = {"unavailable": report.no_latency_reason}
    return {
        "name": report.name,
        "format": report.format,
        "sha256": report.sha256,
        "precision": None if report.precision is None else precision_name(report.precision),
        "uncounted_ops": len(report.cost.reasons),
        "peak_op": usage.peak_op,
        "peak_tensors": [{"name": tensor.name, "bytes": tensor.bytes} for tensor in usage.peak_tensors],
        "fits": None if report.memory_fit is None else report.memory_fit.fits,
        "unfit_reason": unfit_reason(report) or None,
        "latency": unknown if report.latency_details is None else latency_to_dict(report.latency_details),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "status": row.status,
        "name": row.name,
        "matched_by": row.matched_by or None,
        "a_ops": list(row.a),
        "b_ops": list(row.b),
        "a_op_kinds": list(row.a_op_kinds),
        "b_op_kinds": list(row.b_op_kinds),
        "changes": {change.column: [change.before, change.after] for change in row.changes},
        "reason": row.reason or None,
        "known": row.known,
        **{f"a_{name}": getattr(row.before, name) for name in _FIGURES},
        **{f"b_{name}": getattr(row.after, name) for name in _FIGURES},
    }


_COLUMNS = tuple(
    _row(Row("same", (), (), "", "", (), (), (), "", Figures(), Figures(), True))
)  # also of a comparison without rows


def csv_lines(comparison: Comparison, *, raw: bool = False) -> Iterator[str]:
    """Yields one line per row after a line of column names; lists are joined by semicolons."""
    rows = ([_cell(value) for value in _row(row).values()] for row in comparison.rows)
    return csv_cells.csv_lines(_COLUMNS, rows, raw=raw)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ";".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{column}: {before} -> {after}" for column, (before, after) in value.items())
    return value


def frame(comparison: Comparison) -> Any:
    """Returns the rows as a data frame."""
    rows = [_row(row) for row in comparison.rows]
    return frame_of({name: [row[name] for row in rows] for name in _COLUMNS})
