"""Hardware use at a latency: throughput, limiters, overhead, energy and utilization."""

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
from sizeup.latency.execution import execution_of
from sizeup.latency.roofline import BOUNDS, Bound, dtype_of, nearest_peak
from sizeup.latency.work import Floats, Work
from sizeup.targets import Device, Target, quantities
from sizeup.units import FLOPS_PER_MAC, quoted


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of an inference, its shares of the device's peaks, and the overhead's share of the time.

    A share is None if the device's peak, or the overhead, is unknown.
    """

    macs: float
    bytes: float
    macs_per_second: float
    bytes_per_second: float
    compute_share: float | None
    bandwidth_share: float | None
    overhead_share: float | None


def throughput(
    work: Work, seconds: float, target: Target | None, overhead: float | None = None
) -> Throughput:
    """The throughput of an inference that takes `seconds`, of which `overhead` do no work."""
    macs, moved = float(work.totals(work.macs)[0]), float(work.totals(work.traffic)[0])
    bandwidth = None if target is None else target.device.bandwidth
    least = None if target is None else _least_compute(work, target)
    return Throughput(
        macs,
        moved,
        macs / seconds,
        moved / seconds,
        None if least is None else least / seconds,
        None if bandwidth is None else moved / seconds / bandwidth,
        None if overhead is None else overhead / seconds,
    )


def throughput_of(estimate: Estimate) -> Throughput | None:
    """The throughput that an estimate implies; None for a lower bound or 0 seconds.

    None also for an Ethos-U: the bytes that it moves are not those of the operators.
    """
    if not estimate.seconds or estimate.basis == "vela" or estimate.is_lower_bound:
        return None
    launches = float(estimate.work.totals(estimate.kernels.launch)[0])
    known = estimate.calibration is not None or (
        estimate.target is not None and estimate.target.overhead_seconds is not None
    )
    overhead = launches + estimate.overhead_seconds if known else None
    return throughput(estimate.work, estimate.seconds, estimate.target, overhead)


def _least_compute(work: Work, target: Target) -> float | None:
    """Seconds of the arithmetic alone, each dtype at its peak rate; None if a rate is unknown."""
    seconds = 0.0
    for name, macs in zip(work.names, work.by_class(work.macs)[0].tolist(), strict=True):
        rate = target.peak(dtype_of(name)) if macs else 1.0
        if rate is None:
            return None
        seconds += macs / rate
    return seconds


EnergyBasis = Literal["per MAC and byte", "typical power", "design power"]


@dataclass(frozen=True, slots=True)
class EnergyEstimate:
    """Joules of one inference and their interval; `is_upper_bound` if from the design power (TDP)."""

    joules: float
    low: float | None
    high: float | None
    basis: EnergyBasis
    is_upper_bound: bool
    source: str


def energy(estimate: Estimate) -> EnergyEstimate | None:
    """The energy of one inference; None if the device's power or the prediction interval is unknown."""
    if estimate.target is None or estimate.low is None:
        return None
    device = estimate.target.device
    return _by_work(estimate.work, device) or _by_power(estimate, device)


def energy_by_op(estimate: Estimate) -> Floats | None:
    """Joules of each op, those of a kernel with its main op; None as for `energy`."""
    spent = energy(estimate)
    if spent is None or estimate.target is None:
        return None
    known = estimate.target.device.energy
    if spent.basis != "per MAC and byte" or known is None:
        return estimate.by_op()[0] * (spent.joules / estimate.seconds)
    prices = np.array([known.pj_per_mac.get(dtype_of(name), 0.0) for name in estimate.work.names])
    moved = estimate.work.traffic * max(known.pj_per_byte.values())
    by_kernel = (estimate.work.macs * prices[estimate.work.class_index] + moved) * estimate.work.count * 1e-12
    return np.asarray(
        np.bincount(estimate.executed.main_op, by_kernel, len(estimate.executed.kernel)), np.float64
    )


def _by_work(work: Work, device: Device) -> EnergyEstimate | None:
    known = device.energy
    if known is None or not known.pj_per_mac or not known.pj_per_byte:
        return None
    by_class = work.by_class(work.macs)[0]
    prices = [known.pj_per_mac.get(dtype_of(name)) for name in work.names]
    if any(price is None and macs for price, macs in zip(prices, by_class, strict=True)):
        return None
    macs = float(np.dot(by_class, [price or 0.0 for price in prices]))
    moved = float(work.totals(work.traffic)[0]) * max(known.pj_per_byte.values())
    return EnergyEstimate((macs + moved) * 1e-12, None, None, "per MAC and byte", False, known.source)


def _by_power(estimate: Estimate, device: Device) -> EnergyEstimate | None:
    power = device.power
    if power is None:
        return None
    watts = power.typical_watts or power.tdp_watts
    if watts is None:
        return None
    typical = power.typical_watts is not None
    low, high = (None if bound is None else bound * watts for bound in (estimate.low, estimate.high))
    basis: EnergyBasis = "typical power" if typical else "design power"
    return EnergyEstimate(estimate.seconds * watts, low, high, basis, not typical, power.source)


