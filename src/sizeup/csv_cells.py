"""Text in CSV files: a spreadsheet takes a cell that begins with =, +, - or @ for a formula, and runs it.

Names come from model files, so such a text gets an apostrophe before it. Numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

# Some spreadsheets read the full-width forms of = + - @ as these.
_WIDE = "\uff1d\uff0b\uff0d\uff20"
FORMULA = rf"\A('*[=+\-@\x00-\x1f\x7f{_WIDE}])"
"""How a text begins that is neutralized; apostrophes before it count, so that one can be taken off again."""
_FORMULA = re.compile(FORMULA)


def neutral(text: str) -> str:
    """The text with an apostrophe before it if a spreadsheet could take it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def csv_lines(
    header: Iterable[str], rows: Iterable[Iterable[Any]], *, raw: bool = False, end: str = "\n"
) -> Iterator[str]:
    """Rows as CSV under a header, each with its `end`; `raw` leaves texts as they are."""
    buffer = io.StringIO()
    as_needed = csv.writer(buffer, lineterminator=end)
    # Before Python 3.13 a carriage return alone is not quoted, and readers take it for the end of a row.
    quoted = csv.writer(buffer, lineterminator=end, quoting=csv.QUOTE_ALL)
    as_needed.writerow(header)
    yield buffer.getvalue()
    for row in rows:
        buffer.seek(0)
        buffer.truncate()
        cells = [each if raw else _cell(each) for each in row]
        writer = quoted if any(isinstance(each, str) and "\r" in each for each in cells) else as_needed
        writer.writerow(cells)
        yield buffer.getvalue()


def _cell(value: Any) -> Any:
    return neutral(value) if isinstance(value, str) else value
