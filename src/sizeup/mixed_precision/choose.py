"""The number types that lose least and still fit: solved exactly, then verified on the network itself.

The solver knows the bytes, times and energy of all groups and conversions, and what is in memory at every
step; the placement in memory it does not know. So every pick is carried out on the graph, counted, planned
and estimated. One that exceeds a budget is excluded; if that happens often, the budget is tightened for the
solver, and the bound that was proven before still holds.
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
from sizeup.errors import NoChoice, SizeupError
from sizeup.mixed_precision.figures import BUDGETS, UNITS, WORDS, Budgets, Figures, figures_of
from sizeup.mixed_precision.live import LiveBytes
from sizeup.mixed_precision.network import Factor, Floats, Problem
from sizeup.mixed_precision.options import Options
from sizeup.mixed_precision.solve import EQUAL, Effort, Solution, Solver

Progress = Callable[[int, int, str], None]  # steps done, of how many, and which is next
_MOST_EXCLUDED = 12  # picks in a row, before a budget is tightened
_MOST_TIGHTENED = 40
_LOOSER = 1.5
_ENDLESS = 1e100  # a loss beyond this rules an option out


@dataclass(frozen=True, slots=True)
class Choice:
    """The types of all layers by operator, what they lose and take, and whether anything could lose less."""

    chosen: dict[int, DType]
    loss: float
    figures: Figures
    bound: float | None  # a loss that no other choice goes below; None: nothing is proven
    rounds: int
    binding: tuple[str, ...] = ()
    gains: dict[str, float] | None = None  # loss that one more unit of a binding budget would save

    @property
    def proven(self) -> bool:
        """Whether no other choice loses less."""
        return self.bound is not None and self.loss - self.bound <= 2 * EQUAL * self.loss

    @property
    def gap(self) -> float | None:
        """By which share of its loss another choice may lose less, at most; None: that is not known."""
        if self.bound is None or self.proven:
            return None if self.bound is None else 0.0
        return 1 - max(self.bound, 0.0) / self.loss


@dataclass(frozen=True, slots=True)
class Search:
    """How long to look for a choice, and how near to the best one is near enough."""

    gap: float = 0.0  # of the loss
    seconds: float = 20.0
    progress: Progress | None = None


_USUAL = Search()


def choose(
    options: Options, loss: Floats, budgets: Budgets, search: Search = _USUAL, objective: str = "loss"
) -> Choice:
    """The choice within the budgets of least loss, or other objective. Raises NoChoice if there is none."""
    found = _Search(options, loss, budgets, search, objective).run()
    if found is None:
        raise NoChoice(_why_not(options, loss, budgets, search))
    return found


def candidates(
    options: Options, loss: Floats, budgets: Budgets, most: int, search: Search = _USUAL
) -> list[Choice]:
    """The choices of least loss within the budgets, the best first; fewer if there are no more."""
    solving = _Search(options, loss, budgets, search)
    found: list[Choice] = []
    while len(found) < most:
        choice = solving.run()
        if choice is None:
            break
        found.append(choice)
        solving.exclude(choice)
    if not found:
        raise NoChoice(_why_not(options, loss, budgets, search))
    return found


def with_gains(
    options: Options, loss: Floats, budgets: Budgets, found: Choice, search: Search = _USUAL
) -> Choice:
    """The same choice, with the budgets that hold it back and what one more unit of each would save."""
    binding, gains = [], {}
    for name in BUDGETS:
        most = getattr(budgets, name)
        if most is None:
            continue
        free = _Search(options, loss, replace(budgets, **{name: None}), search).run()
        if free is None or free.loss >= found.loss * (1 - 1e-9):
            continue
        binding.append(name)
        wider = _Search(options, loss, replace(budgets, **{name: most + UNITS[name]}), search).run()
        gains[name] = 0.0 if wider is None else max(found.loss - wider.loss, 0.0)
    return replace(found, binding=tuple(binding), gains=gains)


def front(
    options: Options,
    loss: Floats,
    axis: str,
    points: int = 20,
    budgets: Budgets | None = None,
    search: Search = _USUAL,
    objective: str = "loss",
) -> list[Choice]:
    """Choices from the least of a budget to where more saves nothing, each the best for what it takes."""
    if axis not in BUDGETS:
        raise SizeupError(f"there is no budget {axis!r}; there are {', '.join(BUDGETS)}")
    rest = budgets or Budgets()
    silent = replace(search, progress=None)
    best = _Search(options, loss, replace(rest, **{axis: None}), silent, objective).run()
    if best is None:
        raise NoChoice(_why_not(options, loss, rest, silent))
    least, most = _least(options, rest, axis, silent, loss), getattr(best.figures, axis)
    if most is None or least is None:
        raise SizeupError(f"the {WORDS[axis]} of this network is not known without a target (-d)")
    allowed = getattr(rest, axis)
    if allowed is not None and allowed < least:
        raise NoChoice(_why_not(options, loss, rest, silent))
    if allowed is not None and allowed < most:
        most = allowed
        best = choose(options, loss, rest, silent, objective)
    found = {getattr(best.figures, axis): best}
    for done, limit in enumerate(np.linspace(least, most, points)[:-1].tolist(), 1):
        if search.progress is not None:
            search.progress(done, points, f"the best within {units.amount(axis, limit)}")
        bound: dict[str, Any] = {axis: math.ceil(limit) if axis.endswith("bytes") else limit}
        choice = _Search(options, loss, replace(rest, **bound), silent, objective).run()
        if choice is not None:
            found.setdefault(getattr(choice.figures, axis), choice)
    return _falling([found[key] for key in sorted(found)], lambda choice: choice.loss)


def front_of(
    options: Options,
    loss: Floats,
    axes: tuple[str, str],
    points: int = 20,
    search: Search = _USUAL,
    budgets: Budgets | None = None,
) -> list[Choice]:
    """The front over any two of the loss and the budgets, by the words for them; see `front`."""
    names = {"loss": "loss", **{word: name for name, word in WORDS.items()}}
    if len(set(axes)) != 2 or not set(axes) <= set(names):
        written = ",".join(each for each in axes if each)
        raise SizeupError(f"a front is over two of {', '.join(names)}, such as loss,weights, not {written!r}")
    # Activations are no sum over layers: theirs is the limit that the other axis is minimized under.
    first, second = sorted(axes, key=lambda axis: (axis == "activations", axis != "loss"))
    objective = loss if first == "loss" else _amounts(options, names[first])
    if objective is None:
        raise SizeupError(f"the {first} of this network is not known without a target (-d)")
    found = front(options, objective, names[second], points, budgets, search, names[first])
    if first == "loss":
        return found
    return _falling(found, lambda choice: float(getattr(choice.figures, names[first])))


def _falling(ordered: list[Choice], amount: Callable[[Choice], float]) -> list[Choice]:
    """The choices that have less than all before them."""
    kept: list[Choice] = []
    for each in ordered:
        if not kept or amount(each) < amount(kept[-1]):
            kept.append(each)
    return kept


def _least(options: Options, budgets: Budgets, axis: str, search: Search, loss: Floats) -> float | None:
    """The least of a budget that any choice takes."""
    amounts = _amounts(options, axis)
    if axis == "activation_bytes":
        # Everything at the narrowest type, without a conversion, takes least at every step.
        amounts = np.array([each.bits for each in options.dtype], np.float64)
    if amounts is None:
        return None
    amounts = np.where(loss < _ENDLESS, amounts, np.inf)
    found = _Search(options, amounts, replace(budgets, **{axis: None}), search, axis).run()
    return None if found is None else getattr(found.figures, axis)


def _amounts(options: Options, name: str) -> Floats | None:
    return {"weight_bytes": options.weights, "seconds": options.seconds, "joules": options.joules}.get(name)


def _fixed(options: Options, name: str) -> float:
    return {
        "weight_bytes": options.fixed_weights,
        "seconds": options.fixed_seconds,
        "joules": options.fixed_joules,
    }[name]


def _why_not(options: Options, loss: Floats, budgets: Budgets, search: Search) -> str:
    """Which budget cannot be kept even alone, and the least that it would have to be."""
    for name in BUDGETS:
        most = getattr(budgets, name)
        if most is None:
            continue
        if _Search(options, loss, Budgets(**{name: most}), search).run() is None:
            least = _least(options, Budgets(), name, search, loss)
            needed = "" if least is None else f"; the least is {units.amount(name, least)}"
            return (
                f"no choice of precisions keeps the {WORDS[name]} within {units.amount(name, most)}{needed}"
                f"{''.join(f'; {reason}' for reason in options.unsupported)}"
            )
    return "each budget can be kept alone, but no choice of precisions keeps all of them"


# The limited quantities that are sums over groups and conversions, and the place of the latter's.
_SUMS: Mapping[str, int | None] = {"weight_bytes": None, "seconds": 0, "joules": 1}


class _Search:
    def __init__(
        self, options: Options, loss: Floats, budgets: Budgets, search: Search, objective: str = "loss"
    ) -> None:
        self.options, self.loss, self.budgets, self.objective = options, loss, budgets, objective
        self.search, self.started = search, time.monotonic()
        self.names = [name for name in _SUMS if getattr(budgets, name) is not None]
        for name in self.names:
            if _amounts(options, name) is None:
                reason = (
                    "a target (-d)" if options.target is None else f"what {options.target.name} does not tell"
                )
                raise SizeupError(f"a limit of the {WORDS[name]} needs {reason}")
        self.live = None
        if budgets.activation_bytes is not None:
            self.live = LiveBytes(options.graph, options.typing, options.kinds)
        self.solver = Solver(self._problem(budgets))

    def run(self) -> Choice | None:
        """The best choice that is verified; None if there is none."""
        bound: float | None = None
        solver, budgets, excluded = self.solver, self.budgets, 0
        for rounds in range(1, _MOST_EXCLUDED + _MOST_TIGHTENED):
            solution = solver.solve(self._effort())
            if solution is None:
                if solver is not self.solver:
                    break
                if solver.is_exhausted and self._is_bounded():
                    return None
                # Sums may be more than what a choice takes: look a little beyond the limits, and verify.
                budgets = self._loosened(budgets)
                solver = Solver(self._problem(budgets))
                continue
            bound = solution.bound if bound is None else bound
            chosen = self._chosen(solution)
            figures = figures_of(self.options, chosen)
            if self.budgets.kept_by(figures):
                proven = min(bound, solution.loss) if self._is_bounded() else None
                return Choice(chosen, solution.loss, figures, proven, rounds)
            if self._seconds_left() <= 0 and rounds > _MOST_EXCLUDED:
                break
            if excluded < _MOST_EXCLUDED and self._seconds_left() > 0:
                excluded += 1
                solver.exclude(solution.types)
                bound = None  # what is excluded does not fit: the next bound holds for all that may
            else:
                budgets = self._tightened(budgets, figures)
                solver = Solver(self._problem(budgets))
        raise NoChoice(
            "no choice of precisions was found that keeps the budgets, and none was ruled out:"
            " allow a little more, or more time (--time-limit)"
        )

    def _is_bounded(self) -> bool:
        """Whether the sums that the solver knows are never more than what a choice takes."""
        timed = {"seconds", "joules"} & {self.objective, *self.names}
        if self.live is not None and not self.options.is_plain:
            return False
        return not timed or (self.options.is_plain and self.options.is_additive)

    def exclude(self, choice: Choice) -> None:
        """Leave a choice out from now on."""
        picked = self.options.picked(choice.chosen)
        self.solver.exclude(picked % len(self.options.kinds))

    def _chosen(self, solution: Solution) -> dict[int, DType]:
        kinds = len(self.options.kinds)
        return self.options.chosen(np.arange(len(solution.types)) * kinds + solution.types)

    def _effort(self) -> Effort:
        return Effort(self.search.gap, max(self._seconds_left(), 0.1), report=self._report)

    def _seconds_left(self) -> float:
        return self.search.seconds - (time.monotonic() - self.started)

    def _report(self, best: float, bound: float) -> None:
        if self.search.progress is not None and best > 0:
            gap = 100 * (best - bound) / best
            self.search.progress(0, 1, f"best {best:.4g}, at least {bound:.4g} (gap {gap:.2g} %)")

    def _loosened(self, budgets: Budgets) -> Budgets:
        """More of what is a sum only by assumption."""
        wider = {
            name: _LOOSER * getattr(budgets, name) for name in ("seconds", "joules") if name in self.names
        }
        return replace(budgets, **wider)

    def _tightened(self, budgets: Budgets, figures: Figures) -> Budgets:
        """Less of each budget that a pick exceeded, by as much as it did."""
        less: dict[str, Any] = {}
        for name in self.budgets.exceeded_by(figures):
            most, taken = getattr(self.budgets, name), getattr(figures, name)
            now = getattr(budgets, name)
            less[name] = now - (taken - most) if name.endswith("bytes") else now * most / taken * (1 - 1e-9)
        return replace(budgets, **less)

    def _problem(self, budgets: Budgets) -> Problem:
        """The amounts of all groups, conversions and steps, as the solver takes them."""
        options, kinds = self.options, len(self.options.kinds)
        columns = [np.where((self.loss < _ENDLESS) & options.allowed, self.loss, np.inf)]
        columns += [amounts for name in self.names if (amounts := _amounts(options, name)) is not None]
        limits = [getattr(budgets, name) - _fixed(options, name) for name in self.names]
        amounts = np.stack(columns, axis=1).reshape(-1, kinds, len(columns))
        factors = [
            Factor(groups, table)
            for groups, both in options.conversions
            if (table := self._converting(both)) is not None
        ]
        if self.live is not None and budgets.activation_bytes is not None:
            for groups, over in self.live.crowded(budgets.activation_bytes):
                if not groups:  # whatever is chosen
                    amounts[..., 0] = np.inf
                    continue
                table = np.zeros((*over.shape, len(columns)))
                table[..., 0] = np.where(over, np.inf, 0.0)
                factors.append(Factor(groups, table))
        first = {int(group): place for place, group in reversed(list(enumerate(options.group_of.tolist())))}
        order = tuple(sorted(first, key=first.__getitem__))
        return Problem(amounts, np.array(limits, np.float64), tuple(factors), order)

    def _converting(self, both: Floats) -> Floats | None:
        """What a conversion adds to the objective and to every limited quantity; None if to none."""
        places = [_SUMS.get(self.objective), *(_SUMS[name] for name in self.names)]
        if all(place is None for place in places):
            return None
        empty = np.zeros(both.shape[:-1])
        return np.stack([empty if place is None else both[..., place] for place in places], axis=-1)
