"""The canvas of every picture: size, colors, axes, and text that fits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sizeup import units
from sizeup.units import printable

DPI = 180
WIDTH = 11.0  # inches
FONT = "DejaVu Sans"  # shipped with matplotlib, so that pictures are the same everywhere
INK = "#222222"
FAINT = "#666666"
PEAK = "#CC3311"
# Paul Tol's light scheme: distinct with any color vision, and pale enough for black text.
PALETTE = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00")
INPUTS, OUTPUTS, OTHERS, WORKSPACE = "#4477AA", "#EE8866", "#D4D4D4", "#CCBB44"

_STYLE = {"font.family": FONT, "svg.hashsalt": "sizeup", "path.simplify": False}
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_LEAST_LETTERS = 5  # of a shortened name


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the defaults of matplotlib and our style, without the user's settings."""
    with matplotlib.style.context(["default", _STYLE]):
        yield


@cache
def _letters() -> frozenset[int]:
    return frozenset(FT2Font(findfont(FONT)).get_charmap())


def legible(text: str) -> str:
    """Returns text with characters that the font lacks replaced."""
    letters = _letters()
    return "".join(c if ord(c) in letters else "\N{REPLACEMENT CHARACTER}" for c in printable(text))


class Canvas:
    """A figure of stacked panels that measures its text."""

    def __init__(self, height: float, breadth: float = WIDTH) -> None:
        self.height, self.breadth = height, breadth
        self.figure = Figure(figsize=(breadth, height), dpi=DPI, facecolor="white")
        self._renderer = FigureCanvasAgg(self.figure).get_renderer()  # type: ignore[no-untyped-call,unused-ignore] # of some versions

    def panel(self, left: float, bottom: float, right: float, top: float, below: Axes | None = None) -> Axes:
        """Returns axes with margins in inches from the left, bottom, right and top of the figure."""
        rectangle = (
            left / self.breadth,
            bottom / self.height,
            (self.breadth - left - right) / self.breadth,
            (self.height - bottom - top) / self.height,
        )
        axes = self.figure.add_axes(rectangle, sharex=below)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(FAINT)
        axes.tick_params(colors=INK, labelsize=7.5, width=0.6, length=3)
        return axes

    def write(self, text: str, left: float, top: float, points: float, **style: Any) -> None:
        """Write a line of text at inches from the left and the top, shortened to the figure."""
        width = (self.breadth - left - 0.25) * DPI
        cut = self.cut(legible(text), width, points, style.get("weight", "normal"))
        self.figure.text(
            left / self.breadth,
            1 - top / self.height,
            cut,
            size=points,
            va="baseline",
            parse_math=False,
            **style,
        )

    def width(self, text: str, points: float, weight: str = "normal") -> float:
        """Returns the width of a text in pixels."""
        font = FontProperties(family=FONT, size=points, weight=weight)
        return float(self._renderer.get_text_width_height_descent(text, font, False)[0])

    def cut(self, text: str, available: float, points: float, weight: str = "normal") -> str:
        """Returns a text shortened in the middle to a width in pixels; empty if too little remains."""
        width = self.width(text, points, weight)
        if width <= available:
            return text
        # Letters differ in width: start with the average and shorten until it fits.
        letters = min(int(len(text) * available / width), len(text) - 1)
        while letters >= _LEAST_LETTERS:
            tail = letters // 2
            candidate = f"{text[: letters - tail]}{_ELLIPSIS}{text[len(text) - tail :]}"
            if self.width(candidate, points, weight) <= available:
                return candidate
            letters -= 1
        return ""


def caption(axes: Axes, text: str) -> None:
    """Write the caption of a panel above its left corner."""
    axes.annotate(
        text,
        (0, 1),
        (0, 5),
        xycoords="axes fraction",
        textcoords="offset points",
        size=8.5,
        color=INK,
        weight="bold",
    )


