"""A comparison on a terminal, as Markdown and as HTML for a notebook."""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sizeup.render.console import comparison as words
from sizeup.render.console.layout import print_labeled, print_rows
from sizeup.render.markdown import cell, prose
from sizeup.render.vocabulary import NOTHING
from sizeup.results.comparison import STATUSES
from sizeup.results.rows import NO_TARGET
from sizeup.units import plural, printable

if TYPE_CHECKING:
    from sizeup.results.comparison import Comparison, Pattern, Row, Status, Total

_MOST_PATTERNS = 8
_MOST_ROWS = 10
_STYLES = {"added": "yellow", "removed": "yellow", "changed": "yellow", "replaced": "yellow"}


def render(
    comparison: Comparison, console: Console, *, top: int | None = None, everything: bool = False
) -> None:
    """Print the headline, the totals, the changes, and the rows that differ most, or all rows."""
    for letter, name in zip("AB", words.titles(comparison), strict=True):
        console.print(Text(f"{letter}  {name}", style="bold"), soft_wrap=True)
    console.print(Text(printable(comparison.headline), style="bold green"))
    console.print()
    _print_totals(comparison, console)
    if words.is_equal(comparison):
        for label, text in _unknown_latencies(comparison):
            print_labeled(console, label, text)
        return
    console.print()
    for label, text in _findings(comparison):
        print_labeled(console, label, text, "dim" if label.startswith("note") else "")
    console.print()
    for status, lines in _changes(comparison, None if everything else _MOST_PATTERNS):
        for index, line in enumerate(lines):
            print_labeled(console, status if index == 0 else "", line, _STYLES.get(status, ""))
    _print_rows(comparison, console, top, everything)


def _print_totals(comparison: Comparison, console: Console) -> None:
    rows = [("", "A", "B", "difference"), *map(_total, comparison.totals)]
    widths = [max(cell_len(row[index]) for row in rows) for index in range(3)]
    for index, (label, one, other, last) in enumerate(rows):
        text = f"  {label:<{widths[0]}}  {one:>{widths[1]}}  {other:>{widths[2]}}  {last}"
        console.print(Text(text, style="" if index else "cyan"), soft_wrap=True)


def _total(total: Total) -> tuple[str, str, str, str]:
    """Returns the cells of a total: its label, both amounts, the difference."""
    ours, theirs = words.bounded(total, "A"), words.bounded(total, "B")
    return words.LABELS[total.name], ours, theirs, words.difference(total)


