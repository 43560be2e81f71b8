"""The table of a report: which columns there are and are shown, what stands in each, and its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from sizeup import units
from sizeup.errors import SizeupError
from sizeup.render.vocabulary import NOTHING, UNKNOWN
from sizeup.results.rows import LIMITS
from sizeup.results.table import By, Entry, View
from sizeup.units import plain


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; those of a higher rank are dropped first if the terminal is narrow."""

    name: str  # on the command line
    title: str
    text: Callable[[Entry], str]
    rank: int = 0  # 0: always shown
    right: bool = True
    flexible: bool = False  # may be shortened in the middle


NAMES = (
    *("shape", "input", "output", "precision", "ops", "params", "macs", "share", "elementwise", "read"),
    *("written", "intensity", "live", "tensors", "time", "bound"),
)
"""The columns that can be chosen."""
_OF_OPERATORS = ("shape", "input", "output", "precision", "live", "tensors", "bound")
_TIMED = ("time", "bound")
# What is dropped last of a table by operator, beside MACs, time and limiter.
_RANKS = {"live": 1, "params": 2, "share": 3, "output": 4, "read": 5, "written": 5}
_RANKS |= {"elementwise": 6, "intensity": 7, "precision": 8, "input": 9, "tensors": 10}


def checked(text: str, by: By | None, *, timed: bool) -> tuple[tuple[str, ...], By | None]:
    """The columns that a list names, and what a row must be for them; raises SizeupError for any other."""
    names = tuple(dict.fromkeys(each.strip().lower() for each in text.split(",") if each.strip()))
    unknown = [each for each in names if each not in NAMES]
    if unknown or not names:
        wrong = f"no column is called {units.quoted(unknown[0])}" if unknown else "name at least one"
        raise SizeupError(f"--columns: {wrong}; there are {', '.join(NAMES)}")
    missing = [each for each in names if each in _TIMED and not timed]
    if missing:
        raise SizeupError(f"--columns: {missing[0]} needs a target; add -d DEVICE")
    of_operators = [each for each in names if each in _OF_OPERATORS]
    if of_operators and by not in (None, "op"):
        raise SizeupError(f"--columns: {of_operators[0]} is a column of operators; use --by op")
    if "ops" in names and (by == "op" or of_operators):
        raise SizeupError("--columns: ops counts the operators of a group; use --by module, tree or kind")
    if by is None and "ops" in names:
        return names, "module"
    return names, "op" if of_operators else by


def columns_of(shown: View, names: Sequence[str] = ()) -> list[Column]:
    """The columns named, after those that say what a row is; without names all that have content."""
    first, others = _first(shown), _others(shown)
    if names:
        return [*first, *(replace(others[name], rank=0) for name in names if name in others)]
    left_out = {"shape"} if shown.total.macs else {"shape", "share", "intensity"}
    left_out |= set(_TIMED) if shown.total.seconds is None else set()
    left_out |= set(_OF_OPERATORS) if shown.by != "op" else set()
    return [*first, *(column for name, column in others.items() if name not in left_out)]


def _first(shown: View) -> list[Column]:
    """What a row is."""
    if shown.by == "op":
        return [
            Column("index", "#", lambda entry: "" if entry.index is None else str(entry.index)),
            Column("operator", "operator", lambda entry: entry.kind, right=False),
            Column("name", "name", lambda entry: entry.label, right=False, flexible=True),
        ]
    title = "module" if shown.by == "tree" else shown.by
    return [Column("name", title, lambda entry: entry.label, right=False, flexible=True)]


def _others(shown: View) -> dict[str, Column]:
    """All further columns by name, in the order in which they stand."""
    whole = shown.total.macs or 0
    columns = [
        Column("shape", "shape", lambda entry: entry.shape, right=False),
        Column("input", "input", lambda entry: entry.inputs, right=False),
        Column("output", "output", lambda entry: entry.output, right=False),
        Column("precision", "precision", lambda entry: entry.precision, right=False),
        Column("ops", "ops", lambda entry: f"{entry.ops:,}" if entry.ops else NOTHING),
        Column("params", "params", lambda entry: _number(entry.params, units.count)),
        Column("macs", "MACs", lambda entry: _counted(entry, entry.macs, units.count)),
        Column("share", "share", lambda entry: units.share(entry.macs, whole) if entry.macs else NOTHING),
        Column(
            "elementwise", "elementwise", lambda entry: _counted(entry, entry.elementwise_ops, units.count), 3
        ),
        Column("read", "read", lambda entry: _counted(entry, entry.read_bytes, units.size), 2),
        Column("written", "written", lambda entry: _counted(entry, entry.written_bytes, units.size), 2),
        Column("live", "live", _live),
        Column("time", "time", _time),
        Column("bound", "bound by", lambda entry: LIMITS.get(entry.bound_by, entry.bound_by), right=False),
        Column(
            "intensity", "FLOP/B", lambda entry: f"{entry.intensity:,.1f}" if entry.intensity else NOTHING, 4
        ),
        Column("tensors", "live tensors (# producer)", lambda entry: entry.live_tensors, right=False),
    ]
    if shown.by == "op":
        columns = [replace(each, rank=_RANKS.get(each.name, 0)) for each in columns if each.name != "ops"]
    return {column.name: column for column in columns}


