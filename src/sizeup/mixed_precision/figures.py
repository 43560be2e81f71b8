"""Weight bytes, activation bytes, latency and energy of a network at given dtypes, and budgets for them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sizeup.cost import count
from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.latency import Basis, Estimate, energy, estimate
from sizeup.memory import best_memory_plan
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.options import OptionTable
from sizeup.targets import Target

_PLAN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Budgets:
    """The maximum of each figure; None if unlimited."""

    weight_bytes: int | None = None
    activation_bytes: int | None = None
    seconds: float | None = None
    joules: float | None = None

    def met_by(self, figures: Figures) -> bool:
        """Whether figures are within all budgets."""
        return not self.exceeded_by(figures)

    def exceeded_by(self, figures: Figures) -> list[str]:
        """Returns the names of the budgets that figures exceed; an unknown figure exceeds its budget."""
        names = []
        for name in BUDGETS:
            limit, figure = getattr(self, name), getattr(figures, name)
            if limit is not None and (figure is None or figure > limit * (1 + 1e-12)):
                names.append(name)
        return names


BUDGETS = tuple(budget.name for budget in fields(Budgets))
BUDGET_LABELS = {
    "weight_bytes": "weights",
    "activation_bytes": "activations",
    "seconds": "latency",
    "joules": "energy",
}
# The increment of each budget for which `with_gains` reports the loss saved.
STEPS = {"weight_bytes": 1024, "activation_bytes": 1024, "seconds": 1e-3, "joules": 1e-3}


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes, latency and energy of a network, conversions included; None if unknown."""

    weight_bytes: int
    activation_bytes: int
    seconds: float | None
    joules: float | None


def figures_of(options: OptionTable, assignment: dict[int, DType]) -> Figures:
    """Returns the figures of the network at these dtypes: counted, planned and estimated."""
    return figures_at(assign(options.graph, assignment), options.target, options.basis)


def estimate_of(options: OptionTable, assignment: dict[int, DType]) -> Estimate:
    """Returns the latency on the target at these dtypes, with its prediction interval."""
    assert options.target is not None
    return estimate(count(assign(options.graph, assignment)), options.target, basis=options.basis)


def figures_at(graph: Graph, target: Target | None, basis: Basis | None = None) -> Figures:
    """Returns the figures of a graph: counted, planned in its schedule, and estimated on a target."""
    cost = count(graph)
    plan = best_memory_plan(graph, reorder=False, time_limit=_PLAN_SECONDS)
    latency = None if target is None else estimate(cost, target, basis=basis)
    consumption = None if latency is None else energy(latency)
    return Figures(
        cost.stored_bytes,
        plan.packing.height,
        None if latency is None else latency.seconds,
        None if consumption is None else consumption.joules,
    )
