"""The path of least loss through a trellis within limits on sums: exact, or with a proven bound.

Prices of the limits (Lagrangian multipliers) turn every limited quantity into loss; the cheapest path at any
prices is a lower bound of the loss, and what it costs from a node to the end bounds whatever passes there.
Partial choices (labels) are extended group by group. One is dropped if it cannot keep a limit, if its bound
is not below the best choice found, or if another at the same node has no more of anything. If there are too
many, those with the lowest bounds stay, and the lowest bound dropped limits what is proven; then more stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sizeup.mixed_precision.cp_sat import best_path, is_installed, is_small_enough
from sizeup.mixed_precision.network import (
    EQUAL,
    FORBIDDEN,
    Codes,
    Flags,
    Floats,
    Network,
    Problem,
    Solution,
    Stage,
    trellis_of,
)

__all__ = ["EQUAL", "Effort", "Solution", "Solver"]

_FIRST_WIDTH = 64
_WIDER = 8
_MOST_WIDTH = 1 << 18
_MOST_LABELS = 1 << 25  # over all stages
_NEAR = (0.01, 0.05, 0.25, 1.0)  # of the gap, in which CP-SAT looks for better choices
_WINDOW = 6  # labels that each is compared with, where two quantities are limited

Report = Callable[[float, float], None]  # the best loss found and the proven bound


@dataclass(slots=True)
class Effort:
    """When to stop: at a gap between the best loss and the bound, as a share, or at a time."""

    gap: float = 0.0
    seconds: float = 60.0
    started: float = field(default_factory=time.monotonic)
    report: Report | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the time is over."""
        return self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Until the time is over."""
        return self.started + self.seconds - time.monotonic()


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """Partial choices: where each stands, its sums, and the prefix that is shared with an excluded choice."""

    node: Codes
    amounts: Floats
    excluded: Codes  # in the tree of excluded choices; -1: in none any more
    bound: Floats

    def take(self, rows: Codes | Flags) -> _Labels:
        return _Labels(self.node[rows], self.amounts[rows], self.excluded[rows], self.bound[rows])


class Solver:
    """Solves one problem, if asked so repeatedly with further choices excluded."""

    def __init__(self, problem: Problem) -> None:
        self.trellis = trellis_of(problem)
        self.limits = problem.limits
        self.network = Network(self.trellis.stages, self.limits)
        self.excluded: list[Codes] = []
        self.is_exhausted = False  # whether the last answer None means that there is no choice

    def exclude(self, types: Codes) -> None:
        """Leave a choice out from now on."""
        self.excluded.append(types)

    def solve(self, effort: Effort | None = None) -> Solution | None:
        """The best choice that is not excluded; None: none keeps the limits (`is_exhausted`) or was found."""
        effort = effort or Effort()
        network, self.is_exhausted = self.network, True
        if not network.is_possible or (not network.prices and not network.price()):
            return None
        best = None if self.excluded else network.best
        proven, width = network.bound, _FIRST_WIDTH
        while True:
            search = _Search(network, self.excluded, best, width, effort)
            best = search.run()
            loss = np.inf if best is None else best.loss
            proven = max(proven, min(loss * (1 - effort.gap), search.lowest_dropped))
            if effort.report is not None and best is not None:
                effort.report(loss, min(proven, loss))
            widest = min(_MOST_WIDTH, _MOST_LABELS // len(network.stages))
            is_done = search.lowest_dropped == np.inf or loss - proven <= max(effort.gap, EQUAL) * abs(loss)
            if is_done or width >= widest or effort.is_spent:
                break
            if best is not None and len(self.limits) > 1 and is_installed():
                best, proven = self._finish(network, best, proven, effort)
                break
            if best is not None:
                network = network.below(loss)
                proven = max(proven, min(network.bound, loss))
            width = min(width * _WIDER, widest)
        self.is_exhausted = search.lowest_dropped == np.inf
        return None if best is None else Solution(best.types, best.amounts, min(proven, best.loss))

    def _finish(
        self, network: Network, best: Solution, proven: float, effort: Effort
    ) -> tuple[Solution, float]:
        """The best of what is left by CP-SAT, as under several limits few labels dominate others.

        First among choices near the bound, which are few; if there is none, the bound rises.
        """
        for share in _NEAR:
            most = proven + share * (best.loss - proven)
            stages = network.stages_below(most)
            if not is_small_enough(stages) or effort.is_spent:
                break
            types, bound = best_path(stages, self.limits, best.loss, self.excluded, effort.seconds_left)
            if types is not None:
                amounts = network.amounts_of(types)
                if amounts[0] < best.loss and (amounts[1:] <= network.most).all():
                    best = Solution(types, amounts, 0.0)
            proven = max(proven, min(bound, most, best.loss))
            if effort.report is not None:
                effort.report(best.loss, proven)
            if best.loss - proven <= max(effort.gap, EQUAL) * abs(best.loss):
                break
        return best, proven


class _Search:
    """One pass over the stages with at most so many labels at each."""

    def __init__(
        self, network: Network, excluded: Sequence[Codes], best: Solution | None, width: int, effort: Effort
    ) -> None:
        self.network, self.best, self.width, self.effort = network, best, width, effort
        self.lowest_dropped = np.inf
        self.tree: dict[
            tuple[int, int], int
        ] = {}  # (prefix, next type) to the longer prefix, of what is excluded
        for types in excluded:
            prefix = 0
            for stage in network.stages:
                prefix = self.tree.setdefault((prefix, int(types[stage.group])), len(self.tree) + 1)

    def run(self) -> Solution | None:
        """The best choice, the one given included."""
        if not self.network.is_possible:
            return self.best
        root = np.array([0 if self.tree else -1], np.int64)
        labels = _Labels(
            np.zeros(1, np.int64), np.zeros((1, len(self.network.limits) + 1)), root, np.zeros(1)
        )
        history: list[tuple[Codes, Codes]] = []
        for index, stage in enumerate(self.network.stages):
            labels, parent, kind = self._extended(labels, index, stage)
            rows = self._kept(labels)
            labels = labels.take(rows)
            history.append((parent[rows].astype(np.int32), kind[rows].astype(np.int8)))
            if not len(rows):
                return self.best
            if self.effort.is_spent and self.best is not None:
                self.lowest_dropped = -np.inf
                return self.best
        whole = np.flatnonzero(labels.excluded < 0)
        if not len(whole):
            return self.best
        row = int(whole[labels.amounts[whole, 0].argmin()])
        return Solution(self._traced(history, row), labels.amounts[row], 0.0)

    def _traced(self, history: list[tuple[Codes, Codes]], row: int) -> Codes:
        types = np.zeros(len(history), np.int64)
        for stage, (parent, kind) in zip(reversed(self.network.stages), reversed(history), strict=True):
            types[stage.group] = kind[row]
            row = int(parent[row])
        return types

    def _extended(self, labels: _Labels, index: int, stage: Stage) -> tuple[_Labels, Codes, Codes]:
        """Every label with every type of the next group, if it can still become the best choice."""
        network, least = self.network, self.network.least[index + 1]
        following = stage.following[labels.node]
        parent, kind = np.nonzero(following != FORBIDDEN)
        node = following[parent, kind]
        amounts = labels.amounts[parent] + stage.amounts[labels.node[parent], kind]
        fits = (amounts[:, 1:] + least[node, 1:] <= network.most).all(axis=1)
        parent, kind, node, amounts = parent[fits], kind[fits], node[fits], amounts[fits]
        bound = amounts[:, 0] + least[node, 0]
        for each in network.prices:
            priced = (amounts[:, 1:] - network.limits) @ each.of + each.to_end[index + 1][node]
            np.maximum(bound, amounts[:, 0] + priced, out=bound)
        kept = bound < np.inf
        if self.best is not None:
            kept = bound < self.best.loss * (1 - max(self.effort.gap / 2, EQUAL))
        parent, kind = parent[kept], kind[kept]
        excluded = self._prefixes(labels.excluded[parent], kind)
        return _Labels(node[kept], amounts[kept], excluded, bound[kept]), parent, kind

    def _prefixes(self, before: Codes, kind: Codes) -> Codes:
        """The excluded prefixes after one more type."""
        after = np.full(len(before), -1, np.int64)
        for row in np.flatnonzero(before >= 0).tolist():
            after[row] = self.tree.get((int(before[row]), int(kind[row])), -1)
        return after

    def _kept(self, labels: _Labels) -> Codes:
        """The labels that no other at their node makes needless, at most `width` of them.

        One that may yet become an excluded choice makes no other needless.
        """
        free = np.flatnonzero(labels.excluded < 0)
        loss = labels.amounts[free, 0]
        best = float(loss.max(initial=0.0)) if self.best is None else self.best.loss
        unit = max(self.effort.gap / (2 * len(self.network.stages)), 1e-13) * best
        rounded = np.floor(loss / unit) if unit > 0 else loss
        chosen = free[_undominated(labels.node[free], rounded, labels.amounts[free, 1:])]
        rows = np.concatenate([chosen, np.flatnonzero(labels.excluded >= 0)])
        if len(rows) <= self.width:
            return rows
        bound = labels.bound[rows]
        order = np.argpartition(bound, self.width)
        self.lowest_dropped = min(self.lowest_dropped, float(bound[order[self.width :]].min()))
        return rows[order[: self.width]]


def _undominated(node: Codes, loss: Floats, limited: Floats) -> Codes:
    """Rows of which no other with the same node has as little of everything (of equal ones the first)."""
    if not len(node):
        return np.zeros(0, np.int64)
    if limited.shape[1] <= 1:
        amount = limited[:, 0] if limited.shape[1] else np.zeros(len(node))
        order = np.lexsort((loss, amount, node))
        rank = np.unique(loss[order], return_inverse=True)[1].reshape(-1)
        _, place = np.unique(node[order], return_inverse=True)
        value = rank - place.reshape(-1) * (len(rank) + 1)  # each node begins below all before it
        lowest = np.minimum.accumulate(value)
        return np.asarray(order[np.append(True, value[1:] < lowest[:-1])], np.int64)
    return _nearly_undominated(node, loss, limited)


def _nearly_undominated(node: Codes, loss: Floats, limited: Floats) -> Codes:
    """The same for several limited quantities, each row compared with its neighbours in several orders."""
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
