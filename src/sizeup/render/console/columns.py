"""The table of a report: its columns, which of them are shown, and its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from sizeup import units
from sizeup.errors import SizeupError
from sizeup.render.vocabulary import NOTHING, UNKNOWN
from sizeup.results.rows import BOUND_LABELS
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.table import By, Entry, Table


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; columns of the highest rank are dropped first on a narrow terminal."""

    name: str  # on the command line
    title: str
    text: Callable[[Entry], str]
    rank: int = 0  # 0: always shown
    right: bool = True
    flexible: bool = False  # whether texts may be shortened in the middle


NAMES = (
    *("shape", "input", "output", "precision", "ops", "params", "macs", "share", "elementwise", "read"),
    *("written", "intensity", "live", "tensors", "time", "bound"),
)
"""The names that --columns accepts."""
_OF_OPERATORS = ("shape", "input", "output", "precision", "live", "tensors", "bound")
_TIMED = ("time", "bound")
# Columns of a table by operator in the order in which they are kept, after MACs, time and limiter.
_RANKS = {"live": 1, "params": 2, "share": 3, "output": 4, "read": 5, "written": 5}
_RANKS |= {"elementwise": 6, "intensity": 7, "precision": 8, "input": 9, "tensors": 10}


def parse_columns(text: str, by: By | None, *, timed: bool) -> tuple[tuple[str, ...], By | None]:
    """Returns the columns of a list and the grouping that they need; raises SizeupError if unknown."""
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        problem = f"no column {units.quoted(unknown[0])}" if unknown else "no column given"
        raise SizeupError(f"--columns: {problem}; choose from {', '.join(NAMES)}")
    missing = [name for name in names if name in _TIMED and not timed]
    if missing:
        raise SizeupError(f"--columns: {missing[0]} needs a target; add -d DEVICE")
    of_operators = [name for name in names if name in _OF_OPERATORS]
    if of_operators and by not in (None, "op"):
        raise SizeupError(f"--columns: {of_operators[0]} exists per operator only; use --by op")
    if "ops" in names and (by == "op" or of_operators):
        raise SizeupError(
            "--columns: ops is the number of operators in a group; use --by module, tree or kind"
        )
    if by is None and "ops" in names:
        return names, "module"
    return names, "op" if of_operators else by


def columns_of(table: Table, names: Sequence[str] = ()) -> list[Column]:
    """Returns the columns that identify a row and the named ones; without names, all that have content."""
    first, others = _first(table), _others(table)
    if names:
        return [*first, *(replace(others[name], rank=0) for name in names if name in others)]
    omitted = {"shape"} if table.total.macs else {"shape", "share", "intensity"}
    omitted |= set(_TIMED) if table.total.seconds is None else set()
    omitted |= set(_OF_OPERATORS) if table.by != "op" else set()
    omitted |= set() if any(entry.bound_by for entry in table.entries) else {"bound"}
    return [*first, *(column for name, column in others.items() if name not in omitted)]


def _first(table: Table) -> list[Column]:
    """Returns the columns that identify a row."""
    if table.by == "op":
        return [
            Column("index", "#", lambda entry: "" if entry.index is None else str(entry.index)),
            Column("operator", "operator", lambda entry: entry.op_kind, right=False),
            Column("name", "name", lambda entry: entry.label, right=False, flexible=True),
        ]
    title = {"tree": "module", "kind": "op kind"}.get(table.by, table.by)
    return [Column("name", title, lambda entry: entry.label, right=False, flexible=True)]


def _others(table: Table) -> dict[str, Column]:
    """Returns all further columns by name, in order."""
    total_macs = table.total.macs or 0
    columns = [
        Column("shape", "shape", lambda entry: entry.shape, right=False),
        Column("input", "input", lambda entry: entry.inputs, right=False),
        Column("output", "output", lambda entry: entry.output, right=False),
        Column("precision", "precision", lambda entry: entry.precision, right=False),
        Column("ops", "ops", lambda entry: f"{entry.ops:,}" if entry.ops else NOTHING),
        Column("params", "params", lambda entry: _number(entry.params, units.count)),
        Column("macs", "MACs", lambda entry: _counted(entry, entry.macs, units.count)),
        Column(
            "share", "share", lambda entry: units.share(entry.macs, total_macs) if entry.macs else NOTHING
        ),
        Column(
            "elementwise", "elementwise", lambda entry: _counted(entry, entry.elementwise_ops, units.count), 3
        ),
        Column("read", "read", lambda entry: _counted(entry, entry.read_bytes, units.size), 2),
        Column("written", "written", lambda entry: _counted(entry, entry.written_bytes, units.size), 2),
        Column("live", "live", _live),
        Column("time", "time", _time),
        Column(
            "bound", "bound by", lambda entry: BOUND_LABELS.get(entry.bound_by, entry.bound_by), right=False
        ),
        Column(
            "intensity", "FLOP/B", lambda entry: f"{entry.intensity:,.1f}" if entry.intensity else NOTHING, 4
        ),
        Column("tensors", "live tensors (# producer)", lambda entry: entry.live_tensors, right=False),
    ]
    if table.by == "op":
        columns = [
            replace(column, rank=_RANKS.get(column.name, 0)) for column in columns if column.name != "ops"
        ]
    return {column.name: column for column in columns}


def _live(entry: Entry) -> str:
    if entry.index is None:
        return ""  # live bytes of different operators do not add up
    return UNKNOWN if entry.live_bytes is None else units.size(entry.live_bytes)


def _time(entry: Entry) -> str:
    if entry.seconds is None:
        return UNKNOWN
    return units.duration(entry.seconds) if entry.seconds else NOTHING


