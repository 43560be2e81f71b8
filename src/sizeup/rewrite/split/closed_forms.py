"""Lower bounds of arena head and tail, and MACs, of a segment in strips, without planning its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sizeup.backends.tflm import Build, head_buffers
from sizeup.backends.tflm.layout import ALIGNMENT, round_up
from sizeup.backends.tflm.overlap import OVERLAPPING, overlaps
from sizeup.backends.tflm.tail import kernel_requests, operator_bytes, tail_bytes, tensor_bytes
from sizeup.cost import count
from sizeup.graph import ABSENT, Graph
from sizeup.memory.liveness import Buffers
from sizeup.memory.overlap_packing import covered_bytes
from sizeup.rewrite.split.assembly import strip_op
from sizeup.rewrite.split.program import Program, Step, rows_needed, strip_program
from sizeup.rewrite.split.row_rules import Rows
from sizeup.rewrite.split.segments import Segment, entries

_FIRST_TICK = 2  # of the first operator


class Price(NamedTuple):
    """The cost of a segment in strips: its share of the arena head, and what it adds to tail and MACs."""

    head_bytes: int
    tail_bytes: int
    macs: int
    shared_bytes: int  # of the tail: constants that other segments in strips may have as well


@dataclass(slots=True)
class Prices:
    """Prices the programs of a graph for one build of TFLite Micro."""

    graph: Graph
    build: Build
    overlap: bool
    buffers: Buffers = field(init=False)
    live: list[int] = field(init=False)  # a lower bound of the head while each operator runs
    tail: int = field(init=False)  # of the unchanged graph
    macs: list[int] = field(init=False)  # per operator
    operators: list[int] = field(init=False)  # tail bytes per operator
    _widths: list[int] = field(init=False)  # bytes per element, by tensor
    _operators: dict[object, tuple[int, int]] = field(default_factory=dict)  # tail bytes and scratch

    def __post_init__(self) -> None:
        head = head_buffers(self.graph, build=self.build)
        self.buffers = head.buffers
        allowed = overlaps(self.graph, head) if self.overlap else ()
        live = covered_bytes(head.buffers, allowed).tolist()
        self.live = [int(size) for size in live[_FIRST_TICK : _FIRST_TICK + len(self.graph.ops)]]
        self.tail = tail_bytes((self.graph,), self.build)
        self.macs = [int(macs) for macs in count(self.graph).macs]
        self.operators = [operator_bytes(self.graph, op, self.build) for op in self.graph.ops]
        self._widths = [-(-tensor.dtype.bits // 8) for tensor in self.graph.tensors]

    def price(self, program: Program, macs: int) -> Price:
        """The price of a program that adds those MACs."""
        segment = program.segment
        operators = [self._operator(program, step) for step in program.steps]
        head = self._head(program, [scratch for _, scratch in operators])
        removed = sum(self.operators[segment.first : segment.last + 1])
        tensors = len(program.tensors) - (segment.last - segment.first) - self._paddings(segment)
        tail = sum(size for size, _ in operators) - removed + tensors * tensor_bytes(self.build)
        return Price(head, tail, macs, len(program.constants) * tensor_bytes(self.build))

    def _paddings(self, segment: Segment) -> int:
        """The constant paddings of a segment's operators: no longer used, if no others read them."""
        ops = self.graph.ops[segment.first : segment.last + 1]
        return len({op.inputs[1] for op in ops if op.source == "PAD"})

    def least_head(self, segment: Segment) -> int:
        """A lower bound of the head of a segment in any number of strips: at its start and at its end."""
        read = self._entries(segment)
        carried = self._carried(segment, read)
        inputs = sum(self._size(identity) for identity in read)
        kept = sum(self._size(identity) for identity in read if self._last(identity) > segment.last)
        output = self._size(self.graph.ops[segment.last].outputs[0])
        return carried + max(inputs, kept + output * (1 if self.overlap else 2))

    def extra_macs(self, segment: Segment, strips: Sequence[Rows]) -> int | None:
        """The MACs of a segment in strips minus its own; None if a strip consists of padding."""
        macs = -sum(self.macs[segment.first : segment.last + 1])
        for rows in strips:
            needs = rows_needed(self.graph, segment, rows)
            if needs is None:
                return None
            for index, (produced, _) in enumerate(needs, segment.first):
                if self.macs[index]:
                    shape = self.graph.tensors[self.graph.ops[index].outputs[0]].shape or ()
                    macs += self.macs[index] * produced.size // shape[segment.axis]
        return macs

    def _operator(self, program: Program, step: Step) -> tuple[int, int]:
        """The tail bytes and the scratch of a step's kernel."""
        shapes = tuple(
            program.shape(identity) for identity in (step.inputs[0], step.output) if identity != ABSENT
        )
        key = (step.source, step.origin, shapes, len(step.inputs))
        if key not in self._operators:
            graph, op = strip_op(program, step)
            scratch = kernel_requests(graph, op, self.build).scratch
            self._operators[key] = (
                operator_bytes(graph, op, self.build),
                sum(round_up(size, ALIGNMENT) for size in scratch),
            )
        return self._operators[key]

    def _bytes(self, program: Program, identity: int) -> int:
        size = self._widths[program.like(identity)]
        for length in program.shape(identity):
            size *= length
        return round_up(size, ALIGNMENT)

    def _size(self, identity: int) -> int:
        return int(self.buffers.size[self.buffers.buffer_of_tensor[identity]])

    def _is_planned(self, program: Program, identity: int) -> bool:
        if identity >= program.base:
            return program.tensors[identity - program.base].values is None
        return identity != ABSENT and self.buffers.buffer_of_tensor[identity] >= 0

    def strip_head(self, segment: Segment, rows: Rows, *, slices_first: bool) -> float:
        """The arena head while one strip runs, after the strips before it; infinite if it cannot.

        With `slices_first`, the slices of later strips are live instead of what they are taken from; the rows
        that several of them have in common are neglected.
        """
        strip = strip_program(self.graph, segment, rows)
        if strip is None:
            return math.inf
        scratch = [self._operator(strip, step)[1] for step in strip.steps]
        output = self.graph.ops[segment.last].outputs[0]
        before = self._size(output) * rows.start // segment.rows
        if slices_first:
            ending = [each for each in self._entries(segment) if self._last(each) <= segment.last]
            before += sum(map(self._size, ending)) * (segment.rows - rows.stop) // segment.rows
        return before + self._head(strip, scratch, is_last=slices_first or rows.stop == segment.rows)

    def _head(self, program: Program, scratch: list[int], *, is_last: bool = True) -> int:
        segment = program.segment
        read = self._entries(segment)
        sizes = {identity: self._bytes(program, identity) for identity in read}
        last_use: dict[int, int] = {}
        for number, step in enumerate(program.steps):
            for identity in step.inputs:
                last_use[identity] = number
        live = self._carried(segment, read) + sum(sizes.values())
        kept = {identity for identity in read if not is_last or self._last(identity) > segment.last}
        most = 0
        for number, step in enumerate(program.steps):
            sizes[step.output] = self._bytes(program, step.output)
            live += sizes[step.output]
            dying = {
                identity
                for identity in step.inputs
                if identity not in kept
                and last_use[identity] == number
                and self._is_planned(program, identity)
            }
            ending = sum(sizes[identity] for identity in dying)
            shared = min(sizes[step.output], ending) if step.source in OVERLAPPING and self.overlap else 0
            most = max(most, live + scratch[number] - shared)
            live -= ending
        return most

    def _entries(self, segment: Segment) -> set[int]:
        """The tensors in the head that a segment reads and does not produce."""
        return {each for each in entries(self.graph, segment) if self.buffers.buffer_of_tensor[each] >= 0}

    def _last(self, identity: int) -> int:
        """The last operator that uses a tensor."""
        return int(self.buffers.last[self.buffers.buffer_of_tensor[identity]]) - _FIRST_TICK

    def _carried(self, segment: Segment, read: set[int]) -> int:
        """The bytes that are live during the whole segment, without those that it reads."""
        first, last = segment.first + _FIRST_TICK, segment.last + _FIRST_TICK
        buffers = self.buffers
        is_live = (buffers.first < first) & (buffers.last > last)
        is_live[[buffers.buffer_of_tensor[identity] for identity in read]] = False
        return int(buffers.size[is_live].sum(dtype=np.int64))
