"""CSV output that spreadsheets do not run as formulas.

Spreadsheets run text that starts with =, +, - or @ as a formula, and names come from model files. Such text
gets a leading apostrophe; numbers are unchanged.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

# Full-width forms of = + - @, which some spreadsheets accept.
_WIDE = "\uff1d\uff0b\uff0d\uff20"
FORMULA = rf"\A('*[=+\-@\x00-\x1f\x7f{_WIDE}])"
"""Start of text that gets an apostrophe; leading apostrophes count, so that the change is reversible."""
_FORMULA = re.compile(FORMULA)


def neutralize(text: str) -> str:
    """The text, with a leading apostrophe if a spreadsheet could run it as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def csv_lines(
    header: Iterable[str], rows: Iterable[Iterable[Any]], *, raw: bool = False, end: str = "\n"
) -> Iterator[str]:
    """CSV lines of a header and rows; `raw` writes text unchanged."""
    buffer = io.StringIO()
    as_needed = csv.writer(buffer, lineterminator=end)
    # Before Python 3.13 a lone carriage return is not quoted, and readers take it for the end of a row.
    quoted = csv.writer(buffer, lineterminator=end, quoting=csv.QUOTE_ALL)
    as_needed.writerow(header)
    yield buffer.getvalue()
    for row in rows:
        buffer.seek(0)
        buffer.truncate()
        cells = [value if raw else _cell(value) for value in row]
        writer = quoted if any(isinstance(cell, str) and "\r" in cell for cell in cells) else as_needed
        writer.writerow(cells)
        yield buffer.getvalue()


def _cell(value: Any) -> Any:
    return neutralize(value) if isinstance(value, str) else value
