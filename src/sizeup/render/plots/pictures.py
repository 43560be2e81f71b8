"""Whole pictures: panels put together with a title, the map of a memory plan, and the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from sizeup import units
from sizeup.files import replacing
from sizeup.graph import ABSENT, Graph, name_of
from sizeup.render.console.report import peak_size, verdict
from sizeup.render.plots import side
from sizeup.render.plots.bars import Level, draw_bars, peak_words
from sizeup.render.plots.canvas import (
    DPI,
    INK,
    INPUTS,
    OTHERS,
    OUTPUTS,
    PALETTE,
    PEAK,
    WORKSPACE,
    Canvas,
    are_named,
    caption,
    draw_bytes,
    draw_steps,
    house_style,
    legible,
    level,
    name_steps,
)
from sizeup.render.plots.side import Item, Names, draw_list
from sizeup.render.vocabulary import named
from sizeup.results.plan import Plan
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Usage
    from sizeup.results.plan import Plan
    from sizeup.results.report import Report

_LEFT, _RIGHT, _TOP = 0.85, side.ROOM, 1.0  # inches around the panels
_BARS, _MAP, _BETWEEN = 3.3, 4.1, 0.45
_DISTINCT, _HIGHEST = 1.02, 1.8  # times the peak, for a level to be drawn
_MOST_BESIDE_BARS, _MOST_BESIDE_MAP = 15, 19  # lines of a list


def save(draw: Callable[[], Figure], path: str | os.PathLike[str]) -> Path:
    """Draw a picture and write it as its suffix says."""
    target = Path(path)
    with house_style():
        figure = draw()
        is_vector = target.suffix.lower() == ".svg"
        with replacing(path) as new:
            # Without the date: the same model gives the same file.
            figure.savefig(
                new,
                format="svg" if is_vector else "png",
                dpi=DPI,
                metadata={"Date": None} if is_vector else {},
            )
    return target


def memory_picture(report: Report) -> Figure:
    """Memory by operator in the model's own order."""
    found, shipped = report.memory.usage, report.memory.arena
    labels = _labels(report.graph, range(len(report.graph.ops)))
    canvas, below = _canvas(labels, _BARS)
    write_title(canvas, picture_title(report), *_peak_sentence(report))
    if found.peak_op is None:
        return _nothing(canvas)
    axes = canvas.panel(_LEFT, below, _RIGHT, _TOP)
    draw_steps(canvas, axes, labels, "operators in the order in which they run")
    levels = _levels(found.peak_bytes, "TFLite Micro's arena head", shipped.head_bytes if shipped else 0)
    highest = max([found.peak_bytes, *(each.bytes for each in levels)])
    op = report.graph.ops[found.peak_op]
    words = peak_words(
        found.peak_bytes, found.peak_op, found.peak_op, op.kind, name_of(report.graph, op), reordered=False
    )
    draw_bars(canvas, axes, report.memory_shares, found.peak_op, words, highest, levels)
    _list_held(canvas, report.graph, found, found.peak_op)
    return canvas.figure


def plan_picture(plan: Plan) -> Figure:
    """Memory by operator in the plan's order, above the map of its arena."""
    labels = _labels(plan.graph, plan.order)
    canvas, below = _canvas(labels, _BARS + _BETWEEN + _MAP)
    write_title(canvas, named(plan.name, plan.graph.format), f"memory plan {verdict(plan)}", "")
    step, index = plan.peak_step, plan.peak_op
    if step is None or index is None:
        return _nothing(canvas)
    lower = canvas.panel(_LEFT, below, _RIGHT, _TOP + _BARS + _BETWEEN)
    upper = canvas.panel(_LEFT, below + _MAP + _BETWEEN, _RIGHT, _TOP, lower)
    draw_steps(canvas, lower, labels, _across(plan, labels))
    upper.tick_params(labelbottom=False)
    as_given = _levels(plan.plan_bytes, "peak of the order as given", plan.given_peak_bytes)
    shipped = plan.shipped.head_bytes if plan.shipped is not None else 0
    as_shipped = _levels(plan.plan_bytes, "TFLite Micro's arena head", shipped)
    # One scale for both, so that the peak above and the arena below are seen to be as high.
    highest = max([plan.plan_bytes, *(each.bytes for each in (*as_given, *as_shipped))])
    op = plan.graph.ops[index]
    words = peak_words(
        plan.peak_bytes, step, index, op.kind, name_of(plan.graph, op), reordered=bool(plan.moved_ops)
    )
    draw_bars(canvas, upper, plan.memory_shares, step, words, highest, as_given)
    _list_facts(canvas, plan)
    boxes = boxes_of(plan, step)
    names = Names(canvas, (box.name for box in boxes))
    draw_map(canvas, lower, plan, boxes, names, highest, as_shipped)
    _list_boxes(canvas, boxes, names)
    return canvas.figure


