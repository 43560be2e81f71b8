"""CSV files with named columns, which users write. The content is untrusted."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from sizeup.errors import SizeupError
from sizeup.files import read_problem, read_settings
from sizeup.formats.names import check_regular

_MOST_ROWS = 100_000
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}
_HEADER = 200  # characters that are searched for another separator


def read_table(file: str, columns: Sequence[str], content: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the place of each row, for messages, and its cells of the columns; `content` names these.

    Raises SizeupError, with the line, if the file cannot be read, is not CSV or lacks a column.
    """
    try:
        check_regular(Path(file))
        text = read_settings(file)
    except OSError as error:
        raise SizeupError(f"{file}: {read_problem(error)}") from None
    except ValueError as error:
        raise SizeupError(f"{file}: not a CSV file of {content}: {error}") from None
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        header = [cell.strip().casefold() for cell in next(reader, [])]
        _check_header(file, header, columns, text)
        indices = [header.index(name) for name in columns]
        for count, row in enumerate(reader, 1):
            place = f"{file}: line {reader.line_num}"
            if count > _MOST_ROWS:
                raise SizeupError(f"{place}: more than {_MOST_ROWS:,} rows")
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise SizeupError(f"{place}: {len(row)} cells, but line 1 has {len(header)}")
            yield place, [row[index].strip() for index in indices]
    except csv.Error as error:
        raise SizeupError(f"{file}: line {reader.line_num}: not CSV: {error}") from None


def _check_header(file: str, header: list[str], columns: Sequence[str], text: str) -> None:
    missing = [name for name in columns if header.count(name) != 1]
    if not missing:
        return
    problem = f"{'no' if missing[0] not in header else 'more than one'} column {missing[0]!r}"
    hint = f"the first line names the columns: {','.join(columns)}"
    other = next((name for mark, name in _OTHER_SEPARATORS.items() if mark in text[:_HEADER]), "")
    hint = f"separate cells by commas, not {other}, and write 12.50, not 12,50" if other else hint
    raise SizeupError(f"{file}: line 1: {problem}; {hint}")
