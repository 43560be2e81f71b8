"""The number types that lose least and still fit: solved exactly, then verified on the network itself.

The solver sees less than the truth: what a mixture converts is left out, and an arena is at least what is
alive at once. So what it picks is the best or does not fit; and if it does not, that pick, or the part of it
that does not fit, is forbidden, and it picks again. The first that fits is the best of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sizeup.cost import count
from sizeup.dtypes import DType
from sizeup.errors import NoChoice, SizeupError
from sizeup.graph import Graph
from sizeup.latency import energy, estimate
from sizeup.memory import Buffers, best_placement, lifetimes, tensor_bytes, usage
from sizeup.precision.assign import assign
from sizeup.precision.options import Options
from sizeup.precision.solve import Codes, Floats, Limit, Picked, pick
from sizeup.targets import Target

_MOST_ROUNDS = 400
_PLAN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that each may take; None: as much as it likes."""

    flash_bytes: int | None = None
    arena_bytes: int | None = None
    seconds: float | None = None
    joules: float | None = None

    def kept_by(self, figures: Figures) -> bool:
        """Whether figures are within all of them."""
        return not self.exceeded_by(figures)

    def exceeded_by(self, figures: Figures) -> list[str]:
        """The names of those that figures exceed."""
        found = []
        for name in BUDGETS:
            most, taken = getattr(self, name), getattr(figures, name)
            if most is not None and (taken is None or taken > most * (1 + 1e-12)):
                found.append(name)
        return found


BUDGETS = tuple(each.name for each in fields(Budgets))
# One more of each, for what a little more would buy.
UNITS = {"flash_bytes": 1024, "arena_bytes": 1024, "seconds": 1e-3, "joules": 1e-3}


@dataclass(frozen=True, slots=True)
class Figures:
    """What a network takes with its layers at certain types, conversions included; None: not known."""

    flash_bytes: int
    arena_bytes: int
    seconds: float | None
    joules: float | None


@dataclass(frozen=True, slots=True)
class Choice:
    """The types of all layers by operator, what they lose and take, and whether anything could lose less."""

    chosen: dict[int, DType]
    loss: float
    figures: Figures
    proven: bool
    rounds: int
    binding: tuple[str, ...] = ()
    gains: dict[str, float] | None = None  # loss that one more unit of a binding budget would save


def figures_of(options: Options, chosen: dict[int, DType]) -> Figures:
    """What the network takes, from the network itself: counted, planned and estimated at these types."""
    return figures_at(assign(options.graph, chosen), options.target)


def figures_at(graph: Graph, target: Target | None) -> Figures:
    """What a network takes as it is: counted, planned in its order, and estimated on a target."""
    counted = count(graph)
    placed = best_placement(graph, reorder=False, time_limit=_PLAN_SECONDS)
    timed = None if target is None else estimate(counted, target)
    spent = None if timed is None else energy(timed)
    return Figures(
        counted.stored_bytes,
        placed.packing.height,
        None if timed is None else timed.seconds,
        None if spent is None else spent.joules,
    )


def choose(options: Options, loss: Floats, budgets: Budgets, time_limit: float = 60.0) -> Choice:
    """The choice of least loss within the budgets. Raises NoChoice where there is none."""
    found = _Search(options, loss, budgets, time_limit).run()
    if found is None:
        raise NoChoice(_why_not(options, loss, budgets))
    return found


def with_gains(options: Options, loss: Floats, budgets: Budgets, found: Choice) -> Choice:
    """The same choice, with the budgets that hold it back and what one more unit of each would save."""
    binding, gains = [], {}
    for name in BUDGETS:
        most = getattr(budgets, name)
        if most is None:
            continue
        free = _Search(options, loss, replace(budgets, **{name: None}), 60.0).run()
        if free is None or free.loss >= found.loss * (1 - 1e-12):
            continue
        binding.append(name)
        wider = _Search(options, loss, replace(budgets, **{name: most + UNITS[name]}), 60.0).run()
        gains[name] = 0.0 if wider is None else max(found.loss - wider.loss, 0.0)
    return replace(found, binding=tuple(binding), gains=gains)


