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
from sizeup.results.comparison import Figures, Row

if TYPE_CHECKING:
    from sizeup.results.comparison import Comparison
    from sizeup.results.report import Report

_FIGURES = tuple(Figures.__slots__)


def to_dict(found: Comparison) -> dict[str, Any]:
    """The whole comparison as plain data."""
    return {**_head(found), "rows": [_row(row) for row in found.rows]}


def json_lines(found: Comparison) -> Iterator[str]:
    """The same as JSON text, one key or row a line."""
    yield "{\n"
    for key, value in _head(found).items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    rows = ",\n    ".join(json.dumps(_row(row)) for row in found.rows)
    yield f'  "rows": [\n    {rows}\n  ]\n}}\n' if rows else '  "rows": []\n}\n'


def _head(found: Comparison) -> dict[str, Any]:
    differences = found.differences
    return {
        **envelope.head(),
        "a": _model(found.a),
        "b": _model(found.b),
        "headline": found.headline,
        "totals": {
            each.name: {"a": each.a, "b": each.b, "difference": each.difference} for each in found.totals
        },
        "macs": {
            "difference": differences.macs,
            "explained": dict(differences.explained_macs),
            "unexplained": differences.unexplained_macs,
            "unexplained_rows": len(differences.unexplained_rows),
            "uncounted_rows": sum(not row.known for row in found.rows),
        },
        "params": {
            "by_status": dict(differences.params_by_status),
            "unused": differences.unused_params,
        },
        "traffic_bytes": {"by_status": dict(differences.traffic_by_status)},
        "verdict": found.verdict,
        "counts": dict(found.counts),
        "patterns": [{name: getattr(each, name) for name in type(each).__slots__} for each in found.patterns],
    }


def _model(report: Report) -> dict[str, Any]:
    usage = report.memory.usage
    unknown: dict[str, Any] = {"unavailable": report.no_latency}
    return {
        "name": report.name,
        "format": report.format,
        "sha256": report.sha256,
        "precision": None if report.precision is None else precision_name(report.precision),
        "uncounted_ops": len(report.cost.reasons),
        "peak_op": usage.peak_op,
        "peak_tensors": [{"name": each.name, "bytes": each.bytes} for each in usage.held],
        "latency": unknown if report.latency_details is None else latency_to_dict(report.latency_details),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "status": row.status,
        "name": row.name,
        "matched_by": row.matched_by or None,
        "a_ops": list(row.a),
        "b_ops": list(row.b),
        "a_kinds": list(row.kinds_a),
        "b_kinds": list(row.kinds_b),
        "changes": {each.column: [each.before, each.after] for each in row.changes},
        "why": row.why or None,
        "known": row.known,
        **{f"a_{name}": getattr(row.before, name) for name in _FIGURES},
        **{f"b_{name}": getattr(row.after, name) for name in _FIGURES},
    }


_COLUMNS = tuple(
    _row(Row("same", (), (), "", "", (), (), (), "", Figures(), Figures(), True))
)  # also where there is no row


def csv_lines(found: Comparison, *, raw: bool = False) -> Iterator[str]:
    """One line a row under a line of names; lists are joined by semicolons."""
    rows = ([_cell(value) for value in _row(row).values()] for row in found.rows)
    return csv_cells.csv_lines(_COLUMNS, rows, raw=raw)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ";".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{column}: {before} -> {after}" for column, (before, after) in value.items())
    return value


def frame(found: Comparison) -> Any:
    """One line a row, as a data frame."""
    rows = [_row(row) for row in found.rows]
    return frame_of({name: [row[name] for row in rows] for name in _COLUMNS})
