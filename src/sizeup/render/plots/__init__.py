"""Pictures as PNG or SVG: memory by operator, a memory plan, a roofline, cost by module or layer."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sizeup.errors import MissingLibrary, SizeupError
from sizeup.render import check_folder

if TYPE_CHECKING:
    from sizeup.results.plan import Plan
    from sizeup.results.precision import Tradeoff
    from sizeup.results.report import Report

_EXTENSIONS = (".png", ".svg")
_PICTURES = ("memory", "roofline", "modules")


def check(path: str | os.PathLike[str], *, timed: bool = True) -> None:
    """Raise SizeupError unless a picture can be written to that path."""
    if Path(path).suffix.lower() not in _EXTENSIONS:
        extensions = ", ".join(_EXTENSIONS)
        raise SizeupError(
            f"{os.fspath(path)}: a picture is written as {extensions}; use one of these extensions"
        )
    check_folder(path)
    if not timed and picture_of(path) == "roofline":
        raise SizeupError(f"{os.fspath(path)}: a roofline needs a latency estimate; add -d DEVICE")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingLibrary("a picture", "matplotlib", "plot")


def plot(report: Report, path: str | os.PathLike[str], picture: str | None = None) -> Path:
    """Draw memory, the roofline or modules, as `picture` or the word before the extension selects.

    Memory is live memory by operator: its inputs, its outputs, the rest. The roofline is the throughput of
    every operator under the peaks of the device, and needs a target. Modules are drawn with their cost: time
    if estimated, MACs, parameters and traffic.
    """
    check(path)
    from sizeup.render.plots import modules, pictures, roofline

    draw = {
        "memory": pictures.memory_picture,
        "roofline": roofline.roofline_picture,
        "modules": modules.modules_picture,
    }[picture or picture_of(path)]
    return pictures.save(lambda: draw(report), path)


def picture_of(path: str | os.PathLike[str]) -> str:
    """Returns the picture that a file name selects: memory, roofline or modules."""
    word = Path(Path(path).stem).suffix.lower().removeprefix(".")
    return word if word in _PICTURES else "memory"


def plot_plan(plan: Plan, path: str | os.PathLike[str]) -> Path:
    """Draw memory by operator in the plan's schedule, and below it the offset and liveness of each tensor."""
    check(path)
    from sizeup.render.plots import pictures

    return pictures.save(lambda: pictures.plan_picture(plan), path)


def plot_tradeoff(tradeoff: Tradeoff, path: str | os.PathLike[str]) -> Path:
    """Draw memory over latency, one mark per point."""
    check(path)
    from sizeup.render.plots import pictures, scatter

    return pictures.save(lambda: scatter.tradeoff_picture(tradeoff), path)


def plot_layers(
    names: Sequence[str],
    quantities: Sequence[float],
    title: str,
    path: str | os.PathLike[str],
    *,
    unit: Literal["bytes", "counts"],
) -> Path:
    """Draw one bar per layer, on 1260x900 pixels."""
    check(path)
    from sizeup.render.plots import bars as layers
    from sizeup.render.plots import pictures

    return pictures.save(lambda: layers.layers_picture(names, quantities, title, unit), path)