def front(
    options: Options, loss: Floats, axis: str, points: int = 20, budgets: Budgets | None = None
) -> list[Choice]:
    """Choices from the least of a budget to where more saves nothing, each the best for what it takes."""
    if axis not in BUDGETS:
        raise SizeupError(f"there is no budget {axis!r}; there are {', '.join(BUDGETS)}")
    rest = budgets or Budgets()
    best = choose(options, loss, replace(rest, **{axis: None}))
    most = getattr(best.figures, axis)
    least = _least(options, rest, axis)
    if most is None or least is None:
        raise SizeupError(f"nothing tells the {axis} of this network without a target")
    found = {most: best}
    for limit in np.linspace(least, most, points)[:-1].tolist():
        bound: dict[str, Any] = {axis: math.ceil(limit) if axis.endswith("bytes") else limit}
        choice = _Search(options, loss, replace(rest, **bound), 60.0).run()
        if choice is not None:
            found.setdefault(getattr(choice.figures, axis), choice)
    ordered = [found[key] for key in sorted(found)]
    return [
        each
        for place, each in enumerate(ordered)
        if all(each.loss < before.loss for before in ordered[:place])
    ]


def _least(options: Options, budgets: Budgets, axis: str) -> float | None:
    """The least of a budget that any choice takes."""
    narrow = _amounts(options, axis)
    if narrow is None and axis == "arena_bytes":
        narrow = _alive(options)
    if narrow is None:
        return None
    found = _Search(options, narrow, replace(budgets, **{axis: None}), 60.0).run()
    return None if found is None else getattr(found.figures, axis)


def _alive(options: Options) -> Floats:
    """Bytes of all activations of a group: who has the least of them has about the smallest arena."""
    found = np.zeros(len(options.group))
    for option, dtype in enumerate(options.dtype):
        owned = np.flatnonzero(options.owner == options.group[option])
        found[option] = sum(tensor_bytes(options.graph.tensors[i], dtype) for i in owned)
    return found


def _amounts(options: Options, name: str) -> Floats | None:
    return {"flash_bytes": options.flash, "seconds": options.seconds, "joules": options.joules}.get(name)


def _fixed(options: Options, name: str) -> float:
    return {
        "flash_bytes": options.fixed_flash,
        "seconds": options.fixed_seconds,
        "joules": options.fixed_joules,
    }[name]


def _why_not(options: Options, loss: Floats, budgets: Budgets) -> str:
    """Which budget cannot be kept even alone, and the least that it would have to be."""
    for name in BUDGETS:
        most = getattr(budgets, name)
        if most is None:
            continue
        if _Search(options, loss, Budgets(**{name: most}), 60.0).run() is None:
            least = _least(options, Budgets(), name)
            needed = "" if least is None else f"; the narrowest types need {least:,.6g}"
            return f"no choice of precisions keeps {name} within {most:,.6g}{needed}"
    return "each budget can be kept alone, but no choice of precisions keeps all of them"


