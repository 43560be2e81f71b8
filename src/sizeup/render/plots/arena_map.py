"""The arena: time across, addresses up, one box a buffer; those in use at the peak stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb

from sizeup import units
from sizeup.render.plots.bars import Level
from sizeup.render.plots.canvas import DPI, INK, PALETTE, PEAK, Canvas, caption, draw_bytes, legible, level
from sizeup.render.plots.side import Names
from sizeup.results.plan import Plan

_POINTS = 6.5
_LINE = _POINTS * 1.25 * DPI / 72  # pixels
_MOST_LABELS = 160
_PALE = 0.6  # how much white is mixed into what is not in use at the peak
_MOST_OUTLINED = 1500


@dataclass(frozen=True, slots=True)
class Box:
    """A buffer on the map."""

    name: str
    size: int
    first: int
    last: int
    offset: int
    colour: tuple[float, ...]
    is_held: bool  # at the peak

    @property
    def corners(self) -> list[tuple[float, float]]:
        """From the lower left one on."""
        left, right, top = self.first - 0.5, self.last + 0.5, self.offset + self.size
        return [(left, self.offset), (right, self.offset), (right, top), (left, top)]


def draw_map(
    canvas: Canvas,
    axes: Axes,
    plan: Plan,
    boxes: Sequence[Box],
    names: Names,
    highest: int,
    levels: Sequence[Level] = (),
) -> None:
    """The boxes, the arena's height, the peak, names where they fit, and levels above."""
    peak_step = plan.peak_step or 0
    is_early = peak_step < len(plan.order) / 2
    draw_bytes(axes, highest)
    for each in levels:
        is_close = each.bytes - plan.plan_bytes < highest / 15  # to the words on the plan's own line
        level(axes, each.bytes, each.words, at_right=is_early is not is_close)
    caption(axes, "Where each tensor is, and for how long")
    _fill(axes, [box for box in boxes if not box.is_held], "boxes", "white")
    _fill(axes, [box for box in boxes if box.is_held], "held", INK)
    level(axes, plan.plan_bytes, f"memory plan {plan.plan_bytes:,} B", at_right=is_early, strong=True)
    axes.axvline(peak_step, color=PEAK, linewidth=0.9, linestyle=(0, (4, 3)), gid="peak", zorder=3)
    _label(canvas, axes, boxes, names)


def boxes_of(plan: Plan, peak_step: int) -> list[Box]:
    """One box a buffer that has a size, in the order in which they are made."""
    return list(_boxes(plan, peak_step))


def _boxes(plan: Plan, peak_step: int) -> Iterator[Box]:
    buffers = plan.placement.usage.buffers
    made = sorted(np.flatnonzero(buffers.size).tolist(), key=lambda each: (buffers.first[each], each))
    offsets = plan.placement.packing.offsets
    held = [each for each in made if buffers.first[each] <= peak_step <= buffers.last[each]]
    # At the peak colours follow the address, so that neighbours differ.
    place = {buffer: number for number, buffer in enumerate(sorted(held, key=lambda each: offsets[each]))}
    for number, buffer in enumerate(made):
        identity = buffers.tensors[buffer][0]
        first, last = int(buffers.first[buffer]), int(buffers.last[buffer])
        is_held = buffer in place
        strength = 1.0 if is_held else 1 - _PALE
        colour = tuple(
            1 - strength * (1 - part) for part in to_rgb(PALETTE[place.get(buffer, number) % len(PALETTE)])
        )
        name = legible(plan.graph.tensors[identity].name) or f"tensor {identity}"
        yield Box(name, int(buffers.size[buffer]), first, last, offsets[buffer], colour, is_held)


def _fill(axes: Axes, boxes: list[Box], gid: str, edge: str) -> None:
    if boxes:
        # Outlines as wide as the boxes themselves would hide them.
        width = 0.0 if len(boxes) > _MOST_OUTLINED else 0.7 if edge == INK else 0.4
        corners = [box.corners for box in boxes]
        colours = [box.colour for box in boxes]
        axes.add_collection(
            PolyCollection(corners, facecolors=colours, edgecolors=edge, linewidths=width, gid=gid),
            autolim=False,
        )


def _label(canvas: Canvas, axes: Axes, boxes: Sequence[Box], names: Names) -> None:
    """Names inside the largest boxes, upright where a box is narrow, and none where they do not fit."""
    across, up = _pixels(axes)
    largest = sorted(boxes, key=lambda box: -box.size * (box.last - box.first + 1))
    for box in largest[:_MOST_LABELS]:
        width, height = (box.last - box.first + 1) * across - 8, box.size * up - 6
        text, rotation = _fitted(canvas, names, box, width, height)
        if text:
            axes.text(
                (box.first + box.last) / 2,
                box.offset + box.size / 2,
                text,
                size=_POINTS,
                color=INK,
                ha="center",
                va="center",
                rotation=rotation,
                linespacing=1.15,
                parse_math=False,
                bbox={"facecolor": box.colour, "edgecolor": "none", "pad": 0.4},
                zorder=4,
            )


def _pixels(axes: Axes) -> tuple[float, float]:
    """How wide one step is, and how high one byte."""
    extent = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return extent.width / (right - left), extent.height / (top - bottom)


def _fitted(canvas: Canvas, names: Names, box: Box, width: float, height: float) -> tuple[str, int]:
    """The name, with the size below it where there is room, and its rotation; empty where nothing fits."""
    flat = names.fitted(box.name, width, _POINTS) if height >= _LINE else ""
    upright = names.fitted(box.name, height, _POINTS) if width >= _LINE else ""
    is_upright = len(upright) > len(flat)
    text, along, across = (upright, height, width) if is_upright else (flat, width, height)
    size = units.size(box.size)
    if text and across >= 2.1 * _LINE and canvas.width(size, _POINTS) <= along:
        text = f"{text}\n{size}"
    return text, 90 if is_upright else 0
