"""A trellis with lower bounds: the cost from every node to the end at given prices of the limits.

The prices are Lagrangian multipliers. With one limit they equalize the best path within it and the best path
beyond it; with several, cutting planes find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.errors import MissingLibrary

# Losses with a smaller relative difference count as equal.
EQUAL = 1e-10
_MAX_PRICINGS = 60
_BOUNDING_PRICES = 6  # prices that bound labels
_PRICE_INCREASES = (1e-4, 1e-3, 1e-2, 0.1)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The dtype code of every group, the sums of all quantities, and a lower bound on any solution's loss."""

    types: Codes
    amounts: Floats
    bound: float

    @property
    def loss(self) -> float:
        """The minimized quantity."""
        return float(self.amounts[0])


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Loss per unit of every limited quantity, and the cost from each node to the end at these prices."""

    values: Floats
    to_end: list[Floats]
    bound: float


class PricedTrellis:
    """The stages of a trellis with every node's cost to the end: minima, and at prices of the limits."""

    def __init__(self, stages: Sequence[Stage], limits: Floats) -> None:
        self.stages, self.limits = stages, limits
        self.limits_with_tolerance = limits + 1e-12 * np.abs(limits)
        self.minima = [np.zeros((1, len(limits) + 1))]  # minimum of every quantity from a node to the end
        self.worst_loss = 0.0  # sum of the largest losses
        for stage in reversed(stages):
            allowed = stage.following != FORBIDDEN
            reached = stage.amounts + self.minima[-1][stage.following]
            self.minima.append(np.where(allowed[:, :, None], reached, np.inf).min(axis=1))
            self.worst_loss += float(stage.amounts[:, :, 0][allowed].max(initial=0.0))
        self.minima.reverse()
        self.prices: list[Prices] = []
        self.best: Solution | None = None

    @property
    def is_possible(self) -> bool:
        """Whether each limit can be met on its own."""
        minima = self.minima[0][0]
        return bool(np.isfinite(minima[0]) and (minima[1:] <= self.limits_with_tolerance).all())

    @property
    def bound(self) -> float:
        """A lower bound on the loss of any solution."""
        return max((prices.bound for prices in self.prices), default=-np.inf)

    def price(self, first: Sequence[Floats] = ()) -> bool:
        """Finds prices of the limits that bound the loss tightly; False if no solution meets all limits."""
        cuts = [self._evaluate(np.zeros(len(self.limits))), *(self._evaluate(prices) for prices in first)]
        last = np.full(len(self.limits), -1.0)
        for _ in range(_MAX_PRICINGS if len(self.limits) else 0):
            master = self._master(cuts)
            if master is None:
                break
            expected = min(float(cut[0] + master @ (cut[1:] - self.limits)) for cut in cuts)
            if expected - self.bound <= 1e-9 * abs(expected):
                break
            # With several limits the program oscillates: first go halfway to the best prices so far.
            is_settled = len(self.limits) == 1 or np.allclose(master, last, rtol=1e-6, atol=0)
            center, last = max(self.prices, key=lambda prices: prices.bound).values, master
            cuts.append(self._evaluate(master if is_settled else (master + center) / 2))
            if self.bound > self.worst_loss * (1 + 1e-6):
                return False
        self.prices.sort(key=lambda prices: -prices.bound)
        best, self.prices = self.prices[0].values, self.prices[:_BOUNDING_PRICES]
        for share in _PRICE_INCREASES:  # until the cheapest path meets the limits
            if self.best is not None and self.best.loss <= self.bound * (1 + share):
                break
            self._evaluate(best * (1 + share))
        return True

    def below(self, loss: float) -> PricedTrellis:
        """Returns the network without arcs that no solution of less loss can use."""
        reduced = PricedTrellis(self.stages_below(loss), self.limits)
        if reduced.is_possible:
            reduced.price([prices.values for prices in self.prices[:2]])
        return reduced

    def stages_below(self, loss: float) -> list[Stage]:
        """Returns the stages without arcs that no solution of less loss can use."""
        from_start = [np.zeros((len(self.prices), 1))]
        stages = []
        cutoff = loss * (1 - EQUAL)
        weights = np.array([[1.0, *prices.values] for prices in self.prices])
        spent = np.array([prices.values @ self.limits for prices in self.prices])
        for index, stage in enumerate(self.stages):
            reached = from_start[-1][:, :, None] + np.einsum("ntq,pq->pnt", _finite(stage), weights)
            to_end = np.stack([prices.to_end[index + 1] for prices in self.prices])
            bound = (reached + to_end[:, stage.following]).transpose(1, 2, 0) - spent
            is_pruned = (bound.max(axis=2) >= cutoff) | (stage.following == FORBIDDEN)
            following = np.where(is_pruned, FORBIDDEN, stage.following)
            stages.append(Stage(stage.group, following, stage.amounts))
            after = np.full((len(self.prices), len(self.minima[index + 1])), np.inf)
            rows, types = np.nonzero(~is_pruned)
            for row in range(len(after)):
                np.minimum.at(after[row], following[rows, types], reached[row, rows, types])
            from_start.append(after)
        if all(len(stage.following) == 1 for stage in stages):
            # Without factors the order is arbitrary: small amounts last, to use up what the limits leave.
            stages.sort(key=lambda stage: -_spread(stage, self.limits))
        return stages

    def _evaluate(self, prices: Floats) -> Floats:
        """Prices every node. Returns the sums along the cheapest path."""
        weights = np.array([1.0, *prices])
        to_end = [np.zeros(1)]
        for stage in reversed(self.stages):
            reached = stage.amounts @ weights + to_end[-1][stage.following]
            to_end.append(np.where(stage.following == FORBIDDEN, np.inf, reached).min(axis=1))
        to_end.reverse()
        self.prices.append(Prices(prices, to_end, float(to_end[0][0] - prices @ self.limits)))
        return self._path(weights, to_end)

    def _path(self, weights: Floats, to_end: list[Floats]) -> Floats:
        types, amounts, node = np.zeros(len(self.stages), np.int64), np.zeros(len(weights)), 0
        for index, stage in enumerate(self.stages):
            following = stage.following[node]
            reached = stage.amounts[node] @ weights + to_end[index + 1][following]
            code = int(np.where(following == FORBIDDEN, np.inf, reached).argmin())
            types[stage.group] = code
            amounts += stage.amounts[node, code]
            node = int(following[code])
        is_better = self.best is None or amounts[0] < self.best.loss
        if is_better and (amounts[1:] <= self.limits_with_tolerance).all():
            self.best = Solution(types, amounts, 0.0)
        return amounts

    def amounts_of(self, types: Codes) -> Floats:
        """Returns the sums of all quantities along a path."""
        amounts, node = np.zeros(len(self.limits) + 1), 0
        for stage in self.stages:
            amounts += stage.amounts[node, types[stage.group]]
            node = int(stage.following[node, types[stage.group]])
        return amounts

    def _master(self, cuts: list[Floats]) -> Floats | None:
        """Returns the prices with the highest bound given the paths so far; None if no limit is exceeded."""
        if all((cut[1:] <= self.limits).all() for cut in cuts):
            return None
        return self._single_price(cuts) if len(self.limits) == 1 else self._solve_prices(cuts)

    def _single_price(self, cuts: list[Floats]) -> Floats:
        """With one limit: the price at which the best path within it and the best beyond it cost the same."""
        beyond = max((cut for cut in cuts if cut[1] > self.limits[0]), key=lambda cut: float(cut[0]))
        within = [cut for cut in cuts if cut[1] <= self.limits[0]]
        if not within:
            over = float(beyond[1] - self.limits[0])
            slack = max(float(self.limits[0] - self.minima[0][0, 1]), 1e-9 * over)
            return np.array([2 * max(self.worst_loss - float(beyond[0]), 1e-300) / slack])
        below = min(within, key=lambda cut: float(cut[0]))
        return np.array([max(float(below[0] - beyond[0]) / float(beyond[1] - below[1]), 0.0)])

    def _solve_prices(self, cuts: list[Floats]) -> Floats | None:
        """With several limits: a linear program over the paths so far."""
        try:
            from scipy.optimize import linprog
        except ImportError:
            raise MissingLibrary("choosing precisions under several budgets", "scipy", "solve") from None
        scale = np.maximum(np.abs(self.limits), 1e-300)
        positive = [float(cut[0]) for cut in cuts if cut[0] > 0]
        unit = float(np.median(positive)) if positive else max(self.worst_loss, 1e-300)
        slopes = np.array([(cut[1:] - self.limits) / scale for cut in cuts])
        program = linprog(
            [-1.0, *([0.0] * len(scale))],
            A_ub=np.column_stack([np.ones(len(cuts)), -slopes]),
            b_ub=[cut[0] / unit for cut in cuts],
            bounds=[(None, None), *([(0, 1e3 * max(self.worst_loss / unit, 1.0))] * len(scale))],
            method="highs",
        )
        return None if program.x is None else np.maximum(program.x[1:], 0.0) * unit / scale


