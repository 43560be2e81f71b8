"""QueryResults of sweeps: rows and columns, as a table for people and as files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.columns import shortened
from sizeup.render.vocabulary import NOTHING, UNKNOWN
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Glimpse, QuerySpec
    from sizeup.results.query import QueryResult

_SHOWN = 40  # rows in a terminal where nobody says how many
_MOST = 1000
_TOLD = 5  # columns that there is no room for
_GAP = 2
# Cells that a text keeps before a column is left out.
_LEAST_TEXT = {"model": 24, "fits_reason": 28, "error": 28, "target": 18, "worse": 34}
_LEAST = 14
# Columns that one line tells where all rows are alike in them.
_ALIKE = ("target", "device", "runtime", "precision", "batch", "shapes", "place")
# Columns where nothing stands for nothing: all others are then not known.
_OPTIONAL = (
    "batch",
    "shapes",
    "bind",
    "caveat",
    "error",
    "error_kind",
    "fits_reason",
    "latency_missing",
    "counts_missing",
)
_COUNTS = ("macs", "params", "elementwise_ops")


def render(answer: QueryResult, console: Console) -> None:
    """Print the first rows with as many columns as there is room for, and say what is left out."""
    question = answer.question
    found = answer.glimpse(_SHOWN if question.top is None else _MOST)
    if answer.view is not None:
        console.print(Text(f"{answer.view.name}: {answer.view.shows}", style="bold"), soft_wrap=True)
    left_out = _print(found, console, question.sql is not None) if found.rows else []
    for line in _remarks(question, found, left_out):
        console.print(Text(plain(line), style="dim"), soft_wrap=True)


def _remarks(question: QuerySpec, found: Glimpse, left_out: Sequence[str]) -> Iterator[str]:
    if len(found.rows) < found.total:
        yield f"{len(found.rows):,} of {found.total:,} rows; --top N shows others, -o FILE.csv keeps all"
    else:
        yield f"{found.total:,} row{'s' * (found.total != 1)}"
    if found.unknown:
        points, them = ("point is", "it") if found.unknown == 1 else ("points are", "them")
        yield f"{found.unknown:,} {points} left out: not enough is known of {them} (--view unknown)"
    if left_out:
        rest = len(left_out) - _TOLD
        told = ", ".join(left_out[:_TOLD]) + (f" and {rest} more" if rest > 0 else "")
        yield f"no room for {told} (-o FILE.csv keeps all)"


def _print(found: Glimpse, console: Console, is_asked: bool) -> list[str]:
    """Print a table no wider than the console; the columns that it has no room for.

    Columns that SQL asks for are shown even if all their values are null.
    """
    made = (_Column(name, [row[place] for row in found.rows]) for place, name in enumerate(found.columns))
    columns = [column for column in made if is_asked or not column.is_empty]
    if len(found.rows) == found.total > 1:
        alike = [column for column in columns if column.title in _ALIKE and len(set(column.texts)) == 1]
        columns = [column for column in columns if column not in alike]
        _print_alike(alike, console)
    for folder in (column.folder for column in columns if column.folder):
        console.print(Text(f"models of {folder}", style="dim"), soft_wrap=True)
    shown = _fitting(columns, console.width)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    spare = console.width - _GAP * (len(shown) - 1) - sum(column.least for column in shown)
    cells = []
    for column in shown:
        width = min(column.width, column.least + max(spare, 0))
        spare -= width - column.least
        cells.append(column.lines(width, dots))
    for number, line in enumerate(zip(*cells, strict=True)):
        text = (" " * _GAP).join(line).rstrip()
        console.print(Text(text, style="" if number else "cyan"), soft_wrap=True)
    return [column.title for column in columns[len(shown) :]]


def _print_alike(columns: Sequence[_Column], console: Console) -> None:
    if columns:
        told = ", ".join(f"{column.title} {column.texts[0]}" for column in columns)
        console.print(Text(f"all rows: {told}", style="dim"), soft_wrap=True)


class _Column:
    """A column as texts, and how narrow it may be."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.title = plain(name)
        self.is_text = any(isinstance(each, str) for each in values)
        self.is_empty = name in _OPTIONAL and not any(values)
        self.texts = [plain(_written(name, each)) for each in values]
        self.folder = common_folder(self.texts) if name == "model" else ""
        self.texts = [text[len(self.folder) :] for text in self.texts]
        self.width = max(map(cell_len, (self.title, *self.texts)))
        flexible = max(_LEAST_TEXT.get(name, _LEAST), cell_len(self.title))
        self.least = min(self.width, flexible) if self.is_text else self.width

    def lines(self, width: int, dots: str) -> list[str]:
        """Its title and its texts, all so wide."""
        texts = [self.title, *shortened(self.texts, width, dots)]
        return [text + _space(text, width) if self.is_text else _space(text, width) + text for text in texts]


def common_folder(names: Sequence[str]) -> str:
    """The folder that all names begin with, or nothing."""
    parts = [name.split("/")[:-1] for name in names]
    shared = 0
    while parts and all(len(each) > shared and each[shared] == parts[0][shared] for each in parts):
        shared += 1
    return "".join(f"{part}/" for part in parts[0][:shared]) if shared else ""


def _space(text: str, width: int) -> str:
    return " " * (width - cell_len(text))


def _fitting(columns: Sequence[_Column], room: int) -> list[_Column]:
    """The first columns, as many as there is room for, and at least one."""
    shown, needed = list[_Column](), -_GAP
    for column in columns:
        needed += _GAP + column.least
        if shown and needed > room:
            break
        shown.append(column)
    return shown


def _written(name: str, value: Any) -> str:
    """A value in words, by the unit in the name of its column."""
    if value is None or value == "":
        return NOTHING if name in _OPTIONAL or value == "" else UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):  # sums of whole numbers
        value = int(value) if value == int(value) else float(value)
    if isinstance(value, int | float) and math.isfinite(value):
        return _number(name.removesuffix("_before"), value)
    return str(value)


def _number(name: str, value: float) -> str:
    if name.endswith("bytes"):
        return units.size(value)
    if name == "ms" or name.endswith("_ms"):
        return units.duration(value / 1e3)
    if name.endswith("_mj"):
        return units.joules(value / 1e3)
    if name.endswith("growth"):
        return f"{100 * value:+,.1f} %"
    if name in _COUNTS:
        return units.count(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
