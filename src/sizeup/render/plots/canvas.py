"""What every picture is drawn on: its size, its colors, its axes, and text that fits and is legible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sizeup import units
from sizeup.units import plain

DPI = 180
WIDTH = 11.0  # inches
FONT = "DejaVu Sans"  # comes with matplotlib, so that pictures look alike everywhere
INK = "#222222"
FAINT = "#666666"
PEAK = "#CC3311"
# Paul Tol's light scheme: told apart with any colour vision, and pale enough for black text on top.
PALETTE = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00")
INPUTS, OUTPUTS, OTHERS, WORKSPACE = "#4477AA", "#EE8866", "#D4D4D4", "#CCBB44"

_STYLE = {"font.family": FONT, "svg.hashsalt": "sizeup", "path.simplify": False}
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_LEAST_LETTERS = 5  # of a name that was cut


@contextmanager
def house_style() -> Iterator[None]:
    """matplotlib's defaults and ours, whatever the user's own settings are."""
    with matplotlib.style.context(["default", _STYLE]):
        yield


@cache
def _letters() -> frozenset[int]:
    return frozenset(FT2Font(findfont(FONT)).get_charmap())


def legible(text: str) -> str:
    """Text in letters that the font has: others would be boxes, each with a warning."""
    letters = _letters()
    return "".join(c if ord(c) in letters else "\N{REPLACEMENT CHARACTER}" for c in plain(text))


class Canvas:
    """A figure whose panels stand one above the other, and a ruler for its text."""

    def __init__(self, height: float, breadth: float = WIDTH) -> None:
        self.height, self.breadth = height, breadth
        self.figure = Figure(figsize=(breadth, height), dpi=DPI, facecolor="white")
        self._renderer = FigureCanvasAgg(self.figure).get_renderer()  # type: ignore[no-untyped-call,unused-ignore] # of some versions

    def panel(self, left: float, bottom: float, right: float, top: float, below: Axes | None = None) -> Axes:
        """Axes whose sides are so many inches from the figure's left, bottom, right and top."""
        place = (
            left / self.breadth,
            bottom / self.height,
            (self.breadth - left - right) / self.breadth,
            (self.height - bottom - top) / self.height,
        )
        axes = self.figure.add_axes(place, sharex=below)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(FAINT)
        axes.tick_params(colors=INK, labelsize=7.5, width=0.6, length=3)
        return axes

    def write(self, text: str, left: float, top: float, points: float, **style: Any) -> None:
        """A line of text, so many inches from the left and from the top, cut where the figure ends."""
        room = (self.breadth - left - 0.25) * DPI
        shown = self.cut(legible(text), room, points, style.get("weight", "normal"))
        self.figure.text(
            left / self.breadth,
            1 - top / self.height,
            shown,
            size=points,
            va="baseline",
            parse_math=False,
            **style,
        )

    def width(self, text: str, points: float, weight: str = "normal") -> float:
        """How many pixels wide a text is."""
        font = FontProperties(family=FONT, size=points, weight=weight)
        return float(self._renderer.get_text_width_height_descent(text, font, False)[0])

    def cut(self, text: str, room: float, points: float, weight: str = "normal") -> str:
        """A text that fits so many pixels, its middle left out if need be; empty where too little remains."""
        width = self.width(text, points, weight)
        if width <= room:
            return text
        # Letters differ in width: begin with what an average would allow and take away until it fits.
        kept = min(int(len(text) * room / width), len(text) - 1)
        while kept >= _LEAST_LETTERS:
            tail = kept // 2
            shown = f"{text[: kept - tail]}{_ELLIPSIS}{text[len(text) - tail :]}"
            if self.width(shown, points, weight) <= room:
                return shown
            kept -= 1
        return ""


def caption(axes: Axes, text: str) -> None:
    """What a panel shows, above its left corner."""
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
    """A horizontal line at a number of bytes, its words above it at the side that has room."""
    colour = PEAK if strong else FAINT
    line = axes.axhline(
        value, color=colour, linewidth=1.1 if strong else 0.9, linestyle="-" if strong else ":"
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
        color=colour,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        zorder=4,
    )


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
