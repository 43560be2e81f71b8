"""A model under check: its graph and what follows from it, each found once, when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sizeup.checks.limits import Large
from sizeup.checks.needs import Needs
from sizeup.checks.room import Room, is_run_by_torch, room
from sizeup.cost import Column, Cost
from sizeup.dtypes import DType
from sizeup.errors import TargetError
from sizeup.graph import Graph, name_of
from sizeup.targets import Target, word_bits_of

if TYPE_CHECKING:
    from sizeup.latency import Estimate, Spent
    from sizeup.memory import Usage

_MOST_NAMED = 3


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
        order = np.argsort(-column, kind="stable")[:_MOST_NAMED].tolist()
        ops = self.graph.ops
        return tuple(
            Large(name_of(self.graph, ops[each]) or ops[each].kind, float(column[each]))
            for each in order
            if column[each]
        )
