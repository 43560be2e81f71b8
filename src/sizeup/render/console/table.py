"""The rows of a view laid out in columns, as wide as the terminal and no wider.

Rich's own tables measure and wrap every cell: a minute for 100,000 rows, which these columns take in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from sizeup.render.console.columns import Column, columns_of
from sizeup.render.vocabulary import UNKNOWN
from sizeup.results.table import View
from sizeup.units import plain

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
