"""What stands beside a panel: a short list of names and figures, each with the colour that it has there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.patches import Rectangle

from sizeup.render.plots.canvas import DPI, FAINT, INK, WIDTH, Canvas, legible
from sizeup.render.plots.names import Names

ROOM = 2.35  # inches, the gap to the panel included
_GAP, _LINE, _POINTS = 0.22, 0.185, 7.0


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the list."""

    words: str
    figure: str
    colour: str | tuple[float, ...] | None = None


def draw_list(
    canvas: Canvas, top: float, title: str, items: Sequence[Item], rest: str = "", names: Names | None = None
) -> None:
    """A list whose title is so many inches below the figure's top, in the column at its right.

    `names` shortens its words as they are shortened elsewhere.
    """
    left = WIDTH - ROOM + _GAP
    canvas.write(title, left, top, 8.5, weight="bold", color=INK)
    names = names or Names(canvas, (legible(item.words) for item in items))
    for number, item in enumerate(items, 1):
        below = top + 0.06 + number * _LINE
        start = left if item.colour is None else left + 0.17
        if item.colour is not None:
            _draw_swatch(canvas, left, below, item.colour)
        room = (WIDTH - 0.25 - start - 0.1) * DPI - canvas.width(item.figure, _POINTS)
        shown = names.fitted(legible(item.words), room, _POINTS)
        canvas.write(shown, start, below, _POINTS, color=INK)
        canvas.figure.text(
            (WIDTH - 0.25) / WIDTH,
            1 - below / canvas.height,
            item.figure,
            size=_POINTS,
            ha="right",
            va="baseline",
            color=INK,
        )
    if rest:
        canvas.write(rest, left, top + 0.06 + (len(items) + 1) * _LINE, _POINTS, color=FAINT)


def _draw_swatch(canvas: Canvas, left: float, below: float, colour: str | tuple[float, ...]) -> None:
    canvas.figure.add_artist(
        Rectangle(
            (left / WIDTH, 1 - (below + 0.005) / canvas.height),
            0.1 / WIDTH,
            0.1 / canvas.height,
            facecolor=colour,
            edgecolor=INK,
            linewidth=0.4,
            transform=canvas.figure.transFigure,
        )
    )
