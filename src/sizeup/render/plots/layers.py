"""One quantity by layer: a bar for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.figure import Figure

from sizeup.render.plots.axis import are_named, draw_bytes, draw_counts, draw_steps, name_steps
from sizeup.render.plots.canvas import INK, INPUTS, OUTPUTS, Canvas

_BREADTH, _HEIGHT = 7.0, 5.0  # inches
_LEFT, _RIGHT, _TOP = 0.85, 0.25, 0.6
_WIDE, _DENSE = 0.8, 1.0  # of a bar, where layers are few and where they are many


def layers_picture(
    names: Sequence[str], quantities: Sequence[float], title: str, unit: Literal["bytes", "counts"]
) -> Figure:
    """Layers across in the order in which they run, bytes or counts up; NaN, not known, has no bar."""
    canvas = Canvas(_HEIGHT, _BREADTH)
    canvas.write(title, _LEFT, 0.36, 11, weight="bold", color=INK)
    axes = canvas.panel(_LEFT, name_steps(canvas, names), _RIGHT, _TOP)
    wide = _WIDE if are_named(names) else _DENSE
    colour = OUTPUTS if unit == "bytes" else INPUTS
    axes.bar(range(len(names)), quantities, wide, color=colour, linewidth=0, gid="layers")
    draw = draw_bytes if unit == "bytes" else draw_counts
    draw(axes, max((each for each in quantities if not math.isnan(each)), default=0))
    draw_steps(canvas, axes, names, "layers in the order in which they run")
    return canvas.figure
