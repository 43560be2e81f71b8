"""A report on a terminal."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sizeup.render.console.report import headline, receipt, title
from sizeup.render.console.sparkline import print_sparkline
from sizeup.render.console.table import shortened, table_text
from sizeup.results.table import By, View, view
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.explanation import Explanation
    from sizeup.results.report import Report

LEAST_ROOM = 16
LABELS = 14
_BOLD = ("MACs", "FLOPs", "parameters", "latency")


def render(
    report: Report,
    console: Console,
    *,
    by: By | None = None,
    depth: int | None = None,
    top: int | None = None,
    columns: Sequence[str] = (),
    wide: bool = False,
) -> None:
    """Print the headline, the receipt, the notes and the table, as wide as the console is.

    `columns` names those of the table; `wide` prints all, or those, whatever the width.
    """
    shown = view(report, by, depth, top)
    console.print(Text(title(report), style="bold"))
    for label, text in headline(report):
        print_labelled(console, label, text, "bold" if label in _BOLD else "")
        if label == "memory" and not report.memory.usage.missing:
            words = f"over {len(report.graph.ops):,} operators"
            print_sparkline(console, "in use", report.memory.usage.live_bytes, words, LABELS)
    _print_receipt(report, console)
    for note in report.notes:
        print_labelled(console, "note", note, "dim")
    if shown.entries:
        console.print()
        print_table(console, shown, columns, wide)
    if shown.rest is not None and shown.rest.ops:
        console.print(Text("--top N shows more rows, -o FILE.csv keeps every operator", style="dim"))
    if shown.remark:
        console.print(Text(shown.remark, style="dim"))


def render_explanation(explanation: Explanation, console: Console) -> None:
    """Print where an operator's numbers come from, or the table of the operators that were found."""
    console.print(Text(plain(explanation.title), style="bold"))
    previous = ""
    for label, text in explanation.lines:
        style = "bold" if label in ("MACs", "FLOPs") else "yellow" if label == "not known" else ""
        print_labelled(console, "" if label == previous else label, text, style)
        previous = label
    if explanation.view is not None:
        print_table(console, explanation.view)


def explanation_text(explanation: Explanation) -> str:
    """An explanation as plain text of 80 columns."""
    buffer = io.StringIO()
    render_explanation(explanation, Console(file=buffer, width=80, color_system=None))
    return buffer.getvalue()


def print_labelled(console: Console, label: str, text: str, style: str = "", width: int = LABELS) -> None:
    """Print a text beside its label, wrapped so that the labels stand alone in their column."""
    room = max(console.width - width, LEAST_ROOM)
    # What a long label takes of the first line.
    taken = " " * min(max(len(label) + 3 - width, 0), room // 2)
    lines = textwrap.wrap(
        plain(text), room, initial_indent=taken, subsequent_indent="  ", break_on_hyphens=False
    ) or [""]
    lines[0] = lines[0].removeprefix(taken)
    print_lines(console, label, lines, style, width)


def print_lines(
    console: Console, label: str, lines: Sequence[str], style: str = "", width: int = LABELS
) -> None:
    """Print lines beside their label, which a space follows even if it is wider than its column."""
    for index, line in enumerate(lines):
        start = f"  {label if index == 0 else ''} ".ljust(width)
        console.print(Text.assemble((start, "cyan"), (line, style)), soft_wrap=True)


def _print_receipt(report: Report, console: Console) -> None:
    first, *others = receipt(report)
    print_labelled(console, "coverage", first, "bold yellow" if report.unknown else "green")
    for line in others:
        print_labelled(console, "", line, "yellow")


def print_table(console: Console, shown: View, columns: Sequence[str] = (), wide: bool = False) -> None:
    """Print the rows of a view with as many columns as there is room for."""
    room = None if wide else console.width
    console.print(table_text(shown, room, console.options.ascii_only, columns), soft_wrap=True)


def print_rows(console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Figures to the right, then names in the room that is left, cut in their middle."""
    widths = [max(cell_len(row[place]) for row in (titles, *rows)) for place in range(len(titles) - 1)]
    room = max(console.width - sum(widths) - 2 * len(widths) - 2, LEAST_ROOM)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    names = shortened([plain(row[-1]) for row in rows], room, dots)
    for row, name, style in [
        (titles, titles[-1], "cyan"),
        *((r, n, "") for r, n in zip(rows, names, strict=True)),
    ]:
        line = "".join(f"  {cell:>{width}}" for cell, width in zip(row, widths, strict=False))
        console.print(Text(f"{line}  {name}", style=style), soft_wrap=True)
