"""The estimate from a data sheet alone: no kernel is faster than the arithmetic, or than the memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizeup.errors import SizeupError
from sizeup.latency.work import Floats, Work
from sizeup.units import FLOPS_PER_MAC

Bound = Literal["compute", "traffic", "launch", "nothing"]
BOUNDS: tuple[Bound, ...] = ("compute", "traffic", "launch")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a data sheet says of one precision: MACs a second, bytes a second, seconds to start a kernel."""

    macs_per_second: float
    bytes_per_second: float
    launch_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not (self.macs_per_second > 0 and self.bytes_per_second > 0 and self.launch_seconds >= 0):
            raise SizeupError(
                "a machine computes and moves more than nothing a second, and starts in no less"
            )

    @property
    def flops_per_byte(self) -> float:
        """FLOPs per byte (2 per MAC) above which arithmetic is the limit."""
        return FLOPS_PER_MAC * self.macs_per_second / self.bytes_per_second


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """Every kernel (a row, all its runs): seconds of each part, what bounds it, and FLOPs per byte.

    Arithmetic and traffic overlap, so a kernel takes the longer of both, after its launch.
    """

    compute: Floats
    traffic: Floats
    launch: Floats
    intensity: Floats
    bound_by: tuple[Bound, ...]

    @property
    def seconds(self) -> Floats:
        """What each kernel takes."""
        return np.maximum(self.compute, self.traffic) + self.launch


def roofline(work: Work, machine: Machine) -> Roofline:
    """What the machine's data sheet gives for every kernel, as often as it runs."""
    compute = work.count * work.macs / machine.macs_per_second
    traffic = work.count * work.traffic / machine.bytes_per_second
    launch = work.count * machine.launch_seconds
    moved = work.traffic
    intensity = np.divide(FLOPS_PER_MAC * work.macs, moved, out=np.zeros(len(work)), where=moved > 0)
    return Roofline(compute, traffic, launch, intensity, _bounds(compute, traffic, launch))


def _bounds(compute: Floats, traffic: Floats, launch: Floats) -> tuple[Bound, ...]:

    parts = np.stack([compute, traffic, launch])
    longest = parts.argmax(axis=0)
    return tuple(
        BOUNDS[index] if part > 0 else "nothing"
        for index, part in zip(longest.tolist(), parts.max(axis=0).tolist(), strict=True)
    )
