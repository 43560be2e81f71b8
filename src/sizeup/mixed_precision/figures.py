"""Weight bytes, activation bytes, latency and energy of a network at given dtypes, and budgets for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from sizeup import units
from sizeup.cost import count
from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.latency import Estimate, energy
from sizeup.memory import best_memory_plan
from sizeup.mixed_precision.assign import assign
from sizeup.mixed_precision.basis import latency_at
from sizeup.mixed_precision.options import OptionTable

_PLAN_SECONDS = 2.0
_NARROWEST_BITS = 2  # of the default precisions
_TIMED = ("seconds", "joules")  # energy is latency times power


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
    is_lower_bound: bool = False  # whether seconds and joules are lower bounds

    def bounded(self, budgets: Budgets) -> tuple[str, ...]:
        """Returns the names of the budgets of whose amount only a lower bound is known."""
        names = _TIMED if self.is_lower_bound else ()
        return tuple(name for name in names if getattr(budgets, name) is not None)

    def text(self, name: str) -> str:
        """Returns an amount as text, "at least" it if it is a lower bound."""
        return _amount(name, getattr(self, name), self.is_lower_bound)


def _amount(name: str, value: float, is_lower_bound: bool) -> str:
    is_bound = is_lower_bound and name in _TIMED
    return f"at least {units.amount(name, value)}" if is_bound else units.amount(name, value)


def figures_of(options: OptionTable, assignment: dict[int, DType]) -> Figures:
    """Returns the figures of the network at these dtypes: counted, planned and estimated."""
    figures = figures_at(assign(options.graph, assignment))
    latency = "" if options.target is None else estimate_of(options, assignment)
    if isinstance(latency, str):
        return figures
    consumption = energy(latency)
    joules = None if consumption is None else consumption.joules
    return replace(figures, seconds=latency.seconds, joules=joules, is_lower_bound=latency.is_lower_bound)


def estimate_of(options: OptionTable, assignment: dict[int, DType]) -> Estimate | str:
    """Returns the latency on the target at these dtypes, or why it is unknown."""
    assert options.target is not None
    return latency_at(assign(options.graph, assignment), options.graph, options.target, options.basis)


def minimum_text(options: OptionTable, name: str, least: float) -> str:
    """Returns the smallest amount of a budget as text, "at least" it if only a lower bound is known."""
    uniform = {layer.op: options.offered[0] for layer in options.layers}
    latency = estimate_of(options, uniform) if options.target and name in _TIMED else ""
    return _amount(name, least, isinstance(latency, Estimate) and latency.is_lower_bound)


def advice(options: OptionTable, name: str, least: float | None) -> str:
    """Returns the options to change if a budget is infeasible."""
    option = f"--{BUDGET_LABELS[name]}"
    larger = f"use a larger {option}"
    if least is not None and name.endswith("_bytes"):
        larger = f"use {option} {math.ceil(least / 1024)}KiB or more"
    has_narrower = min(dtype.bits for dtype in options.offered) > _NARROWEST_BITS
    return f"{larger}, or narrower --precisions" if has_narrower else larger


def figures_at(graph: Graph) -> Figures:
    """Returns the figures of a graph without a target: counted, and planned in its schedule."""
    plan = best_memory_plan(graph, reorder=False, time_limit=_PLAN_SECONDS)
    return Figures(count(graph).stored_bytes, plan.packing.height, None, None)
