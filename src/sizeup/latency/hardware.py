"""What an estimate or a measurement says about the hardware: throughput, limits, overhead, energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.latency.estimate import Estimate
from sizeup.latency.roofline import BOUNDS, Bound, nearest_peak, type_of
from sizeup.latency.work import Floats, Work
from sizeup.targets import Device, Target
from sizeup.units import FLOPS_PER_MAC


@dataclass(frozen=True, slots=True)
class Hardware:
    """Rates that a pass attains, the share of the device's own, and the share of time that does no work.

    A share is None where the device's rate, or the part of the time, is not known.
    """

    macs: float
    bytes: float
    macs_per_second: float
    bytes_per_second: float
    compute_share: float | None
    bandwidth_share: float | None
    overhead_share: float | None


def hardware(work: Work, seconds: float, target: Target | None, overhead: float | None = None) -> Hardware:
    """What a pass of so many seconds attains; `overhead` are the seconds of them that do no work."""
    macs, moved = float(work.totals(work.macs)[0]), float(work.totals(work.traffic)[0])
    bandwidth = None if target is None else target.device.bandwidth
    least = None if target is None else _least_compute(work, target)
    return Hardware(
        macs,
        moved,
        macs / seconds,
        moved / seconds,
        None if least is None else least / seconds,
        None if bandwidth is None else moved / seconds / bandwidth,
        None if overhead is None else overhead / seconds,
    )


def hardware_of(found: Estimate) -> Hardware | None:
    """The same for an estimate, which knows what launches and runs add; None for a bound or nothing."""
    if not found.seconds or (found.low is None and found.basis == "roofline"):
        return None
    launches = float(found.work.totals(found.kernels.launch)[0])
    known = found.fit is not None or (found.target is not None and found.target.overhead_seconds is not None)
    overhead = launches + found.run_seconds if known else None
    return hardware(found.work, found.seconds, found.target, overhead)


def _least_compute(work: Work, target: Target) -> float | None:
    """Seconds of the arithmetic alone, each number type at its full rate; None where one is not known."""
    seconds = 0.0
    for name, macs in zip(work.names, work.by_class(work.macs)[0].tolist(), strict=True):
        rate = target.peak(type_of(name)) if macs else 1.0
        if rate is None:
            return None
        seconds += macs / rate
    return seconds


EnergyBasis = Literal["per MAC and byte", "typical power", "design power"]


@dataclass(frozen=True, slots=True)
class Spent:
    """Joules of one pass and their range; `at_most` where only the power that the device is designed for is
    known, which networks seldom draw."""

    joules: float
    low: float | None
    high: float | None
    basis: EnergyBasis
    at_most: bool
    source: str


def energy(found: Estimate) -> Spent | None:
    """What one pass costs in energy; None where the device's file, or the range of its time, is not known."""
    if found.target is None or found.low is None:
        return None
    device = found.target.device
    return _by_work(found.work, device) or _by_power(found, device)


def energy_by_op(found: Estimate) -> Floats | None:
    """Joules of every operator, all of a kernel's with the operator that names it; None as for `energy`."""
    spent = energy(found)
    if spent is None or found.target is None:
        return None
    known = found.target.device.energy
    if spent.basis != "per MAC and byte" or known is None:
        return found.by_op()[0] * (spent.joules / found.seconds)
    prices = np.array([known.pj_per_mac.get(type_of(name), 0.0) for name in found.work.names])
    moved = found.work.traffic * max(known.pj_per_byte.values())
    by_kernel = (found.work.macs * prices[found.work.kind] + moved) * found.work.count * 1e-12
    return np.asarray(np.bincount(found.executed.main, by_kernel, len(found.executed.kernel)), np.float64)


def _by_work(work: Work, device: Device) -> Spent | None:
    known = device.energy
    if known is None or not known.pj_per_mac or not known.pj_per_byte:
        return None
    by_class = work.by_class(work.macs)[0]
    prices = [known.pj_per_mac.get(type_of(name)) for name in work.names]
    if any(price is None and macs for price, macs in zip(prices, by_class, strict=True)):
        return None
    macs = float(np.dot(by_class, [price or 0.0 for price in prices]))
    moved = float(work.totals(work.traffic)[0]) * max(known.pj_per_byte.values())
    return Spent((macs + moved) * 1e-12, None, None, "per MAC and byte", False, known.source)


def _by_power(found: Estimate, device: Device) -> Spent | None:
    power = device.power
    if power is None:
        return None
    watts = power.typical_watts or power.tdp_watts
    if watts is None:
        return None
    typical = power.typical_watts is not None
    low, high = (None if each is None else each * watts for each in (found.low, found.high))
    basis: EnergyBasis = "typical power" if typical else "design power"
    return Spent(found.seconds * watts, low, high, basis, not typical, power.source)


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
