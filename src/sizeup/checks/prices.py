"""Prices of boards from a CSV file with the columns `board` and `price`."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sizeup.errors import SizeupError
from sizeup.files import read_problem, read_settings
from sizeup.formats.names import check_regular
from sizeup.targets import Catalog, current_catalog
from sizeup.units import quoted

_COLUMNS = ("board", "price")
_MOST_ROWS = 100_000
_LONGEST_NAME = 200
_PRICE = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_EXAMPLE = "board,price"
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by board, and the names in the file that are no board."""

    by_board: Mapping[str, float]
    unknown: tuple[str, ...] = ()


def read_prices(source: str | os.PathLike[str] | Mapping[str, float]) -> Prices:
    """The prices of a CSV file, or of a mapping from boards to prices.

    Boards are found by name, alias or title. Raises SizeupError, with the line, if the file is not such a
    table, a price is not a number, a board has two prices, or no row names a board.
    """
    if isinstance(source, Mapping):
        rows = ((f"prices: {quoted(name)}", str(name), _plain(price)) for name, price in source.items())
        return _prices("prices", rows)
    file = os.fspath(source)
    try:
        check_regular(Path(file))
        text = read_settings(file)
    except OSError as error:
        raise SizeupError(f"{file}: {read_problem(error)}") from None
    except ValueError as error:
        raise SizeupError(f"{file}: not a CSV file of prices: {error}") from None
    return _prices(file, _rows(file, text))


def _plain(price: object) -> str:
    is_number = isinstance(price, int | float) and not isinstance(price, bool)
    return f"{price:f}" if is_number else quoted(price)


def _rows(file: str, text: str) -> Iterator[tuple[str, str, str]]:
    """The place, the board and the price of each row."""
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        header = [cell.strip().casefold() for cell in next(reader, [])]
        missing = [name for name in _COLUMNS if header.count(name) != 1]
        if missing:
            problem = f"{'no' if missing[0] not in header else 'more than one'} column {missing[0]!r}"
            hint = f"the first line names the columns: {_EXAMPLE}"
            other = next(
                (name for mark, name in _OTHER_SEPARATORS.items() if mark in text[:_LONGEST_NAME]), ""
            )
            hint = f"separate cells by commas, not {other}, and write 12.50, not 12,50" if other else hint
            raise SizeupError(f"{file}: line 1: {problem}; {hint}")
        board, price = map(header.index, _COLUMNS)
        for count, row in enumerate(reader, 1):
            place = f"{file}: line {reader.line_num}"
            if count > _MOST_ROWS:
                raise SizeupError(f"{place}: more than {_MOST_ROWS:,} rows")
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise SizeupError(f"{place}: {len(row)} cells, but line 1 has {len(header)}")
            yield place, row[board].strip(), row[price].strip()
    except csv.Error as error:
        raise SizeupError(f"{file}: line {reader.line_num}: not CSV: {error}") from None


def _prices(file: str, rows: Iterator[tuple[str, str, str]]) -> Prices:
    catalog, prices, unknown = current_catalog(), dict[str, float](), dict[str, None]()
    for place, name, price in rows:
        if not _PRICE.fullmatch(price):
            raise SizeupError(f"{place}: price {quoted(price)} is not a number such as 12.50")
        board = _board(catalog, name, place)
        if board is None:
            unknown[name] = None
        elif board in prices:
            raise SizeupError(f"{place}: a second price of {board}")
        else:
            prices[board] = float(price)
    if not prices:
        names = f" ({', '.join(map(quoted, list(unknown)[:3]))})" if unknown else ""
        raise SizeupError(f"{file}: no row names a known board{names}; sizeup devices --boards lists them")
    return Prices(prices, tuple(unknown))


def _board(catalog: Catalog, name: str, place: str) -> str | None:
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise SizeupError(f"{place}: board {quoted(name)} is not the name of a board")
    return catalog.board(name).name if catalog.has_board(name) else None
