"""Boards of any size for the tests of rooms: real targets with other memories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import sizeup
from sizeup import targets
from sizeup.checks import MemoryFit, Needs, fit_memory
from sizeup.dtypes import precision
from sizeup.targets import Memory, Target


def board(
    target: str, *, ram: int | None = None, flash: int | None = None, kind: str | None = None
) -> Target:
    """A target whose memories are one bank of RAM and one of flash, of these sizes."""
    device, _, runtime = target.partition("/")
    result = Target(sizeup.target(device).device, targets.runtime(runtime))
    memories = (Memory("SRAM", "ram", "a test", ram), Memory("flash", "flash", "a test", flash))
    return Target(
        replace(result.device, memories=memories, device_class=kind or result.device.device_class),
        result.runtime,
    )


def needs(path: Path, at: str | None = None) -> Needs:
    """What a file needs at a precision, or as it is."""
    graph = sizeup.load(path)
    return Needs(graph, sizeup.count(graph), None if at is None else precision(at), path.stat().st_size)


def room_of(path: Path, target: Target | str, at: str | None = None) -> MemoryFit:
    """The room that a target has for a file."""
    return fit_memory(needs(path, at), sizeup.target(target) if isinstance(target, str) else target)
