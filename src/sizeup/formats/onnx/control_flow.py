"""Control flow: trip counts and output types of blocks, and the frames in which names are looked up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from onnx import TensorProto

from sizeup.errors import LoadError
from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import SMALL, Array, StoredTensor
from sizeup.formats.onnx.value_types import Dims, ValueType, common_type, dtype_of, tensor_type, unknown_type

_TRUE = np.array(True)
# Shapes that still change after this many iterations are unknown.
ROUNDS = 4


class InferBlock(Protocol):
    """Infers the types of a block from the types (and known values) of its inputs."""

    def __call__(
        self, block: Block, inputs: list[ValueType], outer: Frame, values: Mapping[str, Array]
    ) -> Frame:
        """Returns the frame of the block with all its types."""
        ...


@dataclass(frozen=True, slots=True)
class Flow:
    """The types of a node's outputs, and its blocks with their trip counts (None: depends on data)."""

    types: list[ValueType]
    runs: list[tuple[str, Block, int | None]]


def infer_flow(node: Node, frame: Frame, opset: int, infer: InferBlock, rounds: int) -> Flow:
    """Infer a node that runs blocks; `rounds` limits the iterations until the shapes of a loop are stable."""
    if node.op == "If" and {"then_branch", "else_branch"} <= node.blocks.keys():
        return _if(node, frame, infer)
    if node.op == "Loop" and "body" in node.blocks:
        return _loop(node, frame, infer, rounds)
    if node.op == "Scan" and "body" in node.blocks:
        scan = _batched_scan if opset < 9 else _scan
        return scan(node, frame, infer, rounds)
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
        branches.append([inner.type(output) for output in inner.block.outputs])
    types = branches[0]
    for other in branches[1:]:
        types = [common_type(a, b) for a, b in zip(types, other, strict=False)]
    return Flow(types, [(name, node.blocks[name], 1) for name in names])


def _loop(node: Node, frame: Frame, infer: InferBlock, rounds: int) -> Flow:
    """Inputs: trip count, condition, states. The body takes the iteration, the condition and the states, and
    returns the condition, the states, and one slice of each stacked output."""
    body = node.blocks["body"]
    trips, condition, *states = [*node.inputs, "", ""][: max(2, len(node.inputs))]
    fixed = [tensor_type(TensorProto.INT64, ()), tensor_type(TensorProto.BOOL, ())]
    # While the body runs its condition is true, so values computed from it are known.
    certain = {body.inputs[1]: _TRUE} if len(body.inputs) > 1 else {}
    inner, types = _stable_types(
        body, fixed, [frame.type(name) for name in states], 1, frame, certain, infer, rounds
    )
    continues = _truth(inner, body.outputs[0]) if body.outputs else None
    runs = _trip_count(frame, trips, condition, continues)
    slices = [inner.type(name) for name in body.outputs[1 + len(states) :]]
    return Flow(types + [_stacked(slice_, 0, runs) for slice_ in slices], [("body", body, runs)])


def _trip_count(frame: Frame, trips: str, condition: str, continues: bool | None) -> int | None:
    limit = frame.certain(trips) if trips else None
    is_count = limit is not None and limit.size == 1 and limit.dtype.kind in "iub"
    count = int(limit.reshape(-1)[0]) if limit is not None and is_count else None
    enters = _truth(frame, condition) if condition else True
    if enters is False or (count is not None and count <= 0):
        return 0
    if enters is None or continues is None or (trips and count is None):
        return None
    return count if continues else 1


def _scan(node: Node, frame: Frame, infer: InferBlock, rounds: int) -> Flow:
    """Inputs: states, then sequences. The body takes the states and one slice of each sequence."""
    body = node.blocks["body"]
    count = _states(node)
    states, sequences = node.inputs[:count], node.inputs[count:]
    axes = node.integers("scan_input_axes") or (0,) * len(sequences)
    types = [frame.type(name) for name in sequences]
    runs = _length(zip(types, axes, strict=False))
    slices = [_without(sequence, axis) for sequence, axis in zip(types, axes, strict=False)]
    inner, final = _stable_types(
        body, [], [frame.type(name) for name in states], 0, frame, {}, infer, rounds, slices
    )
    results = [inner.type(name) for name in body.outputs[count:]]
    output_axes = node.integers("scan_output_axes") or (0,) * len(results)
    stacked = [_stacked(result, axis, runs) for result, axis in zip(results, output_axes, strict=False)]
    return Flow(final + stacked, [("body", body, runs)])


