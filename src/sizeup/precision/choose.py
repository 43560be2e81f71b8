"""The number types that lose least and still fit: solved exactly, then verified on the network itself.

The solver sees less than the truth: what a mixture converts is left out, and an arena is at least what is
alive at once. So what it picks is the best or does not fit; and if it does not, that pick, or the part of it
that does not fit, is forbidden, and it picks again. The first that fits is the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sizeup import units
from sizeup.cost import count
from sizeup.dtypes import DType
from sizeup.errors import NoChoice, SizeupError
from sizeup.graph import Graph
from sizeup.latency import Basis, energy, estimate
from sizeup.memory import best_placement, tensor_bytes, usage
from sizeup.precision.alive import Alive, involved
from sizeup.precision.assign import assign
from sizeup.precision.options import Options
from sizeup.precision.solve import Codes, Floats, Limit, Picked, pick
from sizeup.targets import Target

Progress = Callable[[int, int, str], None]  # steps done, of how many, and which is next
_MOST_ROUNDS = 400
_PLAN_SECONDS = 2.0
# A mixture may take a little less than its layers at uniform types: narrow copies are read instead.
_SLACK = 0.05
_ENDLESS = 1e100  # a loss beyond this is none that anybody would take


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
WORDS = {"flash_bytes": "flash", "arena_bytes": "arena", "seconds": "latency", "joules": "energy"}
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
    return figures_at(assign(options.graph, chosen), options.target, options.basis)


def figures_at(graph: Graph, target: Target | None, basis: Basis | None = None) -> Figures:
    """What a network takes as it is: counted, planned in its order, and estimated on a target."""
    counted = count(graph)
    placed = best_placement(graph, reorder=False, time_limit=_PLAN_SECONDS)
    timed = None if target is None else estimate(counted, target, basis=basis)
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


def candidates(
    options: Options, loss: Floats, budgets: Budgets, most: int, time_limit: float = 60.0
) -> list[Choice]:
    """The choices of least loss within the budgets, the best first; fewer where there are no more."""
    search = _Search(options, loss, budgets, time_limit)
    found: list[Choice] = []
    while len(found) < most:
        choice = search.run()
        if choice is None:
            break
        found.append(choice)
        search.forbid(choice)
    if not found:
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
    options: Options,
    loss: Floats,
    axis: str,
    points: int = 20,
    budgets: Budgets | None = None,
    progress: Progress | None = None,
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
    for done, limit in enumerate(np.linspace(least, most, points)[:-1].tolist(), 1):
        if progress is not None:
            progress(done, points, f"the best within {units.amount(axis, limit)}")
        bound: dict[str, Any] = {axis: math.ceil(limit) if axis.endswith("bytes") else limit}
        choice = _Search(options, loss, replace(rest, **bound), 60.0).run()
        if choice is not None:
            found.setdefault(getattr(choice.figures, axis), choice)
    return _falling([found[key] for key in sorted(found)], lambda choice: choice.loss)


def front_of(
    options: Options,
    loss: Floats,
    axes: tuple[str, str],
    points: int = 20,
    progress: Progress | None = None,
) -> list[Choice]:
    """The front over any two of the loss and the budgets, by the words for them; see `front`."""
    names = {"loss": "loss", **{word: name for name, word in WORDS.items()}}
    if len(set(axes)) != 2 or not set(axes) <= set(names):
        raise SizeupError(f"a front is over two of {', '.join(names)}, not {' and '.join(axes)}")
    # The arena is no sum over layers: it is the one that is limited.
    first, second = sorted(axes, key=lambda axis: (axis == "arena", axis != "loss"))
    objective = loss if first == "loss" else _amounts(options, names[first])
    if objective is None:
        raise SizeupError(f"nothing tells the {first} of this network without a target")
    found = front(options, objective, names[second], points, progress=progress)
    if first == "loss":
        return found
    # What the objective really is includes conversions: only those that gain by it stay.
    return _falling(found, lambda choice: float(getattr(choice.figures, names[first])))


def _falling(ordered: list[Choice], amount: Callable[[Choice], float]) -> list[Choice]:
    """The choices that have less than all before them."""
    kept: list[Choice] = []
    for each in ordered:
        if not kept or amount(each) < amount(kept[-1]):
            kept.append(each)
    return kept


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
    kinds = list(dict.fromkeys(options.dtype))
    by_group = np.zeros((int(options.group.max()) + 1, len(kinds)))
    for identity in np.flatnonzero(options.owner >= 0).tolist():
        tensor = options.graph.tensors[identity]
        by_group[options.owner[identity]] += [tensor_bytes(tensor, kind) for kind in kinds]
    return by_group[options.group, [kinds.index(each) for each in options.dtype]]


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
            needed = "" if least is None else f"; the least is {units.amount(name, least)}"
            return (
                f"no choice of precisions keeps the {WORDS[name]} within {units.amount(name, most)}{needed}"
            )
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
                reason = (
                    "a target (-d)" if options.target is None else f"what {options.target.name} does not tell"
                )
                raise SizeupError(f"a limit of the {WORDS[name]} needs {reason}")
            slack = _SLACK if name != "flash_bytes" else 0.0
            fixed = _fixed(options, name)
            self.limits.append(
                Limit(name, self.everything, amounts * (1 - slack), most - fixed * (1 - slack))
            )
        # What loses without end is no option.
        ruled_out = np.flatnonzero(~(loss < _ENDLESS))
        self.loss = np.where(loss < _ENDLESS, loss, 0.0)
        if len(ruled_out):
            self.limits.append(Limit("endless loss", ruled_out, np.ones(len(ruled_out)), 0.0))
        self.alive = None if budgets.arena_bytes is None else Alive(options)

    def run(self) -> Choice | None:
        # Times of a mixture are only about sums of its layers' own: what is found need not be the best.
        proven = self.budgets.seconds is None and self.budgets.joules is None
        for rounds in range(1, _MOST_ROUNDS + 1):
            picked = self._pick()
            if picked is None:
                return None
            proven &= picked.status == "optimal"
            chosen = self.options.chosen(picked.options)
            graph = assign(self.options.graph, chosen)
            conflict = self._crowded(graph)
            if conflict is not None:
                self._forbid(picked.options[conflict])
                continue
            figures = figures_at(graph, self.options.target, self.options.basis)
            if self.budgets.kept_by(figures):
                return Choice(chosen, picked.loss, figures, proven, rounds)
            self._forbid(picked.options)
        raise SizeupError(f"no choice was verified in {_MOST_ROUNDS:,} rounds; wider budgets may be needed")

    def forbid(self, choice: Choice) -> None:
        """Leave a choice out from now on."""
        self._forbid(self.options.picked(choice.chosen))

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

    def _crowded(self, graph: Graph) -> Codes | None:
        """The groups whose types make too much alive at once, conversions included; None: nothing does."""
        most = self.budgets.arena_bytes
        if most is None:
            return None
        live = usage(graph).live_bytes
        step = int(np.argmax(live)) if len(live) else 0
        if not len(live) or live[step] <= most:
            return None
        return involved(graph, self.options, step)

    def _forbid(self, picked: Codes) -> None:
        self.limits.append(Limit("verified", picked, np.ones(len(picked)), len(picked) - 1.0))
