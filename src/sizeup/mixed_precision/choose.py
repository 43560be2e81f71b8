"""Mixed-precision assignments with the least loss within budgets: solved exactly, then verified on the graph.

The solver knows the bytes, latency and energy of all groups and conversions, and the live bytes at every
step, but not the memory plan. So every solution is applied to the graph, counted, planned and estimated. A
solution that exceeds a budget is excluded. After several exclusions the budget is tightened for the solver;
the bound proven before remains valid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sizeup import units
from sizeup.dtypes import DType
from sizeup.errors import NoAssignment, SizeupError
from sizeup.mixed_precision.figures import (
    BUDGET_LABELS,
    BUDGETS,
    STEPS,
    Budgets,
    Figures,
    advice,
    figures_of,
    minimum_text,
)
from sizeup.mixed_precision.live_bytes import LiveBytes
from sizeup.mixed_precision.options import SUM_TOLERANCE, OptionTable
from sizeup.mixed_precision.solve import EQUAL, Effort, Solution, Solver
from sizeup.mixed_precision.trellis import Factor, Floats, Problem

Progress = Callable[[int, int, str], None]  # steps done, total steps, next step
_MAX_EXCLUDED = 12  # solutions in a row before a budget is tightened
_MAX_TIGHTENED = 40
_LOOSEN_FACTOR = 1.5
_MAX_LOSS = 1e100  # an option with a larger loss is not allowed


@dataclass(frozen=True, slots=True)
class Assignment:
    """A mixed-precision assignment: dtypes by op, its loss and figures, and a bound on the optimum."""

    dtypes: dict[int, DType]
    loss: float
    figures: Figures
    bound: float | None  # lower bound on the loss of any assignment; None if unproven
    rounds: int
    binding: tuple[str, ...] = ()
    gains: dict[str, float] | None = None  # loss saved by one more unit of each binding budget

    @property
    def is_proven(self) -> bool:
        """Whether no other assignment has a lower loss."""
        return self.bound is not None and self.loss - self.bound <= 2 * EQUAL * self.loss

    @property
    def gap(self) -> float | None:
        """The largest share of the loss that another assignment could save; None if unknown."""
        if self.bound is None or self.is_proven:
            return None if self.bound is None else 0.0
        return 1 - max(self.bound, 0.0) / self.loss


@dataclass(frozen=True, slots=True)
class Search:
    """Time limit and optimality gap of a search."""

    gap: float = 0.0  # of the loss
    seconds: float = 20.0
    progress: Progress | None = None


_DEFAULT = Search()


def find_assignment(
    options: OptionTable, loss: Floats, budgets: Budgets, search: Search = _DEFAULT, objective: str = "loss"
) -> Assignment:
    """Returns the assignment within the budgets with the least loss, or another objective.

    Raises NoAssignment if there is none.
    """
    assignment = _BudgetSearch(options, loss, budgets, search, objective).run()
    if assignment is None:
        raise NoAssignment(_infeasible_message(options, loss, budgets, search))
    return assignment


def candidates(
    options: OptionTable, loss: Floats, budgets: Budgets, most: int, search: Search = _DEFAULT
) -> list[Assignment]:
    """Returns up to `most` assignments within the budgets, the least loss first."""
    budget_search = _BudgetSearch(options, loss, budgets, search)
    assignments: list[Assignment] = []
    while len(assignments) < most:
        assignment = budget_search.run()
        if assignment is None:
            break
        assignments.append(assignment)
        budget_search.exclude(assignment)
    if not assignments:
        raise NoAssignment(_infeasible_message(options, loss, budgets, search))
    return assignments


def with_gains(
    options: OptionTable, loss: Floats, budgets: Budgets, assignment: Assignment, search: Search = _DEFAULT
) -> Assignment:
    """Returns the same assignment with its binding budgets and the loss that one more unit of each saves."""
    binding, gains = [], {}
    for name in BUDGETS:
        limit = getattr(budgets, name)
        if limit is None:
            continue
        unlimited = _BudgetSearch(options, loss, replace(budgets, **{name: None}), search).run()
        if unlimited is None or unlimited.loss >= assignment.loss * (1 - 1e-9):
            continue
        binding.append(name)
        extended = _BudgetSearch(options, loss, replace(budgets, **{name: limit + STEPS[name]}), search).run()
        gains[name] = 0.0 if extended is None else max(assignment.loss - extended.loss, 0.0)
    return replace(assignment, binding=tuple(binding), gains=gains)


def front_over_budget(
    options: OptionTable,
    loss: Floats,
    axis: str,
    points: int = 20,
    budgets: Budgets | None = None,
    search: Search = _DEFAULT,
    objective: str = "loss",
) -> list[Assignment]:
    """Returns a Pareto front from the smallest feasible budget to where a larger one saves nothing."""
    if axis not in BUDGETS:
        raise SizeupError(f"unknown budget {axis!r}; known: {', '.join(BUDGETS)}")
    base = budgets or Budgets()
    quiet = replace(search, progress=None)
    best = _BudgetSearch(options, loss, replace(base, **{axis: None}), quiet, objective).run()
    if best is None:
        raise NoAssignment(_infeasible_message(options, loss, base, quiet))
    lowest, highest = _minimum(options, base, axis, quiet, loss), getattr(best.figures, axis)
    if highest is None or lowest is None:
        raise SizeupError(f"{BUDGET_LABELS[axis]} is unknown without a target; give one with -d")
    allowed = getattr(base, axis)
    if allowed is not None and allowed < lowest:
        raise NoAssignment(_infeasible_message(options, loss, base, quiet))
    if allowed is not None and allowed < highest:
        highest = allowed
        best = find_assignment(options, loss, base, quiet, objective)
    by_amount = {getattr(best.figures, axis): best}
    for done, limit in enumerate(np.linspace(lowest, highest, points)[:-1].tolist(), 1):
        if search.progress is not None:
            search.progress(done, points, f"best within {units.amount(axis, limit)}")
        bound: dict[str, Any] = {axis: math.ceil(limit) if axis.endswith("bytes") else limit}
        assignment = _BudgetSearch(options, loss, replace(base, **bound), quiet, objective).run()
        if assignment is not None:
            by_amount.setdefault(getattr(assignment.figures, axis), assignment)
    return _strictly_falling(
        [by_amount[key] for key in sorted(by_amount)], lambda assignment: assignment.loss
    )


def pareto_front(
    options: OptionTable,
    loss: Floats,
    axes: tuple[str, str],
    points: int = 20,
    search: Search = _DEFAULT,
    budgets: Budgets | None = None,
) -> list[Assignment]:
    """Returns the Pareto front over two of loss, weights, activations, latency and energy; see `front`."""
    names = {"loss": "loss", **{label: name for name, label in BUDGET_LABELS.items()}}
    if len(set(axes)) != 2 or not set(axes) <= set(names):
        given_axes = ",".join(axis for axis in axes if axis)
        raise SizeupError(
            f"a front needs two of {', '.join(names)}, such as loss,weights; got {given_axes!r}"
        )
    # Activations are not a sum over layers, so they are limited while the other axis is minimized.
    first, second = sorted(axes, key=lambda axis: (axis == "activations", axis != "loss"))
    objective = loss if first == "loss" else _amounts(options, names[first])
    if objective is None:
        raise SizeupError(f"{first} is unknown without a target; give one with -d")
    assignments = front_over_budget(options, objective, names[second], points, budgets, search, names[first])
    if first == "loss":
        return assignments
    return _strictly_falling(assignments, lambda choice: float(getattr(choice.figures, names[first])))


def _strictly_falling(ordered: list[Assignment], value: Callable[[Assignment], float]) -> list[Assignment]:
    """Keeps the assignments with less than all before them."""
    falling: list[Assignment] = []
    for assignment in ordered:
        if not falling or value(assignment) < value(falling[-1]):
            falling.append(assignment)
    return falling


def _minimum(options: OptionTable, budgets: Budgets, axis: str, search: Search, loss: Floats) -> float | None:
    """Returns the smallest feasible value of a budget."""
    amounts = _amounts(options, axis)
    if axis == "activation_bytes":
        # All layers at the narrowest dtype, without conversions, have the fewest live bytes at every step.
        amounts = np.array([dtype.bits for dtype in options.dtype], np.float64)
    if amounts is None:
        return None
    amounts = np.where(loss < _MAX_LOSS, amounts, np.inf)
    assignment = _BudgetSearch(options, amounts, replace(budgets, **{axis: None}), search, axis).run()
    return None if assignment is None else getattr(assignment.figures, axis)


def _amounts(options: OptionTable, name: str) -> Floats | None:
    return {"weight_bytes": options.weights, "seconds": options.seconds, "joules": options.joules}.get(name)


def _fixed(options: OptionTable, name: str) -> float:
    return {
        "weight_bytes": options.fixed_weights,
        "seconds": options.fixed_seconds,
        "joules": options.fixed_joules,
    }[name]


def _infeasible_message(options: OptionTable, loss: Floats, budgets: Budgets, search: Search) -> str:
    """Returns a message with the first budget that is infeasible alone, and its feasible minimum."""
    for name in BUDGETS:
        limit = getattr(budgets, name)
        if limit is None:
            continue
        if _BudgetSearch(options, loss, Budgets(**{name: limit}), search).run() is None:
            least = _minimum(options, Budgets(), name, search, loss)
            minimum = "" if least is None else f"; the minimum is {minimum_text(options, name, least)}"
            return (
                f"no assignment keeps {BUDGET_LABELS[name]} within {units.amount(name, limit)}{minimum}"
                f"; {advice(options, name, least)}{''.join(f'; {reason}' for reason in options.unsupported)}"
            )
    return "each budget is feasible alone, but no precision assignment meets all of them"


# Quantities that are sums over groups, and their column in the conversion tables.
_SUMS: Mapping[str, int | None] = {"weight_bytes": None, "seconds": 0, "joules": 1}


def _missing_data(options: OptionTable) -> str:
    if options.target is None:
        return "a target (-d)"
    if options.basis == "instructions":
        return f"rates per precision; latency on {options.target.name} is estimated by instructions"
    return f"data that {options.target.name} lacks"


class _BudgetSearch:
    def __init__(
        self, options: OptionTable, loss: Floats, budgets: Budgets, search: Search, objective: str = "loss"
    ) -> None:
        self.options, self.loss, self.budgets, self.objective = options, loss, budgets, objective
        self.search, self.started = search, time.monotonic()
        self.names = [name for name in _SUMS if getattr(budgets, name) is not None]
        for name in self.names:
            if _amounts(options, name) is None:
                raise SizeupError(f"a budget for {BUDGET_LABELS[name]} needs {_missing_data(options)}")
        self.live = None
        if budgets.activation_bytes is not None:
            self.live = LiveBytes(options.graph, options.typing, options.offered)
        self.solver = Solver(self._problem(budgets))

    def run(self) -> Assignment | None:
        """Returns the best assignment that is verified; None if there is none."""
        bound: float | None = None
        solver, budgets, excluded = self.solver, self.budgets, 0
        for rounds in range(1, _MAX_EXCLUDED + _MAX_TIGHTENED):
            solution = solver.solve(self._effort())
            if solution is None:
                if solver is not self.solver:
                    break
                if solver.is_exhausted and self._is_bounded():
                    return None
                # Sums may overestimate an assignment: search slightly beyond the limits, and verify.
                budgets = self._loosened(budgets)
                solver = Solver(self._problem(budgets))
                continue
            bound = solution.bound if bound is None else bound
            assignment = self._assignment_of(solution)
            figures = figures_of(self.options, assignment)
            if self.budgets.met_by(figures):
                proven = min(bound, solution.loss) if self._is_bounded() else None
                return Assignment(assignment, solution.loss, figures, proven, rounds)
            if self._seconds_left() <= 0 and rounds > _MAX_EXCLUDED:
                break
            if excluded < _MAX_EXCLUDED and self._seconds_left() > 0:
                excluded += 1
                solver.exclude(solution.types)
                bound = None  # the excluded one does not fit, so the next bound is valid for the rest
            else:
                budgets = self._tightened(budgets, figures)
                solver = Solver(self._problem(budgets))
        raise NoAssignment(
            "the search found no precision assignment within the budgets, and did not rule one out;"
            " raise a budget or --search-limit"
        )

    def _is_bounded(self) -> bool:
        """Whether the solver's sums never exceed the figures of an assignment."""
        timed = {"seconds", "joules"} & {self.objective, *self.names}
        if self.live is not None and not self.options.is_plain:
            return False
        return not timed or (self.options.is_plain and self.options.is_additive)

    def exclude(self, assignment: Assignment) -> None:
        """Excludes an assignment from further results."""
        rows = self.options.option_rows(assignment.dtypes)
        self.solver.exclude(rows % len(self.options.offered))

    def _assignment_of(self, solution: Solution) -> dict[int, DType]:
        dtype_count = len(self.options.offered)
        return self.options.assignment_of(np.arange(len(solution.types)) * dtype_count + solution.types)

    def _effort(self) -> Effort:
        return Effort(self.search.gap, max(self._seconds_left(), 0.1), report=self._report)

    def _seconds_left(self) -> float:
        return self.search.seconds - (time.monotonic() - self.started)

    def _report(self, best: float, bound: float) -> None:
        if self.search.progress is not None and best > 0:
            gap = 100 * (best - bound) / best
            self.search.progress(0, 1, f"best {best:.4g}, at least {bound:.4g} (gap {gap:.2g} %)")

    def _loosened(self, budgets: Budgets) -> Budgets:
        """Raises budgets whose sums are not exact."""
        loosened = {
            name: _LOOSEN_FACTOR * getattr(budgets, name)
            for name in ("seconds", "joules")
            if name in self.names
        }
        return replace(budgets, **loosened)

    def _tightened(self, budgets: Budgets, figures: Figures) -> Budgets:
        """Lowers each budget that a solution exceeded, by the excess."""
        tightened: dict[str, Any] = {}
        for name in self.budgets.exceeded_by(figures):
            limit, amount = getattr(self.budgets, name), getattr(figures, name)
            current = getattr(budgets, name)
            tightened[name] = (
                current - (amount - limit)
                if name.endswith("bytes")
                else current * limit / amount * (1 - 1e-9)
            )
        return replace(budgets, **tightened)

    def _problem(self, budgets: Budgets) -> Problem:
        """Builds the solver's problem from the amounts of all groups, conversions and steps."""
        options, dtype_count = self.options, len(self.options.offered)
        columns = [np.where((self.loss < _MAX_LOSS) & options.allowed, self.loss, np.inf)]
        columns += [amounts for name in self.names if (amounts := _amounts(options, name)) is not None]
        # Sums differ from estimates by rounding; an assignment may take exactly its budget.
        limits = [
            getattr(budgets, name) * (1.0 if name.endswith("bytes") else 1 + SUM_TOLERANCE)
            - _fixed(options, name)
            for name in self.names
        ]
        amounts = np.stack(columns, axis=1).reshape(-1, dtype_count, len(columns))
        factors = [
            Factor(groups, table)
            for groups, both in options.conversions
            if (table := self._conversion_amounts(both)) is not None
        ]
        if self.live is not None and budgets.activation_bytes is not None:
            for groups, over in self.live.exceeding(budgets.activation_bytes):
                if not groups:  # for every assignment
                    amounts[..., 0] = np.inf
                    continue
                table = np.zeros((*over.shape, len(columns)))
                table[..., 0] = np.where(over, np.inf, 0.0)
                factors.append(Factor(groups, table))
        first = {int(group): place for place, group in reversed(list(enumerate(options.group_of.tolist())))}
        order = tuple(sorted(first, key=first.__getitem__))
        return Problem(amounts, np.array(limits, np.float64), tuple(factors), order)

    def _conversion_amounts(self, costs: Floats) -> Floats | None:
        """Returns what a conversion adds to the objective and each limited quantity; None if nothing."""
        columns = [_SUMS.get(self.objective), *(_SUMS[name] for name in self.names)]
        if all(place is None for place in columns):
            return None
        empty = np.zeros(costs.shape[:-1])
        return np.stack([empty if place is None else costs[..., place] for place in columns], axis=-1)
