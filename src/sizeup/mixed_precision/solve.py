"""The path of least loss through a trellis within limits on sums: exact, or with a proven bound.

Prices of the limits (Lagrangian multipliers) turn every limited quantity into loss. The cheapest path at any
prices is a lower bound on the loss, and its cost from a node to the end bounds every path through that node.
Partial solutions (labels) are extended group by group. A label is dropped if it cannot meet a limit, if its
bound is not below the best solution, or if another label at the same node has no more of any quantity. If
there are too many, the lowest bounds are kept, the lowest dropped bound limits what is proven, and the search
repeats with more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sizeup.mixed_precision.cp_sat import best_path, is_installed, is_small_enough
from sizeup.mixed_precision.trellis import (
    EQUAL,
    FORBIDDEN,
    Codes,
    Flags,
    Floats,
    PricedTrellis,
    Problem,
    Solution,
    Stage,
    trellis_of,
)

__all__ = ["EQUAL", "Effort", "Solution", "Solver"]

_INITIAL_WIDTH = 64
_WIDTH_FACTOR = 8
_MAX_WIDTH = 1 << 18
_MAX_LABELS = 1 << 25  # over all stages
_GAP_SHARES = (0.01, 0.05, 0.25, 1.0)  # shares of the gap in which CP-SAT searches for better solutions
_WINDOW = 6  # neighbors that each label is compared with, if several quantities are limited

Report = Callable[[float, float], None]  # best loss, proven bound


@dataclass(slots=True)
class Effort:
    """When to stop: at a relative gap between the best loss and the bound, or after a time."""

    gap: float = 0.0
    seconds: float = 60.0
    started: float = field(default_factory=time.monotonic)
    report: Report | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the time is up."""
        return self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the time is up."""
        return self.started + self.seconds - time.monotonic()


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """Partial solutions: the node of each, its sums, and the prefix shared with an excluded solution."""

    node: Codes
    amounts: Floats
    excluded: Codes  # node in the tree of excluded solutions; -1 if in none
    bound: Floats

    def take(self, rows: Codes | Flags) -> _Labels:
        return _Labels(self.node[rows], self.amounts[rows], self.excluded[rows], self.bound[rows])


class Solver:
    """Solves one problem, repeatedly if further solutions are excluded."""

    def __init__(self, problem: Problem) -> None:
        self.trellis = trellis_of(problem)
        self.limits = problem.limits
        self.network = PricedTrellis(self.trellis.stages, self.limits)
        self.excluded: list[Codes] = []
        self.is_exhausted = False  # whether None from `solve` proves that no solution exists

    def exclude(self, types: Codes) -> None:
        """Excludes a solution from further results."""
        self.excluded.append(types)

    def solve(self, effort: Effort | None = None) -> Solution | None:
        """Returns the best solution not excluded; None if none exists (`is_exhausted`) or none was found."""
        effort = effort or Effort()
        network, self.is_exhausted = self.network, True
        if not network.is_possible or (not network.prices and not network.price()):
            return None
        best = None if self.excluded else network.best
        proven, width = network.bound, _INITIAL_WIDTH
        while True:
            search = _Search(network, self.excluded, best, width, effort)
            best = search.run()
            loss = np.inf if best is None else best.loss
            proven = max(proven, min(loss * (1 - effort.gap), search.lowest_dropped))
            if effort.report is not None and best is not None:
                effort.report(loss, min(proven, loss))
            widest = min(_MAX_WIDTH, _MAX_LABELS // len(network.stages))
            is_done = search.lowest_dropped == np.inf or loss - proven <= max(effort.gap, EQUAL) * abs(loss)
            if is_done or width >= widest or effort.is_spent:
                break
            if best is not None and len(self.limits) > 1 and is_installed():
                best, proven = self._finish_with_cp_sat(network, best, proven, effort)
                break
            if best is not None:
                network = network.below(loss)
                proven = max(proven, min(network.bound, loss))
            width = min(width * _WIDTH_FACTOR, widest)
        self.is_exhausted = search.lowest_dropped == np.inf
        return None if best is None else Solution(best.types, best.amounts, min(proven, best.loss))

    def _finish_with_cp_sat(
        self, network: PricedTrellis, best: Solution, proven: float, effort: Effort
    ) -> tuple[Solution, float]:
        """Searches the rest with CP-SAT, as few labels dominate others under several limits.

        First among solutions near the bound, which are few; if there is none, the bound rises.
        """
        for share in _GAP_SHARES:
            limit = proven + share * (best.loss - proven)
            stages = network.stages_below(limit)
            if not is_small_enough(stages) or effort.is_spent:
                break
            types, bound = best_path(stages, self.limits, best.loss, self.excluded, effort.seconds_left)
            if types is not None:
                amounts = network.amounts_of(types)
                if amounts[0] < best.loss and (amounts[1:] <= network.limits_with_tolerance).all():
                    best = Solution(types, amounts, 0.0)
            proven = max(proven, min(bound, limit, best.loss))
            if effort.report is not None:
                effort.report(best.loss, proven)
            if best.loss - proven <= max(effort.gap, EQUAL) * abs(best.loss):
                break
        return best, proven


class _Search:
    """One search over the stages with at most `width` labels at each."""

    def __init__(
        self,
        network: PricedTrellis,
        excluded: Sequence[Codes],
        best: Solution | None,
        width: int,
        effort: Effort,
    ) -> None:
        self.network, self.best, self.width, self.effort = network, best, width, effort
        self.lowest_dropped = np.inf
        # (prefix, next dtype code) to the longer prefix, of excluded solutions
        self.tree: dict[tuple[int, int], int] = {}
        for types in excluded:
            prefix = 0
            for stage in network.stages:
                prefix = self.tree.setdefault((prefix, int(types[stage.group])), len(self.tree) + 1)

    def run(self) -> Solution | None:
        """Returns the best solution, the known one included."""
        if not self.network.is_possible:
            return self.best
        root = np.array([0 if self.tree else -1], np.int64)
        labels = _Labels(
            np.zeros(1, np.int64), np.zeros((1, len(self.network.limits) + 1)), root, np.zeros(1)
        )
        history: list[tuple[Codes, Codes]] = []
        for index, stage in enumerate(self.network.stages):
            labels, parent, code = self._extend(labels, index, stage)
            rows = self._prune(labels)
            labels = labels.take(rows)
            history.append((parent[rows].astype(np.int32), code[rows].astype(np.int8)))
            if not len(rows):
                return self.best
            if self.effort.is_spent and self.best is not None:
                self.lowest_dropped = -np.inf
                return self.best
        allowed = np.flatnonzero(labels.excluded < 0)
        if not len(allowed):
            return self.best
        row = int(allowed[labels.amounts[allowed, 0].argmin()])
        return Solution(self._trace_back(history, row), labels.amounts[row], 0.0)

    def _trace_back(self, history: list[tuple[Codes, Codes]], row: int) -> Codes:
        types = np.zeros(len(history), np.int64)
        for stage, (parent, code) in zip(reversed(self.network.stages), reversed(history), strict=True):
            types[stage.group] = code[row]
            row = int(parent[row])
        return types

    def _extend(self, labels: _Labels, index: int, stage: Stage) -> tuple[_Labels, Codes, Codes]:
        """Extends every label with every dtype of the next group, if it can still become the best."""
        network, minima = self.network, self.network.minima[index + 1]
        following = stage.following[labels.node]
        parent, code = np.nonzero(following != FORBIDDEN)
        node = following[parent, code]
        amounts = labels.amounts[parent] + stage.amounts[labels.node[parent], code]
        fits = (amounts[:, 1:] + minima[node, 1:] <= network.limits_with_tolerance).all(axis=1)
        parent, code, node, amounts = parent[fits], code[fits], node[fits], amounts[fits]
        bound = amounts[:, 0] + minima[node, 0]
        for prices in network.prices:
            priced = (amounts[:, 1:] - network.limits) @ prices.values + prices.to_end[index + 1][node]
            np.maximum(bound, amounts[:, 0] + priced, out=bound)
        is_promising = bound < np.inf
        if self.best is not None:
            is_promising = bound < self.best.loss * (1 - max(self.effort.gap / 2, EQUAL))
        parent, code = parent[is_promising], code[is_promising]
        excluded = self._prefixes(labels.excluded[parent], code)
        return _Labels(node[is_promising], amounts[is_promising], excluded, bound[is_promising]), parent, code

    def _prefixes(self, before: Codes, code: Codes) -> Codes:
        """Returns the excluded prefixes after one more dtype."""
        after = np.full(len(before), -1, np.int64)
        for row in np.flatnonzero(before >= 0).tolist():
            after[row] = self.tree.get((int(before[row]), int(code[row])), -1)
        return after

    def _prune(self, labels: _Labels) -> Codes:
        """Returns the labels that no other at their node dominates, at most `width` of them.

        A label that may yet become an excluded solution dominates no other.
        """
        allowed = np.flatnonzero(labels.excluded < 0)
        loss = labels.amounts[allowed, 0]
        best = float(loss.max(initial=0.0)) if self.best is None else self.best.loss
        unit = max(self.effort.gap / (2 * len(self.network.stages)), 1e-13) * best
        rounded = np.floor(loss / unit) if unit > 0 else loss
        undominated = allowed[_undominated(labels.node[allowed], rounded, labels.amounts[allowed, 1:])]
        rows = np.concatenate([undominated, np.flatnonzero(labels.excluded >= 0)])
        if len(rows) <= self.width:
            return rows
        bound = labels.bound[rows]
        order = np.argpartition(bound, self.width)
        self.lowest_dropped = min(self.lowest_dropped, float(bound[order[self.width :]].min()))
        return rows[order[: self.width]]


def _undominated(node: Codes, loss: Floats, limited: Floats) -> Codes:
    """Returns rows that no other row with the same node dominates (of equal rows the first)."""
    if not len(node):
        return np.zeros(0, np.int64)
    if limited.shape[1] <= 1:
        amount = limited[:, 0] if limited.shape[1] else np.zeros(len(node))
        order = np.lexsort((loss, amount, node))
        rank = np.unique(loss[order], return_inverse=True)[1].reshape(-1)
        _, node_rank = np.unique(node[order], return_inverse=True)
        value = rank - node_rank.reshape(-1) * (len(rank) + 1)  # each node starts below all before it
        lowest = np.minimum.accumulate(value)
        return np.asarray(order[np.append(True, value[1:] < lowest[:-1])], np.int64)
    return _nearly_undominated(node, loss, limited)


def _nearly_undominated(node: Codes, loss: Floats, limited: Floats) -> Codes:
    """Like `_undominated` for several limits: compares each row with its neighbors in several orders."""
    dominated = np.zeros(len(node), np.bool_)
    columns = [loss, *limited.T]
    for first in columns:
        order = np.lexsort((*columns[::-1], first, node))
        order = order[~dominated[order]]
        for shift in range(1, min(_WINDOW, len(order) - 1) + 1):
            before, after = order[:-shift], order[shift:]
            worse = node[before] == node[after]
            for column in columns:
                worse &= column[before] <= column[after]
            dominated[after[worse & ~dominated[before]]] = True
    return np.flatnonzero(~dominated)
