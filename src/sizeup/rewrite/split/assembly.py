"""The graph in which some segments are executed in strips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sizeup.dtypes import DTYPES
from sizeup.formats.tflite.restructure import NewOp, NewTensor, Restructuring
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor
from sizeup.rewrite.split.program import Program, Step, StripTensor

_KINDS = {"SLICE": "slice", "PAD": "pad", "CONCATENATION": "concat"}


def assemble(graph: Graph, programs: Sequence[Program]) -> Restructuring:
    """The tensors and operators of a graph with those programs in place of their segments.

    New tensors first take the ids of those that are no longer used, since the interpreter plans every tensor
    of a file, used or not.
    """
    programs = sorted(programs, key=lambda program: program.segment.first)
    free = sorted(_unused(graph, programs), reverse=True)
    count = len(graph.tensors)
    tensors: list[NewTensor] = []
    constants: dict[tuple[int, ...], int] = {}
    ops: list[NewOp | int] = []
    position = 0
    for program in programs:
        identities = {ABSENT: ABSENT}
        for number, tensor in enumerate(program.tensors):
            if tensor.values is not None and tensor.values in constants:
                identities[program.base + number] = constants[tensor.values]
                continue
            identity = free.pop() if free else count
            count += identity == count
            identities[program.base + number] = identity
            tensors.append(NewTensor(identity, tensor.name, tensor.shape, tensor.like, tensor.values))
            if tensor.values is not None:
                constants[tensor.values] = identity
        ops += range(position, program.segment.first)
        ops += [_new_op(step, identities, program.segment.axis) for step in program.steps]
        position = program.segment.last + 1
    ops += range(position, len(graph.ops))
    return Restructuring(tuple(tensors), tuple(ops))


def _unused(graph: Graph, programs: Sequence[Program]) -> set[int]:
    """The results inside the segments, and the constants that only operators inside them read."""
    inside = {
        index for program in programs for index in range(program.segment.first, program.segment.last + 1)
    }
    lasts = {program.segment.last for program in programs}
    unused = {graph.ops[index].outputs[0] for index in inside - lasts}
    unused |= {identity for index in inside for identity in graph.ops[index].inputs if identity != ABSENT}
    used = {identity for index, op in enumerate(graph.ops) if index not in inside for identity in op.inputs}
    used |= {identity for program in programs for step in program.steps for identity in step.inputs}
    used |= {*graph.inputs, *graph.outputs, *(graph.ops[index].outputs[0] for index in lasts)}
    return unused - used


def _new_op(step: Step, identities: dict[int, int], axis: int) -> NewOp:
    inputs = tuple(identities.get(identity, identity) for identity in step.inputs)
    outputs = (identities.get(step.output, step.output),)
    return NewOp(step.source, inputs, outputs, step.origin, step.valid, axis)


def restructured_graph(graph: Graph, restructuring: Restructuring) -> Graph:
    """The graph of the file that `restructuring` writes; it stores no memory plan."""
    tensors = list(graph.tensors)
    for new in sorted(restructuring.tensors, key=lambda tensor: tensor.identity):
        tensor = _tensor(graph, new)
        if new.identity < len(tensors):
            tensors[new.identity] = tensor
        else:
            tensors.append(tensor)
    ops = tuple(graph.ops[op] if isinstance(op, int) else _op(graph, op) for op in restructuring.ops)
    return replace(graph, tensors=tuple(tensors), ops=ops, offsets=())


def _tensor(graph: Graph, new: NewTensor | StripTensor) -> Tensor:
    if new.values is None:
        return replace(graph.tensors[new.like], name=new.name, shape=new.shape)
    numbers = np.array(new.values, np.int32).reshape(new.shape)
    return Tensor(new.name, new.shape, DTYPES["int32"], Constant("constant", lambda: numbers))


def _op(graph: Graph, new: NewOp) -> Op:
    if new.origin is None:
        return Op(_KINDS[new.source], new.inputs, new.outputs, {}, new.source)
    old = graph.ops[new.origin]
    attrs = {**old.attrs, "padding": "valid"} if new.valid else old.attrs
    return replace(old, inputs=new.inputs, outputs=new.outputs, attrs=attrs)


def strip_op(program: Program, step: Step) -> tuple[Graph, Op]:
    """An operator of a program alone, with ids from 0 on, to ask what its kernel requests."""
    graph = program.graph
    identities = [identity for identity in (*step.inputs, step.output) if identity != ABSENT]
    tensors = tuple(
        graph.tensors[identity]
        if identity < program.base
        else _tensor(graph, program.tensors[identity - program.base])
        for identity in identities
    )
    numbers = iter(range(len(identities)))
    inputs = tuple(ABSENT if identity == ABSENT else next(numbers) for identity in step.inputs)
    op = _op(graph, NewOp(step.source, inputs, (next(numbers),), step.origin, step.valid))
    return Graph(tensors, (op,), (), ()), op
