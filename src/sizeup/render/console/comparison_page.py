"""A comparison for people: on a terminal, as Markdown, and where Python shows values."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sizeup.render.console import comparison as words
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.render.markdown import cell, prose
from sizeup.render.vocabulary import NOTHING
from sizeup.results.comparison import STATUSES
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.comparison import Comparison, Pattern, Row, Status, Total

_MOST_PATTERNS = 8
_MOST_ROWS = 10
_STYLES = {"added": "yellow", "removed": "yellow", "changed": "yellow", "replaced": "yellow"}


def render(found: Comparison, console: Console, *, top: int | None = None, everything: bool = False) -> None:
    """Print the sentence, the totals, what happened, and the rows that differ most, or all of them."""
    for letter, name in zip("AB", words.titles(found), strict=True):
        console.print(Text(f"{letter}  {name}", style="bold"), soft_wrap=True)
    console.print(Text(plain(found.headline), style="bold green"))
    console.print()
    _print_totals(found, console)
    if words.is_equal(found):
        return
    console.print()
    for label, text in _findings(found):
        print_labelled(console, label, text, "dim" if label.startswith("note") else "")
    console.print()
    for status, lines in _happened(found, None if everything else _MOST_PATTERNS):
        for place, line in enumerate(lines):
            print_labelled(console, status if place == 0 else "", line, _STYLES.get(status, ""))
    _print_rows(found, console, top, everything)


def _print_totals(found: Comparison, console: Console) -> None:
    rows = [("", "A", "B", "difference"), *map(_total, found.totals)]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(3)]
    for place, (label, one, other, last) in enumerate(rows):
        text = f"  {label:<{widths[0]}}  {one:>{widths[1]}}  {other:>{widths[2]}}  {last}"
        console.print(Text(text, style="" if place else "cyan"), soft_wrap=True)


def _total(each: Total) -> tuple[str, str, str, str]:
    """A quantity in words: its label, both amounts, the difference."""
    ours, theirs = words.amount(each.name, each.a), words.amount(each.name, each.b)
    return words.LABELS[each.name], ours, theirs, words.difference(each)


def _findings(found: Comparison) -> Iterator[tuple[str, str]]:
    """Labels and texts: where the MACs went, the peaks, the times."""
    yield "MACs", words.explanation(found)
    yield "peak of A", words.peak(found.a)
    yield "peak of B", words.peak(found.b)
    if found.a.latency is not None or found.b.latency is not None:
        yield from words.latency(found)
    for note in dict.fromkeys((*found.a.notes, *found.b.notes)):
        in_a, in_b = note in found.a.notes, note in found.b.notes
        yield "note" if in_a and in_b else "note on A" if in_a else "note on B", note


def _happened(found: Comparison, most: int | None) -> Iterator[tuple[Status, list[str]]]:
    """By status the patterns in words, the most frequent first."""
    for status in STATUSES:
        patterns = [each for each in found.patterns if each.status == status]
        shown = patterns[:most]
        lines = [_pattern(each) for each in shown]
        rest = sum(each.rows for each in patterns[len(shown) :])
        if rest:
            lines.append(f"{rest:,} x otherwise: --all shows every row")
        if lines:
            yield status, lines
    if found.counts["same"]:
        count = found.counts["same"]
        yield "same", [f"{count:,} operator{'s' * (count != 1)}"]


def _pattern(pattern: Pattern) -> str:
    why = f" ({pattern.why})" if pattern.why else ""
    amounts = [
        f"{count:+,} {name}"
        for name, count in (("MACs", pattern.macs), ("parameters", pattern.params))
        if count
    ]
    return f"{pattern.rows:,} x {pattern.what}{why}{': ' * bool(amounts)}{', '.join(amounts)}"


def _print_rows(found: Comparison, console: Console, top: int | None, everything: bool) -> None:
    """The rows that gained or lost most; in order where all are wanted."""
    timed = found.verdict is not None
    if everything:
        rows = list(found.rows)
    else:
        differing = [row for row in found.rows if row.status != "same" and (top or _weight(row, timed))]
        rows = sorted(differing, key=lambda row: (-_weight(row, timed), -abs(row.params)))
    shown = rows[:top] if top is not None else rows if everything else rows[:_MOST_ROWS]
    if not shown:
        return
    titles = ("A", "B", "row", "MACs", "params", *(("time",) if timed else ()), "name")
    console.print()
    print_rows(console, titles, [_cells(row, timed) for row in shown])
    if len(shown) < len(rows):
        more = f"  {len(rows) - len(shown):,} more: --top N or --all shows them, -o FILE.csv keeps them"
        console.print(Text(more, style="dim"), soft_wrap=True)


def _weight(row: Row, timed: bool) -> float:
    """How much a row gained or lost: time where there are estimates, else MACs."""
    return abs(row.seconds or 0.0) if timed else abs(row.macs)


def _cells(row: Row, timed: bool) -> list[str]:
    time = [] if not timed else [words.signed("latency_seconds", row.seconds or 0.0)]
    name = f"{row.name}  {words.cause(row)}" if row.status == "changed" else row.name
    return [
        _places(row.a),
        _places(row.b),
        row.status,
        words.signed("macs", row.macs),
        words.signed("params", row.params),
        *time,
        name,
    ]


def _places(ops: tuple[int, ...]) -> str:
    if not ops:
        return NOTHING
    return f"{ops[0]}+{len(ops) - 1}" if len(ops) > 1 else str(ops[0])


def markdown(found: Comparison) -> Iterator[str]:
    """The sentence, the totals and what happened, for a pull request."""
    yield f"## {' and '.join(map(cell, words.titles(found)))}\n\n{prose(found.headline)}\n\n"
    yield "| | A | B | difference |\n|---|---:|---:|---:|\n"
    for each in found.totals:
        yield f"| {' | '.join(map(cell, _total(each)))} |\n"
    yield "\n"
    for label, text in _findings(found):
        yield f"- {label}: {prose(text)}\n"
    yield "\n| row | how many | what | why | MACs | params |\n|---|---:|---|---|---:|---:|\n"
    for pattern in found.patterns:
        counts = f"{pattern.macs:+,} | {pattern.params:+,}"
        yield (
            f"| {pattern.status} | {pattern.rows:,} | {prose(pattern.what)} | {prose(pattern.why)}"
            f" | {counts} |\n"
        )
    yield f"| same | {found.counts['same']:,} | | | +0 | +0 |\n"


def html(found: Comparison) -> str:
    """The same as plain HTML, without scripts or styles of its own."""
    totals = "".join(_html_row(*_total(each)) for each in found.totals)
    lines = "".join(f"<li>{_shown(label)}: {_shown(text)}</li>" for label, text in _findings(found))
    happened = "".join(
        f"<li>{status}: {_shown(line)}</li>" for status, texts in _happened(found, None) for line in texts
    )
    names = " and ".join(f"<b>{_shown(each)}</b>" for each in words.titles(found))
    head = _html_row("", "A", "B", "difference", tag="th")
    return (
        f"<p>{names}</p><p>{_shown(found.headline)}</p><table>{head}{totals}</table>"
        f"<ul>{lines}</ul><ul>{happened}</ul>"
    )


def _html_row(*cells: str, tag: str = "td") -> str:
    inner = "".join(f'<{tag} style="text-align:right">{_shown(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inner}</tr>"


def _shown(text: str) -> str:
    return escape(plain(text))
