"""The result of a query as a table on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.columns import shortened
from sizeup.render.console.layout import print_labeled
from sizeup.render.vocabulary import NOTHING, UNKNOWN
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.parts import Preview, QuerySpec
    from sizeup.results.query import QueryResult

_SHOWN = 40  # rows on a terminal without --top
_MOST = 1000
_MOST_NAMED = 5  # hidden columns that are listed
_GAP = 2
# Least width of text columns, in cells.
_LEAST_TEXT = {"model": 24, "fits_reason": 28, "error": 28, "target": 18, "worse": 34}
_LEAST = 14
# Columns of language models that are moved to the front of a view if they distinguish rows.
_POINT = ("weights", "concurrency", "kv", "layout", "input_tokens", "output_tokens")
# Columns that are printed once above the table if all rows have the same value.
_SHARED = ("target", "device", "runtime", "precision", "batch", "shapes", "rank", *_POINT)
# Columns in which null means none; in all others it means unknown.
_OPTIONAL = (
    *_POINT,
    "batch",
    "shapes",
    "bind",
    "caveat",
    "error",
    "error_kind",
    "reason",
    "fits_reason",
    "latency_missing",
    "counts_missing",
    "times_missing",
    "assumptions",
)
# Columns that are printed as the numbers of reasons below the table, by the views that promise reasons.
_REASONS, _EXPLAINED = ("fits_reason", "latency_missing", "counts_missing"), ("unknown", "misfits")
_COUNTS = ("macs", "params", "elementwise_ops")
# Times of other models, and of language models, whose rows have a concurrency.
_LATENCIES, _SERVED_TIMES = ("ms", "low_ms", "high_ms", "energy_mj"), ("tpot_ms", "ttft_ms")


def render(result: QueryResult, console: Console) -> None:
    """Print the first rows with as many columns as fit, and list what is hidden."""
    spec = result.spec
    page = result.preview(_SHOWN if spec.top is None else _MOST)
    if result.view is not None:
        console.print(Text(f"{result.view.name}: {result.view.description}", style="bold"), soft_wrap=True)
    reasons: dict[str, int] = {}
    if result.view is not None and result.view.name in _EXPLAINED:
        page, reasons = _numbered_reasons(page)
    hidden = _print(page, console, spec.sql is not None) if page.rows else []
    for text, number in reasons.items():
        print_labeled(console, f"reason {number}", text)
    for line in _footer(spec, page, hidden):
        console.print(Text(printable(line), style="dim"), soft_wrap=True)


def _numbered_reasons(page: Preview) -> tuple[Preview, dict[str, int]]:
    """Returns a page with one column of the numbers of reasons instead of their texts, and the numbers.

    The texts are too long for a column, and many rows have the same.
    """
    numbers: dict[str, int] = {}
    indexes = [index for index, name in enumerate(page.columns) if name in _REASONS]
    kept = [index for index, name in enumerate(page.columns) if name not in _REASONS]
    place = 1 + max(kept.index(page.columns.index(name)) for name in ("model", "target"))
    rows = []
    for row in page.rows:
        cell = ", ".join(str(numbers.setdefault(row[i], len(numbers) + 1)) for i in indexes if row[i])
        values = [row[index] for index in kept]
        rows.append((*values[:place], cell, *values[place:]))
    names = [page.columns[index] for index in kept]
    columns = (*names[:place], "reason", *names[place:])
    return replace(page, columns=columns, rows=tuple(rows)), numbers


def _footer(spec: QuerySpec, page: Preview, hidden: Sequence[str]) -> Iterator[str]:
    if len(page.rows) < page.total:
        yield f"{len(page.rows):,} of {page.total:,} rows; --top N shows more, -o FILE.csv writes all"
    else:
        yield f"{page.total:,} row{'s' * (page.total != 1)}"
    if page.unknown:
        points = "point" if page.unknown == 1 else "points"
        yield f"{page.unknown:,} {points} omitted: undetermined (--view unknown lists them)"
    if hidden:
        rest = len(hidden) - _MOST_NAMED
        names = ", ".join(hidden[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        yield f"columns hidden: {names} (-o FILE.csv writes all)"


def _print(page: Preview, console: Console, is_sql: bool) -> list[str]:
    """Print a table no wider than the console; returns the hidden columns.

    Columns of an SQL query are shown even if all their values are null.
    """
    candidates = (_Column(name, [row[index] for row in page.rows]) for index, name in enumerate(page.columns))
    others = () if is_sql else _inapplicable(page)
    columns = [column for column in candidates if is_sql or not (column.is_empty or column.title in others)]
    if len(page.rows) == page.total > 1:
        shared = [column for column in columns if column.title in _SHARED and len(set(column.texts)) == 1]
        columns = [column for column in columns if column not in shared]
        _print_shared(shared, console)
    if not is_sql:
        columns = _distinguishing_first(columns)
    for folder in (column.folder for column in columns if column.folder):
        console.print(Text(f"models of {folder}", style="dim"), soft_wrap=True)
    visible = _fitting(columns, console.width)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    spare = console.width - _GAP * (len(visible) - 1) - sum(column.least for column in visible)
    cells = []
    for column in visible:
        width = min(column.width, column.least + max(spare, 0))
        spare -= width - column.least
        cells.append(column.lines(width, dots))
    for number, line in enumerate(zip(*cells, strict=True)):
        text = (" " * _GAP).join(line).rstrip()
        console.print(Text(text, style="" if number else "cyan"), soft_wrap=True)
    return [column.title for column in columns[len(visible) :]]


def _inapplicable(page: Preview) -> tuple[str, ...]:
    """Returns the columns of other models if all rows are of language models, and the reverse."""
    if "concurrency" not in page.columns:
        return ()
    index = page.columns.index("concurrency")
    are_served = {row[index] is not None for row in page.rows}
    return () if len(are_served) > 1 else _LATENCIES if are_served == {True} else _SERVED_TIMES


def _print_shared(columns: Sequence[_Column], console: Console) -> None:
    if columns:
        values = ", ".join(f"{column.title} {column.texts[0]}" for column in columns)
        console.print(Text(f"all rows: {values}", style="dim"), soft_wrap=True)


def _distinguishing_first(columns: list[_Column]) -> list[_Column]:
    """Returns the columns with those of _POINT that distinguish rows after the model and the target."""
    points = [column for column in columns if column.title in _POINT]
    if not points:
        return columns
    first = [column for column in columns if column.title in ("model", "target")]
    for column in points:
        if _distinct_rows([*first, column]) > _distinct_rows(first):
            first.append(column)
    return [*first, *(column for column in columns if column not in first)]


def _distinct_rows(columns: Sequence[_Column]) -> int:
    return len(set(zip(*(column.texts for column in columns), strict=True)))


class _Column:
    """A column as texts, and its least width."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.title = printable(name)
        self.is_text = any(isinstance(value, str) for value in values)
        # Language models have a TPOT instead of a latency.
        self.is_empty = name in (*_OPTIONAL, "median_ms") and not any(values)
        self.texts = [printable(_text(name, value)) for value in values]
        self.folder = common_folder(self.texts) if name == "model" else ""
        self.texts = [text[len(self.folder) :] for text in self.texts]
        self.width = max(map(cell_len, (self.title, *self.texts)))
        flexible = max(_LEAST_TEXT.get(name, _LEAST), cell_len(self.title))
        self.least = min(self.width, flexible) if self.is_text else self.width

    def lines(self, width: int, dots: str) -> list[str]:
        """Returns its title and its texts, padded to a width."""
        texts = [self.title, *shortened(self.texts, width, dots)]
        return [text + _space(text, width) if self.is_text else _space(text, width) + text for text in texts]


def common_folder(names: Sequence[str]) -> str:
    """Returns the folder that all names start with, or an empty text."""
    parts = [name.split("/")[:-1] for name in names]
    shared = 0
    while parts and all(len(folders) > shared and folders[shared] == parts[0][shared] for folders in parts):
        shared += 1
    return "".join(f"{part}/" for part in parts[0][:shared]) if shared else ""


def _space(text: str, width: int) -> str:
    return " " * (width - cell_len(text))


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Returns the first columns that fit, at least one."""
    visible, used = list[_Column](), -_GAP
    for column in columns:
        used += _GAP + column.least
        if visible and used > width:
            break
        visible.append(column)
    return visible


def _text(name: str, value: Any) -> str:
    """Returns a value as text, in the unit of its column's name."""
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
    if name.endswith("_per_second"):
        return units.rate(value)
    if name in _COUNTS:
        return units.count(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
