"""Precisions against each other: every point, their means, and a picture."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.csv_cells import csv_lines
from sizeup.files import write_text
from sizeup.precision.choose import BUDGETS, Budgets
from sizeup.precision.tradeoff import Point, Row, table
from sizeup.report.console import print_labelled, print_rows
from sizeup.report.files import check_ending
from sizeup.report.text import NOTHING, plain

SCHEMA_VERSION = 1
_COLUMNS = (
    "precision",
    "batch",
    "size",
    "accuracy",
    "flash_bytes",
    "arena_bytes",
    "seconds",
    "joules",
    "accepted",
)


@dataclass(frozen=True, repr=False)
class Tradeoff:
    """What a model takes at every precision, batch and input size."""

    name: str
    target: str | None
    budgets: Budgets
    points: tuple[Point, ...]

    @cached_property
    def rows(self) -> list[Row]:
        """The means by precision, the fastest first."""
        return table(self.points)

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.points):,} points at {len(self.rows)} precisions>"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: bytes, seconds and joules raw."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.name},
            "target": self.target,
            "budgets": {name: getattr(self.budgets, name) for name in BUDGETS},
            "precisions": [{name: getattr(row, name) for name in Row.__slots__} for row in self.rows],
            "points": [{**_cells(each), "refused": each.refused or None} for each in self.points],
        }

    def save(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
        """Write every point as its suffix says: .json or .csv.

        `raw_csv` leaves texts as they are that a spreadsheet would take for formulas.
        """
        check_path(path)
        if Path(path).suffix.lower() == ".json":
            write_text(path, [json.dumps(self.to_dict(), indent=2), "\n"])
        else:
            rows = (_cells(each).values() for each in self.points)
            write_text(path, csv_lines(_COLUMNS, rows, raw=raw_csv))

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw every point as .png or .svg: memory against time, one colour a precision; returns the path."""
        from sizeup.report import plots

        return plots.plot_tradeoff(self, path)


def _cells(point: Point) -> dict[str, Any]:
    figures = {name: None if point.figures is None else getattr(point.figures, name) for name in BUDGETS}
    own = {name: getattr(point, name) for name in ("precision", "batch", "size", "accuracy", "accepted")}
    return {name: {**own, **figures}[name] for name in _COLUMNS}


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that points are not written as."""
    check_ending(path, "points are", ".json", ".csv")


def render(found: Tradeoff, console: Console) -> None:
    """Print the means by precision, and why points are missing."""
    console.print(Text(plain(found.name), style="bold"))
    print_labelled(console, "points", f"{len(found.points):,}{f' on {found.target}' if found.target else ''}")
    for reason in dict.fromkeys(each.refused for each in found.points if each.refused):
        print_labelled(console, "left out", reason, "yellow")
    console.print()
    titles = ("accuracy", "latency", "memory", "energy", "accepted", "precision (means)")
    print_rows(console, titles, [_words(row) for row in found.rows])


def _words(row: Row) -> list[str]:
    return [
        NOTHING if row.accuracy is None else f"{100 * row.accuracy:.1f} %",
        NOTHING if row.seconds is None else units.duration(row.seconds),
        NOTHING if row.memory_bytes is None else units.size(row.memory_bytes),
        NOTHING if row.joules is None else units.joules(row.joules),
        NOTHING if row.accepted_ratio is None else f"{100 * row.accepted_ratio:.0f} %",
        row.precision,
    ]
