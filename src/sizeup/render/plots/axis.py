"""The two axes that all panels share: operators across, bytes up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sizeup import units
from sizeup.render.plots.canvas import Canvas, legible

_MOST_NAMED = 64  # operators that can each have their name below
_LEAST_STEPS = 6  # across, so that a single operator is no wall
_NAME_POINTS = 6.5
_LONGEST_NAME = 150  # pixels
_MOST_TICKS = 6


def name_steps(canvas: Canvas, labels: Sequence[str]) -> float:
    """The inches that the names of operators need below, or only their numbers."""
    if not are_named(labels):
        return 0.5
    widest = max((canvas.width(text, _NAME_POINTS) for text in _names(canvas, labels)), default=0.0)
    return 0.5 + widest / canvas.figure.dpi


def are_named(labels: Sequence[str]) -> bool:
    """Whether operators are few enough to be shown by name."""
    return len(labels) <= _MOST_NAMED


def draw_steps(canvas: Canvas, axes: Axes, labels: Sequence[str], title: str) -> None:
    """Operators across: by name where there is room, otherwise by number."""
    count = len(labels)
    spare = max(_LEAST_STEPS - count, 0) / 2
    axes.set_xlim(-0.5 - spare, max(count, 1) - 0.5 + spare)
    axes.set_xlabel(title, size=8)
    if are_named(labels):
        names = _names(canvas, labels)
        axes.set_xticks(range(count), names, rotation=90, size=_NAME_POINTS, parse_math=False)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=20, integer=True))


def _names(canvas: Canvas, labels: Sequence[str]) -> list[str]:
    return [canvas.cut(legible(label), _LONGEST_NAME, _NAME_POINTS) for label in labels]


def draw_bytes(axes: Axes, highest: float) -> None:
    """Bytes up, at round numbers of the unit that suits the highest, with room for words above it."""
    _draw_quantity(axes, highest, 1024, units.size)


def draw_counts(axes: Axes, highest: float) -> None:
    """The same for counts, in powers of 1000."""
    _draw_quantity(axes, highest, 1000, units.count)


def _draw_quantity(axes: Axes, highest: float, tier: int, words: Callable[[float], str]) -> None:
    top = max(highest, 1) * 1.16
    unit = tier ** max(min(int(math.log(max(highest, 1) * 0.75, tier)), 5), 0)
    step = unit * _round_up(top / unit / _MOST_TICKS)
    axes.set_ylim(0, top)
    axes.set_yticks([step * index for index in range(int(top // step) + 1)])
    suffix = words(unit).partition(" ")[2]
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value / unit:,g} {suffix}".rstrip() if value else "0")
    )
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.5)
    axes.set_axisbelow(True)


def _round_up(number: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..., or a quarter or a half below."""
    for small in (0.25, 0.5, 1):
        if number <= small:
            return small
    scale = 10.0 ** math.floor(math.log10(number))
    return next(scale * factor for factor in (1, 2, 5, 10) if number <= scale * factor * (1 + 1e-9))
