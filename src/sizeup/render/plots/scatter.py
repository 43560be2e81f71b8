"""Points of a trade-off: memory over latency, one color per precision, hollow if a budget is exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from sizeup import units
from sizeup.render.plots.canvas import FAINT, INK, PALETTE, Canvas, legible

if TYPE_CHECKING:
    from sizeup.results.parts import Figures
    from sizeup.results.precision import Tradeoff

_HEIGHT = 5.0


def tradeoff_picture(tradeoff: Tradeoff) -> Figure:
    """Returns all known points; without latency, weights over activations."""
    canvas = Canvas(_HEIGHT)
    location = f" on {tradeoff.target}" if tradeoff.target else ""
    canvas.write(
        f"{tradeoff.name}: memory and latency by precision{location}", 0.3, 0.35, 12, weight="bold", color=INK
    )
    axes = canvas.panel(0.95, 0.65, 1.6, 0.7)
    known = [point for point in tradeoff.points if point.figures is not None]
    timed = bool(known) and all(point.figures.seconds is not None for point in known if point.figures)
    for index, precision in enumerate(dict.fromkeys(point.precision for point in known)):
        points = [point for point in known if point.precision == precision]
        across, up = zip(
            *(_coordinates(point.figures, timed) for point in points if point.figures), strict=True
        )
        color = PALETTE[index % len(PALETTE)]
        filled = ["white" if point.accepted is False else color for point in points]
        marks = axes.scatter(
            across, up, s=46, c=filled, edgecolors=color, linewidths=1.6, label=legible(precision)
        )
        marks.set_gid(f"points {precision}")
    axes.set_xscale("log", base=10 if timed else 2)
    axes.set_yscale("log", base=2)
    if timed:
        axes.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value, timed)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.size(value)))
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_minor_formatter("")
    axes.set_xlabel("latency per inference" if timed else "activations", size=8.5, color=INK)
    axes.set_ylabel("weights and activations" if timed else "weights", size=8.5, color=INK)
    axes.grid(visible=True, color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    if known:
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize=8.5)
    if not tradeoff.has_budgets:
        return canvas.figure
    axes.annotate(
        "hollow: a budget\nis exceeded",
        (1.02, 0.02),
        xycoords="axes fraction",
        size=7.5,
        color=FAINT,
        annotation_clip=False,
    )
    return canvas.figure


def _coordinates(figures: Figures, timed: bool) -> tuple[float, float]:
    # A logarithmic axis has no zero: it is drawn at one byte.
    if timed and figures.seconds is not None:
        return figures.seconds, max(figures.weight_bytes + figures.activation_bytes, 1)
    return max(figures.activation_bytes, 1), max(figures.weight_bytes, 1)


def _tick(value: float, timed: bool) -> str:
    return units.duration(value) if timed else units.size(value)
