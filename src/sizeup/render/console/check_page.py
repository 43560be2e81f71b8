"""A check for people: on a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.text import Text

from sizeup.render.console.check import (
    HELPS,
    WORDS,
    Cells,
    all_of,
    answer,
    cells,
    details,
    effect,
    headline,
    helping,
    reasons,
    remarks,
)
from sizeup.render.console.layout import print_labelled, print_rows
from sizeup.results.check import Check, by_path
from sizeup.units import plain

_STYLES = {
    "YES": "bold green",
    "NO": "bold red",
    "ERROR": "bold red",
    "UNDETERMINED": "bold yellow",
    "REMOVED": "bold",
}
_LEVELS = {"error": "red", "warning": "yellow", "notice": "cyan", "": ""}


def render(checks: Sequence[Check], console: Console) -> None:
    """Print every check, and where there are several, the answer of all first."""
    if len(checks) > 1:
        console.print(Text(all_of(by_path(checks)), style=_STYLES[answer(checks)]), soft_wrap=True)
    for check in by_path(checks):
        if len(checks) > 1:
            console.print()
        _render(check, console)


def _render(check: Check, console: Console) -> None:
    console.print(Text(headline(check), style=_STYLES[WORDS[check.status]]), soft_wrap=True)
    for each in (*reasons(check), *remarks(check)):
        print_labelled(console, each.label, each.text, _LEVELS[each.level])
    rows = [(row.need, row.limit, row.headroom, row.kept, row.name) for row in map(cells, check.limits)]
    if rows:
        console.print()
        print_rows(console, ("need", "limit", "headroom", "", "of"), rows)
    found = list(details(check))
    if found:
        console.print()
    for each in found:
        print_labelled(console, each.label, each.text, "dim" if each.label == "assumed" else "")
    heading = helping(check)
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


def html(check: Check) -> str:
    """The verdict and the table of limits as plain HTML, without scripts or styles of its own."""
    rows = "".join(_html_row(cells(limit), "td") for limit in check.limits)
    head = _html_row(Cells("limit", "need", "allowed", "headroom", ""), "th")
    findings = (*reasons(check), *remarks(check), *details(check))
    lines = [f"{each.label}: {each.text}" for each in findings]
    lines += [f"would help: {each.what}: {effect(each)}; {each.command}" for each in check.remedies]
    texts = "<br>".join(escape(plain(each)) for each in lines)
    return f"<b>{escape(headline(check))}</b><table>{head}{rows}</table><p>{texts}</p>"


def _html_row(row: Cells, tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(plain(text))}</{tag}>' for text in row)}</tr>"
