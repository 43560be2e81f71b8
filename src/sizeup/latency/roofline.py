"""The roofline basis: each kernel takes the longer of its compute and memory times by the data sheet."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from sizeup.errors import TargetError
from sizeup.latency.model import Kernels, cold_share
from sizeup.latency.work import Flags, Floats, Work
from sizeup.targets import Target

Bound = Literal["compute", "traffic", "launch", "nothing"]
BOUNDS: tuple[Bound, ...] = ("compute", "traffic", "launch")
# If the data sheet has no rate for a dtype, kernels run at the rate of the next wider one.
_WIDER = {
    "int2": "int4",
    "int4": "int8",
    "fp4": "fp8",
    "fp8": "fp16",
    "int8": "int16",
    "int16": "fp16",
    "bf16": "fp16",
    "fp16": "fp32",
    "tf32": "fp32",
}


def dtype_of(name: str) -> str:
    """The dtype that a class of kernels computes in: int8 for `conv.int8`."""
    dtype = name.partition(".")[2]
    return dtype if dtype and not dtype.startswith("w") else "fp32"


def roofline_kernels(work: Work, target: Target) -> tuple[Kernels, Flags, list[str]]:
    """The time of each kernel at the peak rate of its dtype or at the full bandwidth, plus its launch.

    Also returns whether the rates of all MACs of each network are known, and caveats. Raises TargetError if
    neither an arithmetic rate nor the bandwidth is known.
    """
    notes: list[str] = []
    peaks = [_peak(target, dtype_of(name), notes) or math.inf for name in work.names]
    by_class = np.array(peaks, np.float64)
    rates, is_known = by_class[work.class_index], np.isfinite(by_class)
    device, overhead = target.device, target.overhead_seconds
    bandwidth = device.bandwidth
    if bandwidth is None and not is_known[work.class_index].any():
        raise TargetError(f"{device.name}: neither its arithmetic rates nor its memory bandwidth is known")
    if bandwidth is None:
        notes.append(f"the bandwidth of {device.name} is unknown: memory traffic counts as 0 s")
    compute = work.macs / rates
    traffic = work.traffic / (bandwidth or math.inf)
    launch = np.full(len(work), overhead or 0.0)
    is_complete = np.ones(work.networks, np.bool_)
    if not is_known.all():
        is_complete = work.totals(work.macs * ~is_known[work.class_index]) == 0
    return Kernels(compute, traffic, launch, np.maximum(compute, traffic) + launch), is_complete, notes


# F(6 x 6, 3 x 3) of https://arxiv.org/abs/1509.09308: 324 multiplications become 64.
_WINOGRAD = 324 / 64
# Bytes that may stay on a chip whose caches are unknown; no chip has more.
_LARGEST_CACHE = 1 << 30


def least_kernels(work: Work, target: Target) -> tuple[Kernels, Flags, list[str]]:
    """As `roofline_kernels`, at best: no kernel is faster, whatever the runtime does.

    Activations stay in the caches as far as they fit, and so do weights from one inference to the next.
    Arithmetic runs at `fastest_rate`. Kernels whose data stay in the caches have no traffic.
    """
    sheet, is_complete, notes = roofline_kernels(work, target)
    rates = np.array([fastest_rate(target, name) or math.inf for name in work.names], np.float64)
    compute, traffic = work.macs / rates[work.class_index], np.zeros(len(work))
    if target.device.bandwidth is not None:
        far = far_share(work, target)[work.network]
        moved = np.maximum(0.0, work.read + work.written - cache_of(target)) + work.weights * far
        traffic = moved / target.device.bandwidth
    seconds = np.maximum(compute, traffic) + sheet.launch
    return Kernels(compute, traffic, sheet.launch, seconds), is_complete, notes


def fastest_rate(target: Target, name: str) -> float | None:
    """The MACs per second of a class of kernels at best; None if unknown.

    In the narrowest dtype that the runtime may use, and by the minimal filtering of Winograd for convolutions
    on processors and graphics cards, which has up to five times fewer multiplications.
    """
    peak = nearest_peak(target, dtype_of(name))
    if peak is None:
        return None
    narrow = target.runtime.fp32_as if peak[0] == "fp32" else ()
    rate = max(peak[1], *(target.peak(dtype) or 0.0 for dtype in narrow), 0.0)
    may_filter = (
        target.units[0].unit_class in ("cpu", "gpu") and target.device.device_class != "microcontroller"
    )
    return rate * _WINOGRAD if may_filter and name.partition(".")[0] in ("conv", "*") else rate


def far_share(work: Work, target: Target) -> Floats:
    """The share of the weights of each network that does not fit into the caches."""
    return cold_share(work, cache_of(target))


def cache_of(target: Target) -> int:
    """The bytes that may stay on the chip; 0 if all memory is on the chip."""
    known = target.device.cache_bytes
    if known is None:
        return 0 if target.device.device_class in ("microcontroller", "npu") else _LARGEST_CACHE
    return known


def nearest_peak(target: Target, dtype: str) -> tuple[str, float] | None:
    """The dtype itself or the next wider one with a known rate, and that rate in MACs per second.

    None if no rate is known.
    """
    rate = target.peak(dtype)
    while rate is None and dtype in _WIDER:
        dtype = _WIDER[dtype]
        rate = target.peak(dtype)
    return None if rate is None else (dtype, rate)


def _peak(target: Target, dtype: str, notes: list[str]) -> float | None:
    peak = nearest_peak(target, dtype)
    if peak is None:
        notes.append(f"the {dtype} rate of {target.device.name} is unknown: it counts as 0 s")
        return None
    peak_dtype, rate = peak
    if peak_dtype != dtype:
        notes.append(f"{dtype} uses the rate of {peak_dtype}")
    return rate
