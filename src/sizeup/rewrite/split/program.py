"""The operators that execute a segment in strips: SLICE, PAD, the operators of the segment, CONCATENATION."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sizeup.graph import ABSENT, Graph, Shape
from sizeup.rewrite.split.row_rules import Needs, Padding, Rows, StripRule
from sizeup.rewrite.split.segments import Segment

MAX_CONCATENATED = 10  # inputs of TFLite Micro's CONCATENATION
_NAME_LENGTH = 40


class StripTensor(NamedTuple):
    """A tensor of a program: part of the tensor `like`, or an int32 constant with `values`."""

    name: str
    shape: Shape
    like: int = ABSENT
    values: tuple[int, ...] | None = None


class Step(NamedTuple):
    """An operator of a program; `origin` is the operator of the graph that it executes."""

    source: str
    inputs: tuple[int, ...]
    output: int
    origin: int | None = None
    valid: bool = False


@dataclass(slots=True)
class Program:
    """The steps of a segment in strips. Ids from `base` on are those of `tensors`, others of the graph."""

    graph: Graph
    segment: Segment
    base: int
    tensors: list[StripTensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    constants: dict[tuple[int, ...], int] = field(default_factory=dict)

    def with_slices_first(self) -> Program:
        """The program that slices the inputs of the segment before its first strip, where they end."""
        first = [step.source == "SLICE" and step.inputs[0] < self.base for step in self.steps]
        steps = [step for is_first in (True, False) for step, now in zip(self.steps, first, strict=True)
                 if now == is_first]  # fmt: skip
        return replace(self, steps=steps)

    def tensor(self, name: str, shape: Shape, like: int) -> int:
        """Add a tensor; returns its id."""
        self.tensors.append(StripTensor(name, shape, like))
        return self.base + len(self.tensors) - 1

    def constant(self, values: tuple[int, ...], shape: Shape) -> int:
        """The id of a constant, which is added once."""
        if values not in self.constants:
            name = "strips/" + "_".join(map(str, values))
            self.tensors.append(StripTensor(name, shape, values=values))
            self.constants[values] = self.base + len(self.tensors) - 1
        return self.constants[values]

    def shape(self, identity: int) -> Shape:
        """The shape of a tensor."""
        if identity >= self.base:
            return self.tensors[identity - self.base].shape
        return self.graph.tensors[identity].shape or ()

    def like(self, identity: int) -> int:
        """The tensor of the graph that a tensor is part of."""
        return self.tensors[identity - self.base].like if identity >= self.base else identity


def program(graph: Graph, segment: Segment, strips: Sequence[Rows]) -> Program | None:
    """The program of a segment in strips of its output; None if one of them consists of padding."""
    result = Program(graph, segment, len(graph.tensors))
    parts = []
    for number, rows in enumerate(strips):
        part = _Strip(result, number).add(rows)
        if part is None:
            return None
        parts.append(part)
    _concatenate(result, parts)
    return result


def strip_program(graph: Graph, segment: Segment, rows: Rows) -> Program | None:
    """The steps of one strip alone, without their concatenation."""
    result = Program(graph, segment, len(graph.tensors))
    return None if _Strip(result, 0).add(rows) is None else result


def _concatenate(program: Program, parts: Sequence[int]) -> None:
    """Join the strips, in groups of equal size if they are too many for one operator."""
    output = program.graph.ops[program.segment.last].outputs[0]
    axis, name = program.segment.axis, program.graph.tensors[output].name
    groups = -(-len(parts) // MAX_CONCATENATED)
    if groups > 1:
        edges = [len(parts) * number // groups for number in range(groups + 1)]
        joined = []
        for number, (start, stop) in enumerate(itertools.pairwise(edges)):
            group = tuple(parts[start:stop])
            rows = sum(program.shape(part)[axis] for part in group)
            shape = _with_rows(program.shape(output), axis, rows)
            target = program.tensor(f"{_short(name)}/strips{number}", shape, output)
            program.steps.append(Step("CONCATENATION", group, target))
            joined.append(target)
        parts = joined
    program.steps.append(Step("CONCATENATION", tuple(parts), output))


def _with_rows(shape: Shape, axis: int, rows: int) -> Shape:
    return (*shape[:axis], rows, *shape[axis + 1 :])


def _short(name: str) -> str:
    """The last two parts of a path: every tensor stores its name, and fused operators have all of theirs."""
    return "/".join(name.split(";", 1)[0].rsplit("/", 2)[-2:])[-_NAME_LENGTH:]


class _Strip:
    """Adds the steps of one strip to a program."""

    def __init__(self, program: Program, number: int) -> None:
        self.program = program
        self.number = number
        self.slices: dict[tuple[int, Rows], int] = {}
        self.parts: dict[int, tuple[int, Rows]] = {}  # by tensor of the graph: its strip, and the rows of it

    def add(self, rows: Rows) -> int | None:
        """Add the steps that compute some rows of the segment's output; returns their tensor."""
        program, segment = self.program, self.program.segment
        ops = program.graph.ops[segment.first : segment.last + 1]
        needs = rows_needed(program.graph, segment, rows)
        if needs is None:
            return None
        for index, (op, rule, (produced, need)) in enumerate(zip(ops, segment.rules, needs, strict=True)):
            inputs = list(op.inputs)
            for position in rule.sliced:
                inputs[position] = self._rows(op.inputs[position], need.rows)
            output = op.outputs[0]
            part = self._execute(segment.first + index, rule, need, inputs, produced)
            self.parts[output] = part, produced
        return self.parts[ops[-1].outputs[0]][0]

    def _rows(self, identity: int, rows: Rows) -> int:
        """The tensor with some rows of a tensor of the graph."""
        program, axis = self.program, self.program.segment.axis
        source, present = self.parts.get(
            identity, (identity, Rows(0, program.shape(identity)[program.segment.axis]))
        )
        if rows == present:
            return source
        if (source, rows) not in self.slices:
            shape = _with_rows(program.shape(source), axis, rows.size)
            begin = [0] * len(shape)
            begin[axis] = rows.start - present.start
            bounds = program.constant(tuple(begin), (len(shape),)), program.constant(shape, (len(shape),))
            part = program.tensor(self._name(identity, f"rows{rows.start}"), shape, identity)
            program.steps.append(Step("SLICE", (source, *bounds), part))
            self.slices[source, rows] = part
        return self.slices[source, rows]

    def _execute(self, index: int, rule: StripRule, need: Needs, inputs: list[int], rows: Rows) -> int:
        program = self.program
        op = program.graph.ops[index]
        output = op.outputs[0]
        has_padding = need.pads is not None and any(map(any, need.pads))
        if rule.is_pad and not has_padding:
            return inputs[0]
        if need.pads is not None and has_padding and not rule.is_pad:
            inputs[0] = self._padded(op.inputs[0], inputs[0], need.pads)
        elif need.pads is not None and has_padding:
            inputs[1] = self._paddings(need.pads)
        shape = _with_rows(program.shape(output), program.segment.axis, rows.size)
        part = program.tensor(self._name(output), shape, output)
        is_window = "stride" in op.attrs
        program.steps.append(Step(op.source, tuple(inputs), part, index, is_window))
        return part

    def _padded(self, identity: int, source: int, pads: Sequence[Padding]) -> int:
        program = self.program
        shape = tuple(size + sum(pad) for size, pad in zip(program.shape(source), pads, strict=True))
        padded = program.tensor(self._name(identity, "padded"), shape, identity)
        program.steps.append(Step("PAD", (source, self._paddings(pads)), padded))
        return padded

    def _paddings(self, pads: Sequence[Padding]) -> int:
        return self.program.constant(tuple(count for pad in pads for count in pad), (len(pads), 2))

    def _name(self, identity: int, part: str = "") -> str:
        name = f"{_short(self.program.graph.tensors[identity].name)}/strip{self.number}"
        return f"{name}/{part}" if part else name


def rows_needed(graph: Graph, segment: Segment, rows: Rows) -> list[tuple[Rows, Needs]] | None:
    """Per operator, the rows that it computes for some rows of the segment's output, and what it needs."""
    required = {graph.ops[segment.last].outputs[0]: rows}
    needs: list[tuple[Rows, Needs]] = []
    for index in range(segment.last, segment.first - 1, -1):
        op, rule = graph.ops[index], segment.rules[index - segment.first]
        produced = required[op.outputs[0]]
        need = rule.needs(produced)
        if need is None:
            return None
        needs.append((produced, need))
        for position in rule.sliced:
            identity = op.inputs[position]
            other = required.get(identity, need.rows)
            required[identity] = Rows(min(other.start, need.rows.start), max(other.stop, need.rows.stop))
    return needs[::-1]
