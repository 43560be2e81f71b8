"""What a network takes with its layers at certain types, and budgets for that."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sizeup.cost import count
from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.latency import Basis, Estimate, energy, estimate
from sizeup.memory import best_placement
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.options import Options
from sizeup.targets import Target

_PLAN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that each may take; None: as much as it likes."""

    weight_bytes: int | None = None
    activation_bytes: int | None = None
    seconds: float | None = None
    joules: float | None = None

    def kept_by(self, figures: Figures) -> bool:
        """Whether figures are within all of them."""
        return not self.exceeded_by(figures)

    def exceeded_by(self, figures: Figures) -> list[str]:
        """The names of those that figures exceed."""
        found = []
        for name in BUDGETS:
            most, taken = getattr(self, name), getattr(figures, name)
            if most is not None and (taken is None or taken > most * (1 + 1e-12)):
                found.append(name)
        return found


BUDGETS = tuple(each.name for each in fields(Budgets))
WORDS = {
    "weight_bytes": "weights",
    "activation_bytes": "activations",
    "seconds": "latency",
    "joules": "energy",
}
# One more of each, for what a little more would buy.
UNITS = {"weight_bytes": 1024, "activation_bytes": 1024, "seconds": 1e-3, "joules": 1e-3}


@dataclass(frozen=True, slots=True)
class Figures:
    """What a network takes with its layers at certain types, conversions included; None: not known."""

    weight_bytes: int
    activation_bytes: int
    seconds: float | None
    joules: float | None


def figures_of(options: Options, chosen: dict[int, DType]) -> Figures:
    """What the network takes, from the network itself: counted, planned and estimated at these types."""
    return figures_at(assign(options.graph, chosen), options.target, options.basis)


def estimate_of(options: Options, chosen: dict[int, DType]) -> Estimate:
    """The latency on the target at these types, with its interval."""
    assert options.target is not None
    return estimate(count(assign(options.graph, chosen)), options.target, basis=options.basis)


def figures_at(graph: Graph, target: Target | None, basis: Basis | None = None) -> Figures:
    """What a network takes as it is: counted, planned in its order, and estimated on a target."""
    counted = count(graph)
    placed = best_placement(graph, reorder=False, time_limit=_PLAN_SECONDS)
    timed = None if target is None else estimate(counted, target, basis=basis)
    spent = None if timed is None else energy(timed)
    return Figures(
        counted.stored_bytes,
        placed.packing.height,
        None if timed is None else timed.seconds,
        None if spent is None else spent.joules,
    )
