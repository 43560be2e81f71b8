"""Whether a latency applies: a model that a target cannot run or hold has none there."""

from __future__ import annotations

from dataclasses import replace

from sizeup import units
from sizeup.backends import EXTERNAL_RAM, MemoryFit
from sizeup.latency import Estimate


def with_applicability(estimate: Estimate, fit: MemoryFit) -> Estimate:
    """The estimate; if its target cannot run or hold the model, not applicable, with the reason as a note."""
    if fit.unsupported_reason and estimate.is_applicable:
        note = f"not applicable: {fit.unsupported_reason}"
        return replace(estimate, is_applicable=False, notes=(note, *estimate.notes))
    missing = [
        f"{units.size(space.low_bytes)} {space.title}, has {units.size(space.limit_bytes)}"
        for space in fit.memories
        if space.fits is False and space.limit_bytes is not None
    ]
    if fit.ram.is_external and estimate.is_applicable and not missing:
        return replace(estimate, notes=(EXTERNAL_RAM, *estimate.notes))
    if not missing or not estimate.is_applicable:
        return estimate
    note = f"not applicable: the model does not fit (needs {'; needs '.join(missing)})"
    return replace(estimate, is_applicable=False, notes=(note, *estimate.notes))
