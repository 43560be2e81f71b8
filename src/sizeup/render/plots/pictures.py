"""Pictures of memory: panels with a title, the memory plan, and the file."""

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
from sizeup.files import atomic_path
from sizeup.graph import ABSENT, Graph, name_of
from sizeup.render.console.report import peak_size, verdict
from sizeup.render.plots.bars import Level, draw_bars, peak_words
from sizeup.render.plots.canvas import (
    DPI,
    INK,
    INPUTS,
    OTHERS,
    OUTPUTS,
    PALETTE,
    PEAK,
    ROOM,
    WORKSPACE,
    Canvas,
    Item,
    Names,
    are_named,
    caption,
    draw_bytes,
    draw_list,
    draw_steps,
    house_style,
    legible,
    level,
    name_steps,
)
from sizeup.render.vocabulary import named, size_text
from sizeup.results.plan import Plan
from sizeup.results.rows import op_label
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.parts import Usage
    from sizeup.results.report import Report

_LEFT, _RIGHT, _TOP = 0.85, ROOM, 1.0  # inches around the panels
_BARS, _MAP, _BETWEEN = 3.3, 4.1, 0.45
_DISTINCT, _HIGHEST = 1.02, 1.8  # levels between these factors of the peak are drawn
_MOST_LISTED_BARS, _MOST_LISTED_PLAN = 15, 19  # lines of a list


def save(draw: Callable[[], Figure], path: str | os.PathLike[str]) -> Path:
    """Draw a picture and write it in the format of its extension."""
    target = Path(path)
    with house_style():
        figure = draw()
        is_vector = target.suffix.lower() == ".svg"
        with atomic_path(path) as new:
            # Without the date: the same model gives the same file.
            figure.savefig(
                new,
                format="svg" if is_vector else "png",
                dpi=DPI,
                metadata={"Date": None} if is_vector else {},
            )
    return target


def memory_picture(report: Report) -> Figure:
    """Returns memory by operator in the original schedule."""
    usage, arena = report.memory.usage, report.memory.arena
    labels = _labels(report.graph, range(len(report.graph.ops)))
    canvas, below = _canvas(labels, _BARS)
    write_title(canvas, picture_title(report), *_peak_sentence(report))
    if usage.peak_op is None:
        return _nothing(canvas)
    axes = canvas.panel(_LEFT, below, _RIGHT, _TOP)
    draw_steps(canvas, axes, labels, "operators in execution order")
    levels = _levels(usage.peak_bytes, "TFLite Micro arena head", arena.head_bytes if arena else 0)
    highest = max([usage.peak_bytes, *(line.bytes for line in levels)])
    op = report.graph.ops[usage.peak_op]
    words = peak_words(
        usage.peak_bytes, usage.peak_op, usage.peak_op, op.kind, name_of(report.graph, op), reordered=False
    )
    draw_bars(canvas, axes, report.memory_shares, usage.peak_op, words, highest, levels)
    _list_live(canvas, report.graph, usage, usage.peak_op)
    return canvas.figure


def plan_picture(plan: Plan) -> Figure:
    """Returns memory by operator in the plan's schedule, above the memory plan."""
    labels = _labels(plan.graph, plan.schedule)
    canvas, below = _canvas(labels, _BARS + _BETWEEN + _MAP)
    write_title(canvas, named(plan.name, plan.graph.format), f"memory plan {verdict(plan)}", "")
    step, index = plan.peak_step, plan.peak_op
    if step is None or index is None:
        return _nothing(canvas)
    lower = canvas.panel(_LEFT, below, _RIGHT, _TOP + _BARS + _BETWEEN)
    upper = canvas.panel(_LEFT, below + _MAP + _BETWEEN, _RIGHT, _TOP, lower)
    draw_steps(canvas, lower, labels, _across(plan, labels))
    upper.tick_params(labelbottom=False)
    file_levels = _levels(plan.plan_bytes, "peak of the original order", plan.file_schedule_peak_bytes)
    arena_head = plan.tflm_arena.head_bytes if plan.tflm_arena is not None else 0
    arena_levels = _levels(plan.plan_bytes, "TFLite Micro arena head", arena_head)
    # One scale for both panels, so that the peak and the plan can be compared.
    highest = max([plan.plan_bytes, *(line.bytes for line in (*file_levels, *arena_levels))])
    op = plan.graph.ops[index]
    words = peak_words(
        plan.peak_bytes, step, index, op.kind, name_of(plan.graph, op), reordered=bool(plan.moved_ops)
    )
    draw_bars(canvas, upper, plan.memory_shares, step, words, highest, file_levels)
    _list_facts(canvas, plan)
    boxes = boxes_of(plan, step)
    names = Names(canvas, (box.name for box in boxes))
    draw_map(canvas, lower, plan, boxes, names, highest, arena_levels)
    _list_boxes(canvas, boxes, names)
    return canvas.figure


