"""Pictures of a model as PNG or SVG: memory by operator, a map of the arena, bars by layer."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sizeup.errors import MissingLibrary, SizeupError
from sizeup.report.files import check_folder

if TYPE_CHECKING:
    from sizeup.report.plan import Plan
    from sizeup.report.summary import Report

_ENDINGS = (".png", ".svg")


def check(path: str | os.PathLike[str]) -> None:
    """Raise unless a picture of that name can be drawn, before anybody works for it."""
    if Path(path).suffix.lower() not in _ENDINGS:
        endings = ", ".join(_ENDINGS)
        raise SizeupError(f"{os.fspath(path)}: pictures are drawn as {endings}; give it one of these endings")
    check_folder(path)
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingLibrary("a picture", "matplotlib", "plot")


def plot_memory(report: Report, path: str | os.PathLike[str]) -> Path:
    """Draw the memory in use while each operator runs: its inputs, its outputs, and what waits."""
    check(path)
    from sizeup.report.plots import pictures

    return pictures.save(lambda: pictures.memory_picture(report), path)


def plot_plan(plan: Plan, path: str | os.PathLike[str]) -> Path:
    """Draw memory by operator in the plan's order, and below it where each tensor is, and for how long."""
    check(path)
    from sizeup.report.plots import pictures

    return pictures.save(lambda: pictures.plan_picture(plan), path)


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
    from sizeup.report.plots import layers, pictures

    return pictures.save(lambda: layers.layers_picture(names, quantities, title, unit), path)