def _findings(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yields labels and texts: differences in MACs, peaks, latencies and notes."""
    macs = words.explanation(comparison)
    if macs:
        yield "MACs", macs
    yield "peak of A", words.peak(comparison.a)
    yield "peak of B", words.peak(comparison.b)
    if any(
        report.no_latency_reason != NO_TARGET or report.latency for report in (comparison.a, comparison.b)
    ):
        yield from words.latency(comparison)
    for note in dict.fromkeys((*comparison.a.notes, *comparison.b.notes)):
        in_a, in_b = note in comparison.a.notes, note in comparison.b.notes
        yield "note" if in_a and in_b else "note on A" if in_a else "note on B", note


def _unknown_latencies(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yields why latencies are unknown, which equal models do not differ in."""
    if comparison.a.latency is None and comparison.a.no_latency_reason != NO_TARGET:
        yield from words.latency(comparison)


def _changes(comparison: Comparison, most: int | None) -> Iterator[tuple[Status, list[str]]]:
    """Yields the patterns of each status as text, the most frequent first."""
    for status in STATUSES:
        patterns = [pattern for pattern in comparison.patterns if pattern.status == status]
        listed = patterns[:most]
        lines = [_pattern(pattern) for pattern in listed]
        rest = sum(pattern.rows for pattern in patterns[len(listed) :])
        if rest:
            lines.append(f"{rest:,} x other changes: --all shows every row")
        if lines:
            yield status, lines
    if comparison.counts["same"]:
        yield "same", [plural(comparison.counts["same"], "operator")]


def _pattern(pattern: Pattern) -> str:
    reason = f" ({pattern.reason})" if pattern.reason else ""
    amounts = [
        f"{count:+,} {name}"
        for name, count in (("MACs", pattern.macs), ("parameters", pattern.params))
        if count
    ]
    return f"{pattern.rows:,} x {pattern.description}{reason}{': ' * bool(amounts)}{', '.join(amounts)}"


def _print_rows(comparison: Comparison, console: Console, top: int | None, everything: bool) -> None:
    """Print the rows that differ most, or all rows in order."""
    timed = comparison.verdict is not None
    if everything:
        rows = list(comparison.rows)
    else:
        differing = [row for row in comparison.rows if row.status != "same" and (top or _weight(row, timed))]
        rows = sorted(differing, key=lambda row: (-_weight(row, timed), -abs(row.params)))
    unlisted = sum(row.status != "same" for row in comparison.rows) - len(rows)
    listed = rows[:top] if top is not None else rows if everything else rows[:_MOST_ROWS]
    if listed:
        titles = ("A", "B", "status", "MACs", "params", *(("time",) if timed else ()), "name")
        console.print()
        print_rows(console, titles, [_cells(row, timed) for row in listed])
    if len(listed) < len(rows):
        more = f"  {len(rows) - len(listed):,} more: --top N or --all shows them, -o FILE.csv writes them"
        console.print(Text(more, style="dim"), soft_wrap=True)
    if unlisted > 0:
        changed = plural(unlisted, "more changed operator")
        rest = f"  {changed} without a difference in {'time' if timed else 'MACs'}: --all shows them"
        console.print(Text(rest, style="dim"), soft_wrap=True)


def _weight(row: Row, timed: bool) -> float:
    """Returns the size of a change: latency if estimated, else MACs."""
    return abs(row.seconds or 0.0) if timed else abs(row.macs)


def _cells(row: Row, timed: bool) -> list[str]:
    time = [] if not timed else [words.signed("latency_seconds", row.seconds or 0.0)]
    name = f"{row.name}  {words.cause(row)}" if row.status == "changed" else row.name
    return [
        _op_range(row.a),
        _op_range(row.b),
        row.status,
        words.signed("macs", row.macs),
        words.signed("params", row.params),
        *time,
        name,
    ]


def _op_range(ops: tuple[int, ...]) -> str:
    if not ops:
        return NOTHING
    return f"{ops[0]}+{len(ops) - 1}" if len(ops) > 1 else str(ops[0])


def text_of(comparison: Comparison) -> str:
    """Returns the comparison as plain text of 80 columns."""
    buffer = io.StringIO()
    render(comparison, Console(file=buffer, width=80, color_system=None))
    return buffer.getvalue().removesuffix("\n")


def markdown(comparison: Comparison) -> Iterator[str]:
    """Yields the headline, the totals and the changes, for a pull request."""
    yield f"## {' and '.join(map(cell, words.titles(comparison)))}\n\n{prose(comparison.headline)}\n\n"
    yield "| | A | B | difference |\n|---|---:|---:|---:|\n"
    for total in comparison.totals:
        yield f"| {' | '.join(map(cell, _total(total)))} |\n"
    yield "\n"
    for label, text in _findings(comparison):
        yield f"- {label}: {prose(text)}\n"
    yield "\n| status | rows | description | reason | MACs | params |\n|---|---:|---|---|---:|---:|\n"
    for pattern in comparison.patterns:
        counts = f"{pattern.macs:+,} | {pattern.params:+,}"
        yield (
            f"| {pattern.status} | {pattern.rows:,} | {prose(pattern.description)} | {prose(pattern.reason)}"
            f" | {counts} |\n"
        )
    yield f"| same | {comparison.counts['same']:,} | | | +0 | +0 |\n"


def html(comparison: Comparison) -> str:
    """Returns the same as plain HTML, without scripts or styles."""
    totals = "".join(_html_row(*_total(item)) for item in comparison.totals)
    lines = "".join(f"<li>{_shown(label)}: {_shown(text)}</li>" for label, text in _findings(comparison))
    changes = "".join(
        f"<li>{status}: {_shown(line)}</li>" for status, texts in _changes(comparison, None) for line in texts
    )
    names = " and ".join(f"<b>{_shown(item)}</b>" for item in words.titles(comparison))
    head = _html_row("", "A", "B", "difference", tag="th")
    return (
        f"<p>{names}</p><p>{_shown(comparison.headline)}</p><table>{head}{totals}</table>"
        f"<ul>{lines}</ul><ul>{changes}</ul>"
    )


def _html_row(*cells: str, tag: str = "td") -> str:
    inner = "".join(f'<{tag} style="text-align:right">{_shown(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inner}</tr>"


def _shown(text: str) -> str:
    return escape(printable(text))
