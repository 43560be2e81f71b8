"""Tables of measurements, kept next to the project, as columns."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sizeup.latency.work import Flags, Floats

Words: TypeAlias = np.ndarray[Any, np.dtype[np.str_]]


class Table:
    """Columns of one length, converted to text or numbers on access."""

    def __init__(self, columns: dict[str, np.ndarray[Any, Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def words(self, name: str) -> Words:
        """A column of text; '' if a cell is empty."""
        column = self.columns[name]
        return np.array(["" if _missing(each) else str(each) for each in column], np.str_)

    def numbers(self, name: str) -> Floats:
        """A column of numbers; NaN if a cell is empty."""
        column = self.columns[name]
        if column.dtype.kind in "fiub":
            return column.astype(np.float64)
        return np.array([np.nan if _missing(each) else float(each) for each in column], np.float64)

    def where(self, kept: Flags) -> Table:
        """The rows at which `kept` is true."""
        return Table({name: column[kept] for name, column in self.columns.items()})


def _missing(value: object) -> bool:
    return value is None or value == "" or value != value


def read(path: Path) -> Table:
    """A .parquet (needs pyarrow) or .csv file."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        content = parquet.read_table(path)
        names = content.column_names
        return Table({name: content.column(name).to_numpy(zero_copy_only=False) for name in names})
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    columns = zip(*rows[1:], strict=True)
    return Table({name: np.array(column, object) for name, column in zip(rows[0], columns, strict=True)})