@dataclass(frozen=True, slots=True)
class LimiterShare:
    """The ops that one resource limits, their time and its share of the latency."""

    ops: int
    seconds: float
    share: float


def time_by_limiter(estimate: Estimate) -> dict[Bound, LimiterShare] | None:
    """Ops and time by limiting resource; None if the basis does not separate arithmetic from memory.

    Coefficients time only arithmetic, and so do a data sheet without a bandwidth and a calibration without a
    rate per byte. Ops fused into others are not counted.
    """
    if not estimate.seconds or not _prices_both(estimate):
        return None
    seconds, bounds = estimate.by_op()
    limits = np.array([bound or "" for bound in bounds])
    result: dict[Bound, LimiterShare] = {}
    for bound in BOUNDS:
        is_limited = limits == bound
        time = float(seconds[is_limited].sum())
        result[bound] = LimiterShare(int(is_limited.sum()), time, time / estimate.seconds)
    return result if any(limit.ops for limit in result.values()) else None


def flops_per_byte(estimate: Estimate) -> dict[str, float]:
    """FLOPs per byte in the target's data sheet, for each precision of the network's MACs."""
    target = estimate.target
    bandwidth = None if target is None else target.device.bandwidth
    if target is None or bandwidth is None or estimate.basis == "vela":
        return {}
    peaks = (nearest_peak(target, name) for name in _precisions(estimate))
    return {peak[0]: FLOPS_PER_MAC * peak[1] / bandwidth for peak in peaks if peak is not None}


def _prices_both(estimate: Estimate) -> bool:
    """Whether both arithmetic and memory take time: in any kernel, and with a data sheet in all of them.

    A fitted rate may be zero for some classes; the time by a data sheet is zero only if a rate is unknown. In
    a lower bound, traffic is also zero if the data stay in the caches, so the rates decide.
    """
    work, kernels = estimate.work, estimate.kernels
    parts = [kernels.compute[work.macs > 0], kernels.traffic[work.traffic > 0]]
    if estimate.basis == "roofline" and estimate.low is None:
        has_bandwidth = estimate.target is not None and estimate.target.device.bandwidth is not None
        return has_bandwidth and bool((parts[0] > 0).all())
    if estimate.basis == "roofline":
        return all(bool((seconds > 0).all()) for seconds in parts)
    return all(bool((seconds > 0).any()) for seconds in parts if len(seconds))


def _precisions(estimate: Estimate) -> list[str]:
    work = estimate.work
    macs = work.by_class(work.macs)[0].tolist()
    return sorted({dtype_of(name) for name, count in zip(work.names, macs, strict=True) if count})


Bottleneck = Literal["compute", "memory"]

_KEYS = ("latency_ms", "bandwidth")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?")
_IDLE = 0.1  # below this share of both peaks, neither compute nor memory limits the latency
_TOLERANCE = 1.05  # boost clocks, and rounding in data sheets


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
    """A measurement; the bandwidth is in bytes per second, or a text such as "8 GB/s".

    Raises SizeupError if a value is not a positive, finite number.
    """
    if isinstance(bandwidth, str):
        try:
            bandwidth = quantities.parse(bandwidth, quantities.BANDWIDTH)
        except ValueError as error:
            raise SizeupError(f"bandwidth: {error}") from None
    for name, value in zip(_KEYS, (latency_ms, bandwidth), strict=True):
        if not (_is_positive(value) or (value is None and name != "latency_ms")):
            raise SizeupError(f"{name} is {quoted(value)}; it must be a positive, finite number")
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
    """Throughput of an inference with a measured latency, and its shares of a target's peaks.

    Values that depend on counts are None if the model has unknown operators. A share is None if the target's
    peak is unknown.
    """

    name: str
    format: str
    target: Target
    measurement: Measurement
    counted: Throughput | None
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
        """The measured bandwidth, else the counted bytes per second."""
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
        """Reasons to doubt the shares."""
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
    """The utilization of a target by a counted model; `precision` is None for the model's own dtypes."""
    name, format = cost.graph.name or "model", cost.graph.format
    if not cost.known.all():
        return Utilization(name, format, target, measurement, None)
    work = execution_of(cost, precision, target.runtime.fusions or ()).work
    rates = throughput(work, measurement.seconds, target)
    return Utilization(name, format, target, measurement, rates, _utilization_precisions(work))


def _utilization_precisions(work: Work) -> tuple[str, ...]:
    macs: Counter[str] = Counter()
    for name, count in zip(work.names, work.by_class(work.macs)[0].tolist(), strict=True):
        macs[dtype_of(name)] += count
    return tuple(name for name, count in macs.most_common() if count)
