"""The best path through a pruned trellis, by CP-SAT: under several limits few labels dominate others."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sizeup.mixed_precision.trellis import FORBIDDEN, Codes, Floats, Stage

# CP-SAT computes with integers: resolution of a limit, or of the loss to undercut.
_STEPS = 2**40
_MAX_ARCS = 50_000


class Arcs:
    """The arcs of a trellis as Boolean variables that form one path."""

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
            for node, code in np.argwhere(stage.following != FORBIDDEN).tolist():
                if node not in arriving:
                    continue
                variables[node, code] = arc = self.model.new_bool_var("")
                leaving.setdefault(node, []).append(arc)
                following.setdefault(int(stage.following[node, code]), []).append(arc)
            for node, entering in arriving.items():
                self.model.add(sum(entering) == sum(leaving.get(node, [])))
            arriving = following
            self.variables.append(variables)

    def limit(self, quantity: int, limit: float) -> None:
        """Limits a quantity; fractional amounts are rounded in favor of the path."""
        terms = self._amounts(quantity)
        is_whole = all(amount == math.floor(amount) for _, amount in terms) and abs(limit) < _STEPS
        scale = 1.0 if is_whole else _STEPS / (abs(limit) or 1.0)
        self._add(terms, math.floor, scale, math.floor(limit * scale) + (0 if is_whole else 1))

    def undercut(self, loss: float) -> None:
        """Minimizes the loss, scaled by a known loss."""
        scale = _STEPS / (abs(loss) or 1.0)
        weights = [round(amount * scale) for _, amount in self._amounts(0)]
        self.model.minimize(self.cp_model.LinearExpr.weighted_sum(self._all(), weights))

    def exclude(self, types: Codes) -> None:
        """Forbids one path."""
        node, path = 0, []
        for stage, variables in zip(self.stages, self.variables, strict=True):
            code = int(types[stage.group])
            if (node, code) not in variables:
                return
            path.append(variables[node, code])
            node = int(stage.following[node, code])
        self.model.add_bool_or([arc.negated() for arc in path])

    def solve(self, seconds: float) -> tuple[Codes | None, float]:
        """Returns the codes of the best path (None if none is found) and the proven share of the loss."""
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
                code for (_, code), arc in variables.items() if solver.boolean_value(arc)
            )
        return types, proven

    def _all(self) -> list[Any]:
        return [arc for variables in self.variables for arc in variables.values()]

    def _amounts(self, quantity: int) -> list[tuple[Any, float]]:
        return [
            (arc, float(stage.amounts[node, code, quantity]))
            for stage, variables in zip(self.stages, self.variables, strict=True)
            for (node, code), arc in variables.items()
        ]

    def _add(self, terms: list[tuple[Any, float]], rounded: Any, scale: float, limit: int) -> None:
        weights = [rounded(amount * scale) for _, amount in terms]
        self.model.add(self.cp_model.LinearExpr.weighted_sum([arc for arc, _ in terms], weights) <= limit)


def is_installed() -> bool:
    """Whether CP-SAT (extra `solve`) is installed."""
    return importlib.util.find_spec("ortools") is not None


def is_small_enough(stages: Sequence[Stage]) -> bool:
    """Whether the trellis is small enough for CP-SAT."""
    return sum(int((stage.following != FORBIDDEN).sum()) for stage in stages) <= _MAX_ARCS


def best_path(
    stages: Sequence[Stage], limits: Floats, loss: float, excluded: Sequence[Codes], seconds: float
) -> tuple[Codes | None, float]:
    """Returns the codes of the best path within limits below a known loss, and a proven bound."""
    arcs = Arcs(stages)
    for quantity, limit in enumerate(limits.tolist(), 1):
        arcs.limit(quantity, limit)
    arcs.undercut(loss)
    for types in excluded:
        arcs.exclude(types)
    best, share = arcs.solve(seconds)
    return best, min(share, 1.0) * loss
