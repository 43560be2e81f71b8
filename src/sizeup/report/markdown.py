"""A report as Markdown, for a pull request or a README."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sizeup.report.text import columns_of, headline, plain, receipt, title
from sizeup.report.view import view

if TYPE_CHECKING:
    from sizeup.report.summary import Report


def lines(report: Report) -> Iterator[str]:
    """The report's headline, its receipt, its notes and its usual table."""
    yield f"## {cell(title(report))}\n\n"
    yield "| | |\n|---|---|\n"
    for label, text in headline(report):
        yield f"| {label} | {cell(text)} |\n"
    yield "\n"
    first, *others = receipt(report)
    yield f"{cell(first)}\n\n"
    for sentence in (*others, *report.notes):
        yield f"- {cell(sentence)}\n"
    if others or report.notes:
        yield "\n"
    yield from _table(report)


def _table(report: Report) -> Iterator[str]:
    shown = view(report)
    columns = columns_of(shown)
    yield _row([column.title for column in columns])
    yield _row(["---:" if column.right else "---" for column in columns])
    for entry in shown.rows:
        yield _row([cell(column.text(entry)) for column in columns])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def cell(text: str) -> str:
    """A text as a cell of a table, in which nothing of it is markup."""
    return plain(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
