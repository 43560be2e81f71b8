"""The standing of a target: the basis of its latency by precision, and whether its data were verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

LatencyStanding = Literal["calibrated", "instructions", "vela", "slowdown", "data sheet only", "unknown"]
LATENCY_STANDINGS: tuple[LatencyStanding, ...] = get_args(LatencyStanding)
"""From the closest prediction to none:

- calibrated: rates fitted to measurements of this device with this runtime
- instructions: counted instructions of TFLite Micro times measured cycles per instruction of this core
- vela: cycles that Arm's compiler Vela estimates for the compiled network
- slowdown: roofline of the data sheet times a slowdown measured on comparable units
- data sheet only: roofline of the data sheet, which is a lower bound
- unknown: no estimate, because neither rates nor the bandwidth are known
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of a target."""

    target: str
    by_precision: Mapping[str, LatencyStanding]  # for each dtype in which the runtime computes
    verified: str  # date on which the device's values were compared with their source; empty if they were not
    is_default: bool  # the runtime is the device's default

    @property
    def runtime(self) -> str:
        """The name of the runtime."""
        return self.target.rpartition("/")[2]

    @property
    def best(self) -> LatencyStanding:
        """The closest of all precisions; unknown if there are none."""
        return next((name for name in LATENCY_STANDINGS if name in self.by_precision.values()), "unknown")

    @property
    def precisions(self) -> dict[LatencyStanding, tuple[str, ...]]:
        """The precisions with each standing, the closest standing first."""
        groups = {
            name: tuple(dtype for dtype, other in self.by_precision.items() if other == name)
            for name in LATENCY_STANDINGS
        }
        return {name: dtypes for name, dtypes in groups.items() if dtypes}


def best_of(standings: Sequence[Standing]) -> tuple[LatencyStanding, tuple[str, ...]]:
    """The closest standing among the runtimes of a device, and the runtimes that have it."""
    names = {standing.best for standing in standings}
    best = next((name for name in LATENCY_STANDINGS if name in names), LATENCY_STANDINGS[-1])
    return best, tuple(standing.runtime for standing in standings if standing.best == best)