def _list_held(canvas: Canvas, graph: Graph, found: Usage, peak_op: int) -> None:
    """What is in use at the peak, in the colours of the bar: what waits, is taken, made and read."""
    op, buffers = graph.ops[peak_op], found.buffers
    read = {buffers.of_tensor[each] for each in op.inputs if each != ABSENT}
    made = {buffers.of_tensor[each] for each in op.outputs} - read
    held = [pair for pair in zip(buffers.live_at(peak_op), found.held, strict=True) if pair[1].bytes]
    items: dict[str, list[Item]] = {OTHERS: [], WORKSPACE: [], OUTPUTS: [], INPUTS: []}
    for buffer, each in held[:_MOST_BESIDE_BARS]:
        colour = INPUTS if buffer in read else OUTPUTS if buffer in made else OTHERS
        colour = colour if buffers.tensors[buffer] else WORKSPACE
        items[colour].append(Item(each.name or "without a name", units.size(each.bytes), colour))
    rest = _rest([each.bytes for _, each in held[_MOST_BESIDE_BARS:]])
    draw_list(canvas, _TOP - 0.07, "In use at the peak", list(chain(*items.values())), rest)


def _list_boxes(canvas: Canvas, boxes: Sequence[Box], names: Names) -> None:
    """What is in use at the peak, in the colours of the map and from its highest address down."""
    held = sorted((box for box in boxes if box.is_held), key=lambda box: -box.size)
    shown = sorted(held[:_MOST_BESIDE_MAP], key=lambda box: -box.offset)
    items = [Item(box.name, units.size(box.size), box.colour) for box in shown]
    rest = _rest([box.size for box in held[_MOST_BESIDE_MAP:]])
    draw_list(canvas, _TOP + _BARS + _BETWEEN - 0.07, "In use at the peak", items, rest, names)


def _rest(sizes: Sequence[int]) -> str:
    return f"and {len(sizes):,} more of {units.size(sum(sizes))} in all" if sizes else ""


def _list_facts(canvas: Canvas, plan: Plan) -> None:
    facts = [("memory plan", plan.plan_bytes), ("proven to be needed", plan.lower_bound_bytes)]
    facts += [("peak", plan.peak_bytes), ("peak as given", plan.given_peak_bytes)]
    if plan.shipped is not None:
        facts.append(("TFLite Micro's arena head", plan.shipped.head_bytes))
    items = [Item(words, f"{size:,} B") for words, size in facts]
    items.append(Item("operators moved", f"{plan.moved_ops:,} of {len(plan.order):,}"))
    draw_list(canvas, _TOP - 0.07, "In figures", items)


def _levels(peak: int, words: str, size: int) -> list[Level]:
    """A level above the peak, unless it is so close that it hides it or so far that it dwarfs all."""
    return [Level(size, f"{words} {size:,} B")] if peak * _DISTINCT < size <= peak * _HIGHEST else []


def _across(plan: Plan, labels: Sequence[str]) -> str:
    if not plan.moved_ops:
        return "operators in the order in which they run"
    return (
        f"operators in the order of the plan{', by their numbers in the model' if are_named(labels) else ''}"
    )


def _labels(graph: Graph, order: Sequence[int]) -> list[str]:
    return [f"{index} {graph.ops[index].kind}" for index in order]


def _canvas(labels: Sequence[str], panels: float) -> tuple[Canvas, float]:
    """A canvas for panels of that height in all, and what their operators' names need below."""
    below = name_steps(Canvas(1), labels)
    return Canvas(_TOP + panels + below), below


def picture_title(report: Report) -> str:
    """The name of the model's file, or that of a model that was not read from one."""
    return named(report.name, report.format) if report.source is None else plain(report.source.name)


def write_title(canvas: Canvas, name: str, sentence: str, warning: str) -> None:
    """The model's name, what the picture says, and what is missing from it."""
    canvas.write(name, _LEFT, 0.34, 12, weight="bold", color=INK)
    canvas.write(sentence, _LEFT, 0.57, 9, color=INK)
    canvas.write(warning, _LEFT, 0.75, 8, color=PEAK, weight="bold")


def _peak_sentence(report: Report) -> tuple[str, str]:
    """What is drawn, and what is missing from it."""
    found, arena = report.memory.usage, report.memory.arena
    if found.peak_op is None:
        return "no operators", ""
    sentence = f"peak {peak_size(found)} ({found.peak_bytes:,} B) beside the weights"
    if arena is not None:
        sentence += f"; TFLite Micro plans a head of {arena.head_bytes:,} B"
    return sentence, _missing(found)


def _missing(found: Usage) -> str:
    if not found.unknown:
        return "the true peak is higher: what some kernels take is not known" if found.unmodelled else ""
    if found.unknown == 1:
        return "1 tensor is missing, because its size depends on data: the true peak is higher"
    return (
        f"{found.unknown:,} tensors are missing, because their sizes depend on data: the true peak is higher"
    )


def _nothing(canvas: Canvas) -> Figure:
    canvas.figure.text(
        0.5, 0.4, "there is nothing to draw: the model has no operators", ha="center", color=INK
    )
    return canvas.figure


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
