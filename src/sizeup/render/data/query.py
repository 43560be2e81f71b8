"""The result of a query as plain data, JSON, a data frame, CSV and Parquet."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.render.data.frames import frame_of_arrow

if TYPE_CHECKING:
    from sizeup.results.query import QueryResult


def to_dict(result: QueryResult) -> dict[str, Any]:
    """Returns all rows as plain data, with the names of the columns."""
    return {**_head(result), "rows": [_plain_row(result.columns, row) for row in result.rows]}


def frame(result: QueryResult) -> Any:
    """Returns all rows as a data frame with nullable integers."""
    return frame_of_arrow(result.to_arrow())


def save(result: QueryResult, path: str | os.PathLike[str], *, raw: bool = False) -> None:
    """Write all rows as .csv or .parquet."""
    result.write_table(path, raw_csv=raw)


def json_lines(result: QueryResult) -> Iterator[str]:
    """Yields the result as JSON text, one line per row."""
    head = json.dumps(_head(result))
    yield head[:-1] + ', "rows": ['
    separator = "\n"
    for row in result.stream():
        yield separator + json.dumps(_plain_row(result.columns, row), default=str)
        separator = ",\n"
    yield "\n]}\n"


def _head(result: QueryResult) -> dict[str, Any]:
    return {
        **envelope.head(),
        "columns": list(result.columns),
    }


def _plain_row(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    # JSON has no NaN.
    values = (None if isinstance(value, float) and not math.isfinite(value) else value for value in row)
    return dict(zip(columns, values, strict=True))
