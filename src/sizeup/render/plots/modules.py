"""Cost by module: one row per module, one column of bars per quantity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sizeup import units
from sizeup.render.plots.canvas import FAINT, INK, INPUTS, OTHERS, OUTPUTS, WORKSPACE, Canvas, Names, legible
from sizeup.render.plots.pictures import picture_title, write_title
from sizeup.results.table import Entry, Table, build_table

if TYPE_CHECKING:
    from sizeup.results.report import Report

_ROW, _TOP, _BELOW = 0.21, 1.15, 0.25  # inches
_LEFT, _RIGHT, _GAP = 2.75, 0.25, 0.16
_POINTS = 7.0
_MOST_ROWS = 32
_LONGEST = 0.55  # share of a column for the longest bar; the rest is for figures
_PARAMETERS = "#44AA99"


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    of: Callable[[Entry], float | None]
    words: Callable[[float], str]
    color: str


_TIME = _Column("time", lambda entry: entry.seconds, units.duration, OUTPUTS)
_COLUMNS = (
    _Column("MACs", lambda entry: entry.macs, units.count, INPUTS),
    _Column("parameters", lambda entry: entry.params, units.count, _PARAMETERS),
    _Column("bytes moved", lambda entry: _moved(entry), units.size, WORKSPACE),
)


def _moved(entry: Entry) -> float | None:
    if entry.read_bytes is None or entry.written_bytes is None:
        return None
    return entry.read_bytes + entry.written_bytes


def rows_of(report: Report) -> Table:
    """Returns the costliest modules; op kinds if there are no modules."""
    table = build_table(report, "module", top=_MOST_ROWS)
    return table if len(table.entries) > 1 else build_table(report, "kind", top=_MOST_ROWS)


def modules_picture(report: Report) -> Figure:
    """Returns modules in order of first use as rows, quantities as columns."""
    table = rows_of(report)
    columns = _COLUMNS if table.total.seconds is None else (_TIME, *_COLUMNS)
    rows = list(table.rows[:-1])
    canvas = Canvas(_TOP + _ROW * max(len(rows), 1) + _BELOW)
    _write_head(canvas, report, table)
    names = Names(canvas, [legible(row.label) for row in rows])
    for index, row in enumerate(rows):
        _write_name(canvas, names, row, _TOP + _ROW * (index + 0.68), faint=row is table.rest)
    width = (canvas.breadth - _LEFT - _RIGHT + _GAP) / len(columns)
    for index, column in enumerate(columns):
        left = _LEFT + index * width
        axes = canvas.panel(left, _BELOW, canvas.breadth - left - width + _GAP, _TOP)
        _draw(axes, column, rows, table)
    return canvas.figure


def _write_head(canvas: Canvas, report: Report, table: Table) -> None:
    by = f"by module, depth {table.depth}" if table.by == "module" else "by op kind"
    sentence = f"cost {by}"
    if report.latency is not None:
        location = "" if report.latency.target is None else f" on {report.latency.target.name}"
        sentence += f"; time estimated{location}, {report.latency.basis}"
    unknown = len(report.ops) - report.known_ops
    words = "operator is" if unknown == 1 else "operators are"
    warning = f"?: {unknown:,} {words} not counted" if unknown else ""
    write_title(canvas, picture_title(report), sentence, warning)


def _write_name(canvas: Canvas, names: Names, row: Entry, top: float, *, faint: bool) -> None:
    width = (_LEFT - 0.45) * canvas.figure.dpi
    text = legible(row.label)
    name = text if canvas.width(text, _POINTS) <= width else canvas.cut(text, width, _POINTS)
    canvas.figure.text(
        (_LEFT - 0.12) / canvas.breadth,
        1 - top / canvas.height,
        name or names.fitted(text, width, _POINTS),
        size=_POINTS,
        ha="right",
        color=FAINT if faint else INK,
        parse_math=False,
    )


def _draw(axes: Axes, column: _Column, rows: list[Entry], table: Table) -> None:
    values = [column.of(row) or 0.0 for row in rows]
    longest = max(values, default=0.0) or 1.0
    colors = [OTHERS if row is table.rest else column.color for row in rows]
    axes.barh(range(len(rows)), values, 0.72, color=colors, gid=f"bars {column.title}")
    axes.set_xlim(0, longest / _LONGEST)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)
    total = column.of(table.total)
    title = f"{column.title}: {_amount(column, table.total) or column.words(0)}"
    axes.annotate(
        title,
        (0, 1),
        (0, 5),
        xycoords="axes fraction",
        textcoords="offset points",
        size=8,
        weight="bold",
        color=INK,
    )
    for index, row in enumerate(rows):
        axes.annotate(
            _figure(column, row, total), (values[index], index), (3, 0), textcoords="offset points",
            va="center", size=6.5, color=INK,
        )  # fmt: skip


def _figure(column: _Column, row: Entry, total: float | None) -> str:
    value, text = column.of(row), _amount(column, row)
    return f"{text} ({units.share(value, total)})" if value and total else text


def _amount(column: _Column, row: Entry) -> str:
    """Returns a quantity as text: empty if zero, with a question mark if partly unknown."""
    value = column.of(row)
    is_missing = bool(row.unknown_ops) and column.title != "parameters"
    if not value:
        return "?" if is_missing else ""
    return f"{column.words(value)}{' + ?' * is_missing}"
