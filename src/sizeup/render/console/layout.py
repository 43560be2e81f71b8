"""The layout of printed results: labeled lines, rows of figures, sparklines, and closed pipes."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sizeup.logs import inert_output
from sizeup.render.console.columns import shortened
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.parts import Column

LEAST_ROOM = 16
"""Cells that a text gets even on a narrow terminal."""
FIT_STYLES = {"yes": "bold green", "no": "bold red", "undetermined": "bold yellow"}
"""Styles of fit verdicts."""
LABELS = 15
"""Cells of the column of labels: two of indent, a label of up to 12, and a space."""


def print_labeled(console: Console, label: str, text: str, style: str = "", width: int = LABELS) -> None:
    """Print a text after its label, wrapped so that the column of labels stays free."""
    text_width = max(console.width - width, LEAST_ROOM)
    # A label wider than its column reaches into the first line.
    overhang = " " * min(max(len(label) + 3 - width, 0), text_width // 2)
    lines = textwrap.wrap(
        printable(text), text_width, initial_indent=overhang, subsequent_indent="  ", break_on_hyphens=False
    ) or [""]
    lines[0] = lines[0].removeprefix(overhang)
    print_lines(console, label, lines, style, width)


def print_lines(
    console: Console, label: str, lines: Sequence[str], style: str = "", width: int = LABELS
) -> None:
    """Print lines after their label; a label wider than its column is still followed by a space."""
    for index, line in enumerate(lines):
        start = f"  {label if index == 0 else ''} ".ljust(width)
        console.print(Text.assemble((start, "cyan"), (line, style)), soft_wrap=True)


_NAME_ROOM = 16  # cells for names in a listing; a longer one takes the next line


def print_rows(
    console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], *, whole_names: bool = False
) -> None:
    """Print right-aligned figures, then names shortened in the middle to the remaining width.

    With `whole_names`, a name that is wider is printed on the next line instead: a user types it.
    """
    widths = [max(cell_len(row[column]) for row in (titles, *rows)) for column in range(len(titles) - 1)]
    name_width = max(_name_width(console, titles, rows), LEAST_ROOM)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    names = [printable(row[-1]) for row in rows]
    names = names if whole_names else shortened(names, name_width, dots)
    for row, name, style in [
        (titles, titles[-1], "cyan"),
        *((r, n, "") for r, n in zip(rows, names, strict=True)),
    ]:
        line = "".join(f"  {cell:>{width}}" for cell, width in zip(row, widths, strict=False))
        separator = "  " if cell_len(name) <= name_width else f"\n{' ' * (console.width - cell_len(name))}"
        console.print(Text(f"{line}{separator}{name}", style=style), soft_wrap=True)


def _name_width(console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The cells that the figures of `print_rows` leave for names."""
    figures = [max(cell_len(row[column]) for row in (titles, *rows)) for column in range(len(titles) - 1)]
    return console.width - sum(figures) - 2 * len(figures) - 2


def print_listing(
    console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], less_important: Sequence[str]
) -> None:
    """Print rows like `print_rows`, with whole names; without room, hide columns in the given order."""
    hidden: list[str] = []
    selected = [titles, *rows]
    for title in less_important:
        if _name_width(console, selected[0], selected[1:]) >= _NAME_ROOM:
            break
        if title in titles:
            hidden.append(title)
            kept = [index for index, each in enumerate(titles) if each not in hidden]
            selected = [[row[index] for index in kept] for row in (titles, *rows)]
    print_rows(console, selected[0], selected[1:], whole_names=True)
    if hidden:
        text = f"  columns hidden: {', '.join(hidden)} (a wider terminal shows them)"
        console.print(Text(text, style="dim"))


# Blank, seven heights below the peak, and one for the peak alone, visible without colors.
_BLOCKS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"  # lower one to eight eighths
_SIGNS = " .:-=+*#@"
_PEAK = len(_BLOCKS) - 1
_FEWEST = 3
_LEAST_ROOM = 10


def sparkline(amounts: Column, width: int, peak: int | None = None, *, ascii_only: bool = False) -> str:
    """Returns at most `width` characters, each as high as the largest amount in its range.

    Heights are relative to `peak` (default: the largest amount).
    """
    most = int(amounts.max()) if peak is None else peak
    count = min(width, len(amounts))
    starts = np.arange(count) * len(amounts) // count
    signs = _SIGNS if ascii_only else _BLOCKS
    return "".join(signs[_height(amount, most)] for amount in np.maximum.reduceat(amounts, starts).tolist())


def _height(amount: int, most: int) -> int:
    """Returns 0 for zero, the highest only for the peak, and at least 1 otherwise."""
    return _PEAK if amount >= most > 0 else -(-amount * (_PEAK - 1) // most) if amount else 0


def print_sparkline(
    console: Console, label: str, amounts: Column, words: str, indent: int, peak: int | None = None
) -> None:
    """Print a label, the sparkline with its peak in red, and `words`; nothing if there is nothing to see."""
    ascii_only = console.options.ascii_only
    mark = (_SIGNS if ascii_only else _BLOCKS)[_PEAK]
    legend = f"  {words}, {mark} peak"
    line_width = console.width - indent - len(legend)
    if len(amounts) < _FEWEST or not amounts.any() or line_width < _LEAST_ROOM:
        return
    line = sparkline(amounts, line_width, peak, ascii_only=ascii_only)
    text = Text.assemble((f"  {label}".ljust(indent), "cyan"), (line, "cyan"))
    text.append(legend if mark in line else f"  {words}", "dim")
    text.highlight_words([mark], "bold red not dim")
    console.print(text, soft_wrap=True)


PIPE_CLOSED = 128 + 13
"""The exit code that a shell reports for a program ended by SIGPIPE."""


@contextmanager
def leaving_quietly() -> Iterator[None]:
    """Print no command of a CI system, and exit with the code of a closed pipe instead of a traceback."""
    try:
        with inert_output():
            yield
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        raise SystemExit(PIPE_CLOSED) from None


def forget_output() -> None:
    """Discard further output, so that the interpreter's last flush does not raise."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