def _live(entry: Entry) -> str:
    if entry.index is None:
        return ""  # bytes that are live at different times do not add up
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
# Names that differ in few letters need room: more of it before the finest details get a column.
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


def table_text(shown: View, room: int | None, ascii_only: bool = False, columns: Sequence[str] = ()) -> Text:
    """A line of titles, the rows, and the total between two rules; without a limit if `room` is None.

    Columns that are named are shown even if they need more room.
    """
    guides = [entry.guide.translate(_PLAIN_GUIDES) if ascii_only else entry.guide for entry in shown.rows]
    chosen, widths, cells = _laid_out(shown, guides, _UNLIMITED if room is None else room, columns)
    dots = "..." if ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    stroke = "-" if ascii_only else "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
    rule = ((" " * _GAP).join(stroke * width for width in widths) + "\n", "dim")
    titles = _line([column.title for column in chosen], chosen, widths) + "\n"
    texts = [
        _beside(guides, cells[c.title], width, dots) if c.flexible else cells[c.title]
        for c, width in zip(chosen, widths, strict=True)
    ]
    *body, total = (_line(row, chosen, widths) for row in zip(*texts, strict=True))
    lines = [(line + "\n", "yellow" if UNKNOWN in line else "") for line in body]
    return Text.assemble((titles, "bold"), rule, *lines, rule, (total, "bold"))


def columns_within(shown: View, room: int) -> list[Column]:
    """The columns of a table that is so many letters wide, the least important left out."""
    return _laid_out(shown, [entry.guide for entry in shown.rows], room)[0]


def _laid_out(
    shown: View, guides: Sequence[str], room: int, named: Sequence[str] = ()
) -> tuple[list[Column], list[int], dict[str, list[str]]]:
    """Columns that fit, their widths, and the texts of all of them by title."""
    columns = columns_of(shown, named)
    cells = {column.title: [plain(column.text(entry)) for entry in shown.rows] for column in columns}
    natural = {column.title: _width(column, cells[column.title], guides) for column in columns}
    return *_fitted(columns, natural, room, _LEAST_NAME if named else 0), cells


def _width(column: Column, texts: Sequence[str], guides: Sequence[str]) -> int:
    before = map(len, guides) if column.flexible else repeat(0, len(texts))
    return max(len(column.title), *(map(sum, zip(before, map(cell_len, texts), strict=True))))


def _beside(guides: Sequence[str], labels: Sequence[str], width: int, dots: str) -> list[str]:
    """Labels behind their guides, cut to the room that these leave, those equally deep in one way."""
    cut = list(labels)
    for indent in set(map(len, guides)):
        places = [place for place, guide in enumerate(guides) if len(guide) == indent]
        texts = shortened([labels[place] for place in places], max(width - indent, 1), dots)
        for place, text in zip(places, texts, strict=True):
            cut[place] = guides[place] + text
    return cut


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if column.right else cell + space)
    return (" " * _GAP).join(padded).rstrip()


def _fitted(
    columns: Sequence[Column], natural: dict[str, int], room: int, least_name: int
) -> tuple[list[Column], list[int]]:
    """The columns that fit, the least important left out first, and the width of each."""

    def needed(chosen: Sequence[Column]) -> int:
        name = _GOOD_NAME if any(column.rank > 1 for column in chosen) else _LEAST_NAME
        least = [min(natural[c.title], name) if c.flexible else natural[c.title] for c in chosen]
        return sum(least) + _GAP * (len(chosen) - 1)

    chosen = list(columns)
    while needed(chosen) > room and any(column.rank for column in chosen):
        last = max(column.rank for column in chosen)
        chosen = [column for column in chosen if column.rank != last]
    spare = room - _GAP * (len(chosen) - 1) - sum(natural[c.title] for c in chosen if not c.flexible)
    widths = []
    for column in chosen:
        widths.append(natural[column.title])
        if column.flexible:
            widths[-1] = min(widths[-1], max(spare, least_name, len(column.title)))
            spare -= widths[-1]
    return chosen, widths


def shortened(texts: Sequence[str], width: int, dots: str) -> list[str]:
    """Texts cut to at most `width` cells, in the middle or wherever they then differ most."""
    if all(cell_len(text) <= width for text in texts):
        return list(texts)
    kept = max(width - len(dots), 0)
    heads = dict.fromkeys((kept - kept // 2, kept // 4, kept - kept // 4, 0))
    cuts = [[_cut(text, width, head, kept - head, dots) for text in texts] for head in heads]
    return max(cuts, key=lambda cut: len(set(cut)))


def _cut(text: str, width: int, head: int, tail: int, dots: str) -> str:
    if cell_len(text) <= width:
        return text
    if cell_len(text) != len(text):  # letters of two cells: cut by cells, at the end
        return set_cell_size(text, width)
    return f"{text[:head]}{dots}{text[len(text) - tail :]}"
