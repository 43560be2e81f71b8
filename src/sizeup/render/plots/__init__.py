"""Pictures of a model as PNG or SVG: memory by operator, a map of the arena, bars by layer."""

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

_ENDINGS = (".png", ".svg")
_KINDS = ("memory", "roofline", "modules")


def check(path: str | os.PathLike[str], *, timed: bool = True) -> None:
    """Raise unless a picture of that name can be drawn, before anybody works for it."""
    if Path(path).suffix.lower() not in _ENDINGS:
        endings = ", ".join(_ENDINGS)
        raise SizeupError(f"{os.fspath(path)}: pictures are drawn as {endings}; give it one of these endings")
    check_folder(path)
    if not timed and kind_of(path) == "roofline":
        raise SizeupError(f"{os.fspath(path)}: it shows times, which need a target: give one with -d")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingLibrary("a picture", "matplotlib", "plot")


def plot(report: Report, path: str | os.PathLike[str], picture: str | None = None) -> Path:
    """Draw memory, the roofline or modules: what `picture` or the word before the ending names.

    Memory is what is live while each operator runs: its inputs, its outputs, the rest. The roofline is what
    every operator attains under the roofs of the device, and needs times on a target. Modules are drawn with
    their cost: time if it was estimated, MACs, parameters and traffic.
    """
    check(path)
    from sizeup.render.plots import modules, pictures, roofs

    draw = {
        "memory": pictures.memory_picture,
        "roofline": roofs.roofline_picture,
        "modules": modules.modules_picture,
    }[picture or kind_of(path)]
    return pictures.save(lambda: draw(report), path)


def kind_of(path: str | os.PathLike[str]) -> str:
    """The picture that a file is to have by its name: memory, roofline or modules."""
    word = Path(Path(path).stem).suffix.lower().removeprefix(".")
    return word if word in _KINDS else "memory"


def plot_plan(plan: Plan, path: str | os.PathLike[str]) -> Path:
    """Draw memory by operator in the plan's order, and below it where each tensor is, and for how long."""
    check(path)
    from sizeup.render.plots import pictures

    return pictures.save(lambda: pictures.plan_picture(plan), path)


def plot_tradeoff(found: Tradeoff, path: str | os.PathLike[str]) -> Path:
    """Draw what each precision takes: memory against time, one mark a point."""
    check(path)
    from sizeup.render.plots import pictures, scatter

    return pictures.save(lambda: scatter.tradeoff_picture(found), path)


def plot_layers(
    names: Sequence[str],
    quantities: Sequence[float],
    title: str,
    path: str | os.PathLike[str],
    *,
    unit: Literal["bytes", "counts"],
) -> Path:
    """Draw one bar a layer, on 1260x900 pixels."""
    check(path)
    from sizeup.render.plots import bars as layers
    from sizeup.render.plots import pictures

    return pictures.save(lambda: layers.layers_picture(names, quantities, title, unit), path)