def _list_live(canvas: Canvas, graph: Graph, usage: Usage, peak_op: int) -> None:
    """List the live tensors at the peak in the colors of the bar."""
    op, buffers = graph.ops[peak_op], usage.buffers
    read = {buffers.buffer_of_tensor[tensor] for tensor in op.inputs if tensor != ABSENT}
    written = {buffers.buffer_of_tensor[tensor] for tensor in op.outputs} - read
    live = [pair for pair in zip(buffers.live_at(peak_op), usage.peak_tensors, strict=True) if pair[1].bytes]
    items: dict[str, list[Item]] = {OTHERS: [], WORKSPACE: [], OUTPUTS: [], INPUTS: []}
    for buffer, tensor in live[:_MOST_LISTED_BARS]:
        color = INPUTS if buffer in read else OUTPUTS if buffer in written else OTHERS
        color = color if buffers.tensors[buffer] else WORKSPACE
        items[color].append(Item(tensor.name or "(unnamed)", size_text(tensor.bytes), color))
    rest = _rest([tensor.bytes or 0 for _, tensor in live[_MOST_LISTED_BARS:]])
    draw_list(canvas, _TOP - 0.07, "Live at peak", list(chain(*items.values())), rest)


def _list_boxes(canvas: Canvas, boxes: Sequence[Box], names: Names) -> None:
    """List the live tensors at the peak in the colors of the plan, from the highest offset down."""
    live = sorted((box for box in boxes if box.is_live), key=lambda box: -box.size)
    listed = sorted(live[:_MOST_LISTED_PLAN], key=lambda box: -box.offset)
    items = [Item(box.name, units.size(box.size), box.color) for box in listed]
    rest = _rest([box.size for box in live[_MOST_LISTED_PLAN:]])
    draw_list(canvas, _TOP + _BARS + _BETWEEN - 0.07, "Live at peak", items, rest, names)


def _rest(sizes: Sequence[int]) -> str:
    return f"and {len(sizes):,} more, {units.size(sum(sizes))} in total" if sizes else ""


def _list_facts(canvas: Canvas, plan: Plan) -> None:
    facts = [("memory plan", plan.plan_bytes), ("lower bound", plan.lower_bound_bytes)]
    facts += [("peak", plan.peak_bytes), ("peak, original order", plan.file_schedule_peak_bytes)]
    if plan.tflm_arena is not None:
        facts.append(("TFLite Micro arena head", plan.tflm_arena.head_bytes))
    items = [Item(words, f"{size:,} B") for words, size in facts]
    items.append(Item("operators moved", f"{plan.moved_ops:,} of {len(plan.schedule):,}"))
    draw_list(canvas, _TOP - 0.07, "Sizes", items)


def _levels(peak: int, words: str, size: int) -> list[Level]:
    """Returns a level above the peak, unless it is too close or too far to be drawn."""
    return [Level(size, f"{words} {size:,} B")] if peak * _DISTINCT < size <= peak * _HIGHEST else []


def _across(plan: Plan, labels: Sequence[str]) -> str:
    if not plan.moved_ops:
        return "operators in execution order"
    return f"operators in the plan's schedule{', numbered as in the model' if are_named(labels) else ''}"


def _labels(graph: Graph, order: Sequence[int]) -> list[str]:
    return [f"{index} {op_label(graph, graph.ops[index])}" for index in order]


def _canvas(labels: Sequence[str], panels: float) -> tuple[Canvas, float]:
    """Returns a canvas for panels of a total height, and the height of the names below them."""
    below = name_steps(Canvas(1), labels)
    return Canvas(_TOP + panels + below), below


def picture_title(report: Report) -> str:
    """Returns the name of the model's file, or the name of the model."""
    return named(report.name, report.format) if report.source is None else printable(report.source.name)


def write_title(canvas: Canvas, name: str, sentence: str, warning: str) -> None:
    """Write the name of the model, a summary, and what is missing."""
    canvas.write(name, _LEFT, 0.34, 12, weight="bold", color=INK)
    canvas.write(sentence, _LEFT, 0.57, 9, color=INK)
    canvas.write(warning, _LEFT, 0.75, 8, color=PEAK, weight="bold")


def _peak_sentence(report: Report) -> tuple[str, str]:
    """Returns a summary of the peak, and what is missing."""
    usage, arena = report.memory.usage, report.memory.arena
    if usage.peak_op is None:
        return "no operators", ""
    sentence = f"peak {peak_size(usage)} ({usage.peak_bytes:,} B) of activation memory"
    if arena is not None:
        sentence += f"; TFLite Micro arena head {arena.head_bytes:,} B"
    return sentence, _missing(usage)


def _missing(usage: Usage) -> str:
    if not usage.unknown_sizes:
        return "the peak is a lower bound: workspaces of some kernels are unknown" if usage.unmodeled else ""
    if usage.unknown_sizes == 1:
        return "the peak is a lower bound: the size of 1 tensor depends on data"
    return f"the peak is a lower bound: the sizes of {usage.unknown_sizes:,} tensors depend on data"


