"""Control flow: which blocks run how often, what types come out of them, and the frames that names are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from onnx import TensorProto

from sizeup.errors import LoadError
from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import SMALL, Array, Stored
from sizeup.formats.onnx.value_types import Dims, ValueType, dtype_of, joined, make, unknown

_TRUE = np.array(True)
# Shapes that still change after so many rounds are taken as unknown.
ROUNDS = 4


class InferBlock(Protocol):
    """Infers a block within a frame, from the types (and certain values) of its inputs."""

    def __call__(
        self, block: Block, inputs: list[ValueType], outer: Frame, values: Mapping[str, Array]
    ) -> Frame:
        """The frame of the block, filled."""
        ...


@dataclass(frozen=True, slots=True)
class Flow:
    """The types of an operator's outputs, and its blocks with how often each runs (None: data decides)."""

    types: list[ValueType]
    runs: list[tuple[str, Block, int | None]]


def follow(node: Node, frame: Frame, opset: int, infer: InferBlock, rounds: int) -> Flow:
    """Follow an operator that runs blocks, a loop for so many rounds until its shapes settle."""
    if node.op == "If" and {"then_branch", "else_branch"} <= node.blocks.keys():
        return _if(node, frame, infer)
    if node.op == "Loop" and "body" in node.blocks:
        return _loop(node, frame, infer, rounds)
    if node.op == "Scan" and "body" in node.blocks:
        scanned = _batched_scan if opset < 9 else _scan
        return scanned(node, frame, infer, rounds)
    runs: list[tuple[str, Block, int | None]] = []
    for name, block in node.blocks.items():
        infer(block, [], frame, {})
        runs.append((name, block, None))
    return Flow([], runs)


def _truth(frame: Frame, name: str) -> bool | None:
    value = frame.certain(name) if name else None
    return bool(value) if value is not None and value.size == 1 else None


def _if(node: Node, frame: Frame, infer: InferBlock) -> Flow:
    condition = _truth(frame, node.inputs[0]) if node.inputs else None
    names = ["then_branch", "else_branch"]
    if condition is not None:
        names = ["then_branch"] if condition else ["else_branch"]
    branches = []
    for name in names:
        inner = infer(node.blocks[name], [], frame, {})
        branches.append([inner.type(each) for each in inner.block.outputs])
    types = branches[0]
    for other in branches[1:]:
        types = [joined(a, b) for a, b in zip(types, other, strict=False)]
    return Flow(types, [(name, node.blocks[name], 1) for name in names])


def _loop(node: Node, frame: Frame, infer: InferBlock, rounds: int) -> Flow:
    """Inputs: trip count, condition, states. The body gets iteration, condition, states, and gives back
    condition, states, and one slice of each stacked output."""
    body = node.blocks["body"]
    trips, condition, *states = [*node.inputs, "", ""][: max(2, len(node.inputs))]
    fixed = [make(TensorProto.INT64, ()), make(TensorProto.BOOL, ())]
    # Whenever the body runs its condition holds, so what it computes from that is certain too.
    certain = {body.inputs[1]: _TRUE} if len(body.inputs) > 1 else {}
    inner, types = _settle(
        body, fixed, [frame.type(each) for each in states], 1, frame, certain, infer, rounds
    )
    goes_on = _truth(inner, body.outputs[0]) if body.outputs else None
    runs = _trip_count(frame, trips, condition, goes_on)
    slices = [inner.type(each) for each in body.outputs[1 + len(states) :]]
    return Flow(types + [_stacked(each, 0, runs) for each in slices], [("body", body, runs)])


def _trip_count(frame: Frame, trips: str, condition: str, goes_on: bool | None) -> int | None:
    limit = frame.certain(trips) if trips else None
    is_count = limit is not None and limit.size == 1 and limit.dtype.kind in "iub"
    most = int(limit.reshape(-1)[0]) if limit is not None and is_count else None
    enters = _truth(frame, condition) if condition else True
    if enters is False or (most is not None and most <= 0):
        return 0
    if enters is None or goes_on is None or (trips and most is None):
        return None
    return most if goes_on else 1


def _scan(node: Node, frame: Frame, infer: InferBlock, rounds: int) -> Flow:
    """Inputs: states, then sequences; the body gets states and one slice of each sequence."""
    body = node.blocks["body"]
    count = _states(node)
    states, sequences = node.inputs[:count], node.inputs[count:]
    axes = node.integers("scan_input_axes") or (0,) * len(sequences)
    types = [frame.type(each) for each in sequences]
    runs = _length(zip(types, axes, strict=False))
    slices = [_without(each, axis) for each, axis in zip(types, axes, strict=False)]
    inner, final = _settle(
        body, [], [frame.type(each) for each in states], 0, frame, {}, infer, rounds, slices
    )
    stacks = [inner.type(each) for each in body.outputs[count:]]
    places = node.integers("scan_output_axes") or (0,) * len(stacks)
    stacked = [_stacked(each, place, runs) for each, place in zip(stacks, places, strict=False)]
    return Flow(final + stacked, [("body", body, runs)])


