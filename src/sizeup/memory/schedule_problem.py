"""The scheduling problem: ops, and the buffers that they produce and read.

A set of executed ops is an int with one bit per op. Live memory depends only on this set: the buffers
produced and still to be read, and the graph outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import Graph, Op
from sizeup.memory.liveness import buffer_liveness, initial_tensors
from sizeup.ops import cost_rule_of


@dataclass(frozen=True)
class Schedule:
    """A schedule, its peak, and a proven lower bound of all schedules."""

    ops: tuple[int, ...]
    peak_bytes: int
    lower_bound_bytes: int
    seconds: float
    states: int = 0  # states that the search explored

    @property
    def status(self) -> str:
        """'optimal' if the peak equals the lower bound, otherwise 'feasible'."""
        return "optimal" if self.peak_bytes == self.lower_bound_bytes else "feasible"


@dataclass(frozen=True)
class ScheduleProblem:
    """A scheduling problem: per op, the buffers that it produces and those that it reads.

    The ops are in file order, which is a schedule: an op comes after all ops that it depends on.
    """

    sizes: tuple[int, ...]  # bytes per buffer
    outputs: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]
    is_output: tuple[bool, ...]  # whether a buffer is live until the end
    initial: tuple[int, ...] = ()  # buffers that are live before the first op
    predecessors: tuple[tuple[int, ...], ...] = ()  # ops that must run earlier without a data dependency

    @property
    def count(self) -> int:
        """The number of ops."""
        return len(self.outputs)

    @cached_property
    def output_bytes(self) -> list[int]:
        """Output bytes per op."""
        return [sum(self.sizes[buffer] for buffer in produced) for produced in self.outputs]

    @cached_property
    def readers(self) -> list[int]:
        """The set of ops that read each buffer."""
        readers = [0] * len(self.sizes)
        for op, buffers in enumerate(self.inputs):
            for buffer in buffers:
                readers[buffer] |= 1 << op
        return readers

    @cached_property
    def freeable(self) -> list[list[tuple[int, int]]]:
        """Per op, the (readers, bytes) of the buffers that it may free."""
        return [
            [(self.readers[buffer], self.sizes[buffer]) for buffer in buffers if not self.is_output[buffer]]
            for buffers in self.inputs
        ]

    @cached_property
    def unread_bytes(self) -> list[int]:
        """Output bytes per op that are never read, so freed at once."""
        return [
            sum(self.sizes[b] for b in produced if not self.readers[b] and not self.is_output[b])
            for produced in self.outputs
        ]

    @cached_property
    def dependencies(self) -> list[int]:
        """The set of ops that must run before each op."""
        producer = {buffer: op for op, produced in enumerate(self.outputs) for buffer in produced}
        dependencies = [0] * self.count
        for op, buffers in enumerate(self.inputs):
            for buffer in buffers:
                if buffer in producer:
                    dependencies[op] |= 1 << producer[buffer]
        for op, earlier in enumerate(self.predecessors):
            for other in earlier:
                dependencies[op] |= 1 << other
        return [earlier_ops & ~(1 << op) for op, earlier_ops in enumerate(dependencies)]

    @cached_property
    def dependents(self) -> list[list[int]]:
        """The ops that depend on each op."""
        dependents: list[list[int]] = [[] for _ in range(self.count)]
        for op, earlier_ops in enumerate(self.dependencies):
            for earlier in members(earlier_ops):
                dependents[earlier].append(op)
        return dependents

    @cached_property
    def initial_bytes(self) -> int:
        """Live bytes before the first op."""
        return sum(
            self.sizes[buffer] for buffer in self.initial if self.readers[buffer] or self.is_output[buffer]
        )

    def run(self, done: int, live: int, op: int) -> tuple[int, int]:
        """The set and the live bytes after one more op."""
        done |= 1 << op
        live += self.output_bytes[op] - self.unread_bytes[op]
        for readers, size in self.freeable[op]:
            if not readers & ~done:
                live -= size
        return done, live

    def ready(self, done: int = 0) -> list[int]:
        """The ops that can run after the set `done`."""
        return [op for op in range(self.count) if not done >> op & 1 and not self.dependencies[op] & ~done]

    def peak(self, order: Iterable[int]) -> int:
        """Peak live bytes of a schedule."""
        done, live, peak = 0, self.initial_bytes, 0
        for op in order:
            peak = max(peak, live + self.output_bytes[op])
            done, live = self.run(done, live, op)
        return peak


def members(operators: int) -> list[int]:
    """The ops of a set, in order."""
    indices = []
    offset = 0
    while operators:
        # Shifting keeps the numbers short if the ops of the set are close together.
        skipped = (operators & -operators).bit_length() - 1
        offset += skipped
        indices.append(offset)
        operators >>= skipped + 1
        offset += 1
    return indices


def problem_of(graph: Graph, *, aliases: bool = True, precision: DType | None = None) -> ScheduleProblem:
    """The scheduling problem of a graph; ops with side effects keep their relative order."""
    buffers = buffer_liveness(graph, aliases=aliases, precision=precision)
    buffer_of = buffers.buffer_of_tensor
    seen = {buffer_of[identity] for identity in initial_tensors(graph) if buffer_of[identity] >= 0}
    initial = tuple(sorted(seen))
    outputs, inputs = [], []
    for op in graph.ops:
        produced = dict.fromkeys(
            buffer_of[i] for i in op.outputs if buffer_of[i] >= 0 and buffer_of[i] not in seen
        )
        seen.update(produced)
        buffers_used = (buffer_of[i] for i in (*op.inputs, *op.outputs) if i >= 0)
        outputs.append(tuple(produced))
        inputs.append(tuple(b for b in dict.fromkeys(buffers_used) if b >= 0 and b not in produced))
    is_output = [False] * len(buffers)
    for identity in graph.outputs:
        if buffer_of[identity] >= 0:
            is_output[buffer_of[identity]] = True
    return ScheduleProblem(
        tuple(buffers.size.tolist()),
        tuple(outputs),
        tuple(inputs),
        tuple(is_output),
        initial,
        _effects(graph),
    )


def _effects(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """Per op with side effects, the one before it: their order must not change."""
    previous: int | None = None
    predecessors: list[tuple[int, ...]] = []
    for index, op in enumerate(graph.ops):
        if not _has_effects(graph, op):
            predecessors.append(())
            continue
        predecessors.append(() if previous is None else (previous,))
        previous = index
    return tuple(predecessors)


def _has_effects(graph: Graph, op: Op) -> bool:
    """Whether an op may have side effects: variables, bodies, or no cost rule."""
    if not op.outputs or op.bodies or cost_rule_of(op.kind) is None:
        return True
    return any(graph.tensors[i].dtype.name in ("resource", "variant") for i in op.inputs if i >= 0)


def static_bound(problem: ScheduleProblem) -> int:
    """A lower bound of all schedules: the outputs of an op plus the buffers that must be live while it runs.

    A buffer must be live while an op runs if the op depends on the buffer's producer and one of the buffer's
    readers depends on the op. Uses one bit per pair of ops: 20,000 ops take 100 MB and less than a second.
    """
    earlier_ops, later_ops = _closure(problem)
    producer = {buffer: op for op, produced in enumerate(problem.outputs) for buffer in produced}
    totals = np.array(problem.output_bytes, np.int64)
    all_ops = (1 << problem.count) - 1
    for buffer, size in enumerate(problem.sizes):
        produced_by = producer.get(buffer)
        if not size or (produced_by is None and buffer not in problem.initial):
            continue
        possible = all_ops if produced_by is None else later_ops[produced_by]
        needed = all_ops if problem.is_output[buffer] else 0
        for reader in members(problem.readers[buffer]):
            needed |= earlier_ops[reader] | 1 << reader
        together = (possible & needed).to_bytes(-(-problem.count // 8), "little")
        bits = np.unpackbits(np.frombuffer(together, np.uint8), count=problem.count, bitorder="little")
        totals += np.int64(size) * bits
    return int(totals.max(initial=0))


def _closure(problem: ScheduleProblem) -> tuple[list[int], list[int]]:
    """Per op, all ops that must run before it, and all that must run after it."""
    earlier_ops = [0] * problem.count
    later_ops = [0] * problem.count
    for op in range(problem.count):
        for earlier in members(problem.dependencies[op]):
            earlier_ops[op] |= earlier_ops[earlier] | 1 << earlier
    for op in reversed(range(problem.count)):
        for later in problem.dependents[op]:
            later_ops[op] |= later_ops[later] | 1 << later
    return earlier_ops, later_ops
