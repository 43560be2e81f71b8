"""Bars: memory by operator, stacked by inputs, outputs and workspace; and quantities by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sizeup import units
from sizeup.render.plots.canvas import (
    INK,
    INPUTS,
    OTHERS,
    OUTPUTS,
    PEAK,
    WORKSPACE,
    Canvas,
    are_named,
    caption,
    draw_bytes,
    draw_counts,
    draw_steps,
    legible,
    level,
    name_steps,
)

if TYPE_CHECKING:
    from sizeup.results.parts import Column, LiveBreakdown

_GAP = 0.16  # between bars, as long as there are few enough to see it
_MOST_APART = 150
_MOST_BARS = 1400  # as many as there are pixels across

_LEGEND = {
    "inputs": "its inputs",
    "outputs": "its outputs",
    "workspace": "kernel workspace",
    "others": "other live tensors",
}

Edges: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Level:
    """A number of bytes drawn as a line across the bars."""

    bytes: int
    words: str


def draw_bars(
    canvas: Canvas,
    axes: Axes,
    shares: LiveBreakdown,
    peak_step: int,
    peak_words: str,
    highest: int,
    levels: Sequence[Level] = (),
) -> None:
    """Draw the bars, their legend, the peak, and levels above it."""
    parts = [
        (shares.inputs, INPUTS, "inputs"),
        (shares.outputs, OUTPUTS, "outputs"),
        (shares.workspaces, WORKSPACE, "workspace"),
        (shares.others, OTHERS, "others"),
    ]
    if not shares.workspaces.any():
        del parts[2]
    tops = np.cumsum([part for part, _, _ in parts], axis=0)
    peak = int(tops[-1][peak_step])
    tops, edges = _thinned(tops)
    # From back to front, each from zero, so that there are no seams between parts.
    for top, (_, color, words) in zip(tops[::-1], parts[::-1], strict=True):
        axes.stairs(*_apart(top, edges), fill=True, color=color, linewidth=0, label=words, gid=words)
    draw_bytes(axes, highest)
    several = f" (maximum of every {int(edges[1] - edges[0])})" if len(edges) - 1 < len(shares.inputs) else ""
    caption(axes, f"Live memory while each operator runs{several}")
    _draw_legend(axes)
    for line in levels:
        level(axes, line.bytes, line.words, at_right=peak_step < len(shares.inputs) / 2)
    _mark_peak(canvas, axes, peak_step, peak, peak_words)


def _thinned(tops: Column) -> tuple[Column, Edges]:
    """Returns the bars and their edges; if there are more than pixels, the highest of each group.

    Bars narrower than a pixel would fade, also the highest.
    """
    count = tops.shape[1]
    width = -(-count // _MOST_BARS)
    if width == 1:
        return tops, np.arange(count + 1) - 0.5
    padded = np.pad(tops, ((0, 0), (0, -count % width))).reshape(len(tops), -1, width)
    highest = padded[-1].argmax(axis=1)
    return padded[:, np.arange(len(highest)), highest], np.arange(len(highest) + 1) * width - 0.5


def _apart(top: Column, edges: Edges) -> tuple[Edges, Edges]:
    """Returns values and edges of the bars, with gaps between them if they are few."""
    if len(top) > _MOST_APART:
        return top.astype(np.float64), edges
    values = np.full(2 * len(top) - 1, np.nan)
    values[::2] = top
    return values, np.stack([edges[:-1] + _GAP / 2, edges[1:] - _GAP / 2], axis=1).ravel()


def _draw_legend(axes: Axes) -> None:
    handles, words = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1],
        [_LEGEND[name] for name in words[::-1]],
        loc="lower right",
        bbox_to_anchor=(1.005, 0.995),
        ncols=len(words),
        frameon=False,
        fontsize=7.5,
        handlelength=1.1,
        handleheight=0.9,
        columnspacing=1.4,
        borderpad=0.2,
    )


def _mark_peak(canvas: Canvas, axes: Axes, step: int, peak: int, words: str) -> None:
    axes.axvline(step, color=PEAK, linewidth=0.9, linestyle=(0, (4, 3)), gid="peak", zorder=3)
    box = axes.get_window_extent()
    text = canvas.cut(legible(words), box.width * 0.55, 8, "bold")
    wide = canvas.width(text, 8, "bold") / box.width
    left, right = axes.get_xlim()
    # Centered above its bar, within the panel.
    start = min(max((step - left) / (right - left) - wide / 2, 0.004), 0.996 - wide)
    axes.annotate(
        text,
        (start, peak),
        (0, 4),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        size=8,
        weight="bold",
        color=PEAK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        parse_math=False,
        zorder=5,
    )
    axes.plot([step], [peak], marker="v", markersize=4, color=PEAK, zorder=6, clip_on=False, gid="peak mark")


def peak_words(size: int, step: int, index: int, op_kind: str, name: str, *, reordered: bool) -> str:
    """Returns the label of the peak, with the name of the operator last, where it may be cut."""
    location = f"step {step}, operator {index}" if reordered else f"operator {index}"
    label = name.split(";")[0]
    return f"peak {units.size(size)} in {location}: {op_kind}{f' {label}' if label != op_kind else ''}"


_BREADTH, _HEIGHT = 7.0, 5.0  # inches
_LEFT, _RIGHT, _TOP = 0.85, 0.25, 0.6
_WIDE, _DENSE = 0.8, 1.0  # widths of a bar for few and for many layers


def layers_picture(
    names: Sequence[str], quantities: Sequence[float], title: str, unit: Literal["bytes", "counts"]
) -> Figure:
    """Returns bars by layer in execution order; NaN (unknown) has no bar."""
    canvas = Canvas(_HEIGHT, _BREADTH)
    canvas.write(title, _LEFT, 0.36, 11, weight="bold", color=INK)
    axes = canvas.panel(_LEFT, name_steps(canvas, names), _RIGHT, _TOP)
    wide = _WIDE if are_named(names) else _DENSE
    color = OUTPUTS if unit == "bytes" else INPUTS
    axes.bar(range(len(names)), quantities, wide, color=color, linewidth=0, gid="layers")
    draw = draw_bytes if unit == "bytes" else draw_counts
    draw(axes, max((quantity for quantity in quantities if not math.isnan(quantity)), default=0))
    draw_steps(canvas, axes, names, "layers in execution order")
    return canvas.figure
