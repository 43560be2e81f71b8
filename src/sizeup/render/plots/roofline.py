"""The roofline: throughput of every operator under the peaks of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from sizeup import units
from sizeup.errors import SizeupError
from sizeup.render.console.latency import latency_text
from sizeup.render.plots.canvas import (
    FAINT,
    INK,
    INPUTS,
    OTHERS,
    OUTPUTS,
    PEAK,
    ROOM,
    WORKSPACE,
    Canvas,
    Item,
    draw_list,
)
from sizeup.render.plots.pictures import picture_title, write_title
from sizeup.results.roofline import RooflinePoints
from sizeup.units import FLOPS_PER_MAC

if TYPE_CHECKING:
    from sizeup.results.report import Report

_HEIGHT = 5.6
_LEFT, _BELOW, _RIGHT, _TOP = 1.1, 0.62, ROOM, 1.0
_MOST_LISTED = 18
_FEW_DECADES = 1000  # ratio of an axis up to which ticks at 2 and 5 are drawn
_LARGEST, _SMALLEST = 170.0, 8.0  # area of a mark in points squared, for the longest time and for none
_COLORS = {"compute": OUTPUTS, "traffic": INPUTS, "launch": WORKSPACE, "nothing": OTHERS}
_LEGEND = {"compute": "compute-bound", "traffic": "memory-bound", "launch": "launch-bound"}


def roofline_picture(report: Report) -> Figure:
    """Returns MACs per second over FLOPs per byte, one mark per operator, larger the longer it takes."""
    estimate = report.latency
    if estimate is None or estimate.target is None or report.roofline is None:
        raise SizeupError(
            f"{report.name}: a roofline needs a latency estimate on a target ({report.no_latency_reason})"
        )
    canvas = Canvas(_HEIGHT)
    points, bounds = report.roofline.points, estimate.by_op()[1]
    bound_by = [bounds[op] or "nothing" for op in points.ops]
    sentence = f"{latency_text(estimate)} on {estimate.target.name}, {estimate.basis}"
    write_title(canvas, picture_title(report), sentence, _missing(report))
    axes = canvas.panel(_LEFT, _BELOW, _RIGHT, _TOP)
    roofs = report.roofline.used_roofs
    _scale(axes, points, roofs, estimate.target.device.bandwidth)
    _draw_roofs(axes, roofs, estimate.target.device.bandwidth)
    _draw_points(axes, points, bound_by)
    _list_longest(canvas, report, points, bound_by, estimate.seconds)
    return canvas.figure


def _missing(report: Report) -> str:
    unknown = len(report.ops) - report.known_ops
    if unknown == 1:
        return "1 operator is unknown: its time is missing, at least in part"
    return f"{unknown:,} operators are unknown: their time is missing, at least in part" if unknown else ""


def _scale(axes: Axes, points: RooflinePoints, roofs: dict[str, float], bandwidth: float | None) -> None:
    ridges = [FLOPS_PER_MAC * rate / bandwidth for rate in roofs.values()] if bandwidth else []
    across = [*points.intensity.tolist(), *ridges] or [1.0]
    up = [*points.macs_per_second.tolist(), *roofs.values()] or [1.0]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(across) / 3, max(across) * 4)
    axes.set_ylim(min(up) / 3, max(up) * 2.5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _rate(value)))
    axes.set_xticks(_ticks(*axes.get_xlim()))
    axes.set_yticks(_ticks(*axes.get_ylim()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("FLOP/B: FLOPs per byte moved, 2 per MAC", size=8.5, color=INK)
    axes.set_ylabel("MACs per second", size=8.5, color=INK)
    axes.grid(visible=True, color="#E6E6E6", linewidth=0.5)
    axes.set_axisbelow(True)


def _ticks(low: float, high: float) -> list[float]:
    """Returns the powers of ten between two numbers; if they are few, also 2 and 5 times these."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high < _FEW_DECADES * low else (1,)
    ticks = (step * 10.0**decade for decade in decades for step in steps)
    return [tick for tick in ticks if low <= tick <= high]


