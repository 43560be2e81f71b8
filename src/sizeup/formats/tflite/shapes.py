"""Which of the shapes that a file records hold: those that neither data decides nor an operator contradicts.

A file may leave dimensions open (-1 in a tensor's signature). The shape that it records then holds for the
recorded batch, but it is a placeholder if the input data decides the size. A runtime computes all shapes
again. A recorded shape that contradicts the operator would change every count behind it, so it is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sizeup.formats.tflite.node import Node
from sizeup.graph import ABSENT, Shape, Tensor
from sizeup.ops import rule_of

_Inference: TypeAlias = Callable[[Node, Shape], "Shape | int | None"]


# They have the shape of what they convert. Quantisers that add them leave the signature out.
_CONVERSIONS = frozenset({"quantize", "dequantize", "cast"})


class Openness:
    """Follows open dimensions through a subgraph and clears the shapes that data decides."""

    def __init__(self, tensors: list[Tensor], signatures: dict[int, list[int]]) -> None:
        self.tensors = tensors
        self.open = set(signatures)
        # Tensors whose numbers follow from shapes: what SHAPE gives, and what is computed from it.
        self.of_shapes: set[int] = set()

    def follow(self, node: Node) -> None:
        """Judge one operator's outputs, after everything in front of it."""
        given = [identity for identity in node.inputs if identity != ABSENT]
        if node.kind == "shape_of" or self._are_of_shapes(given):
            self.of_shapes.update(node.outputs)
        if node.kind in _CONVERSIONS and self.open.intersection(given):
            self.open.update(node.outputs)
        if self._is_decided_by_data(node, given):
            for identity in self.open.intersection(node.outputs):
                self.tensors[identity] = replace(self.tensors[identity], shape=None)

    def _is_decided_by_data(self, node: Node, given: list[int]) -> bool:
        if node.data_shaped or any(self.tensors[identity].shape is None for identity in given):
            return True
        if self.open.intersection(given):
            return False
        # An open dimension that begins here comes from numbers: from those of shapes, or from data.
        return not self._are_of_shapes(given)

    def _are_of_shapes(self, given: list[int]) -> bool:
        return all(identity in self.of_shapes or self._is_constant(identity) for identity in given)

    def _is_constant(self, identity: int) -> bool:
        data = self.tensors[identity].data
        return data is not None and data.role not in ("buffer", "scratch")


def contradiction(node: Node) -> str:
    """What an operator computes, if that is not what the file records for its outputs; else nothing."""
    data = _shape(node, 0)
    rule = _INFERENCES.get(node.source) or _by_family(node)
    recorded = [node.tensors[each].shape for each in node.outputs]
    if data is None or rule is None or not recorded or None in recorded:
        return ""
    computed = rule(node, data)
    if computed is None:
        return ""
    if isinstance(computed, int):
        elements = sum(math.prod(each or ()) for each in recorded)
        return "" if elements == computed else f"{computed:,} elements, not {elements:,}"
    return "" if computed == recorded[0] else f"the shape {computed}, not {recorded[0]}"


def _by_family(node: Node) -> _Inference | None:
    rule = rule_of(node.kind)
    return _spread if rule is not None and rule.family == "elementwise" and len(node.outputs) == 1 else None


def _shape(node: Node, position: int) -> Shape | None:
    return node.tensors[node.inputs[position]].shape if node.has(position) else None


def _spread(node: Node, data: Shape) -> Shape | None:
    shapes = [node.tensors[each].shape for each in node.inputs if each != ABSENT]
    rank = max(len(each or ()) for each in shapes)
    sides = []
    for axis in range(-rank, 0):
        here = {each[axis] for each in shapes if each is not None and len(each) >= -axis}
        if None in shapes or len(here - {1}) > 1:
            return None  # not by broadcasting
        sides.append(next(iter(here - {1}), 1))
    return tuple(sides)


def _same_elements(node: Node, data: Shape) -> int:
    return math.prod(data)


def _like_first(node: Node, data: Shape) -> Shape:
    return data


def _sides(node: Node, data: Shape) -> tuple[int, ...] | None:
    """The positions of a window over rows and columns."""
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
    sides = _sides(node, data)
    return None if sides is None else (data[0], *sides, node.attrs["out_channels"])


def _pool(node: Node, data: Shape) -> Shape | None:
    sides = _sides(node, data)
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
    wide = [(1,) * (rank + 2 - len(each)) + each[:-2] for each in (data, right)]
    leading = [max(pair) for pair in zip(*wide, strict=True)]
    return (*leading, data[-1 if first else -2], right[-2 if second else -1])


def _concatenated(node: Node, data: Shape) -> int | None:
    shapes = [node.tensors[each].shape for each in node.inputs if each != ABSENT]
    return None if None in shapes else sum(math.prod(each or ()) for each in shapes)


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
    gone = {axis % len(data) for axis in axes}
    return math.prod(side for axis, side in enumerate(data) if axis not in gone)


def _resized(node: Node, data: Shape) -> Shape | None:
    size = node.integers(1) if node.has(1) else None
    return (data[0], *size, data[3]) if size is not None and len(size) == 2 and len(data) == 4 else None


def _transpose_conv(node: Node, data: Shape) -> Shape | None:
    size = node.integers(3) if node.has(3) else None
    return None if size is None else tuple(size)


def _sliced(node: Node, data: Shape) -> Shape | None:
    begins, sizes = (node.integers(each) if node.has(each) else None for each in (1, 2))
    if begins is None or sizes is None or not len(begins) == len(sizes) == len(data):
        return None
    sides = zip(data, begins, sizes, strict=True)
    return tuple(side - begin if size == -1 else size for side, begin, size in sides)


def _names(text: str, rule: _Inference) -> dict[str, _Inference]:
    return dict.fromkeys(text.split(), rule)


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
