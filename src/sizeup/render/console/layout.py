"""What all printed results share: labelled lines, rows of figures, sparklines, and output that ends early."""

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

from sizeup.render.console.columns import shortened
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Column

LEAST_ROOM = 16
LABELS = 14


def print_labelled(console: Console, label: str, text: str, style: str = "", width: int = LABELS) -> None:
    """Print a text beside its label, wrapped so that the labels stand alone in their column."""
    room = max(console.width - width, LEAST_ROOM)
    # What a long label takes of the first line.
    taken = " " * min(max(len(label) + 3 - width, 0), room // 2)
    lines = textwrap.wrap(
        plain(text), room, initial_indent=taken, subsequent_indent="  ", break_on_hyphens=False
    ) or [""]
    lines[0] = lines[0].removeprefix(taken)
    print_lines(console, label, lines, style, width)


def print_lines(
    console: Console, label: str, lines: Sequence[str], style: str = "", width: int = LABELS
) -> None:
    """Print lines beside their label, which a space follows even if it is wider than its column."""
    for index, line in enumerate(lines):
        start = f"  {label if index == 0 else ''} ".ljust(width)
        console.print(Text.assemble((start, "cyan"), (line, style)), soft_wrap=True)


def print_rows(console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Figures to the right, then names in the room that is left, cut in their middle."""
    widths = [max(cell_len(row[place]) for row in (titles, *rows)) for place in range(len(titles) - 1)]
    room = max(console.width - sum(widths) - 2 * len(widths) - 2, LEAST_ROOM)
    dots = "..." if console.options.ascii_only else "\N{HORIZONTAL ELLIPSIS}"
    names = shortened([plain(row[-1]) for row in rows], room, dots)
    for row, name, style in [
        (titles, titles[-1], "cyan"),
        *((r, n, "") for r, n in zip(rows, names, strict=True)),
    ]:
        line = "".join(f"  {cell:>{width}}" for cell, width in zip(row, widths, strict=False))
        console.print(Text(f"{line}  {name}", style=style), soft_wrap=True)


# Nothing, seven heights below the peak, and one that only the peak has: it is found without colours.
_BLOCKS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"  # lower blocks of one to eight eighths
_SIGNS = " .:-=+*#@"
_PEAK = len(_BLOCKS) - 1
_FEWEST = 3
_LEAST_ROOM = 10


def sparkline(amounts: Column, width: int, peak: int | None = None, *, ascii_only: bool = False) -> str:
    """At most `width` characters, each as high as the largest amount that it stands for; heights are parts
    of the peak, which by default is the largest amount of all."""
    most = int(amounts.max()) if peak is None else peak
    count = min(width, len(amounts))
    starts = np.arange(count) * len(amounts) // count
    signs = _SIGNS if ascii_only else _BLOCKS
    return "".join(signs[_height(amount, most)] for amount in np.maximum.reduceat(amounts, starts).tolist())


def _height(amount: int, most: int) -> int:
    """Zero is blank, anything more at least the lowest sign, and the highest is reached by the peak alone."""
    return _PEAK if amount >= most > 0 else -(-amount * (_PEAK - 1) // most) if amount else 0


def print_sparkline(
    console: Console, label: str, amounts: Column, words: str, indent: int, peak: int | None = None
) -> None:
    """Print the line beside a label, words after it and the peak in red, where there is anything to see."""
    ascii_only = console.options.ascii_only
    mark = (_SIGNS if ascii_only else _BLOCKS)[_PEAK]
    legend = f"  {words}, {mark} peak"
    room = console.width - indent - len(legend)
    if len(amounts) < _FEWEST or not amounts.any() or room < _LEAST_ROOM:
        return
    line = sparkline(amounts, room, peak, ascii_only=ascii_only)
    shown = Text.assemble((f"  {label}".ljust(indent), "cyan"), (line, "cyan"))
    shown.append(legend if mark in line else f"  {words}", "dim")
    shown.highlight_words([mark], "bold red not dim")
    console.print(shown, soft_wrap=True)


PIPE_CLOSED = 128 + 13
"""As a shell reports a program that SIGPIPE ended."""


@contextmanager
def leaving_quietly() -> Iterator[None]:
    """Leave with the code of a closed pipe instead of a traceback."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        raise SystemExit(PIPE_CLOSED) from None


def forget_output() -> None:
    """Send what is left to nowhere, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
