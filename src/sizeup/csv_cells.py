"""CSV output that spreadsheets do not run as formulas, and agents of CI systems not as commands.

Spreadsheets run text that starts with =, +, - or @ as a formula, and names come from model files. Such text
gets a leading apostrophe; numbers are unchanged. What is a command in a log (see `logs`) gets a space.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

# Full-width forms of = + - @, which some spreadsheets accept.
_SPACES = (
    "\t\x0b\x0c\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # except ends of lines
)
_WIDE = "\uff1d\uff0b\uff0d\uff20"
REPLACEMENTS = (
    # Leading apostrophes count, so that this one is reversible.
    (rf"\A('*[=+\-@\x00-\x1f\x7f{_WIDE}])", r"'\1"),
    (r"##(\w*\[)", r"## \1"),
    (rf"(\A|[\r\n])([{_SPACES}]*:):", r"\1\2 :"),
    (r"(\A|[\r\n])((?:---|\+\+\+|~~~|\^\^\^) )", r"\1 \2"),
    (r"(\r)(\x1b\[0K)", r"\1 \2"),
)
"""Patterns and what replaces them, in the common subset of Python's expressions and RE2's."""
_REPLACEMENTS = [(re.compile(pattern), new) for pattern, new in REPLACEMENTS]
_ANY = re.compile("|".join(pattern for pattern, _ in REPLACEMENTS))


def neutralize(text: str) -> str:
    """The text without what a spreadsheet could run as a formula or an agent of a CI system as a command."""
    for pattern, new in _REPLACEMENTS if _ANY.search(text) else ():
        text = pattern.sub(new, text)
    return text


def csv_lines(
    header: Iterable[str], rows: Iterable[Iterable[Any]], *, raw: bool = False, end: str = "\n"
) -> Iterator[str]:
    """CSV lines of a header and rows; `raw` writes text unchanged."""
    buffer = io.StringIO()
    as_needed = csv.writer(buffer, lineterminator=end)
    # Before Python 3.13 a lone carriage return is not quoted, and readers take it for the end of a row.
    quoted = csv.writer(buffer, lineterminator=end, quoting=csv.QUOTE_ALL)
    as_needed.writerow(header if raw else map(_cell, header))
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