class _Search:
    def __init__(self, options: Options, loss: Floats, budgets: Budgets, time_limit: float) -> None:
        self.options, self.loss, self.budgets, self.time_limit = options, loss, budgets, time_limit
        self.everything = np.arange(len(loss))
        self.limits: list[Limit] = []
        for name in ("flash_bytes", "seconds", "joules"):
            most, amounts = getattr(budgets, name), _amounts(options, name)
            if most is None:
                continue
            if amounts is None:
                raise SizeupError(f"a budget of {name} needs a target whose {name} can be estimated")
            self.limits.append(Limit(name, self.everything, amounts, most - _fixed(options, name)))
        self.alive = None if budgets.arena_bytes is None else _Alive(options)

    def run(self) -> Choice | None:
        proven = True
        for rounds in range(1, _MOST_ROUNDS + 1):
            picked = self._pick()
            if picked is None:
                return None
            proven &= picked.status == "optimal"
            chosen = self.options.chosen(picked.options)
            conflict = self._crowded(chosen)
            if conflict is not None:
                self._forbid(picked.options[conflict])
                continue
            figures = figures_of(self.options, chosen)
            if self.budgets.kept_by(figures):
                return Choice(chosen, picked.loss, figures, proven, rounds)
            self._forbid(picked.options)
        raise SizeupError(f"no choice was verified in {_MOST_ROUNDS:,} rounds; wider budgets may be needed")

    def _pick(self) -> Picked | None:
        """The best pick by what the solver sees; steps at which too much is alive join the limits singly."""
        while True:
            picked = pick(self.options.group, self.loss, self.limits, self.time_limit)
            if picked is None or self.alive is None or self.budgets.arena_bytes is None:
                return picked
            step = self.alive.worst_step(picked.options, self.budgets.arena_bytes)
            if step is None:
                return picked
            self.limits.append(self.alive.limit(step, self.budgets.arena_bytes))

    def _crowded(self, chosen: dict[int, DType]) -> Codes | None:
        """The groups whose types make too much alive at once, conversions included; None: nothing does."""
        most = self.budgets.arena_bytes
        if most is None:
            return None
        graph = assign(self.options.graph, chosen)
        live = usage(graph).live_bytes
        step = int(np.argmax(live)) if len(live) else 0
        if not len(live) or live[step] <= most:
            return None
        return _involved(graph, self.options, step)

    def _forbid(self, picked: Codes) -> None:
        self.limits.append(Limit("verified", picked, np.ones(len(picked)), len(picked) - 1.0))


def _involved(graph: Graph, options: Options, step: int) -> Codes:
    """The groups that decide what is alive at a step: of whatever is, who makes it and who reads it."""
    buffers, owner = lifetimes(graph), options.owner
    alive = {tensor for buffer in buffers.live_at(step) for tensor in buffers.tensors[buffer]}
    groups = set()
    for op in graph.ops:
        touched = [each for each in (*op.inputs, *op.outputs) if each in alive]
        if touched:
            near = [each for each in (*touched, *op.outputs, *op.inputs) if 0 <= each < len(owner)]
            groups |= {int(owner[each]) for each in near}
    return np.array(sorted(groups - {-1}), np.int64)


class _Alive:
    """What is in memory at each step, as a sum over groups; without conversions, so never too much."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.buffers: Buffers = lifetimes(options.graph)
        tensors = options.graph.tensors
        self.owner = np.array(
            [
                next((int(options.owner[i]) for i in each if options.owner[i] >= 0), -1)
                for each in self.buffers.tensors
            ],
            np.int64,
        )
        kinds = list(dict.fromkeys(options.dtype))
        self.column = np.array([kinds.index(each) for each in options.dtype], np.int64)
        sizes = [
            [max(tensor_bytes(tensors[i], kind) for i in each) for kind in kinds]
            for each in self.buffers.tensors
        ]
        self.sizes = np.array(sizes, np.int64).reshape(len(self.buffers), len(kinds))

    def worst_step(self, picked: Codes, most: int) -> int | None:
        """The step at which most is alive, where that is too much."""
        kind = np.full(int(self.options.group.max()) + 2, -1, np.int64)
        kind[self.options.group[picked]] = self.column[picked]
        taken = kind[self.owner]
        size = np.where(self.owner < 0, self.buffers.size, self.sizes[np.arange(len(taken)), taken])
        live = replace(self.buffers, size=size).live_bytes()
        step = int(np.argmax(live)) if len(live) else 0
        return step if len(live) and live[step] > most else None

    def limit(self, step: int, most: int) -> Limit:
        """What is alive at a step must not be more than that."""
        alive = np.array(self.buffers.live_at(step), np.int64)
        fixed = int(self.buffers.size[alive[self.owner[alive] < 0]].sum())
        by_group: dict[int, Floats] = {}
        for buffer in alive[self.owner[alive] >= 0].tolist():
            group = int(self.owner[buffer])
            by_group[group] = by_group.get(group, np.zeros(self.sizes.shape[1])) + self.sizes[buffer]
        chosen = np.isin(self.options.group, list(by_group))
        options = np.flatnonzero(chosen)
        groups, columns = self.options.group[options].tolist(), self.column[options].tolist()
        amounts = np.array([by_group[g][c] for g, c in zip(groups, columns, strict=True)], np.float64)
        return Limit(f"alive at {step}", options, amounts, float(most - fixed))
