"""What can be limited: each measure by the name that a budget calls it, found on a model under check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sizeup.checks.limits import Large, Limit, Space, Unit, limit_of
from sizeup.checks.room import Needs, Room, is_run_by_torch, room
from sizeup.cost import Column, Cost
from sizeup.dtypes import DType
from sizeup.errors import TargetError
from sizeup.graph import Graph, name_of
from sizeup.targets import Target, word_bits_of

if TYPE_CHECKING:
    from sizeup.latency import Estimate, Spent
    from sizeup.memory import Usage

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Found:
    """An amount from below and from above; `why` says what is not known."""

    least: float | None
    most: float | None
    expected: float | None = None
    why: str = ""
    largest: tuple[Large, ...] = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that a budget may limit."""

    name: str
    unit: Unit
    find: Callable[[Subject], Found]
    words: str
    has_growth: bool = True  # whether a budget may limit its growth
    needs_target: bool = False


def judged(measure: Measure, subject: Subject, most: float, of: str, expected: bool = False) -> Limit:
    """A limit held against a model; with `expected`, by what is expected and not by the whole range."""
    found = measure.find(subject)
    least, upper = found.least, found.most
    if expected and found.expected is not None:
        least = upper = found.expected
    return Limit(
        measure.name,
        measure.unit,
        most,
        least,
        upper,
        found.expected,
        of,
        (found.why,) if found.why else (),
        (),
        (),
        found.largest,
    )


def rooms(subject: Subject) -> tuple[Limit, ...]:
    """The memories of the target as limits."""
    if subject.room is None:
        return ()
    return tuple(limit_of(space, _largest_in(space, subject)) for space in subject.room.spaces)


def _largest_in(space: Space, subject: Subject) -> tuple[Large, ...]:
    return subject.held if space.name == "ram" else subject.largest(subject.cost.params)


def _macs(subject: Subject) -> Found:
    cost, total = subject.cost, subject.cost.total_macs
    missing = len(cost.reasons)
    why = f"{missing:,} operator{'s are' if missing != 1 else ' is'} not counted" if missing else ""
    return Found(total, None if missing else total, None, why, subject.largest(cost.macs))


def _params(subject: Subject) -> Found:
    total = subject.cost.total_params
    return Found(total, total, largest=subject.largest(subject.cost.params))


def _weights(subject: Subject) -> Found:
    total = subject.needs.weight_bytes
    return Found(total, total, largest=subject.largest(subject.cost.params))


def _peak(subject: Subject) -> Found:
    usage = subject.usage
    why = usage.missing
    if usage.unmodelled:
        why = f"what {', '.join(usage.unmodelled)} take inside is not known"
    return Found(usage.peak_bytes, None if why else usage.peak_bytes, None, why, subject.held)


def _arena(subject: Subject) -> Found:
    """TFLite Micro's arena for its own files, otherwise the tensors as its planner would place them."""
    needs = subject.needs
    if needs.usage.unknown:
        return _peak(subject)
    arena = needs.arena
    if arena is not None:
        size = arena.arena_bytes(subject.word_bits)
        if size is None:
            return Found(arena.head_bytes, None, None, arena.unknown, subject.held)
        return Found(size, size + needs.description_bytes, largest=subject.held)
    return Found(needs.usage.peak_bytes, needs.packed_bytes, largest=subject.held)


def _ram(subject: Subject) -> Found:
    assert subject.room is not None
    return _of_space(subject.room.ram, subject.held)


def _flash(subject: Subject) -> Found:
    """With a target model and code, otherwise the model alone."""
    largest = subject.largest(subject.cost.params)
    if subject.room is not None and subject.room.flash is not None:
        return _of_space(subject.room.flash, largest)
    least, most = subject.needs.stored_bytes
    return Found(least, most, largest=largest)


def _of_space(space: Space, largest: tuple[Large, ...]) -> Found:
    most = space.most_bytes
    why = "" if most is not None else "; ".join(part.how for part in space.parts if part.most_bytes is None)
    return Found(space.least_bytes, most, None, why, largest)


