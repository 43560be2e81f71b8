"""What limits a network on a target: arithmetic, memory or launches, and the device's ops:byte ratio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizeup.latency.estimate import Estimate
from sizeup.latency.roofline import BOUNDS, Bound
from sizeup.latency.sheet import nearest_peak, type_of
from sizeup.units import FLOPS_PER_MAC


@dataclass(frozen=True, slots=True)
class Limited:
    """The operators that one resource limits, their time and its share of the latency."""

    ops: int
    seconds: float
    share: float


def limited(found: Estimate) -> dict[Bound, Limited] | None:
    """Operators and time by what limits them; None if the basis cannot tell arithmetic from memory.

    Coefficients price arithmetic alone, and so do a data sheet without a bandwidth and a calibration without
    a rate per byte. Operators fused into others count for none.
    """
    if not found.seconds or not _prices_both(found):
        return None
    seconds, bounds = found.by_op()
    limits = np.array([each or "" for each in bounds])
    result: dict[Bound, Limited] = {}
    for bound in BOUNDS:
        is_limited = limits == bound
        time = float(seconds[is_limited].sum())
        result[bound] = Limited(int(is_limited.sum()), time, time / found.seconds)
    return result if any(each.ops for each in result.values()) else None


def flops_per_byte(found: Estimate) -> dict[str, float]:
    """FLOPs per byte of the target's data sheet, by the precisions that the network multiplies in."""
    target = found.target
    bandwidth = None if target is None else target.device.bandwidth
    if target is None or bandwidth is None:
        return {}
    peaks = (nearest_peak(target, each) for each in _precisions(found))
    return {peak[0]: FLOPS_PER_MAC * peak[1] / bandwidth for peak in peaks if peak is not None}


def _prices_both(found: Estimate) -> bool:
    """Whether both arithmetic and memory take time; on a data sheet in every kernel that needs them.

    A fitted rate of a class may well be zero, a rate of a data sheet only if it is not known.
    """
    work, kernels = found.work, found.kernels
    parts = [kernels.compute[work.macs > 0], kernels.traffic[work.traffic > 0]]
    if found.basis == "roofline":
        return all(bool((seconds > 0).all()) for seconds in parts)
    return all(bool((seconds > 0).any()) for seconds in parts if len(seconds))


def _precisions(found: Estimate) -> list[str]:
    work = found.work
    macs = work.by_class(work.macs)[0].tolist()
    return sorted({type_of(name) for name, count in zip(work.names, macs, strict=True) if count})
