"""A report where Python shows values: a few lines of text, or a small table of HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.render import inline
from sizeup.render.console.columns import Column
from sizeup.render.console.report import headline, peak_size, receipt, title
from sizeup.render.vocabulary import named
from sizeup.results.table import Entry, view
from sizeup.units import brief, plain

if TYPE_CHECKING:
    from sizeup.results.report import Report

_WIDTH = 106  # letters of a table, which is as wide as a page of a notebook


def text(report: Report) -> str:
    """The report in five lines, and one for each note."""
    totals = report.totals
    if report.unknown and not totals.macs:
        work = "unknown MACs"
    else:
        work = f"{units.count(totals.macs)} MACs ({units.count(totals.flops)} FLOPs)"
    return (
        f"Report on {title(report)}\n"
        f"  {work}, {units.count(totals.elementwise_ops)} elementwise operations\n"
        f"  {units.count(totals.params)} parameters in {units.size(totals.weight_bytes)},"
        f" {units.size(totals.read_bytes)} read, {units.size(totals.written_bytes)} written\n"
        f"{_memory(report)}"
        f"{_latency(report)}"
        f"  {receipt(report)[0].removesuffix(':')}"
        + "".join(f"\n  note: {plain(note)}" for note in report.notes)
    )


def _memory(report: Report) -> str:
    usage = report.memory.usage
    if usage.missing:
        return f"  memory unknown: {usage.missing}\n"
    return "" if usage.peak_op is None else f"  {peak_size(usage)} in use at the peak beside the weights\n"


def _latency(report: Report) -> str:
    if report.latency is None:
        return ""
    from sizeup.render.console.latency import spoken

    where = "" if report.latency.target is None else f" on {report.latency.target.name}"
    return f"  {spoken(report.latency)}{where}, {report.latency.basis}\n"


def html(report: Report) -> str:
    """The headline, the usual table and small pictures as plain HTML, without scripts."""
    from sizeup.render.console.table import columns_within

    shown = view(report)
    columns = columns_within(shown, _WIDTH)
    head = "".join(_row([label, words], "left", "left") for label, words in headline(report))
    # Notebooks let cells wrap, which makes three lines of a row.
    sides = [f"{'right' if column.right else 'left'};white-space:nowrap" for column in columns]
    titles = _row([column.title for column in columns], *sides, tag="th")
    body = "".join(_row([_cell(column, entry) for column in columns], *sides) for entry in shown.rows)
    lines = "<br>".join(_escaped(line) for line in receipt(report))
    name = _escaped(named(brief(report.name), report.format))
    pictures = inline.memory(report) + inline.modules(report)
    table = f'<div style="overflow-x:auto"><table>{titles}{body}</table></div>'
    return f"<b>{name}</b><table>{head}</table><p>{lines}</p>{pictures}{table}"


def _cell(column: Column, entry: Entry) -> str:
    text = column.text(entry)
    return brief(text) if column.flexible else text


def _row(cells: list[str], *sides: str, tag: str = "td") -> str:
    inner = (
        f'<{tag} style="text-align:{side}">{_escaped(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"


def _escaped(text: str) -> str:
    return escape(plain(text))
