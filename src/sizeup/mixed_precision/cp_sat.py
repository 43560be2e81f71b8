"""The best path through what is left of a trellis, by CP-SAT: under several limits labels seldom dominate."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sizeup.mixed_precision.network import FORBIDDEN, Codes, Floats, Stage

# CP-SAT computes with integers: this many steps to a limit, or to the loss that is to be undercut.
_STEPS = 2**40
_MOST_ARCS = 50_000


class Arcs:
    """The steps that a path may take, as Boolean variables that form one path."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        from ortools.sat.python import cp_model

        self.cp_model, self.model = cp_model, cp_model.CpModel()
        self.stages = stages
        self.variables: list[dict[tuple[int, int], Any]] = []
        arriving: dict[int, list[Any]] = {0: [1]}
        for stage in stages:
            leaving: dict[int, list[Any]] = {}
            following: dict[int, list[Any]] = {}
            variables = {}
            for node, kind in np.argwhere(stage.following != FORBIDDEN).tolist():
                if node not in arriving:
                    continue
                variables[node, kind] = one = self.model.new_bool_var("")
                leaving.setdefault(node, []).append(one)
                following.setdefault(int(stage.following[node, kind]), []).append(one)
            for node, entering in arriving.items():
                self.model.add(sum(entering) == sum(leaving.get(node, [])))
            arriving = following
            self.variables.append(variables)

    def limit(self, quantity: int, most: float) -> None:
        """Keep a quantity within a limit; amounts that are not whole are rounded, in favour of the path."""
        terms = self._amounts(quantity)
        is_whole = all(amount == math.floor(amount) for _, amount in terms) and abs(most) < _STEPS
        by = 1.0 if is_whole else _STEPS / (abs(most) or 1.0)
        self._add(terms, math.floor, by, math.floor(most * by) + (0 if is_whole else 1))

    def undercut(self, loss: float) -> None:
        """Minimize the loss, below one that is known."""
        by = _STEPS / (abs(loss) or 1.0)
        weights = [round(amount * by) for _, amount in self._amounts(0)]
        self.model.minimize(self.cp_model.LinearExpr.weighted_sum(self._all(), weights))

    def exclude(self, types: Codes) -> None:
        """Forbid one path."""
        node, steps = 0, []
        for stage, variables in zip(self.stages, self.variables, strict=True):
            kind = int(types[stage.group])
            if (node, kind) not in variables:
                return
            steps.append(variables[node, kind])
            node = int(stage.following[node, kind])
        self.model.add_bool_or([each.negated() for each in steps])

    def solve(self, seconds: float) -> tuple[Codes | None, float]:
        """The types of the best path, None if there is none, and the proven share of the known loss."""
        solver = self.cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self.model)
        if status == self.cp_model.INFEASIBLE:
            return None, math.inf
        proven = solver.best_objective_bound / _STEPS
        if status not in (self.cp_model.OPTIMAL, self.cp_model.FEASIBLE):
            return None, proven
        types = np.zeros(len(self.stages), np.int64)
        for stage, variables in zip(self.stages, self.variables, strict=True):
            types[stage.group] = next(
                kind for (_, kind), each in variables.items() if solver.boolean_value(each)
            )
        return types, proven

    def _all(self) -> list[Any]:
        return [each for variables in self.variables for each in variables.values()]

    def _amounts(self, quantity: int) -> list[tuple[Any, float]]:
        return [
            (each, float(stage.amounts[node, kind, quantity]))
            for stage, variables in zip(self.stages, self.variables, strict=True)
            for (node, kind), each in variables.items()
        ]

    def _add(self, terms: list[tuple[Any, float]], rounded: Any, by: float, most: int) -> None:
        weights = [rounded(amount * by) for _, amount in terms]
        self.model.add(self.cp_model.LinearExpr.weighted_sum([each for each, _ in terms], weights) <= most)


def is_installed() -> bool:
    """Whether CP-SAT is there: it belongs to the extra `solve`."""
    return importlib.util.find_spec("ortools") is not None


def is_small_enough(stages: Sequence[Stage]) -> bool:
    """Whether CP-SAT is worth a try."""
    return sum(int((stage.following != FORBIDDEN).sum()) for stage in stages) <= _MOST_ARCS


def best_path(
    stages: Sequence[Stage], limits: Floats, loss: float, excluded: Sequence[Codes], seconds: float
) -> tuple[Codes | None, float]:
    """The types of the best path within limits, if it undercuts a known loss, and a proven bound."""
    arcs = Arcs(stages)
    for place, most in enumerate(limits.tolist(), 1):
        arcs.limit(place, most)
    arcs.undercut(loss)
    for types in excluded:
        arcs.exclude(types)
    best, share = arcs.solve(seconds)
    return best, min(share, 1.0) * loss
