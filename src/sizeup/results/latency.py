"""What follows from an estimate of latency: rates, energy, and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sizeup.latency import Estimate, Hardware, Limited, Spent, energy, flops_per_byte, hardware_of, limited
from sizeup.latency.roofline import BOUNDS, Bound

__all__ = ["BOUNDS", "LatencyDetails", "details_of"]


@dataclass(frozen=True, slots=True, eq=False)
class LatencyDetails:
    """An estimate and what the device does meanwhile; None if it cannot be told."""

    estimate: Estimate
    hardware: Hardware | None
    energy: Spent | None
    bound_by: Mapping[Bound, Limited] | None
    flops_per_byte: Mapping[str, float]


def details_of(estimate: Estimate) -> LatencyDetails:
    """What follows from an estimate."""
    return LatencyDetails(
        estimate, hardware_of(estimate), energy(estimate), limited(estimate), flops_per_byte(estimate)
    )
