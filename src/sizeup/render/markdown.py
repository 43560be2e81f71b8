"""A report as Markdown, for a pull request or a README."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sizeup.render.console.columns import columns_of
from sizeup.render.console.report import headline, receipt, title
from sizeup.results.table import view
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.report import Report

_LONGEST_NAME, _LONGEST_SENTENCE = 80, 500
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_NAME + 1},}}")
_NOTHING = "\N{ZERO WIDTH SPACE}"
# @name mentions, #12 and GH-12 lead to issues, http://host and www.host are links.
_LINKED = re.compile(r"(@|#(?=\d)|\bGH-(?=\d)|:/(?=/)|www(?=\.))", re.IGNORECASE)
_MARKUP = str.maketrans({c: f"\\{c}" for c in "\\`*_[]~#!|$"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# What begins a list or is a rule at the start of a line, or a command in a log that GitHub Actions reads.
_BLOCK = re.compile(r"\A(\d{0,9})([-+.)](?=\s|[-\s]*\Z)|:(?=:))")


def lines(report: Report) -> Iterator[str]:
    """The report's headline, its receipt, its notes and its usual table."""
    yield f"## {cell(title(report))}\n\n"
    yield "| | |\n|---|---|\n"
    for label, text in headline(report):
        yield f"| {label} | {prose(text)} |\n"
    yield "\n"
    first, *others = receipt(report)
    yield f"{prose(first)}\n\n"
    for sentence in (*others, *report.notes):
        yield f"- {prose(sentence)}\n"
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
    """A name or an amount, for a heading or a cell of a table: long ones are cut in their middle."""
    return _escaped(_shortened(plain(text), _LONGEST_NAME))


def prose(text: str) -> str:
    """A sentence, whatever names are in it: long ones are cut in their middle."""
    words = _LONG_WORD.sub(lambda word: _shortened(word[0], _LONGEST_NAME), plain(text).strip())
    return _BLOCK.sub(r"\1\\\2", _escaped(_shortened(words, _LONGEST_SENTENCE)))


def code(text: str) -> str:
    """A command to be copied, letter by letter, whatever backticks are in it."""
    content = plain(text)
    fence = "`" * (max(map(len, re.findall("`+", content)), default=0) + 1)
    room = " " if content[:1] == "`" or content[-1:] == "`" else ""
    return f"{fence}{room}{content}{room}{fence}"


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2 - 1]}\N{HORIZONTAL ELLIPSIS}{text[-(most - most // 2) :]}"


def _escaped(text: str) -> str:
    """Text in which nothing is markup, a link or a mention.

    GitHub looks for mentions and numbers of issues in what is shown, where a backslash is gone and an entity
    is a letter again; a space without width is still there.
    """
    return _LINKED.sub(rf"\1{_NOTHING}", text).translate(_MARKUP)