def _batched_scan(node: Node, frame: Frame, infer: InferBlock, rounds: int) -> Flow:
    """Scan of opset 8: the first input is the sequence lengths, and the first axis is the batch."""
    body = node.blocks["body"]
    count = _states(node)
    states = [frame.type(name) for name in node.inputs[1:count]]
    sequences = [frame.type(name) for name in node.inputs[count:]]
    batch, steps = (_length((sequence, axis) for sequence in sequences) for axis in (0, 1))
    slices = [_without(_without(sequence, 0), 0) for sequence in sequences]
    inner, final = _stable_types(
        body, [], [_without(state, 0) for state in states], 0, frame, {}, infer, rounds, slices
    )
    results = [inner.type(name) for name in body.outputs[len(states) :]]
    runs = None if batch is None or steps is None else batch * steps
    types = [_stacked(state, 0, batch) for state in final]
    types += [_stacked(_stacked(result, 0, steps), 0, batch) for result in results]
    return Flow(types, [("body", body, runs)])


def _states(node: Node) -> int:
    """The number of state inputs of a Scan; the remaining inputs are sequences."""
    count = len(node.inputs) - node.size("num_scan_inputs")
    if count < 0:
        node.refuse(
            f"num_scan_inputs is {node.size('num_scan_inputs')}, but it has {len(node.inputs)} inputs"
        )
    return count


def _stable_types(
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
    """The types of states that are valid in every iteration: dimensions that the body changes are unknown."""
    for _ in range(rounds):
        inner = infer(body, [*before, *states, *(after or [])], frame, certain)
        results = [inner.type(name) for name in body.outputs[first : first + len(states)]]
        results += [unknown_type()] * (len(states) - len(results))
        common = [common_type(a, b) for a, b in zip(states, results, strict=True)]
        if [state.dims for state in common] == [state.dims for state in states]:
            return inner, states
        states = common
    states = [tensor_type(state.element, None) if state.element else unknown_type() for state in states]
    return infer(body, [*before, *states, *(after or [])], frame, certain), states


def _length(sequences: Iterable[tuple[ValueType, int]]) -> int | None:
    for known, axis in sequences:
        if known.dims is not None and -len(known.dims) <= axis < len(known.dims):
            return known.dims[axis]
    return None


def _without(known: ValueType, axis: int) -> ValueType:
    if known.dims is None or not -len(known.dims) <= axis < len(known.dims):
        return tensor_type(known.element, None) if known.element else unknown_type()
    axis %= len(known.dims)
    return tensor_type(known.element, known.dims[:axis] + known.dims[axis + 1 :])


def _stacked(known: ValueType, axis: int, length: int | None) -> ValueType:
    if known.dims is None or not known.element:
        return known
    axis %= len(known.dims) + 1
    dims: Dims = (*known.dims[:axis], length, *known.dims[axis:])
    return tensor_type(known.element, dims)


# Maximum number of elements of a float constant that may be a scale or a range.
_MAX_FLOATS = 16


class Frame:
    """The types and values of the names of one block, with lookup in the enclosing blocks."""

    __slots__ = ("assumed", "block", "outer", "types", "values")

    def __init__(self, block: Block, outer: Frame | None = None) -> None:
        self.block = block
        self.outer = outer
        self.types: dict[str, ValueType] = {}
        self.values: dict[str, Array | None] = {}
        self.assumed: set[str] = set()  # names whose values depend on default values of inputs

    def type(self, name: str) -> ValueType:
        """The type of a name, unknown parts included."""
        frame: Frame | None = self
        while frame is not None:
            known = frame.types.get(name)
            if known is not None:
                return known
            constant = frame.block.constants.get(name)
            if constant is not None:
                return frame.types.setdefault(name, tensor_type(constant.element, constant.dims))
            frame = frame.outer
        return unknown_type()

    def value(self, name: str) -> Array | None:
        """The value of a small tensor; None if unknown before the run."""
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
        """As `value`, but None if the caller can change it by overriding a default value."""
        return None if self.is_assumed(name) else self.value(name)

    def is_assumed(self, name: str) -> bool:
        """Whether a value is the default value of an input, or computed from one."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.assumed:
                return True
            constant = frame.block.constants.get(name)
            if constant is not None or name in frame.types:
                return constant is not None and constant.overridable
            frame = frame.outer
        return False

    def constant(self, name: str) -> StoredTensor | None:
        """The constant of that name; None if the name is not a constant."""
        frame: Frame | None = self
        while frame is not None:
            constant = frame.block.constants.get(name)
            if constant is not None or name in frame.types:
                return constant
            frame = frame.outer
        return None


def _small(constant: StoredTensor) -> Array | None:
    """The value of a constant small enough to determine a shape; None otherwise."""
    family = dtype_of(constant.element).family
    if family == "complex" or constant.elements > (SMALL if family in ("int", "bool") else _MAX_FLOATS):
        return None
    try:
        return constant.read()
    except LoadError:  # its external file is missing; most counts do not need it
        return None
