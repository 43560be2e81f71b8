"""The answer to a query as plain data, JSON, a data frame, and tables that DuckDB writes."""

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


def to_dict(answer: QueryResult) -> dict[str, Any]:
    """All rows as plain data, with the names of the columns."""
    return {**_head(answer), "rows": [_plain_row(answer.columns, row) for row in answer.rows]}


def frame(answer: QueryResult) -> Any:
    """All rows as a data frame; whole numbers stay whole where some of them are not known."""
    return frame_of_arrow(answer.to_arrow())


def save(answer: QueryResult, path: str | os.PathLike[str], *, raw: bool = False) -> None:
    """Write all rows as .csv or .parquet."""
    answer.write_table(path, raw_csv=raw)


def json_lines(answer: QueryResult) -> Iterator[str]:
    """An answer as JSON text, one row a line, made piece by piece."""
    head = json.dumps(_head(answer))
    yield head[:-1] + ', "rows": ['
    separator = "\n"
    for row in answer.stream():
        yield separator + json.dumps(_plain_row(answer.columns, row), default=str)
        separator = ",\n"
    yield "\n]}\n"


def _head(answer: QueryResult) -> dict[str, Any]:
    return {
        **envelope.head(),
        "columns": list(answer.columns),
    }


def _plain_row(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    # JSON knows no number that is none.
    values = (None if isinstance(each, float) and not math.isfinite(each) else each for each in row)
    return dict(zip(columns, values, strict=True))