def _nothing(canvas: Canvas) -> Figure:
    canvas.figure.text(0.5, 0.4, "nothing to draw: the model has no operators", ha="center", color=INK)
    return canvas.figure


_POINTS = 6.5
_LINE = _POINTS * 1.25 * DPI / 72  # pixels
_MOST_LABELS = 160
_PALE = 0.6  # share of white in the color of tensors that are not live at the peak
_MOST_OUTLINED = 1500


@dataclass(frozen=True, slots=True)
class Box:
    """A buffer in the drawn memory plan."""

    name: str
    size: int
    first: int
    last: int
    offset: int
    color: tuple[float, ...]
    is_live: bool  # at the peak

    @property
    def corners(self) -> list[tuple[float, float]]:
        """Returns the corners from the lower left one on, counterclockwise."""
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
    """Draw the boxes, the size of the plan, the peak, names that fit, and levels."""
    peak_step = plan.peak_step or 0
    is_early = peak_step < len(plan.schedule) / 2
    draw_bytes(axes, highest)
    for line in levels:
        is_close = line.bytes - plan.plan_bytes < highest / 15  # to the label of the plan
        level(axes, line.bytes, line.words, at_right=is_early is not is_close)
    caption(axes, "Memory plan: offset and liveness of each tensor")
    _fill(axes, [box for box in boxes if not box.is_live], "boxes", "white")
    _fill(axes, [box for box in boxes if box.is_live], "held", INK)
    level(axes, plan.plan_bytes, f"memory plan {plan.plan_bytes:,} B", at_right=is_early, strong=True)
    axes.axvline(peak_step, color=PEAK, linewidth=0.9, linestyle=(0, (4, 3)), gid="peak", zorder=3)
    _label(canvas, axes, boxes, names)


def boxes_of(plan: Plan, peak_step: int) -> list[Box]:
    """Returns one box per buffer with a size, in order of allocation."""
    return list(_boxes(plan, peak_step))


def _boxes(plan: Plan, peak_step: int) -> Iterator[Box]:
    buffers = plan.memory_plan.usage.buffers
    order = sorted(np.flatnonzero(buffers.size).tolist(), key=lambda index: (buffers.first[index], index))
    offsets = plan.memory_plan.packing.offsets
    live = [index for index in order if buffers.first[index] <= peak_step <= buffers.last[index]]
    # At the peak colors follow the offset, so that neighbors differ.
    rank = {buffer: number for number, buffer in enumerate(sorted(live, key=lambda index: offsets[index]))}
    for number, buffer in enumerate(order):
        identity = buffers.tensors[buffer][0]
        first, last = int(buffers.first[buffer]), int(buffers.last[buffer])
        is_live = buffer in rank
        strength = 1.0 if is_live else 1 - _PALE
        color = tuple(
            1 - strength * (1 - part) for part in to_rgb(PALETTE[rank.get(buffer, number) % len(PALETTE)])
        )
        name = legible(plan.graph.tensors[identity].name) or f"tensor {identity}"
        yield Box(name, int(buffers.size[buffer]), first, last, offsets[buffer], color, is_live)


def _fill(axes: Axes, boxes: list[Box], gid: str, edge: str) -> None:
    if boxes:
        # Outlines would hide boxes as narrow as they are.
        width = 0.0 if len(boxes) > _MOST_OUTLINED else 0.7 if edge == INK else 0.4
        corners = [box.corners for box in boxes]
        colors = [box.color for box in boxes]
        axes.add_collection(
            PolyCollection(corners, facecolors=colors, edgecolors=edge, linewidths=width, gid=gid),
            autolim=False,
        )


def _label(canvas: Canvas, axes: Axes, boxes: Sequence[Box], names: Names) -> None:
    """Write names into the largest boxes if they fit, upright if a box is narrow."""
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
                bbox={"facecolor": box.color, "edgecolor": "none", "pad": 0.4},
                zorder=4,
            )


def _pixels(axes: Axes) -> tuple[float, float]:
    """Returns the pixels per step and per byte."""
    extent = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return extent.width / (right - left), extent.height / (top - bottom)


def _fitted(canvas: Canvas, names: Names, box: Box, width: float, height: float) -> tuple[str, int]:
    """Returns the name, with the size if that fits, and its rotation; empty if nothing fits."""
    flat = names.fitted(box.name, width, _POINTS) if height >= _LINE else ""
    upright = names.fitted(box.name, height, _POINTS) if width >= _LINE else ""
    is_upright = len(upright) > len(flat)
    text, along, across = (upright, height, width) if is_upright else (flat, width, height)
    size = units.size(box.size)
    if text and across >= 2.1 * _LINE and canvas.width(size, _POINTS) <= along:
        text = f"{text}\n{size}"
    return text, 90 if is_upright else 0
