"""What is in memory at each step under a choice of number types: bounds for the solver, and who decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sizeup.graph import ABSENT, Graph
from sizeup.memory import Buffers, lifetimes, tensor_bytes
from sizeup.precision.options import Options
from sizeup.precision.solve import Codes, Flags, Floats, Limit


def involved(graph: Graph, options: Options, step: int) -> Codes:
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


class Alive:
    """What is in memory at each step at least, as a sum over groups.

    A value that layers of other types may read can be converted as soon as it is made, and only the narrow
    copy lives on: after its first step it counts at the narrowest type.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.buffers: Buffers = lifetimes(options.graph)
        self.owner = np.array([self._owner(each) for each in self.buffers.tensors], np.int64)
        kinds = list(dict.fromkeys(options.dtype))
        self.column = np.array([kinds.index(each) for each in options.dtype], np.int64)
        tensors = options.graph.tensors
        sizes = [
            [max(tensor_bytes(tensors[i], kind) for i in each) for kind in kinds]
            for each in self.buffers.tensors
        ]
        self.sizes = np.array(sizes, np.int64).reshape(len(self.buffers), len(kinds))
        self.narrow = np.minimum(self.sizes.min(axis=1), self.buffers.size)
        self.convertible = self._convertible() & (self.owner >= 0)
        entering = {self.buffers.of_tensor[identity] for identity in options.graph.inputs}
        self.entering = np.isin(np.arange(len(self.buffers)), list(entering))

    def _owner(self, tensors: tuple[int, ...]) -> int:
        return next((int(self.options.owner[i]) for i in tensors if self.options.owner[i] >= 0), -1)

    def _convertible(self) -> Flags:
        """The buffers that an operator of another group reads."""
        found = np.zeros(len(self.buffers), np.bool_)
        owner = self.options.owner
        for op in self.options.graph.ops:
            groups = {int(owner[made]) for made in op.outputs} - {-1}
            for identity in op.inputs:
                if identity != ABSENT and owner[identity] >= 0 and groups - {int(owner[identity])}:
                    found[self.buffers.of_tensor[identity]] = True
        return found

    def worst_step(self, picked: Codes, most: int) -> int | None:
        """The step at which most is alive, where that is too much."""
        kind = np.full(int(self.options.group.max()) + 2, -1, np.int64)
        kind[self.options.group[picked]] = self.column[picked]
        taken = kind[self.owner]
        size = np.where(self.owner < 0, self.buffers.size, self.sizes[np.arange(len(taken)), taken])
        kept = np.where(self.convertible, self.narrow, size)
        live = replace(self.buffers, size=kept).live_bytes()
        made = self.convertible & ~self.entering
        np.add.at(live, self.buffers.first[made], (size - kept)[made])
        step = int(np.argmax(live)) if len(live) else 0
        return step if len(live) and live[step] > most else None

    def limit(self, step: int, most: int) -> Limit:
        """What is alive at a step must not be more than that."""
        fixed = 0
        by_group: dict[int, Floats] = {}
        for buffer in self.buffers.live_at(step):
            group = int(self.owner[buffer])
            is_made = self.buffers.first[buffer] == step and not self.entering[buffer]
            if group < 0:
                fixed += int(self.buffers.size[buffer])
            elif self.convertible[buffer] and not is_made:
                fixed += int(self.narrow[buffer])
            else:
                by_group[group] = by_group.get(group, np.zeros(self.sizes.shape[1])) + self.sizes[buffer]
        options = np.flatnonzero(np.isin(self.options.group, list(by_group)))
        groups, columns = self.options.group[options].tolist(), self.column[options].tolist()
        amounts = np.array([by_group[g][c] for g, c in zip(groups, columns, strict=True)], np.float64)
        return Limit(f"alive at {step}", options, amounts, float(most - fixed))