def _rate(value: float) -> str:
    return f"{units.count(value)}MAC/s" if value >= 999.5 else f"{value:g} MAC/s"


def _draw_roofs(axes: Axes, roofs: dict[str, float], bandwidth: float | None) -> None:
    left, right = axes.get_xlim()
    highest = max(roofs.values(), default=axes.get_ylim()[1])
    for dtype, rate in roofs.items():
        start = FLOPS_PER_MAC * rate / bandwidth if bandwidth else left
        ratio = f", {start:,.3g} FLOP/B" if bandwidth else ""
        axes.plot([start, right], [rate, rate], color=PEAK, linewidth=1.2, gid=f"roof {dtype}", zorder=2)
        _write_on_line(axes, f"{dtype} {_rate(rate)}{ratio}", right, rate)
    if bandwidth:
        ridge = FLOPS_PER_MAC * highest / bandwidth
        axes.plot(
            [left, ridge], [left * bandwidth / FLOPS_PER_MAC, highest], color=PEAK, linewidth=1.2,
            gid="memory", zorder=2,
        )  # fmt: skip
        axes.annotate(
            f"memory {units.size(bandwidth)}/s", (ridge, highest), (-8, 4), textcoords="offset points",
            ha="right", size=7.5, color=PEAK,
        )  # fmt: skip


def _write_on_line(axes: Axes, text: str, right: float, rate: float) -> None:
    axes.annotate(text, (right, rate), (-3, 3), textcoords="offset points", ha="right", size=7.5, color=PEAK)


def _draw_points(axes: Axes, points: RooflinePoints, bounds: Sequence[str]) -> None:
    sizes = _SMALLEST + (_LARGEST - _SMALLEST) * points.seconds / points.seconds.max(initial=1e-12)
    order = np.argsort(-points.seconds)  # small marks on top of large ones
    for bound in dict.fromkeys(bounds):
        rows = [int(row) for row in order if bounds[row] == bound]
        axes.scatter(
            points.intensity[rows], points.macs_per_second[rows], s=sizes[rows], color=_COLORS[bound],
            alpha=0.75, edgecolors="white", linewidths=0.5, zorder=3,
            label=_LEGEND.get(bound, bound), gid=f"points {bound}",
        )  # fmt: skip
    if points.ops:
        legend: Any = axes.legend(
            loc="lower right", bbox_to_anchor=(1.005, 0.995), ncols=len(set(bounds)), frameon=False,
            fontsize=7.5, handletextpad=0.2, columnspacing=1.4, borderpad=0.2,
        )  # fmt: skip
        for handle in legend.legend_handles:
            handle.set_sizes([30.0])
    else:
        axes.annotate(
            "no operator has MACs", (0.985, 0.03), xycoords="axes fraction", ha="right", size=8.5, color=FAINT
        )


def _list_longest(
    canvas: Canvas, report: Report, points: RooflinePoints, bounds: Sequence[str], total: float
) -> None:
    """List the slowest operators in the colors of their marks, and the share of operators without MACs."""
    order = np.argsort(-points.seconds)[:_MOST_LISTED].tolist()
    items = []
    for point in order:
        row = report.ops[points.ops[point]]
        share = units.share(float(points.seconds[point]), total)
        # Without slashes: lists would shorten a path to one of its parts.
        words = f"{row.index} {row.op_kind} {row.scope or row.name}".replace("/", ".")
        items.append(Item(words, share, _COLORS[bounds[point]]))
    rest = ""
    if points.ops_without_macs:
        share = units.share(points.seconds_without_macs, total)
        one = points.ops_without_macs == 1
        rest = f"{points.ops_without_macs:,} without MACs take{'s' * one} {share}"
    draw_list(canvas, _TOP - 0.07, "Share of latency", items, rest)
