"""A trellis with lower bounds: what every node costs to the end at prices of the limits.

The prices are Lagrangian multipliers. With one limit they lie where the best path that keeps it and the best
that does not cost the same; with several, cutting planes find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sizeup.errors import MissingLibrary

# Losses that differ by less of the best one are taken for equal.
EQUAL = 1e-10
_MOST_PRICINGS = 60
_BOUNDING = 6  # prices that bound labels
_DEARER = (1e-4, 1e-3, 1e-2, 0.1)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The type of every group, the sums of all quantities, and a loss that no other choice goes below."""

    types: Codes
    amounts: Floats
    bound: float

    @property
    def loss(self) -> float:
        """The quantity that was minimized."""
        return float(self.amounts[0])


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Loss per unit of every limited quantity, and what each node costs to the end at these prices."""

    of: Floats
    to_end: list[Floats]
    bound: float


class Network:
    """The stages of a trellis with what every node costs to the end, at least and at prices of the limits."""

    def __init__(self, stages: Sequence[Stage], limits: Floats) -> None:
        self.stages, self.limits = stages, limits
        self.most = limits + 1e-12 * np.abs(limits)
        self.least = [np.zeros((1, len(limits) + 1))]  # of every quantity from a node to the end
        self.worst = 0.0  # loss of all that is worst
        for stage in reversed(stages):
            allowed = stage.following != FORBIDDEN
            reached = stage.amounts + self.least[-1][stage.following]
            self.least.append(np.where(allowed[:, :, None], reached, np.inf).min(axis=1))
            self.worst += float(stage.amounts[:, :, 0][allowed].max(initial=0.0))
        self.least.reverse()
        self.prices: list[Prices] = []
        self.best: Solution | None = None

    @property
    def is_possible(self) -> bool:
        """Whether each limit can be kept, all others aside."""
        least = self.least[0][0]
        return bool(np.isfinite(least[0]) and (least[1:] <= self.most).all())

    @property
    def bound(self) -> float:
        """What every choice loses at least."""
        return max((each.bound for each in self.prices), default=-np.inf)

    def price(self, first: Sequence[Floats] = ()) -> bool:
        """Find prices of the limits that bound the loss well; False if nothing keeps all limits."""
        cuts = [self._try(np.zeros(len(self.limits))), *(self._try(each) for each in first)]
        last = np.full(len(self.limits), -1.0)
        for _ in range(_MOST_PRICINGS if len(self.limits) else 0):
            master = self._master(cuts)
            if master is None:
                break
            expected = min(float(cut[0] + master @ (cut[1:] - self.limits)) for cut in cuts)
            if expected - self.bound <= 1e-9 * abs(expected):
                break
            # With several limits the program swings: first halfway to the best prices so far.
            is_settled = len(self.limits) == 1 or np.allclose(master, last, rtol=1e-6, atol=0)
            center, last = max(self.prices, key=lambda each: each.bound).of, master
            cuts.append(self._try(master if is_settled else (master + center) / 2))
            if self.bound > self.worst * (1 + 1e-6):
                return False
        self.prices.sort(key=lambda each: -each.bound)
        best, self.prices = self.prices[0].of, self.prices[:_BOUNDING]
        for share in _DEARER:  # until the cheapest path keeps the limits
            if self.best is not None and self.best.loss <= self.bound * (1 + share):
                break
            self._try(best * (1 + share))
        return True

    def below(self, loss: float) -> Network:
        """The network without steps that no choice of less loss can take."""
        reduced = Network(self.stages_below(loss), self.limits)
        if reduced.is_possible:
            reduced.price([each.of for each in self.prices[:2]])
        return reduced

    def stages_below(self, loss: float) -> list[Stage]:
        """The stages without steps that no choice of less loss can take."""
        from_start = [np.zeros((len(self.prices), 1))]
        stages = []
        cutoff = loss * (1 - EQUAL)
        weights = np.array([[1.0, *each.of] for each in self.prices])
        spent = np.array([each.of @ self.limits for each in self.prices])
        for index, stage in enumerate(self.stages):
            reached = from_start[-1][:, :, None] + np.einsum("ntq,pq->pnt", _finite(stage), weights)
            to_end = np.stack([each.to_end[index + 1] for each in self.prices])
            bound = (reached + to_end[:, stage.following]).transpose(1, 2, 0) - spent
            gone = (bound.max(axis=2) >= cutoff) | (stage.following == FORBIDDEN)
            following = np.where(gone, FORBIDDEN, stage.following)
            stages.append(Stage(stage.group, following, stage.amounts))
            after = np.full((len(self.prices), len(self.least[index + 1])), np.inf)
            rows, types = np.nonzero(~gone)
            for place in range(len(after)):
                np.minimum.at(after[place], following[rows, types], reached[place, rows, types])
            from_start.append(after)
        if all(len(stage.following) == 1 for stage in stages):
            # Without factors any order will do: small amounts last use up what is left.
            stages.sort(key=lambda each: -_spread(each, self.limits))
        return stages

    def _try(self, prices: Floats) -> Floats:
        """Price every node; the sums along the cheapest path."""
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
            kind = int(np.where(following == FORBIDDEN, np.inf, reached).argmin())
            types[stage.group] = kind
            amounts += stage.amounts[node, kind]
            node = int(following[kind])
        is_better = self.best is None or amounts[0] < self.best.loss
        if is_better and (amounts[1:] <= self.most).all():
            self.best = Solution(types, amounts, 0.0)
        return amounts

    def amounts_of(self, types: Codes) -> Floats:
        """The sums of all quantities along a path."""
        amounts, node = np.zeros(len(self.limits) + 1), 0
        for stage in self.stages:
            amounts += stage.amounts[node, types[stage.group]]
            node = int(stage.following[node, types[stage.group]])
        return amounts

    def _master(self, cuts: list[Floats]) -> Floats | None:
        """The prices at which the paths so far allow the highest bound; None if no limit is exceeded."""
        if all((cut[1:] <= self.limits).all() for cut in cuts):
            return None
        return self._between(cuts) if len(self.limits) == 1 else self._by_program(cuts)

    def _between(self, cuts: list[Floats]) -> Floats:
        """With one limit: where the best path that keeps it and the best that does not cost the same."""
        above = max((cut for cut in cuts if cut[1] > self.limits[0]), key=lambda cut: float(cut[0]))
        within = [cut for cut in cuts if cut[1] <= self.limits[0]]
        if not within:
            over = float(above[1] - self.limits[0])
            room = max(float(self.limits[0] - self.least[0][0, 1]), 1e-9 * over)
            return np.array([2 * max(self.worst - float(above[0]), 1e-300) / room])
        below = min(within, key=lambda cut: float(cut[0]))
        return np.array([max(float(below[0] - above[0]) / float(above[1] - below[1]), 0.0)])

    def _by_program(self, cuts: list[Floats]) -> Floats | None:
        """With several limits: a linear program over the paths so far."""
        try:
            from scipy.optimize import linprog
        except ImportError:
            raise MissingLibrary("choosing precisions under several budgets", "scipy", "solve") from None
        scale = np.maximum(np.abs(self.limits), 1e-300)
        positive = [float(cut[0]) for cut in cuts if cut[0] > 0]
        unit = float(np.median(positive)) if positive else max(self.worst, 1e-300)
        slopes = np.array([(cut[1:] - self.limits) / scale for cut in cuts])
        found = linprog(
            [-1.0, *([0.0] * len(scale))],
            A_ub=np.column_stack([np.ones(len(cuts)), -slopes]),
            b_ub=[cut[0] / unit for cut in cuts],
            bounds=[(None, None), *([(0, 1e3 * max(self.worst / unit, 1.0))] * len(scale))],
            method="highs",
        )
        return None if found.x is None else np.maximum(found.x[1:], 0.0) * unit / scale


def _finite(stage: Stage) -> Floats:
    return np.where(np.isfinite(stage.amounts), stage.amounts, 0.0)


def _spread(stage: Stage, limits: Floats) -> float:
    """How much of the limits the types of a stage differ by."""
    amounts = stage.amounts[0, stage.following[0] != FORBIDDEN, 1:]
    return (
        float((np.ptp(amounts, axis=0) / np.maximum(np.abs(limits), 1e-300)).sum()) if len(amounts) else 0.0
    )


Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_MOST_NODES = 1 << 13  # at one stage
FORBIDDEN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """What the types of a few groups add to every quantity.

    The table has one axis per group and the quantities last; an infinite first quantity forbids that.
    """

    groups: tuple[int, ...]
    amounts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The amounts of every group at every type: the first quantity is minimized, the others have limits."""

    amounts: Floats  # group, type, quantity
    limits: Floats  # of every quantity but the first
    factors: tuple[Factor, ...] = ()
    order: tuple[int, ...] = ()  # in which groups are decided; as they are numbered where it is empty


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The decision on one group: from every node, by type, the node after it and the amounts added."""

    group: int
    following: Codes  # node, type; FORBIDDEN where there is no way on
    amounts: Floats  # node, type, quantity


@dataclass(frozen=True, slots=True, eq=False)
class Trellis:
    """All stages. `dropped` factors would need too many nodes; without them a choice seems to take less."""

    stages: tuple[Stage, ...]
    dropped: int


def trellis_of(problem: Problem) -> Trellis:
    """The stages of a problem, groups in its order."""
    groups, types, _ = problem.amounts.shape
    order = problem.order or tuple(range(groups))
    place = {group: index for index, group in enumerate(order)}
    factors = _narrow_enough(problem.factors, place, types)
    ending: dict[int, list[Factor]] = {}
    until = dict.fromkeys(order, -1)  # the stage up to which a group's type matters
    for each in factors:
        last = max(place[group] for group in each.groups)
        ending.setdefault(last, []).append(each)
        for group in each.groups:
            until[group] = max(until[group], last)
    stages: list[Stage] = []
    open_groups: list[int] = []
    for index, group in enumerate(order):
        after = [each for each in (*open_groups, group) if until[each] > index]
        stages.append(_stage(problem, group, open_groups, after, ending.get(index, ())))
        open_groups = after
    return Trellis(tuple(stages), len(problem.factors) - len(factors))


def _narrow_enough(factors: Sequence[Factor], place: dict[int, int], types: int) -> list[Factor]:
    """The factors, the longest left out where the groups that are open at once have too many combinations."""
    most = max(int(np.log(_MOST_NODES) / np.log(max(types, 2))), 2)
    spans = [(min(place[g] for g in each.groups), max(place[g] for g in each.groups)) for each in factors]
    kept: list[Factor] = []
    until: dict[int, int] = {}
    users: list[set[int]] = [set() for _ in range(len(place))]
    for number in sorted(range(len(factors)), key=lambda each: spans[each][1] - spans[each][0]):
        last = spans[number][1]
        added = [
            (group, stage)
            for group in factors[number].groups
            for stage in range(max(place[group], until.get(group, 0)), last)
            if group not in users[stage]
        ]
        stages = [stage for _, stage in added]
        if any(len(users[stage]) + stages.count(stage) > most for stage in set(stages)):
            continue
        for group, stage in added:
            users[stage].add(group)
        for group in factors[number].groups:
            until[group] = max(until.get(group, 0), last)
        kept.append(factors[number])
    return kept


def _stage(
    problem: Problem, group: int, before: list[int], after: list[int], factors: Sequence[Factor]
) -> Stage:
    types = problem.amounts.shape[1]
    combined = np.indices((types,) * (len(before) + 1)).reshape(len(before) + 1, -1)
    column = {each: combined[index] for index, each in enumerate([*before, group])}
    amounts = problem.amounts[group][column[group]]
    for each in factors:
        amounts = amounts + each.amounts[tuple(column[g] for g in each.groups)]
    following = np.zeros(combined.shape[1], np.int64)
    for each_group in after:
        following = following * types + column[each_group]
    following[~np.isfinite(amounts[:, 0])] = FORBIDDEN
    amounts[following == FORBIDDEN, 0] = np.inf
    return Stage(group, following.reshape(-1, types), amounts.reshape(-1, types, amounts.shape[1]))
