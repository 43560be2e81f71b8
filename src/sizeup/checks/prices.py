"""Prices of boards from a CSV file with the columns `board` and `price`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sizeup.errors import SizeupError
from sizeup.formats.csv_tables import read_table
from sizeup.targets import Catalog, current_catalog
from sizeup.units import quoted

_COLUMNS = ("board", "price")
_LONGEST_NAME = 200
_PRICE = re.compile(r"\d{1,12}(?:\.\d{1,6})?")


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
    return _prices(file, ((place, *cells) for place, cells in read_table(file, _COLUMNS, "prices")))


def _plain(price: object) -> str:
    is_number = isinstance(price, int | float) and not isinstance(price, bool)
    return f"{price:f}" if is_number else quoted(price)


def _prices(file: str, rows: Iterator[tuple[str, ...]]) -> Prices:
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
