"""What stands beside a panel: a short list of figures, and names cut so that they still differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.patches import Rectangle

from sizeup.render.plots.canvas import DPI, FAINT, INK, WIDTH, Canvas, legible

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


_MOST_PARTS = 12  # of a path; deeper ones are looked at from their end
_MOST_ALIKE = 3  # tensors that may share a label before it says nothing
_LEAST_LETTERS = 4
_ROOM, _POINTS = 230, 7.0  # pixels and size of letters that a name has in a list


class Names:
    """The names of all tensors, so that the part shown is one that tells them apart, wherever it is shown."""

    def __init__(self, canvas: Canvas, names: Iterable[str]) -> None:
        self._canvas = canvas
        self._common = Counter(part for name in names for part in _parts(name))

    def fitted(self, name: str, room: float, points: float) -> str:
        """What a list shows of a name, or a part of that, in so many pixels; empty where nothing fits."""
        short = self._short(name)
        if self._canvas.width(short, points) <= room:
            return short
        parts = self._by_rarity(_parts(short))
        for part in parts:
            if self._tells_apart(part, parts) and self._canvas.width(part, points) <= room:
                return part
        return self._canvas.cut(self._rarest_step(parts), room, points)

    def _short(self, name: str) -> str:
        """The rarest part, and of equals the longest that a list has room for."""
        parts = self._by_rarity(_parts(name))
        for part in parts:
            if self._tells_apart(part, parts) and self._canvas.width(part, _POINTS) <= _ROOM:
                return part
        return self._rarest_step(parts)

    def _by_rarity(self, parts: Iterable[str]) -> list[str]:
        return sorted(parts, key=lambda part: (self._common[part], -len(part), part))

    def _tells_apart(self, part: str, parts: Sequence[str]) -> bool:
        return self._common[part] <= max(_MOST_ALIKE, self._common[parts[0]])

    def _rarest_step(self, parts: Sequence[str]) -> str:
        steps = [part for part in parts if "/" not in part] or parts
        return min(steps, key=lambda part: (self._common[part], len(part), part))


def _parts(name: str) -> set[str]:
    """The steps of a path, and its ends.

    Converters join the names of all that they fused with `;`, the first of which says enough.
    """
    first = name.split(";")[0] or name
    steps = [step for step in first.split("/") if step][-_MOST_PARTS:] or [first]
    parts = {*steps, *("/".join(steps[start:]) for start in range(len(steps)))}
    # A letter or a number alone names nothing, unless that is all there is.
    return {part for part in parts if len(part) >= _LEAST_LETTERS} or {"/".join(steps)}
