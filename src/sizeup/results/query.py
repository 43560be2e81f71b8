"""What a query of a sweep's results returns; rows are read from its store when they are needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sizeup.errors import SizeupError
from sizeup.results.result import Result
from sizeup.sweeps import query
from sizeup.sweeps.views import DEFAULT, View, views

if TYPE_CHECKING:
    from sizeup.sweeps.board import Board
    from sizeup.sweeps.query import Glimpse, QuerySpec


@dataclass(frozen=True, repr=False)
class QueryResult(Result):
    """What a sweep answers to a question; its rows are computed when they are first asked for."""

    question: QuerySpec
    columns: tuple[str, ...]

    def __repr__(self) -> str:
        asked = self.question.sql or self.question.view or DEFAULT
        return f"<{self.question.folder}: {asked} ({len(self.columns)} columns)>"

    @cached_property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """All rows, one value a column; None where a value is not known."""
        return tuple(query.rows_of(self.question))

    def to_arrow(self) -> Any:
        """All rows as a table of Arrow."""
        return query.table_of(self.question)

    @property
    def view(self) -> View | None:
        """The view that was asked for; None for SQL."""
        if self.question.sql is not None:
            return None
        return views(query.COSTS, compared=True)[self.question.view or DEFAULT]

    def glimpse(self, most: int) -> Glimpse:
        """The first rows, and how many there are."""
        return query.glimpse(self.question, most)

    def stream(self) -> Iterator[tuple[Any, ...]]:
        """All rows, one after the other, without keeping them."""
        return query.rows_of(self.question)

    def write_table(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
        """Have DuckDB write all rows as .csv or .parquet."""
        query.save(self.question, path, raw_csv=raw_csv)

    def board(self) -> Board:
        """The points ranked for a leaderboard; raises SizeupError for a view or SQL, which have no points."""
        from sizeup.sweeps.board import board

        if self.question.sql is not None or self.question.view is not None:
            raise SizeupError("the leaderboard is of points, not of a view or SQL")

        return board(self.question)
