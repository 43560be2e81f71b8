"""Tables in Markdown: read from pages, and written into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_SEPARATOR = re.compile(r"\|[-:| ]+\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> Iterator[str]:
    """The lines of a table, after an empty line; columns whose letter in `align` is r are aligned right."""
    rules = ("--:" if letter == "r" else "---" for letter in align.ljust(len(head)))
    yield f"\n| {' | '.join(head)} |\n|{'|'.join(rules)}|\n"
    for row in rows:
        yield f"| {' | '.join(map(one_line, row))} |\n"


def one_line(text: str) -> str:
    """The text for a cell: one line, with vertical bars escaped."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def escaped(text: str) -> str:
    """Plain text as Markdown: none of its characters is markup."""
    return re.sub(r"([\\*_<\[\]`])", r"\\\1", text)


def tables(markdown: str) -> Iterator[list[dict[str, str]]]:
    """Every table of a page, as rows by the name of the column."""
    lines = markdown.splitlines()
    for number, line in enumerate(lines):
        if number and _SEPARATOR.fullmatch(line) and lines[number - 1].startswith("|"):
            head = _cells(lines[number - 1])
            rows = []
            for row in lines[number + 1 :]:
                if not row.startswith("|"):
                    break
                rows.append(dict(zip(head, _cells(row), strict=True)))
            yield rows


def table_with(markdown: str, *columns: str) -> list[dict[str, str]]:
    """The first table of a page that has these columns; raises LookupError if there is none."""
    for rows in tables(markdown):
        if rows and set(columns) <= rows[0].keys():
            return rows
    raise LookupError(f"no table with the columns {', '.join(columns)}")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
