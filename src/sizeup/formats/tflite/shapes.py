"""Validates recorded shapes: drops those that depend on data and finds those that contradict an operator.

A file may have dynamic dimensions (-1 in the shape signature of a tensor). The recorded shape is then valid
for the recorded batch, but it is a placeholder if the size depends on input data. A runtime recomputes all
shapes. A recorded shape that contradicts its operator would falsify later counts, so it is not used.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sizeup.formats.tflite.node import Node
from sizeup.formats.tflite.output_shapes import computed_dtype, computed_shapes, needed_shapes
from sizeup.graph import ABSENT, Body, Shape, Tensor

# Shape-preserving ops. Quantizers that insert them omit the shape signature.
_CONVERSIONS = frozenset({"quantize", "dequantize", "cast"})


class DynamicShapes:
    """Propagates dynamic dimensions through a subgraph and clears the shapes that depend on data."""

    def __init__(self, tensors: list[Tensor], signatures: dict[int, list[int]]) -> None:
        self.tensors = tensors
        self.open = set(signatures)
        # Tensors whose values are computed from shapes alone (SHAPE and ops on its output).
        self.shape_values: set[int] = set()

    def follow(self, node: Node) -> None:
        """Process one operator; operators must come in execution order."""
        inputs = [identity for identity in node.inputs if identity != ABSENT]
        if node.kind == "shape_of" or self._are_shape_values(inputs):
            self.shape_values.update(node.outputs)
        if node.kind in _CONVERSIONS and self.open.intersection(inputs):
            self.open.update(node.outputs)
        if self._depends_on_data(node, inputs):
            for identity in self.open.intersection(node.outputs):
                self.tensors[identity] = replace(self.tensors[identity], shape=None)

    def _depends_on_data(self, node: Node, inputs: list[int]) -> bool:
        if node.has_dynamic_output or any(self.tensors[identity].shape is None for identity in inputs):
            return True
        if self.open.intersection(inputs):
            return False
        # A dynamic dimension that starts here comes from values: those of shapes, or data.
        return not self._are_shape_values(inputs)

    def _are_shape_values(self, identities: list[int]) -> bool:
        return all(identity in self.shape_values or self._is_constant(identity) for identity in identities)

    def _is_constant(self, identity: int) -> bool:
        data = self.tensors[identity].data
        return data is not None and data.role not in ("buffer", "scratch")


def mismatch(node: Node) -> tuple[str, bool]:
    """What an operator computes instead of its recorded outputs, and whether in any runtime.

    LiteRT computes all shapes and some dtypes anew; TFLite Micro's kernels use the record, unless it
    contradicts their work. Empty if both are the same, or not known.
    """
    shapes = _recorded(node)
    if not shapes:
        return "", False
    computed = computed_shapes(node)
    if text := _difference(needed_shapes(node, computed), shapes):
        return text, True
    return _recomputed(node, shapes) or _difference(computed, shapes), False


def _recomputed(node: Node, shapes: list[Shape]) -> str:
    for body in node.bodies:
        problem = _body_mismatch(node, body)
        if problem:
            return problem
    if node.has_dynamic_output:
        return f"a shape that depends on data, not {shapes[0]}"
    dtype = computed_dtype(node)
    dtypes = [node.tensors[identity].dtype.name for identity in node.outputs]
    wrong = [name for name in dtypes if dtype not in (None, name)]
    return f"{dtype} values, not {wrong[0]}" if wrong else ""


def _recorded(node: Node) -> list[Shape]:
    """The recorded shapes of all outputs; empty if one is not known."""
    shapes = [node.tensors[identity].shape for identity in node.outputs]
    known = [shape for shape in shapes if shape is not None]
    return known if len(known) == len(shapes) else []


def _difference(computed: list[Shape] | int | None, recorded: list[Shape]) -> str:
    if isinstance(computed, int):
        elements = sum(map(math.prod, recorded))
        return "" if elements == computed else f"{computed:,} elements, not {elements:,}"
    for expected, shape in zip(computed or (), recorded, strict=False):
        if expected != shape:
            return f"the shape {expected}, not {shape}"
    return ""


_TESTED = frozenset({"IF", "STABLEHLO_CASE"})  # the first input selects a body


def _body_mismatch(node: Node, body: Body) -> str:
    """How the ends of a subgraph differ from what is passed: LiteRT passes on all shapes that it computes."""
    graph = body.graph
    passed = node.inputs[1:] if node.source in _TESTED else node.inputs
    returned = graph.outputs if body.name != "cond" else ()
    pairs = [*zip(passed, graph.inputs, strict=False), *zip(node.outputs, returned, strict=False)]
    for outside, inside in pairs:
        shapes = node.tensors[outside].shape if outside != ABSENT else None, graph.tensors[inside].shape
        if None not in shapes and shapes[0] != shapes[1]:
            return f"the shape {shapes[1]} in {body.name!r}, not {shapes[0]}"
    return ""
