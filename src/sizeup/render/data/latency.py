"""An estimate as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sizeup.latency import energy, flops_per_byte, hardware_of, limited

if TYPE_CHECKING:
    from sizeup.results.parts import Bound, Estimate, Hardware, Limited, ModuleTime, Spent


def to_dict(found: Estimate) -> dict[str, Any]:
    """The estimate as plain data."""
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
        "attained": plain(hardware_of(found)),
        "energy": plain(energy(found)),
        "bound_by": _limits_to_dict(limited(found)),
        "flops_per_byte": flops_per_byte(found),
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
