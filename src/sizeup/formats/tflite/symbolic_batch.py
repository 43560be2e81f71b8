"""Shape inference for TFLite files with a symbolic batch.

A file records the shapes of one batch size. If an operator has that size in a constant, the runtime rejects
any other batch, and so does this module: the graph is then valid for the recorded batch only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sizeup.errors import LoadError
from sizeup.formats.tflite.operators import operator_of
from sizeup.graph import ABSENT, Graph, Op, Shape, Tensor
from sizeup.ops import cost_rule_of
from sizeup.ops.handlers import Handlers
from sizeup.symbolic import (
    Assumptions,
    Expression,
    Guard,
    NoClosedForm,
    Specialization,
    SymbolicGraph,
    SymbolicShape,
    assuming,
    broadcast,
    guard_source,
    quotient,
    size,
    value_at,
)

_BATCH = "batch"
_EXAMPLE = 2


def free_graph_of(graph: Graph, free: Mapping[str, Any] | Sequence[str] | bool) -> SymbolicGraph:
    """The main graph of a file with a symbolic batch."""
    names = [_BATCH] if isinstance(free, bool) else list(free)
    if names != [_BATCH] or isinstance(free, Mapping):
        raise LoadError(
            f"{graph.name}: only the batch of a TFLite file can be symbolic; use free=[{_BATCH!r}]"
        )
    recorded = _recorded_batch(graph)

    def read(example: Mapping[str, int]) -> Specialization:
        assumptions = Assumptions(example)
        try:
            with assuming(assumptions):
                symbolic_graph = _with_symbolic_batch(graph, recorded)
        except NoClosedForm as error:
            return _recorded_specialization(graph, recorded, example, str(error))
        return Specialization(symbolic_graph, example, dict(assumptions.guard_sources))

    try:
        return SymbolicGraph((_BATCH,), {_BATCH: max(recorded, _EXAMPLE)}, read)
    except LoadError:
        return SymbolicGraph((_BATCH,), {_BATCH: recorded}, read)


def _recorded_batch(graph: Graph) -> int:
    """The recorded batch: the first dimension of all inputs."""
    batches = {shape[0] for identity in graph.inputs if (shape := graph.tensors[identity].shape)}
    if len(batches) != 1:
        values = ", ".join(map(str, sorted(batches))) or "none"
        raise LoadError(f"{graph.name}: the inputs have no common first dimension (batch): {values}")
    return batches.pop()


def _recorded_specialization(
    graph: Graph, recorded: int, example: Mapping[str, int], reason: str
) -> Specialization:
    if example[_BATCH] != recorded:
        raise LoadError(
            f"{graph.name}: batch {example[_BATCH]} differs from the recorded batch ({recorded}),"
            f" and {reason}"
        )
    return Specialization(graph, example, {Guard("==", size(_BATCH) - recorded): reason}, reason)


def _with_symbolic_batch(graph: Graph, recorded: int) -> Graph:
    tensors = list(graph.tensors)
    batch: Any = size(_BATCH)
    for identity in graph.inputs:
        shape = tensors[identity].shape
        if shape:
            tensors[identity] = replace(tensors[identity], shape=(batch, *shape[1:]))
    for op in graph.ops:
        if not any(_is_symbolic(tensors[identity].shape) for identity in op.inputs if identity != ABSENT):
            continue
        label = f"{op.source} {op.name or graph.tensors[op.outputs[0]].name}".strip()
        try:
            with guard_source(label):
                shapes = _Node(op, tensors, graph.tensors, recorded).infer()
        except NoClosedForm as error:
            raise NoClosedForm(f"{label}: {error}") from error
        for identity, shape in zip(op.outputs, shapes, strict=True):
            tensors[identity] = replace(tensors[identity], shape=shape)
    # A memory plan in the file is valid only for the recorded batch.
    return replace(graph, tensors=tuple(tensors), offsets=())


def _is_symbolic(shape: Shape | None) -> bool:
    return any(isinstance(side, Expression) for side in shape or ())


class _Node:
    """An op with the symbolic batch in an input: its symbolic shapes and its recorded shapes."""

    def __init__(
        self, op: Op, tensors: Sequence[Tensor], recorded: Sequence[Tensor], recorded_batch: int
    ) -> None:
        self.op, self._tensors, self._recorded, self._recorded_batch = op, tensors, recorded, recorded_batch

    def infer(self) -> list[SymbolicShape]:
        """The symbolic output shapes, checked against the recorded ones at the recorded batch."""
        recorded = [self._recorded[identity].shape for identity in self.op.outputs]
        if self.op.bodies:
            raise NoClosedForm("the batch reaches control flow")
        if any(shape is None for shape in recorded):
            raise NoClosedForm("its output shape depends on data")
        infer = _INFERENCES.get(self.op.source) or self._by_kind()
        shapes = infer(self)
        for symbolic, fixed in zip(shapes, recorded, strict=True):
            if tuple(value_at(side, {_BATCH: self._recorded_batch}) for side in symbolic) != fixed:
                raise NoClosedForm(f"{fixed} in the file does not follow from the batch")
        return shapes

    def _by_kind(self) -> _Inference:
        if operator_of(self.op.source).per_image:
            return _per_image
        rule = cost_rule_of(self.op.kind)
        if rule is not None and rule.family == "elementwise":
            return _broadcast
        for trait, infer in (("reduces_axes", _reduce), ("keeps_shape", _like_first)):
            if rule is not None and trait in rule.traits:
                return infer
        raise NoClosedForm("its output shape for a symbolic batch is not known")

    def shape(self, position: int = 0) -> SymbolicShape:
        """The shape of an input with the symbolic batch."""
        shape = self._tensors[self.op.inputs[position]].shape
        if shape is None:
            raise NoClosedForm("its input shape depends on data")
        return shape

    def recorded_output(self, position: int = 0) -> Shape:
        """The recorded shape of an output."""
        shape = self._recorded[self.op.outputs[position]].shape
        assert shape is not None  # checked by infer
        return shape

    def recorded_input(self, position: int = 0) -> Shape:
        """The recorded shape of an input."""
        return self._recorded[self.op.inputs[position]].shape or ()

    def numbers(self, position: int) -> list[int]:
        """The values of a constant input: axes, a shape, paddings."""
        data = self._recorded[self.op.inputs[position]].data if position < len(self.op.inputs) else None
        if data is None or data.read is None:
            raise NoClosedForm("an input that sets its output shape is computed")
        return [int(number) for number in data.read().ravel().tolist()]


_Inference: TypeAlias = Callable[[_Node], list[SymbolicShape]]
_INFERENCES = Handlers[_Inference]()


def _broadcast(node: _Node) -> list[SymbolicShape]:
    shape: SymbolicShape = ()
    for position, identity in enumerate(node.op.inputs):
        if identity != ABSENT:
            shape = broadcast(shape, node.shape(position))
    return [shape]


def _like_first(node: _Node) -> list[SymbolicShape]:
    return [node.shape()]


def _per_image(node: _Node) -> list[SymbolicShape]:
    """Output of an operator that treats each image of the batch separately."""
    first, *rest = node.shape()
    if any(isinstance(side, Expression) for side in rest):
        raise NoClosedForm("the batch is not the first dimension")
    return [(first, *node.recorded_output()[1:])]


@_INFERENCES("FULLY_CONNECTED")
def _fully_connected(node: _Node) -> list[SymbolicShape]:
    output, is_cut = node.recorded_output(), node.op.attrs.get("cut", False)
    data, weights = (node.shape(1), node.shape(0)) if is_cut else (node.shape(0), node.shape(1))
    if not is_cut and any(isinstance(data[axis], Expression) for axis in node.op.attrs["contracted"]):
        raise NoClosedForm("it sums over the batch")
    if not is_cut and len(output) == len(data) and output[:-1] == node.recorded_input()[:-1]:
        return [(*data[:-1], output[-1])]
    return [(_exact_quotient(math.prod(data), weights[-1]), output[-1])]


def _exact_quotient(total: Any, part: Any) -> Any:
    """An exact quotient; raises NoClosedForm if there is a remainder."""
    ratio = quotient(total, part)
    if ratio * part != total:
        raise NoClosedForm(f"its input of {total} elements does not divide into rows of {part}")
    return ratio


@_INFERENCES("BATCH_MATMUL")
def _batch_matmul(node: _Node) -> list[SymbolicShape]:
    left, right = node.shape(), node.shape(1)
    first, second = node.op.attrs["adjoint"]
    if left[-2 if first else -1] != right[-1 if second else -2]:
        raise NoClosedForm("its operands match for one batch size only")
    leading = broadcast(left[:-2], right[:-2])
    return [(*leading, left[-1 if first else -2], right[-2 if second else -1])]


@_INFERENCES("RESHAPE")
def _reshape(node: _Node) -> list[SymbolicShape]:
    data, target = node.shape(), list[Any](node.numbers(1))
    if -1 not in target:
        raise NoClosedForm(f"its constant target shape {tuple(target)} contains the batch")
    rest = math.prod(side for side in target if side != -1)
    target[target.index(-1)] = _exact_quotient(math.prod(data), rest)
    return [tuple(target)]


@_INFERENCES("EXPAND_DIMS")
def _expand(node: _Node) -> list[SymbolicShape]:
    data, (axis,) = list(node.shape()), node.numbers(1)
    data.insert(axis if axis >= 0 else axis + len(data) + 1, 1)
    return [tuple(data)]


@_INFERENCES("SQUEEZE")
def _squeeze(node: _Node) -> list[SymbolicShape]:
    data = node.shape()
    axes = {axis % len(data) for axis in node.op.attrs["axes"]}
    if not axes:  # all axes of size 1, possibly the batch
        axes = {axis for axis, side in enumerate(data) if side == 1}
    if any(data[axis] != 1 for axis in axes):
        raise NoClosedForm("it removes the batch as an axis of size 1")
    return [tuple(side for axis, side in enumerate(data) if axis not in axes)]


@_INFERENCES("TRANSPOSE")
def _transpose(node: _Node) -> list[SymbolicShape]:
    data = node.shape()
    return [tuple(data[axis] for axis in node.numbers(1))]


@_INFERENCES("PAD", "PADV2", "MIRROR_PAD")
def _pad(node: _Node) -> list[SymbolicShape]:
    borders = node.numbers(1)
    pairs = zip(borders[::2], borders[1::2], strict=True)
    return [tuple(side + a + b for side, (a, b) in zip(node.shape(), pairs, strict=True))]


def _reduce(node: _Node) -> list[SymbolicShape]:
    data, keeps_rank = node.shape(), len(node.recorded_output()) == len(node.shape())
    reduced = {axis % len(data) for axis in node.numbers(1)}
    return [
        tuple(
            1 if axis in reduced else side
            for axis, side in enumerate(data)
            if keeps_rank or axis not in reduced
        )
    ]


@_INFERENCES("CONCATENATION")
def _concat(node: _Node) -> list[SymbolicShape]:
    first, output = node.recorded_input(), node.recorded_output()
    axes = [axis for axis in range(len(output)) if first[axis] != output[axis]]
    if len(axes) != 1:
        raise NoClosedForm("its axis is not known")
    sides = list(node.shape())
    for position in range(1, len(node.op.inputs)):
        for axis, side in enumerate(node.shape(position)):
            if axis == axes[0]:
                sides[axis] += side
            elif sides[axis] != side:
                raise NoClosedForm("its inputs also differ along other axes")
    return [tuple(sides)]


@_INFERENCES("SPLIT", "SPLIT_V")
def _split(node: _Node) -> list[SymbolicShape]:
    """SPLIT takes (axis, data); SPLIT_V takes (data, lengths, axis)."""
    data_position, axis_position = (1, 0) if node.op.source == "SPLIT" else (0, 2)
    data, (axis,) = node.shape(data_position), node.numbers(axis_position)
    if isinstance(data[axis], Expression) and (data_position == 0 or len(node.op.outputs) > 1):
        raise NoClosedForm("it splits the batch")
    axis %= len(data)
    lengths = [node.recorded_output(position)[axis] for position in range(len(node.op.outputs))]
    if isinstance(data[axis], Expression):
        return [data]
    return [(*data[:axis], length, *data[axis + 1 :]) for length in lengths]