def _latency(subject: Subject) -> Found:
    found = subject.estimate
    if isinstance(found, str):
        return Found(None, None, None, found)
    column = subject.op_seconds
    largest = () if column is None else subject.largest(column)
    if found.low is None:
        why = "only the least time that it takes is known"
        return Found(found.seconds, None, None, why, largest)
    why = "" if found.high is not None else "the time of operators that are not known is missing"
    return Found(found.low, found.high, found.seconds, why, largest)


def _energy(subject: Subject) -> Found:
    found = subject.spent
    if isinstance(found, str):
        return Found(None, None, None, found)
    if found.low is None or found.high is None:
        return Found(0.0, found.joules if found.at_most else None, found.joules, "no range is known")
    return Found(0.0 if found.at_most else found.low, found.high, found.joules)


_ALL = (
    Measure("macs", "count", _macs, "multiply-accumulates of one pass"),
    Measure("params", "count", _params, "parameters"),
    Measure("weights", "bytes", _weights, "all weights"),
    Measure("peak", "bytes", _peak, "memory in use at once beside the weights"),
    Measure("arena", "bytes", _arena, "TFLite Micro's tensor arena"),
    Measure("ram", "bytes", _ram, "what model and runtime take of the target's RAM", False, True),
    Measure("flash", "bytes", _flash, "the model, and with a target the runtime's code", False),
    Measure("latency", "seconds", _latency, "one pass on the target", needs_target=True),
    Measure("energy", "joules", _energy, "energy of a pass", needs_target=True),
)
MEASURES = {each.name: each for each in _ALL}


_SUBJECT_MOST_NAMED = 3


@dataclass(frozen=True, eq=False)
class Subject:
    """A model at a precision on a target; `ram_bytes` and `flash_bytes` are what is left for it there."""

    needs: Needs
    target: Target | None = None
    ram_bytes: int | None = None
    flash_bytes: int | None = None

    @property
    def graph(self) -> Graph:
        """The network."""
        return self.needs.graph

    @property
    def cost(self) -> Cost:
        """Its counts."""
        return self.needs.cost

    @property
    def precision(self) -> DType | None:
        """The one precision that all of it is priced at, or None."""
        return self.needs.precision

    @property
    def word_bits(self) -> int:
        """The word size that TFLite Micro's arena is computed for."""
        return word_bits_of(self.target)

    @cached_property
    def room(self) -> Room | None:
        """The room that the target has for it; None without a target."""
        if self.target is None:
            return None
        return room(self.needs, self.target, ram=self.ram_bytes, flash=self.flash_bytes)

    @cached_property
    def estimate(self) -> Estimate | str:
        """How long it takes on the target, or why nobody can tell."""
        from sizeup import latency

        if self.target is None:
            return "without a target (-d) there is no latency"
        try:
            return latency.estimate(self.cost, self.target, self.precision)
        except TargetError as error:
            return str(error)

    @cached_property
    def spent(self) -> Spent | str:
        """The energy of one pass, or why nobody can tell."""
        from sizeup import latency

        if isinstance(self.estimate, str):
            return self.estimate
        found = latency.energy(self.estimate)
        assert self.target is not None
        return f"the power of {self.target.device.title} is not known" if found is None else found

    @cached_property
    def held(self) -> tuple[Large, ...]:
        """The tensors in memory at the peak, the largest first."""
        return tuple(Large(each.name, each.bytes) for each in self.usage.held)

    @property
    def usage(self) -> Usage:
        """Memory as the target's runtime has it; without a target as a report tells it."""
        as_run = self.target is None or is_run_by_torch(self.target)
        return self.needs.usage_as_run if as_run else self.needs.usage

    @cached_property
    def op_seconds(self) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """The time of every operator."""
        return None if isinstance(self.estimate, str) else self.estimate.by_op()[0]

    def largest(self, column: Column | np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[Large, ...]:
        """The operators with most of a column."""
        order = np.argsort(-column, kind="stable")[:_SUBJECT_MOST_NAMED].tolist()
        ops = self.graph.ops
        return tuple(
            Large(name_of(self.graph, ops[each]) or ops[each].kind, float(column[each]))
            for each in order
            if column[each]
        )