def _finite(stage: Stage) -> Floats:
    return np.where(np.isfinite(stage.amounts), stage.amounts, 0.0)


def _spread(stage: Stage, limits: Floats) -> float:
    """Returns how much of the limits the dtypes of a stage differ by."""
    amounts = stage.amounts[0, stage.following[0] != FORBIDDEN, 1:]
    return (
        float((np.ptp(amounts, axis=0) / np.maximum(np.abs(limits), 1e-300)).sum()) if len(amounts) else 0.0
    )


Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_MAX_NODES = 1 << 13  # per stage
FORBIDDEN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Amounts that the dtypes of a few groups add to every quantity.

    The table has one axis per group, and the quantities last; an infinite first quantity forbids the
    combination.
    """

    groups: tuple[int, ...]
    amounts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The amounts of every group at every dtype: the first quantity is minimized, the others have limits."""

    amounts: Floats  # group, dtype, quantity
    limits: Floats  # of every quantity except the first
    factors: tuple[Factor, ...] = ()
    order: tuple[int, ...] = ()  # in which groups are decided; if empty, by number


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The decision on one group: from every node, by dtype, the next node and the amounts added."""

    group: int
    following: Codes  # node, dtype; FORBIDDEN if there is no arc
    amounts: Floats  # node, dtype, quantity


@dataclass(frozen=True, slots=True, eq=False)
class Trellis:
    """All stages. `dropped` factors would need too many nodes; without them amounts are underestimated."""

    stages: tuple[Stage, ...]
    dropped: int


def trellis_of(problem: Problem) -> Trellis:
    """Returns the stages of a problem, groups in its order."""
    groups, types, _ = problem.amounts.shape
    order = problem.order or tuple(range(groups))
    position = {group: index for index, group in enumerate(order)}
    factors = _drop_wide(problem.factors, position, types)
    ending: dict[int, list[Factor]] = {}
    until = dict.fromkeys(order, -1)  # the last stage at which a group's dtype matters
    for factor in factors:
        last = max(position[group] for group in factor.groups)
        ending.setdefault(last, []).append(factor)
        for group in factor.groups:
            until[group] = max(until[group], last)
    stages: list[Stage] = []
    open_groups: list[int] = []
    for index, group in enumerate(order):
        after = [other for other in (*open_groups, group) if until[other] > index]
        stages.append(_stage(problem, group, open_groups, after, ending.get(index, ())))
        open_groups = after
    return Trellis(tuple(stages), len(problem.factors) - len(factors))


def _drop_wide(factors: Sequence[Factor], position: dict[int, int], types: int) -> list[Factor]:
    """Returns the factors without the longest ones, if groups open at once have too many combinations."""
    max_open = max(int(np.log(_MAX_NODES) / np.log(max(types, 2))), 2)
    spans = [(min(position[g] for g in f.groups), max(position[g] for g in f.groups)) for f in factors]
    narrow: list[Factor] = []
    until: dict[int, int] = {}
    users: list[set[int]] = [set() for _ in range(len(position))]
    for index in sorted(range(len(factors)), key=lambda i: spans[i][1] - spans[i][0]):
        last = spans[index][1]
        added = [
            (group, stage)
            for group in factors[index].groups
            for stage in range(max(position[group], until.get(group, 0)), last)
            if group not in users[stage]
        ]
        stages = [stage for _, stage in added]
        if any(len(users[stage]) + stages.count(stage) > max_open for stage in set(stages)):
            continue
        for group, stage in added:
            users[stage].add(group)
        for group in factors[index].groups:
            until[group] = max(until.get(group, 0), last)
        narrow.append(factors[index])
    return narrow


def _stage(
    problem: Problem, group: int, before: list[int], after: list[int], factors: Sequence[Factor]
) -> Stage:
    types = problem.amounts.shape[1]
    combined = np.indices((types,) * (len(before) + 1)).reshape(len(before) + 1, -1)
    column = {other: combined[index] for index, other in enumerate([*before, group])}
    amounts = problem.amounts[group][column[group]]
    for factor in factors:
        amounts = amounts + factor.amounts[tuple(column[g] for g in factor.groups)]
    following = np.zeros(combined.shape[1], np.int64)
    for open_group in after:
        following = following * types + column[open_group]
    following[~np.isfinite(amounts[:, 0])] = FORBIDDEN
    amounts[following == FORBIDDEN, 0] = np.inf
    return Stage(group, following.reshape(-1, types), amounts.reshape(-1, types, amounts.shape[1]))
