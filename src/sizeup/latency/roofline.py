"""The roofline: no kernel is faster than the arithmetic or the memory of the data sheet."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from sizeup.errors import TargetError
from sizeup.latency.model import Kernels
from sizeup.latency.work import Flags, Work
from sizeup.targets import Target

Bound = Literal["compute", "traffic", "launch", "nothing"]
BOUNDS: tuple[Bound, ...] = ("compute", "traffic", "launch")
# Where the data sheet has no rate for a number type, the kernel runs at that of the next wider one.
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


def type_of(name: str) -> str:
    """The number type that a class of kernels computes in: `conv.int8` in int8."""
    kind = name.partition(".")[2]
    return kind if kind and not kind.startswith("w") else "fp32"


def by_data_sheet(work: Work, target: Target) -> tuple[Kernels, Flags, list[str]]:
    """Every kernel at the full rate of its number type or of the memory, after its launch; of every network
    whether the rates of all its arithmetic are known; and what to know.

    Raises TargetError where neither rate is known.
    """
    notes: list[str] = []
    known = [_peak(target, type_of(name), notes) or math.inf for name in work.names]
    by_class = np.array(known, np.float64)
    rates, is_told = by_class[work.kind], np.isfinite(by_class)
    device, overhead = target.device, target.overhead_seconds
    bandwidth = device.bandwidth
    if bandwidth is None and not is_told[work.kind].any():
        raise TargetError(f"{device.name}: neither its arithmetic nor its memory has a known rate")
    if bandwidth is None:
        notes.append(f"the bandwidth of {device.name} is not known: traffic takes no time here")
    compute = work.macs / rates
    traffic = work.traffic / (bandwidth or math.inf)
    launch = np.full(len(work), overhead or 0.0)
    is_whole = np.ones(work.networks, np.bool_)
    if not is_told.all():
        is_whole = work.totals(work.macs * ~is_told[work.kind]) == 0
    return Kernels(compute, traffic, launch, np.maximum(compute, traffic) + launch), is_whole, notes


def nearest_peak(target: Target, kind: str) -> tuple[str, float] | None:
    """The number type whose rate holds for a type, itself or the next wider that is known, and its MACs a
    second; None where none is."""
    rate = target.peak(kind)
    while rate is None and kind in _WIDER:
        kind = _WIDER[kind]
        rate = target.peak(kind)
    return None if rate is None else (kind, rate)


def _peak(target: Target, asked: str, notes: list[str]) -> float | None:
    found = nearest_peak(target, asked)
    if found is None:
        notes.append(f"no rate is known of {target.device.name} in {asked}: it takes no time here")
        return None
    kind, rate = found
    if kind != asked:
        notes.append(f"{asked} is priced at the rate of {kind}")
    return rate
