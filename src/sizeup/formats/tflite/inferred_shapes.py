"""Infers shapes that a converter records as placeholders, because the batch of the model is not fixed.

Keras writes the shape of a reshape as values: SHAPE, STRIDED_SLICE and PACK. The converter then records 1 for
every size, and a runtime computes the shapes before the first inference. So does this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from sizeup.formats.tflite.node import Node, integers
from sizeup.formats.tflite.output_shapes import inferred_shape
from sizeup.graph import ABSENT, Shape, Tensor
from sizeup.ops.handlers import Handlers

_Values: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class InferredShapes:
    """Follows the values of shapes through a subgraph and replaces placeholders of its tensors.

    `replaced` has the recorded shape of every tensor whose shape was replaced.
    """

    def __init__(self, tensors: list[Tensor], signatures: dict[int, list[int]]) -> None:
        self.tensors = tensors
        self.signatures = signatures
        self.replaced: dict[int, Shape] = {}
        self._values: dict[int, _Values] = {}

    def follow(self, node: Node) -> None:
        """Process one operator; operators must come in execution order."""
        compute = _VALUES.get(node.source)
        if compute is not None and len(node.outputs) == 1:
            values = compute(self, node)
            if values is not None:
                self._values[node.outputs[0]] = values
        for identity in node.outputs[:1]:
            recorded, signature = self.tensors[identity].shape, self.signatures.get(identity)
            shape = None if signature is None or recorded is None else self._shape(node, recorded)
            if shape is None or shape == recorded or not _matches(shape, signature or []):
                continue
            self.replaced[identity] = recorded or ()
            self.tensors[identity] = replace(self.tensors[identity], shape=shape)

    def values(self, node: Node, position: int) -> _Values | None:
        """The values of an input that are known before the first inference."""
        if not node.has(position):
            return None
        identity = node.inputs[position]
        if identity in self._values:
            return self._values[identity]
        tensor = self.tensors[identity]
        numbers = integers(tensor)
        return None if numbers is None else np.array(numbers, np.int64).reshape(tensor.shape or ())

    def _shape(self, node: Node, recorded: Shape) -> Shape | None:
        data = self.tensors[node.inputs[0]].shape if node.has(0) else None
        if data is None:
            return None
        if node.source == "RESHAPE":
            return _reshaped(data, self.values(node, 1))
        if node.source == "TRANSPOSE":
            axes = self.values(node, 1)
            order = [] if axes is None else axes.ravel().tolist()
            return tuple(data[axis] for axis in order) if sorted(order) == [*range(len(data))] else None
        if node.source == "FULLY_CONNECTED":
            weights = self.tensors[node.inputs[1]].shape
            if weights is None or node.attrs.get("cut"):
                return None
            keeps_rank = len(recorded) == len(data) > 0 and data[-1] == weights[1]
            rows = data[:-1] if keeps_rank else (math.prod(data) // weights[1],)
            return (*rows, weights[0])
        return inferred_shape(node)


_VALUES = Handlers[Callable[[InferredShapes, Node], "_Values | None"]]()


def _matches(shape: Shape, signature: list[int]) -> bool:
    """Whether a shape has the sizes of a signature that are not dynamic."""
    return len(shape) == len(signature) and all(
        fixed in (-1, size) for size, fixed in zip(shape, signature, strict=True)
    )


def _reshaped(data: Shape, sizes: _Values | None) -> Shape | None:
    """The output shape of RESHAPE; one size may be -1."""
    if sizes is None or sizes.ndim != 1:
        return None
    shape, elements = [int(size) for size in sizes], math.prod(data)
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        if known <= 0 or elements % known:
            return None
        shape[shape.index(-1)] = elements // known
    return tuple(shape) if min(shape, default=1) >= 0 and math.prod(shape) == elements else None


@_VALUES("SHAPE")
def _shape_values(shapes: InferredShapes, node: Node) -> _Values | None:
    shape = shapes.tensors[node.inputs[0]].shape if node.has(0) else None
    return None if shape is None else np.array(shape, np.int64)


@_VALUES("STRIDED_SLICE")
def _sliced(shapes: InferredShapes, node: Node) -> _Values | None:
    """One dimension of STRIDED_SLICE."""
    operands = [shapes.values(node, position) for position in range(4)]
    if any(operand is None or operand.ndim != 1 for operand in operands):
        return None
    values, begin, end, stride = (operand for operand in operands if operand is not None)
    if not begin.size == end.size == stride.size == 1 or not stride[0]:
        return None
    first = None if node.attrs.get("begin_mask") else int(begin[0])
    if node.attrs.get("shrink_axis_mask"):
        index = first or 0
        return values[index] if -values.size <= index < values.size else None
    last = None if node.attrs.get("end_mask") else int(end[0])
    return values[first : last : int(stride[0])]


@_VALUES("CONCATENATION", "PACK")
def _joined(shapes: InferredShapes, node: Node) -> _Values | None:
    """PACK of scalars, and CONCATENATION of vectors."""
    parts = [shapes.values(node, position) for position in range(len(node.inputs))]
    known = [np.atleast_1d(part) for part in parts if part is not None and part.ndim <= 1]
    is_complete = known and len(known) == len(parts) and ABSENT not in node.inputs
    return np.concatenate(known) if is_complete else None


@_VALUES("GATHER")
def _gathered(shapes: InferredShapes, node: Node) -> _Values | None:
    values, indices = shapes.values(node, 0), shapes.values(node, 1)
    if values is None or indices is None or values.ndim != 1 or not indices.size:
        return None
    is_within = indices.min() >= 0 and indices.max() < values.size
    return values[indices] if is_within else None


@_VALUES("REDUCE_PROD")
def _product(shapes: InferredShapes, node: Node) -> _Values | None:
    values = shapes.values(node, 0)
    return None if values is None or values.ndim != 1 else values.prod(keepdims=False)


@_VALUES("CAST")
def _copied(shapes: InferredShapes, node: Node) -> _Values | None:
    return shapes.values(node, 0)


@_VALUES("MUL")
def _multiplied(shapes: InferredShapes, node: Node) -> _Values | None:
    left, right = shapes.values(node, 0), shapes.values(node, 1)
    return None if left is None or right is None or left.shape != right.shape else left * right
