"""Validates recorded shapes: drops those that depend on data and finds those that contradict an operator.

A file may have dynamic dimensions (-1 in the shape signature of a tensor). The recorded shape is then valid
for the recorded batch, but it is a placeholder if the size depends on input data. A runtime recomputes all
shapes. A recorded shape that contradicts its operator would falsify later counts, so it is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sizeup.formats.tflite.node import Node
from sizeup.graph import ABSENT, Shape, Tensor
from sizeup.ops import cost_rule_of

_Inference: TypeAlias = Callable[[Node, Shape], "Shape | int | None"]


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


def inferred_shape(node: Node) -> Shape | None:
    """The output shape that an operator computes, if it follows from the shapes of its inputs."""
    computed = _computed(node)
    return None if isinstance(computed, int) else computed


def _computed(node: Node) -> Shape | int | None:
    data = _shape(node, 0)
    infer = _INFERENCES.get(node.source) or _by_family(node)
    return None if data is None or infer is None else infer(node, data)


def contradiction(node: Node) -> str:
    """A description of the mismatch between inferred and recorded output shapes; empty if none."""
    recorded = [node.tensors[identity].shape for identity in node.outputs]
    if not recorded or None in recorded:
        return ""
    computed = _computed(node)
    if computed is None:
        return ""
    if isinstance(computed, int):
        elements = sum(math.prod(shape or ()) for shape in recorded)
        return "" if elements == computed else f"{computed:,} elements, not {elements:,}"
    return "" if computed == recorded[0] else f"the shape {computed}, not {recorded[0]}"


def _by_family(node: Node) -> _Inference | None:
    rule = cost_rule_of(node.kind)
    return (
        _broadcast if rule is not None and rule.family == "elementwise" and len(node.outputs) == 1 else None
    )


def _shape(node: Node, position: int) -> Shape | None:
    return node.tensors[node.inputs[position]].shape if node.has(position) else None


def _broadcast(node: Node, data: Shape) -> Shape | None:
    shapes = [node.tensors[identity].shape for identity in node.inputs if identity != ABSENT]
    rank = max(len(shape or ()) for shape in shapes)
    sides = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if shape is not None and len(shape) >= -axis}
        if None in shapes or len(sizes - {1}) > 1:
            return None  # not a broadcast
        sides.append(next(iter(sizes - {1}), 1))
    return tuple(sides)


def _same_elements(node: Node, data: Shape) -> int:
    return math.prod(data)


def _like_first(node: Node, data: Shape) -> Shape:
    return data


def _window_output(node: Node, data: Shape) -> tuple[int, ...] | None:
    """The output height and width of a window operator."""
    attrs = node.attrs
    if len(data) != 4 or "stride" not in attrs or "padding" not in attrs:
        return None
    reach = [
        (taps - 1) * gap for taps, gap in zip(attrs["kernel"], attrs.get("dilation", (1, 1)), strict=True)
    ]
    if attrs["padding"] == "same":
        reach = [0, 0]
    steps = zip(data[1:3], reach, attrs["stride"], strict=True)
    return tuple(-(-(side - over) // step) for side, over, step in steps)


def _conv(node: Node, data: Shape) -> Shape | None:
    sides = _window_output(node, data)
    return None if sides is None else (data[0], *sides, node.attrs["out_channels"])


def _pool(node: Node, data: Shape) -> Shape | None:
    sides = _window_output(node, data)
    return None if sides is None else (data[0], *sides, data[3])


def _fully_connected(node: Node, data: Shape) -> int | None:
    is_cut = node.attrs.get("cut", False)
    weights, values = (data, _shape(node, 1)) if is_cut else (_shape(node, 1), data)
    if weights is None or values is None:
        return None
    return math.prod(values) // weights[1] * weights[0]


def _batch_matmul(node: Node, data: Shape) -> Shape | None:
    right = _shape(node, 1)
    if right is None or min(len(data), len(right)) < 2:
        return None
    first, second = node.attrs["adjoint"]
    rank = max(len(data), len(right)) - 2
    wide = [(1,) * (rank + 2 - len(shape)) + shape[:-2] for shape in (data, right)]
    leading = [max(pair) for pair in zip(*wide, strict=True)]
    return (*leading, data[-1 if first else -2], right[-2 if second else -1])


def _concatenated(node: Node, data: Shape) -> int | None:
    shapes = [node.tensors[identity].shape for identity in node.inputs if identity != ABSENT]
    return None if None in shapes else sum(math.prod(shape or ()) for shape in shapes)


def _padded(node: Node, data: Shape) -> Shape | None:
    borders = node.integers(1)
    if borders is None or len(borders) != 2 * len(data):
        return None
    pairs = zip(borders[::2], borders[1::2], strict=True)
    return tuple(side + before + after for side, (before, after) in zip(data, pairs, strict=True))


def _reduced(node: Node, data: Shape) -> int | None:
    axes = node.integers(1) if node.has(1) else None
    if axes is None or not data:
        return None
    reduced = {axis % len(data) for axis in axes}
    return math.prod(side for axis, side in enumerate(data) if axis not in reduced)


def _resized(node: Node, data: Shape) -> Shape | None:
    size = node.integers(1) if node.has(1) else None
    return (data[0], *size, data[3]) if size is not None and len(size) == 2 and len(data) == 4 else None


def _transpose_conv(node: Node, data: Shape) -> Shape | None:
    size = node.integers(3) if node.has(3) else None
    return None if size is None else tuple(size)


def _sliced(node: Node, data: Shape) -> Shape | None:
    begins, sizes = (node.integers(position) if node.has(position) else None for position in (1, 2))
    if begins is None or sizes is None or not len(begins) == len(sizes) == len(data):
        return None
    sides = zip(data, begins, sizes, strict=True)
    return tuple(side - begin if size == -1 else size for side, begin, size in sides)


def _names(text: str, infer: _Inference) -> dict[str, _Inference]:
    return dict.fromkeys(text.split(), infer)


_INFERENCES: dict[str, _Inference] = {
    **_names("CONV_2D DEPTHWISE_CONV_2D", _conv),
    **_names("AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D", _pool),
    **_names("FULLY_CONNECTED", _fully_connected),
    **_names("BATCH_MATMUL", _batch_matmul),
    **_names("TRANSPOSE_CONV", _transpose_conv),
    **_names("SOFTMAX LOG_SOFTMAX L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION CUMSUM", _like_first),
    **_names("QUANTIZE DEQUANTIZE CAST REVERSE_V2", _like_first),
    **_names("RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE DEPTH_TO_SPACE SPACE_TO_DEPTH UNPACK", _same_elements),
    **_names("CONCATENATION PACK", _concatenated),
    **_names("PAD PADV2 MIRROR_PAD", _padded),
    **_names("MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL", _reduced),
    **_names("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", _resized),
    **_names("SLICE", _sliced),
}
