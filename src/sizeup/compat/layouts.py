"""Tables as the older tools laid them out, so that what reads their output can go on reading it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sizeup.units import plain

Rows = Iterable[Sequence[Any]]
_ROOM = 2  # that a column leaves beside its header


def ruled(headers: Sequence[str], rows: Rows) -> str:
    """A table in the manner of psql: a frame, a line below the headers, decimal points below each other."""
    columns = _columns(headers, rows)
    lines = ["| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=True)]
    dashes = ["-" * (len(column[0]) + 2) for column in columns]
    frame = f"+{'+'.join(dashes)}+"
    return "\n".join([frame, lines[0], f"|{'+'.join(dashes)}|", *lines[1:], frame])


def simple(headers: Sequence[str], rows: Rows) -> str:
    """A table without a frame: a line of dashes below the headers, two spaces between columns."""
    columns = _columns(headers, rows)
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([lines[0], "  ".join("-" * len(column[0]) for column in columns), *lines[1:]])


def centred(headers: Sequence[str], rows: Rows, right: Sequence[str] = ()) -> str:
    """A framed table of centred texts, but for the columns that are to stand on the right."""
    cells = [list(headers), *([plain(str(value)) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    frame = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
    lines = []
    for place, row in enumerate(cells):
        texts = [
            text.rjust(width) if place and header in right else _centre(text, width)
            for text, width, header in zip(row, widths, headers, strict=True)
        ]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join([frame, lines[0], frame, *lines[1:], frame])


def _centre(text: str, width: int) -> str:
    """In the middle; where that is between two places, a text of odd length goes left, others right."""
    left, odd = divmod(width - len(text), 2)
    left += odd and len(text) % 2 == 0
    return (" " * left + text).ljust(width)


def _columns(headers: Sequence[str], rows: Rows) -> list[list[str]]:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in headers]
    return [_column(header, column) for header, column in zip(headers, columns, strict=True)]


def _column(header: str, values: Sequence[Any]) -> list[str]:
    numbers = bool(values) and all(isinstance(value, int | float) for value in values)
    if not numbers:
        cells = [plain(str(value)) for value in values]
        width = max([len(header) + _ROOM, *map(len, cells)])
        return [text.ljust(width) for text in (header, *cells)]
    floating = any(isinstance(value, float) for value in values)
    cells = _on_the_point([f"{value:g}" if floating else str(value) for value in values])
    width = max(len(header) + _ROOM, *map(len, cells))
    return [text.rjust(width) for text in (header, *cells)]


def _on_the_point(texts: Sequence[str]) -> list[str]:
    """Numbers padded on their right, so that decimal points meet; with an exponent, that counts as more."""
    after = [len(text) - at - 1 if (at := _point(text)) >= 0 else -1 for text in texts]
    most = max(after)
    return [text + " " * (most - each) for text, each in zip(texts, after, strict=True)]


def _point(text: str) -> int:
    found = text.rfind(".")
    return text.rfind("e") if found < 0 else found