def level(axes: Axes, value: float, text: str, *, at_right: bool, strong: bool = False) -> None:
    """Draw a horizontal line at a number of bytes, with a label at one side."""
    color = PEAK if strong else FAINT
    line = axes.axhline(
        value, color=color, linewidth=1.1 if strong else 0.9, linestyle="-" if strong else ":"
    )
    line.set_gid("arena" if strong else "level")
    axes.annotate(
        text,
        (0.995 if at_right else 0.005, value),
        (0, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right" if at_right else "left",
        size=7.5,
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        zorder=4,
    )


_MOST_NAMED = 64  # operators that are labeled by name
_LEAST_STEPS = 6  # across, so that a single bar is not too wide
_NAME_POINTS = 6.5
_LONGEST_NAME = 150  # pixels
_MOST_TICKS = 6


def name_steps(canvas: Canvas, labels: Sequence[str]) -> float:
    """Returns the height in inches of the names or numbers of operators below a panel."""
    if not are_named(labels):
        return 0.5
    widest = max((canvas.width(text, _NAME_POINTS) for text in _names(canvas, labels)), default=0.0)
    return 0.5 + widest / canvas.figure.dpi


def are_named(labels: Sequence[str]) -> bool:
    """Whether operators are few enough to be labeled by name."""
    return len(labels) <= _MOST_NAMED


def draw_steps(canvas: Canvas, axes: Axes, labels: Sequence[str], title: str) -> None:
    """Draw the axis of operators: by name if they fit, otherwise by number."""
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
    """Draw the axis of bytes, with ticks at round numbers and space above the highest."""
    _draw_quantity(axes, highest, 1024, units.size)


def draw_counts(axes: Axes, highest: float) -> None:
    """Draw the axis of counts, in powers of 1000."""
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
    """Returns the next of 0.25, 0.5, 1, 2, 5, 10, 20, 50, ..."""
    for small in (0.25, 0.5, 1):
        if number <= small:
            return small
    scale = 10.0 ** math.floor(math.log10(number))
    return next(scale * factor for factor in (1, 2, 5, 10) if number <= scale * factor * (1 + 1e-9))


ROOM = 2.35  # inches, the gap to the panel included
_GAP, _LINE, _POINTS = 0.22, 0.185, 7.0


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list."""

    words: str
    figure: str
    color: str | tuple[float, ...] | None = None


def draw_list(
    canvas: Canvas, top: float, title: str, items: Sequence[Item], rest: str = "", names: Names | None = None
) -> None:
    """Draw a list in the right column, its title `top` inches below the top of the figure.

    `names` shortens names as elsewhere in the picture.
    """
    left = WIDTH - ROOM + _GAP
    canvas.write(title, left, top, 8.5, weight="bold", color=INK)
    names = names or Names(canvas, (legible(item.words) for item in items))
    for number, item in enumerate(items, 1):
        below = top + 0.06 + number * _LINE
        start = left if item.color is None else left + 0.17
        if item.color is not None:
            _draw_swatch(canvas, left, below, item.color)
        width = (WIDTH - 0.25 - start - 0.1) * DPI - canvas.width(item.figure, _POINTS)
        text = names.fitted(legible(item.words), width, _POINTS)
        canvas.write(text, start, below, _POINTS, color=INK)
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


def _draw_swatch(canvas: Canvas, left: float, below: float, color: str | tuple[float, ...]) -> None:
    canvas.figure.add_artist(
        Rectangle(
            (left / WIDTH, 1 - (below + 0.005) / canvas.height),
            0.1 / WIDTH,
            0.1 / canvas.height,
            facecolor=color,
            edgecolor=INK,
            linewidth=0.4,
            transform=canvas.figure.transFigure,
        )
    )


_MOST_PARTS = 12  # of a path, from its end
_MOST_SHARED = 3  # tensors that may share a label
_MIN_LETTERS = 4
_NAME_WIDTH, _POINTS = 230, 7.0  # pixels and font size of a name in a list


class Names:
    """The names of all tensors; shortens a name to a part that distinguishes it, the same everywhere."""

    def __init__(self, canvas: Canvas, names: Iterable[str]) -> None:
        self._canvas = canvas
        self._common = Counter(part for name in names for part in _parts(name))

    def fitted(self, name: str, width: float, points: float) -> str:
        """Returns a part of a name that fits a width in pixels; empty if nothing fits."""
        short = self._short(name)
        if self._canvas.width(short, points) <= width:
            return short
        parts = self._by_rarity(_parts(short))
        for part in parts:
            if self._is_distinct(part, parts) and self._canvas.width(part, points) <= width:
                return part
        return self._canvas.cut(self._rarest_step(parts), width, points)

    def _short(self, name: str) -> str:
        """Returns the rarest part that fits a list, of equally rare ones the longest."""
        parts = self._by_rarity(_parts(name))
        for part in parts:
            if self._is_distinct(part, parts) and self._canvas.width(part, _POINTS) <= _NAME_WIDTH:
                return part
        return self._rarest_step(parts)

    def _by_rarity(self, parts: Iterable[str]) -> list[str]:
        return sorted(parts, key=lambda part: (self._common[part], -len(part), part))

    def _is_distinct(self, part: str, parts: Sequence[str]) -> bool:
        return self._common[part] <= max(_MOST_SHARED, self._common[parts[0]])

    def _rarest_step(self, parts: Sequence[str]) -> str:
        steps = [part for part in parts if "/" not in part] or parts
        return min(steps, key=lambda part: (self._common[part], len(part), part))


def _parts(name: str) -> set[str]:
    """Returns the steps of a path, and its ends.

    Converters join the names of fused operators with `;`; the first is used.
    """
    first = name.split(";")[0] or name
    steps = [step for step in first.split("/") if step][-_MOST_PARTS:] or [first]
    parts = {*steps, *("/".join(steps[start:]) for start in range(len(steps)))}
    # Single letters and numbers are used only if there is nothing else.
    return {part for part in parts if len(part) >= _MIN_LETTERS} or {"/".join(steps)}
