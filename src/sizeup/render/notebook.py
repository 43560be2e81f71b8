"""Results for `repr` and notebooks: a few lines of text, or small HTML tables and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len, set_cell_size

from sizeup import units
from sizeup.graph import name_of
from sizeup.render.console.check import Cells, cells, details, notices, reasons
from sizeup.render.console.check import headline as check_headline
from sizeup.render.console.columns import Column
from sizeup.render.console.remedies import effect
from sizeup.render.console.report import headline, peak_size, receipt, title
from sizeup.render.vocabulary import NOT_APPLICABLE, named, shortfall
from sizeup.results.rows import op_label
from sizeup.results.table import Entry, build_table
from sizeup.units import printable, shorten

if TYPE_CHECKING:
    from sizeup.results.check import Check
    from sizeup.results.report import Report

_WIDTH = 106  # characters of a table, about the width of a notebook


def text(report: Report) -> str:
    """Returns the report in five lines, and one per note."""
    totals = report.totals
    if report.unknown_ops and not totals.macs:
        work = "unknown MACs"
    else:
        work = f"{units.count(totals.macs)} MACs ({units.count(totals.flops)} FLOPs)"
    return (
        f"Report on {title(report)}\n{_too_large(report)}"
        f"  {work}, {units.count(totals.elementwise_ops)} elementwise operations\n"
        f"  {units.count(totals.params)} parameters in {units.size(totals.weight_bytes)},"
        f" {units.size(totals.read_bytes)} read, {units.size(totals.written_bytes)} written\n"
        f"{_memory(report)}"
        f"{_latency(report)}"
        f"  {receipt(report)[0].removesuffix(':')}"
        + "".join(f"\n  note: {printable(note)}" for note in report.notes)
    )


def _too_large(report: Report) -> str:
    words = shortfall(report)
    return f"  {words}\n" if words else ""


def _memory(report: Report) -> str:
    usage = report.memory.usage
    if usage.unavailable_reason:
        return f"  memory unknown: {usage.unavailable_reason}\n"
    return "" if usage.peak_op is None else f"  {peak_size(usage)} peak activation memory\n"


def _latency(report: Report) -> str:
    if report.latency is None:
        return ""
    from sizeup.render.console.latency import latency_text

    location = "" if report.latency.target is None else f" on {report.latency.target.name}"
    suffix = "" if report.latency.is_applicable else f"; {NOT_APPLICABLE}"
    return f"  {latency_text(report.latency)}{location}, {report.latency.basis}{suffix}\n"


def html(report: Report) -> str:
    """Returns the headline, the table and small pictures as plain HTML, without scripts."""
    from sizeup.render.console.columns import columns_within

    table = build_table(report)
    columns = columns_within(table, _WIDTH)
    head = "".join(_row([label, words], "left", "left") for label, words in headline(report))
    # Notebooks would wrap cells into several lines.
    sides = [f"{'right' if column.right else 'left'};white-space:nowrap" for column in columns]
    titles = _row([column.title for column in columns], *sides, tag="th")
    body = "".join(_row([_cell(column, entry) for column in columns], *sides) for entry in table.rows)
    lines = "<br>".join(_escaped(line) for line in receipt(report))
    name = _escaped(named(shorten(report.name), report.format))
    pictures = memory(report) + modules(report)
    table_html = f'<div style="overflow-x:auto"><table>{titles}{body}</table></div>'
    return f"<b>{name}</b><table>{head}</table><p>{lines}</p>{pictures}{table_html}"


def _cell(column: Column, entry: Entry) -> str:
    text = column.text(entry)
    return shorten(text) if column.flexible else text


def _row(cells: list[str], *sides: str, tag: str = "td") -> str:
    inner = (
        f'<{tag} style="text-align:{side}">{_escaped(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"


def _escaped(text: str) -> str:
    return escape(printable(text))


_INLINE_WIDTH = 760
_MEMORY, _PEAK, _BAR, _REST = "#4c8ed1", "#e0562f", "#d9822b", "#9a9a9a"  # distinct on white and on black
_LEFT, _RIGHT = 62, 12  # of the panel of memory
_TOP, _PANEL, _BELOW = 24, 96, 22
_MOST_BARS = 700  # as many as there are pixels
_MOST_MODULES, _ROW = 12, 20
_NAMES, _FIGURES = 300, 150  # pixels for names and for figures next to bars
_NOTHING = 1e-9  # share of the total below which a cost is a rounding error
_LETTER = 7.6  # pixels of a wide letter


def memory(report: Report) -> str:
    """Returns live memory by operator as SVG; empty if unknown or without operators."""
    usage = report.memory.usage
    if usage.unavailable_reason or usage.peak_op is None or not usage.peak_bytes:
        return ""
    op = report.graph.ops[usage.peak_op]
    words = (
        f"peak {peak_size(usage)} in operator {usage.peak_op}: {op_label(report.graph, op)}"
        f" {shorten(name_of(report.graph, op))}"
    )
    across = (_INLINE_WIDTH - _LEFT - _RIGHT) / len(usage.live_bytes)
    heights = _thinned(usage.live_bytes.tolist())
    step = (_INLINE_WIDTH - _LEFT - _RIGHT) / len(heights)
    scale = _PANEL / usage.peak_bytes
    floor = _TOP + _PANEL
    path = f"M{_LEFT},{floor}" + "".join(
        f"V{floor - size * scale:.1f}H{_LEFT + step * (index + 1):.1f}" for index, size in enumerate(heights)
    )
    peak = _LEFT + across * (usage.peak_op + 0.5)
    shapes = [
        f'<path d="{path}V{floor}Z" fill="{_MEMORY}"/>',
        f'<path d="M{peak:.1f},{_TOP}V{floor}" stroke="{_PEAK}" stroke-dasharray="4 3"/>',
        f'<path d="M{_LEFT},{_TOP}V{floor}H{_INLINE_WIDTH - _RIGHT}" stroke="currentColor" fill="none"/>',
        _text(_LEFT, _TOP - 8, words, bold=True),
        _text(_LEFT - 6, _TOP + 4, units.size(usage.peak_bytes), anchor="end"),
        _text(_LEFT - 6, floor, "0", anchor="end"),
        _text(_LEFT, floor + 15, "live activation memory by operator"),
        _text(_INLINE_WIDTH - _RIGHT, floor + 15, f"{len(usage.live_bytes):,} operators", anchor="end"),
    ]
    return _svg(shapes, floor + _BELOW, f"Memory by operator: {words}")


def _thinned(sizes: Sequence[int]) -> list[int]:
    """Returns the bars; if there are more than pixels, the maximum of each group."""
    width = -(-len(sizes) // _MOST_BARS)
    padded = np.pad(np.array(sizes, np.int64), (0, -len(sizes) % width))
    return [int(size) for size in padded.reshape(-1, width).max(axis=1)]


def modules(report: Report) -> str:
    """Returns the costliest modules by time or MACs as SVG; op kinds if there are no modules."""
    table = build_table(report, "module", top=_MOST_MODULES)
    if len(table.entries) < 2:
        table = build_table(report, "kind", top=_MOST_MODULES)
    timed = table.total.seconds is not None
    total = (table.total.seconds if timed else table.total.macs) or 0.0
    if not total:
        return ""
    entries = table.rows[:-1]
    rows = [row for row in entries if _cost(row, timed) > _NOTHING * total or row.unknown_ops]
    bar_width = _INLINE_WIDTH - _NAMES - _FIGURES
    longest = max(_cost(row, timed) for row in rows) or 1.0
    title = f"{'time' if timed else 'MACs'} by {'op kind' if table.by == 'kind' else 'module'}"
    shapes = [_text(_NAMES, 14, title, bold=True)]
    for index, row in enumerate(rows):
        top = 22 + index * _ROW
        length = bar_width * _cost(row, timed) / longest
        color = _REST if row is table.rest else _BAR
        shapes.append(_text(_NAMES - 8, top + 13, _cut(row.label, _NAMES - 8), anchor="end"))
        shapes.append(
            f'<rect x="{_NAMES}" y="{top}" width="{length:.1f}" height="{_ROW - 4}" fill="{color}"/>'
        )
        shapes.append(_text(_NAMES + length + 6, top + 13, _figure(row, timed, total)))
    return _svg(shapes, 22 + len(rows) * _ROW + 4, f"Cost of {printable(report.name)}: {title}")


def _cost(row: Entry, timed: bool) -> float:
    return (row.seconds if timed else row.macs) or 0.0


def _figure(row: Entry, timed: bool, total: float) -> str:
    value = _cost(row, timed)
    mark = " + ?" if row.unknown_ops and value else "?" if row.unknown_ops else ""
    if not value:
        return mark
    return f"{units.duration(value) if timed else units.count(value)} ({units.share(value, total)}){mark}"


def _cut(text: str, width: float) -> str:
    """Returns a text shortened in the middle to a width in pixels."""
    most = int(width / _LETTER)
    if cell_len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{set_cell_size(text, half).rstrip()}\N{HORIZONTAL ELLIPSIS}{_end(text, half)}"


def _end(text: str, most: int) -> str:
    """Returns the last letters of a text, at most `most` cells."""
    return set_cell_size(text[: -most - 1 : -1], most).rstrip()[::-1]


def _text(across: float, down: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    attributes = f'x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}"{weight}'
    return f'<text {attributes} fill="currentColor">{escape(printable(text))}</text>'


def _svg(shapes: Iterable[str], height: float, label: str) -> str:
    style = "max-width:100%;height:auto;font:12px system-ui,sans-serif;display:block;margin:8px 0"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_INLINE_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_INLINE_WIDTH} {height}" role="img" aria-label="{escape(printable(label))}"'
        f' style="{style}">'
        f"{''.join(shapes)}</svg>"
    )


def check_html(check: Check) -> str:
    """Returns the verdict and the table of limits as plain HTML, without scripts or styles."""
    rows = "".join(_check_row(cells(limit), "td") for limit in check.limits)
    head = _check_row(Cells("limit", "need", "allowed", "headroom", ""), "th")
    findings = (*reasons(check, with_tensors=False), *notices(check), *details(check))
    lines = [f"{item.label}: {item.text}" for item in findings]
    lines += [f"remedy: {item.description}: {effect(item)}; {item.command}" for item in check.remedies]
    texts = "<br>".join(escape(printable(item)) for item in lines)
    return f"<b>{escape(check_headline(check))}</b><table>{head}{rows}</table><p>{texts}</p>"


def _check_row(row: Cells, tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(printable(text))}</{tag}>' for text in row)}</tr>"
