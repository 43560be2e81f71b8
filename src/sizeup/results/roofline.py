"""What operators attain on a target, and the roofs of the target: all that a roofline shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sizeup.latency.roofline import BOUNDS, nearest_peak, type_of
from sizeup.units import FLOPS_PER_MAC

if TYPE_CHECKING:
    from sizeup.latency import Estimate
    from sizeup.latency.work import Floats
    from sizeup.targets import Target

__all__ = ["BOUNDS", "Attained", "Roof", "Roofline", "attained", "roofline_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Attained:
    """Operators that name kernels with MACs: what these do, move and take; and how many others take time."""

    ops: list[int]
    macs: Floats
    moved: Floats
    seconds: Floats
    others: int  # operators that take time and have no MACs
    others_seconds: float

    @property
    def intensity(self) -> Floats:
        """FLOPs per byte, 2 per MAC."""
        return FLOPS_PER_MAC * self.macs / self.moved

    @property
    def rate(self) -> Floats:
        """MACs a second."""
        return self.macs / self.seconds


def attained(found: Estimate) -> Attained:
    """What the kernels of an estimate attain, one row an operator that names them."""
    work, main, count = found.work, found.executed.main, len(found.executed.kernel)

    def by_op(column: Floats) -> Floats:
        return np.asarray(np.bincount(main, column * work.count, count), np.float64)

    macs, moved, seconds = by_op(work.macs), by_op(work.traffic), by_op(found.kernels.seconds)
    ops = np.flatnonzero((macs > 0) & (moved > 0) & (seconds > 0))
    without = (macs == 0) & (seconds > 0)
    others = int(without.sum()), float(seconds[without].sum())
    return Attained(ops.tolist(), macs[ops], moved[ops], seconds[ops], *others)


@dataclass(frozen=True, slots=True)
class Roof:
    """The most MACs per second at a dtype."""

    dtype: str
    macs_per_second: float
    is_used: bool


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """What operators attain, each at its dtype, under the roofs of a target."""

    points: Attained
    types: list[str]  # by point
    roofs: list[Roof]  # of all dtypes that the runtime has kernels for, those that are used first
    used: dict[str, float]  # MACs per second of the dtypes that are used, equal rates together


def roofline_of(found: Estimate) -> Roofline | None:
    """The roofline of an estimate; None without a target."""
    if found.target is None:
        return None
    points, work = attained(found), found.work
    kinds = dict(zip(found.executed.main.tolist(), work.kind.tolist(), strict=True))
    used = {type_of(name) for name in work.names}
    types = [type_of(work.names[kinds[op]]) for op in points.ops]
    return Roofline(points, types, _roofs(found.target, used), _used_roofs(found.target, used))


def _roofs(target: Target, used: set[str]) -> list[Roof]:
    kinds = dict.fromkeys((*sorted(used), *target.runtime.dtypes))
    rates = {kind: target.peak(kind) for kind in kinds}
    return [Roof(kind, rate, kind in used) for kind, rate in rates.items() if rate is not None]


def _used_roofs(target: Target, used: set[str]) -> dict[str, float]:
    """The rates of the dtypes that are used, or of the nearest with a rate."""
    rates: dict[float, list[str]] = {}
    for kind in sorted(used):
        peak = nearest_peak(target, kind)
        if peak is not None and peak[0] not in rates.setdefault(peak[1], []):
            rates[peak[1]].append(peak[0])
    return {", ".join(kinds): rate for rate, kinds in rates.items()}
