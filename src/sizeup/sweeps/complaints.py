"""What DuckDB says of SQL, shortened to what helps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sizeup.errors import SizeupError

_COLUMN = re.compile(r'Referenced column "(?P<name>.+?)" (?:was )?not found|column named "(?P<other>.+?)"')
_TABLE = re.compile(r"Table with name (?P<name>.+?) does not exist")
_NAMES = (
    "points",
    "before",
    "summary",
    "fits",
    "misfits",
    "fastest",
    "pareto",
    "unknown",
    "errors",
    "regressions",
    "all_rows",
)


def of(error: Exception, sql: str, columns: Callable[[str], list[str]] | None = None) -> SizeupError:
    """An error in one line: DuckDB's own words, and what there is where a name is not known."""
    said, _, place = str(error).partition("\n\nLINE ")
    text = re.sub(r"^\w[\w ]* Error: ", "", said.splitlines()[0] if said else str(error)).rstrip("!")
    missing = _TABLE.search(text)
    if missing is not None:
        return SizeupError(f"there is no table {missing['name']!r}; there are {', '.join(_NAMES)}")
    if _COLUMN.search(text) is not None and columns is not None:
        return SizeupError(f"{text}; {_columns_in(sql, columns)}")
    where = f" (line {place.splitlines()[0]})" if place else ""
    return SizeupError(f"{text}{where}")


def _columns_in(sql: str, columns: Callable[[str], list[str]]) -> str:
    """The columns of the tables that a statement names."""
    named = [name for name in _NAMES if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
    listed = [f"{name} has {', '.join(_columns(name, columns))}" for name in named]
    return "; ".join(each for each in listed if not each.endswith(" has "))


def _columns(name: str, columns: Callable[[str], list[str]]) -> list[str]:
    import duckdb

    try:
        return columns(name)
    except duckdb.Error:
        return []


def shortened(error: Any) -> str:
    """The first line of what DuckDB says, without the kind of error."""
    return re.sub(r"^\w[\w ]* Error: ", "", str(error).splitlines()[0])
