"""An estimate as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup.results.latency import LatencyDetails
    from sizeup.results.parts import Bound, Hardware, Limited, ModuleTime, Spent


def to_dict(details: LatencyDetails) -> dict[str, Any]:
    """The estimate as plain data."""
    found = details.estimate
    return {
        "target": None if found.target is None else found.target.name,
        "ms": found.ms,
        "low_ms": found.low_ms,
        "high_ms": found.high_ms,
        "level": found.level,
        "basis": found.basis,
        "origin": found.origin,
        "run_ms": 1e3 * found.run_seconds,
        "kernels": int(found.work.count.sum()),
        "notes": list(found.notes),
        "attained": plain(details.hardware),
        "energy": plain(details.energy),
        "bound_by": _limits_to_dict(details.bound_by),
        "flops_per_byte": details.flops_per_byte,
    }


def _limits_to_dict(limits: Mapping[Bound, Limited] | None) -> dict[str, Any] | None:
    if limits is None:
        return None
    return {
        bound: {"ops": each.ops, "ms": 1e3 * each.seconds, "share": each.share}
        for bound, each in limits.items()
    }


def plain(found: Hardware | Spent | ModuleTime | None) -> dict[str, Any] | None:
    """The same as plain data."""
    return None if found is None else {name: getattr(found, name) for name in type(found).__slots__}
