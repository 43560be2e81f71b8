"""What a time says about the hardware: throughput, limits, overhead, energy, and utilization."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.latency.estimate import Estimate
from sizeup.latency.executed import executed
from sizeup.latency.roofline import BOUNDS, Bound, nearest_peak, type_of
from sizeup.latency.work import Floats, Work
from sizeup.targets import Device, Target, quantities
from sizeup.units import FLOPS_PER_MAC, quoted


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


Bottleneck = Literal["compute", "memory"]

_KEYS = ("latency_ms", "bandwidth")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?")
_IDLE = 0.1  # below this share of both peaks neither of them is the reason for the latency
_TOLERANCE = 1.05  # clocks boost, and data sheets round


@dataclass(frozen=True, slots=True)
class Measurement:
    """The latency of an inference on a device, and its memory bandwidth in bytes per second, if measured."""

    latency_ms: float
    bandwidth: float | None = None

    @property
    def seconds(self) -> float:
        """The latency in seconds."""
        return self.latency_ms / 1e3


def measurement(latency_ms: float, bandwidth: float | str | None = None) -> Measurement:
    """A checked measurement; the bandwidth is in bytes per second, or a text such as "8 GB/s"."""
    if isinstance(bandwidth, str):
        try:
            bandwidth = quantities.parse(bandwidth, quantities.BANDWIDTH)
        except ValueError as error:
            raise SizeupError(f"bandwidth: {error}") from None
    for name, value in zip(_KEYS, (latency_ms, bandwidth), strict=True):
        if not (_is_positive(value) or (value is None and name != "latency_ms")):
            raise SizeupError(f"{name} is {quoted(value)}; it has to be a positive, finite number")
    return Measurement(float(latency_ms), None if bandwidth is None else float(bandwidth))


def _is_positive(value: object) -> bool:
    # A latency below the smallest normal number would overflow the rates.
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-300 < value < math.inf


def parse_measurement(text: str) -> Measurement:
    """A measurement written as `latency_ms=12.3` or `latency_ms=12.3,bandwidth=8GB/s`."""
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in _KEYS:
            raise SizeupError(
                f"--from: unknown key {quoted(name)}; known: {', '.join(_KEYS)}, as in {_EXAMPLE}"
            )
        if name in values:
            raise SizeupError(f"--from: {name} is given twice")
        values[name] = value
    latency = values.get("latency_ms")
    if latency is None:
        raise SizeupError(f"--from: latency_ms is missing, as in {_EXAMPLE}")
    if not _NUMBER.fullmatch(latency):
        raise SizeupError(
            f"--from: latency_ms is {quoted(latency)}, not a number of milliseconds, such as 12.3"
        )
    return measurement(float(latency), values.get("bandwidth"))


_EXAMPLE = "latency_ms=12.3,bandwidth=8GB/s"


@dataclass(frozen=True, slots=True)
class Utilization:
    """Rates of an inference that took a measured time, and their shares of a target's peaks.

    What depends on counts is None if not every operator of the model could be counted, and a share is None
    if the target's own rate is not known.
    """

    name: str
    format: str
    target: Target
    measurement: Measurement
    counted: Hardware | None
    precisions: tuple[str, ...] = ()  # of its MACs, the one with the most first

    @property
    def flops_per_second(self) -> float | None:
        """Two FLOPs per MAC."""
        return None if self.counted is None else 2 * self.counted.macs_per_second

    @property
    def compute_share(self) -> float | None:
        """Share of the peak, each layer's at its own precision."""
        return None if self.counted is None else self.counted.compute_share

    @property
    def peak_flops_per_second(self) -> float | None:
        """The peak at the precision of the model; of several precisions, the mean over their MACs."""
        rate, share = self.flops_per_second, self.compute_share
        return rate / share if rate and share else None

    @property
    def bytes_per_second(self) -> float | None:
        """The bandwidth that was measured, or what the counted bytes mean without it."""
        measured = self.measurement.bandwidth
        return measured or (None if self.counted is None else self.counted.bytes_per_second)

    @property
    def bandwidth_share(self) -> float | None:
        """Share of the device's memory bandwidth."""
        rate, peak = self.bytes_per_second, self.target.device.bandwidth
        return None if rate is None or peak is None else rate / peak

    @property
    def bound_by(self) -> Bottleneck | None:
        """The peak that the inference is closer to; None if one of the shares is not known."""
        compute, memory = self.compute_share, self.bandwidth_share
        if compute is None or memory is None:
            return None
        return "compute" if compute > memory else "memory"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What makes the shares doubtful."""
        return tuple(self._caveats())

    def _caveats(self) -> Iterator[str]:
        compute, memory = self.compute_share, self.bandwidth_share
        if (compute or 0.0) > _TOLERANCE:
            yield "the peak is exceeded: check the latency, the precision and the device"
        if (memory or 0.0) > _TOLERANCE:
            cause = "check it" if self.measurement.bandwidth else "caches serve a part of the bytes"
            yield f"the bandwidth is exceeded: {cause}"
        if compute is not None and memory is not None and max(compute, memory) < _IDLE:
            yield "far from both peaks: overhead, unused cores or slow kernels take most of the time"


def utilization(
    cost: Cost, target: Target, measurement: Measurement, precision: DType | None = None
) -> Utilization:
    """What a measurement of a counted model on a target means; `precision` is None for the model's own."""
    name, format = cost.graph.name or "model", cost.graph.format
    if not cost.known.all():
        return Utilization(name, format, target, measurement, None)
    work = executed(cost, precision, target.runtime.fuses or ()).work
    rates = hardware(work, measurement.seconds, target)
    return Utilization(name, format, target, measurement, rates, _utilization_precisions(work))


def _utilization_precisions(work: Work) -> tuple[str, ...]:
    macs: Counter[str] = Counter()
    for name, count in zip(work.names, work.by_class(work.macs)[0].tolist(), strict=True):
        macs[type_of(name)] += count
    return tuple(name for name, count in macs.most_common() if count)
