"""The result of a query; rows are read from the store when needed."""

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
    from sizeup.sweeps.leaderboard import Leaderboard
    from sizeup.sweeps.query import Preview, QuerySpec


@dataclass(frozen=True, repr=False)
class QueryResult(Result):
    """The result of a query of a sweep; rows are computed on first use."""

    spec: QuerySpec
    columns: tuple[str, ...]

    def __repr__(self) -> str:
        text = self.spec.sql or self.spec.view or DEFAULT
        return f"<{self.spec.folder}: {text} ({len(self.columns)} columns)>"

    @cached_property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """All rows, one value per column; None if unknown."""
        return tuple(query.rows_of(self.spec))

    def to_arrow(self) -> Any:
        """Returns all rows as an Arrow table."""
        return query.table_of(self.spec)

    @property
    def view(self) -> View | None:
        """The view of the query; None for SQL."""
        if self.spec.sql is not None:
            return None
        return views(query.COSTS, compared=True)[self.spec.view or DEFAULT]

    def preview(self, most: int) -> Preview:
        """Returns the first rows, and the number of all."""
        return query.preview(self.spec, most)

    def stream(self) -> Iterator[tuple[Any, ...]]:
        """Yields all rows without storing them."""
        return query.rows_of(self.spec)

    def write_table(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
        """Writes all rows as .csv or .parquet with DuckDB."""
        query.save(self.spec, path, raw_csv=raw_csv)

    def leaderboard(self) -> Leaderboard:
        """Ranks the points for a leaderboard. Raises SizeupError for a view or SQL, which have no points."""
        from sizeup.sweeps.leaderboard import leaderboard

        if self.spec.sql is not None or self.spec.view is not None:
            raise SizeupError("a leaderboard ranks points; it cannot show a view or SQL")

        return leaderboard(self.spec)
