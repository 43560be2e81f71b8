"""The utilization of a device at a measured latency: rates, their shares of its peaks, the bottleneck."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.latency.executed import executed
from sizeup.latency.hardware import Hardware, hardware
from sizeup.latency.roofline import type_of
from sizeup.latency.work import Work
from sizeup.targets import Target, quantities
from sizeup.units import quoted

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
    return Utilization(name, format, target, measurement, rates, _precisions(work))


def _precisions(work: Work) -> tuple[str, ...]:
    macs: Counter[str] = Counter()
    for name, count in zip(work.names, work.by_class(work.macs)[0].tolist(), strict=True):
        macs[type_of(name)] += count
    return tuple(name for name, count in macs.most_common() if count)
