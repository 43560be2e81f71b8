"""What operators attain on a target, and the roofs of the target: all that a roofline shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sizeup.latency.roofline import nearest_peak, type_of
from sizeup.units import FLOPS_PER_MAC

if TYPE_CHECKING:
    from sizeup.latency import Estimate
    from sizeup.latency.work import Floats
    from sizeup.targets import Target


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


def used_types(found: Estimate) -> set[str]:
    """The dtypes that kernels of an estimate compute in."""
    return {type_of(name) for name in found.work.names}


def types_by_op(found: Estimate, ops: list[int]) -> list[str]:
    """The dtype that the kernel of each of these operators computes in."""
    kinds = dict(zip(found.executed.main.tolist(), found.work.kind.tolist(), strict=True))
    return [type_of(found.work.names[kinds[op]]) for op in ops]


def roofs_of(target: Target, used: set[str]) -> list[Roof]:
    """The rates of all dtypes that the runtime has kernels for, those that are used first."""
    kinds = dict.fromkeys((*sorted(used), *target.runtime.dtypes))
    rates = {kind: target.peak(kind) for kind in kinds}
    return [Roof(kind, rate, kind in used) for kind, rate in rates.items() if rate is not None]


def used_roofs(target: Target, used: set[str]) -> dict[str, float]:
    """MACs per second of the dtypes that are used, or of the nearest with a rate; equal rates together."""
    rates: dict[float, list[str]] = {}
    for kind in sorted(used):
        peak = nearest_peak(target, kind)
        if peak is not None and peak[0] not in rates.setdefault(peak[1], []):
            rates[peak[1]].append(peak[0])
    return {", ".join(kinds): rate for rate, kinds in rates.items()}
