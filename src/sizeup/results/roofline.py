"""The throughput of ops on a target and its roofs, for roofline plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sizeup.latency.roofline import BOUNDS, dtype_of, nearest_peak
from sizeup.units import FLOPS_PER_MAC

if TYPE_CHECKING:
    from sizeup.latency import Estimate
    from sizeup.latency.work import Floats
    from sizeup.targets import Target

__all__ = ["BOUNDS", "Roof", "Roofline", "RooflinePoints", "roofline_of", "throughput_of"]


@dataclass(frozen=True, slots=True, eq=False)
class RooflinePoints:
    """Throughput by op (of its kernels): MACs, bytes and seconds; and the latency of ops without MACs."""

    ops: list[int]
    macs: Floats
    traffic: Floats
    seconds: Floats
    ops_without_macs: int  # ops with latency but without MACs
    seconds_without_macs: float

    @property
    def intensity(self) -> Floats:
        """FLOPs per byte, 2 per MAC."""
        return FLOPS_PER_MAC * self.macs / self.traffic

    @property
    def macs_per_second(self) -> Floats:
        """MACs per second."""
        return self.macs / self.seconds


def throughput_of(estimate: Estimate) -> RooflinePoints:
    """Returns the throughput of an estimate's kernels, one row per op that names them."""
    work, main, count = estimate.work, estimate.executed.main_op, len(estimate.executed.kernel)

    def by_op(column: Floats) -> Floats:
        return np.asarray(np.bincount(main, column * work.count, count), np.float64)

    macs, moved, seconds = by_op(work.macs), by_op(work.traffic), by_op(estimate.kernels.seconds)
    ops = np.flatnonzero((macs > 0) & (moved > 0) & (seconds > 0))
    has_no_macs = (macs == 0) & (seconds > 0)
    others = int(has_no_macs.sum()), float(seconds[has_no_macs].sum())
    return RooflinePoints(ops.tolist(), macs[ops], moved[ops], seconds[ops], *others)


@dataclass(frozen=True, slots=True)
class Roof:
    """The most MACs per second at a dtype."""

    dtype: str
    macs_per_second: float
    is_used: bool


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """Throughput of ops, each at its dtype, under the roofs of a target."""

    points: RooflinePoints
    dtypes: list[str]  # by point
    roofs: list[Roof]  # of all dtypes with kernels in the runtime, used ones first
    used_roofs: dict[str, float]  # MACs per second of the used dtypes, equal rates together


def roofline_of(estimate: Estimate) -> Roofline | None:
    """Returns the roofline of an estimate; None without a target."""
    if estimate.target is None:
        return None
    points, work = throughput_of(estimate), estimate.work
    kind_of_op = dict(zip(estimate.executed.main_op.tolist(), work.class_index.tolist(), strict=True))
    used = {dtype_of(name) for name in work.names}
    types = [dtype_of(work.names[kind_of_op[op]]) for op in points.ops]
    return Roofline(points, types, _roofs(estimate.target, used), _used_roofs(estimate.target, used))


def _roofs(target: Target, used: set[str]) -> list[Roof]:
    dtypes = dict.fromkeys((*sorted(used), *target.runtime.dtypes))
    rates = {dtype: target.peak(dtype) for dtype in dtypes}
    return [Roof(dtype, rate, dtype in used) for dtype, rate in rates.items() if rate is not None]


def _used_roofs(target: Target, used: set[str]) -> dict[str, float]:
    """Returns the rates of the used dtypes, or of the nearest with a rate."""
    rates: dict[float, list[str]] = {}
    for dtype in sorted(used):
        peak = nearest_peak(target, dtype)
        if peak is not None and peak[0] not in rates.setdefault(peak[1], []):
            rates[peak[1]].append(peak[0])
    return {", ".join(dtypes): rate for rate, dtypes in rates.items()}
