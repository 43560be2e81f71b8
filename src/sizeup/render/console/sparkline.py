"""Amounts over time as one line of characters, the largest of them marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from sizeup.results.parts import Column

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