def _batched_scan(node: Node, frame: Frame, infer: InferBlock, rounds: int) -> Flow:
    """The Scan of operator set 8: sequence lengths first, and a batch axis before all others."""
    body = node.blocks["body"]
    count = _states(node)
    states = [frame.type(each) for each in node.inputs[1:count]]
    sequences = [frame.type(each) for each in node.inputs[count:]]
    batch, steps = _length((each, 0) for each in sequences), _length((each, 1) for each in sequences)
    slices = [_without(_without(each, 0), 0) for each in sequences]
    inner, final = _settle(
        body, [], [_without(each, 0) for each in states], 0, frame, {}, infer, rounds, slices
    )
    stacks = [inner.type(each) for each in body.outputs[len(states) :]]
    runs = None if batch is None or steps is None else batch * steps
    types = [_stacked(each, 0, batch) for each in final]
    types += [_stacked(_stacked(each, 0, steps), 0, batch) for each in stacks]
    return Flow(types, [("body", body, runs)])


def _states(node: Node) -> int:
    """How many inputs of a scan are states; the rest are the sequences that it steps over."""
    count = len(node.inputs) - node.size("num_scan_inputs")
    if count < 0:
        node.refuse(f"num_scan_inputs is {node.size('num_scan_inputs')}, of {len(node.inputs)} inputs")
    return count


def _settle(
    body: Block,
    before: list[ValueType],
    states: list[ValueType],
    first: int,
    frame: Frame,
    certain: Mapping[str, Array],
    infer: InferBlock,
    rounds: int,
    after: list[ValueType] | None = None,
) -> tuple[Frame, list[ValueType]]:
    """Types of states that hold in every round: a dimension that the body changes is not known."""
    for _ in range(rounds):
        inner = infer(body, [*before, *states, *(after or [])], frame, certain)
        results = [inner.type(each) for each in body.outputs[first : first + len(states)]]
        results += [unknown()] * (len(states) - len(results))
        settled = [joined(a, b) for a, b in zip(states, results, strict=True)]
        if [each.dims for each in settled] == [each.dims for each in states]:
            return inner, states
        states = settled
    states = [make(each.element, None) if each.element else unknown() for each in states]
    return infer(body, [*before, *states, *(after or [])], frame, certain), states


def _length(sequences: Iterable[tuple[ValueType, int]]) -> int | None:
    for known, axis in sequences:
        if known.dims is not None and -len(known.dims) <= axis < len(known.dims):
            return known.dims[axis]
    return None


def _without(known: ValueType, axis: int) -> ValueType:
    if known.dims is None or not -len(known.dims) <= axis < len(known.dims):
        return make(known.element, None) if known.element else unknown()
    axis %= len(known.dims)
    return make(known.element, known.dims[:axis] + known.dims[axis + 1 :])


def _stacked(known: ValueType, axis: int, length: int | None) -> ValueType:
    if known.dims is None or not known.element:
        return known
    place = axis % (len(known.dims) + 1)
    dims: Dims = (*known.dims[:place], length, *known.dims[place:])
    return make(known.element, dims)


_FEW = 16


class Frame:
    """The names of one block, and through it those of the blocks around it."""

    __slots__ = ("assumed", "block", "outer", "types", "values")

    def __init__(self, block: Block, outer: Frame | None = None) -> None:
        self.block = block
        self.outer = outer
        self.types: dict[str, ValueType] = {}
        self.values: dict[str, Array | None] = {}
        self.assumed: set[str] = set()  # names whose values follow from defaults of inputs

    def type(self, name: str) -> ValueType:
        """The type of a name, as far as it is known."""
        frame: Frame | None = self
        while frame is not None:
            found = frame.types.get(name)
            if found is not None:
                return found
            constant = frame.block.constants.get(name)
            if constant is not None:
                return frame.types.setdefault(name, make(constant.element, constant.dims))
            frame = frame.outer
        return unknown()

    def value(self, name: str) -> Array | None:
        """The small tensor behind a name, where it is certain before the run."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.values[name]
            constant = frame.block.constants.get(name)
            if constant is not None:
                return frame.values.setdefault(name, _small(constant))
            frame = frame.outer
        return None

    def certain(self, name: str) -> Array | None:
        """The same, unless a caller can change it by overriding the default of an input."""
        return None if self.is_assumed(name) else self.value(name)

    def is_assumed(self, name: str) -> bool:
        """Whether a value is the default of an input, or computed from one."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.assumed:
                return True
            constant = frame.block.constants.get(name)
            if constant is not None or name in frame.types:
                return constant is not None and constant.overridable
            frame = frame.outer
        return False

    def constant(self, name: str) -> Stored | None:
        """The constant of the file that a name stands for, if it does."""
        frame: Frame | None = self
        while frame is not None:
            constant = frame.block.constants.get(name)
            if constant is not None or name in frame.types:
                return constant
            frame = frame.outer
        return None


def _small(constant: Stored) -> Array | None:
    """What may decide a shape: integers and booleans, and the few floats of a scale or a range."""
    family = dtype_of(constant.element).family
    if family == "complex" or constant.elements > (SMALL if family in ("int", "bool") else _FEW):
        return None
    try:
        return constant.read()
    except LoadError:  # its file is not there; most counts are certain without it
        return None