def _number(value: int, write: Callable[[float], str]) -> str:
    return write(value) if value else NOTHING


def _counted(entry: Entry, value: int | None, write: Callable[[float], str]) -> str:
    if value is None or (entry.unknown_ops and not value):
        return UNKNOWN
    return f"{_number(value, write)} +{UNKNOWN}" if entry.unknown_ops else _number(value, write)


_GAP = 2
# Names that differ in few letters need more width before the least important columns are shown.
_LEAST_NAME = 16
_GOOD_NAME = 30
_UNLIMITED = 1 << 30
_PLAIN_GUIDES = str.maketrans(
    {
        "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}": "|",
        "\N{BOX DRAWINGS LIGHT UP AND RIGHT}": "`",
        "\N{BOX DRAWINGS LIGHT VERTICAL}": "|",
    }
)


def table_text(
    table: Table, limit: int | None, ascii_only: bool = False, columns: Sequence[str] = ()
) -> Text:
    """Returns titles, rows, and the total between two rules; any width if `limit` is None.

    Columns given by name are shown even if they do not fit.
    """
    guides = [
        entry.tree_prefix.translate(_PLAIN_GUIDES) if ascii_only else entry.tree_prefix
        for entry in table.rows
    ]
    chosen, widths, cells = _laid_out(table, guides, _UNLIMITED if limit is None else limit, columns)
    dots = "..." if ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    stroke = "-" if ascii_only else "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
    rule = ((" " * _GAP).join(stroke * width for width in widths) + "\n", "dim")
    titles = _line([column.title for column in chosen], chosen, widths) + "\n"
    texts = [
        _after_guides(guides, cells[c.title], width, dots) if c.flexible else cells[c.title]
        for c, width in zip(chosen, widths, strict=True)
    ]
    *body, total = (_line(row, chosen, widths) for row in zip(*texts, strict=True))
    lines = [(line + "\n", "yellow" if UNKNOWN in line else "") for line in body]
    return Text.assemble((titles, "bold"), rule, *lines, rule, (total, "bold"))


def columns_within(table: Table, width: int) -> list[Column]:
    """Returns the columns that fit a width, without the least important ones."""
    return _laid_out(table, [entry.tree_prefix for entry in table.rows], width)[0]


def _laid_out(
    table: Table, guides: Sequence[str], width: int, names: Sequence[str] = ()
) -> tuple[list[Column], list[int], dict[str, list[str]]]:
    """Returns the columns that fit, their widths, and the texts of all columns by title."""
    columns = columns_of(table, names)
    cells = {column.title: [printable(column.text(entry)) for entry in table.rows] for column in columns}
    natural = {column.title: _width(column, cells[column.title], guides) for column in columns}
    return *_fitted(columns, natural, width, _LEAST_NAME if names else 0), cells


def _width(column: Column, texts: Sequence[str], guides: Sequence[str]) -> int:
    before = map(len, guides) if column.flexible else repeat(0, len(texts))
    return max(len(column.title), *(map(sum, zip(before, map(cell_len, texts), strict=True))))


def _after_guides(guides: Sequence[str], labels: Sequence[str], width: int, dots: str) -> list[str]:
    """Returns labels after their tree guides, shortened; labels of one depth are shortened together."""
    cut = list(labels)
    for indent in set(map(len, guides)):
        rows = [row for row, guide in enumerate(guides) if len(guide) == indent]
        texts = shortened([labels[row] for row in rows], max(width - indent, 1), dots)
        for row, text in zip(rows, texts, strict=True):
            cut[row] = guides[row] + text
    return cut


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if column.right else cell + space)
    return (" " * _GAP).join(padded).rstrip()


def _fitted(
    columns: Sequence[Column], natural: dict[str, int], available: int, least_name: int
) -> tuple[list[Column], list[int]]:
    """Returns the columns that fit, dropping the least important first, and their widths."""

    def needed(chosen: Sequence[Column]) -> int:
        name = _GOOD_NAME if any(column.rank > 1 for column in chosen) else _LEAST_NAME
        least = [min(natural[c.title], name) if c.flexible else natural[c.title] for c in chosen]
        return sum(least) + _GAP * (len(chosen) - 1)

    chosen = list(columns)
    while needed(chosen) > available and any(column.rank for column in chosen):
        last = max(column.rank for column in chosen)
        chosen = [column for column in chosen if column.rank != last]
    spare = available - _GAP * (len(chosen) - 1) - sum(natural[c.title] for c in chosen if not c.flexible)
    widths = []
    for column in chosen:
        widths.append(natural[column.title])
        if column.flexible:
            widths[-1] = min(widths[-1], max(spare, least_name, len(column.title)))
            spare -= widths[-1]
    return chosen, widths


def shortened(texts: Sequence[str], width: int, dots: str) -> list[str]:
    """Returns texts cut to at most `width` cells, at the position that keeps most of them distinct."""
    if all(cell_len(text) <= width for text in texts):
        return list(texts)
    letters = max(width - len(dots), 0)
    heads = dict.fromkeys((letters - letters // 2, letters // 4, letters - letters // 4, 0))
    cuts = [[_cut(text, width, head, letters - head, dots) for text in texts] for head in heads]
    return max(cuts, key=lambda cut: len(set(cut)))


def _cut(text: str, width: int, head: int, tail: int, dots: str) -> str:
    if cell_len(text) <= width:
        return text
    if cell_len(text) != len(text):  # with double-width letters: cut by cells, at the end
        return set_cell_size(text, width)
    return f"{text[:head]}{dots}{text[len(text) - tail :]}"
