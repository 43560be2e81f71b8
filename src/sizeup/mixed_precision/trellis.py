"""A choice of one type per group of layers as a path: groups are decided one after the other.

What some groups add together (a conversion between two layers, bytes that are in memory at once) depends on
the types of a few groups only. A node keeps the types of decided groups that later ones still meet, so that
each such amount is known when the last of its groups is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

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
