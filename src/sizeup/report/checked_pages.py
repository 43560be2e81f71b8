"""A check for people: on a terminal, in a pull request, in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from rich.console import Console
from rich.text import Text

from sizeup.report.checked import Check, fits
from sizeup.report.checked_words import (
    HELPS,
    Cells,
    all_of,
    cells,
    details,
    effect,
    headline,
    reasons,
)
from sizeup.report.console import print_labelled, print_rows
from sizeup.report.markdown import cell, code, prose
from sizeup.report.text import plain

_STYLES = {True: "bold green", False: "bold red", None: "bold yellow"}
_LEVELS = {"error": "red", "warning": "yellow", "": ""}
_HEADING = "What would help, each carried out and checked again:"
_NOTHING = "Nothing that sizeup can try on this model brings its need down."


def render(checks: Sequence[Check], console: Console) -> None:
    """Print every check, and where there are several, the answer of all first."""
    if len(checks) > 1:
        console.print(Text(all_of(checks), style=_STYLES[fits(checks)]))
    for check in checks:
        if len(checks) > 1:
            console.print()
        _render(check, console)


def _render(check: Check, console: Console) -> None:
    console.print(Text(headline(check), style=_STYLES[check.fits]), soft_wrap=True)
    for label, text, level in reasons(check):
        print_labelled(console, label, text, _LEVELS[level])
    rows = [(row.need, row.limit, row.headroom, row.kept, row.name) for row in map(cells, check.limits)]
    if rows:
        console.print()
        print_rows(console, ("need", "limit", "headroom", "", "of"), rows)
    found = list(details(check))
    if found:
        console.print()
    for label, text, _ in found:
        print_labelled(console, label, text, "dim" if label == "assumed" else "")
    heading = _help(check)
    if heading:
        console.print()
        console.print(Text(heading, style="bold"))
    for remedy in check.remedies:
        style = {True: "green", False: "", None: "yellow"}[remedy.fits]
        print_labelled(console, HELPS[remedy.fits], f"{remedy.what}: {effect(remedy)}", style)
        for note in remedy.notes:
            print_labelled(console, "", note, "dim")
        # In one piece, however long: it is there to be copied.
        console.print(Text(plain(f"    $ {remedy.command}"), style="bold"), soft_wrap=True)


def _help(check: Check) -> str:
    """What stands above the remedies, or that there are none where some were looked for."""
    if check.remedies:
        return _HEADING
    is_over = any(limit.fits is False for limit in check.limits)
    return _NOTHING if check.sought and is_over else ""


def markdown(checks: Sequence[Check]) -> Iterator[str]:
    """Checks for a pull request: a verdict, a table of limits, what is over, what would help."""
    if len(checks) > 1:
        yield f"## {prose(all_of(checks))}\n\n"
    for check in checks:
        yield f"{'###' if len(checks) > 1 else '##'} {prose(headline(check))}\n\n"
        if check.limits:
            yield "| limit | need | allowed | headroom | |\n|---|---:|---:|---:|---|\n"
        for limit in check.limits:
            row = Cells(*map(cell, cells(limit)))
            kept = row.kept if limit.fits else f"**{row.kept}**"
            yield f"| {row.name} | {row.need} | {row.limit} | {row.headroom} | {kept} |\n"
        yield "\n"
        for label, text, _ in (*reasons(check), *details(check)):
            yield f"- {cell(label)}: {prose(text)}\n"
        yield from _helps(check)
        yield "\n"


def _helps(check: Check) -> Iterator[str]:
    heading = _help(check)
    if heading:
        yield f"\n{heading}\n\n"
    for remedy in check.remedies:
        notes = "".join(f" ({prose(note)})" for note in remedy.notes)
        yield f"- **{HELPS[remedy.fits]}**: {prose(remedy.what)}: {prose(effect(remedy))}{notes}\n"
        yield f"  {code(remedy.command)}\n"


def html(check: Check) -> str:
    """The verdict and the table of limits as plain HTML, without scripts or styles of its own."""
    rows = "".join(_html_row(cells(limit), "td") for limit in check.limits)
    head = _html_row(Cells("limit", "need", "allowed", "headroom", ""), "th")
    lines = [f"{label}: {text}" for label, text, _ in (*reasons(check), *details(check))]
    lines += [f"would help: {each.what}: {effect(each)}; {each.command}" for each in check.remedies]
    texts = "<br>".join(escape(plain(each)) for each in lines)
    return f"<b>{escape(headline(check))}</b><table>{head}{rows}</table><p>{texts}</p>"


def _html_row(row: Cells, tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(plain(text))}</{tag}>' for text in row)}</tr>"
