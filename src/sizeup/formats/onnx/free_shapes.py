"""Shapes of ONNX's operators where a dimension is free, from their definitions.

Comparisons of sizes are decided by an example and become conditions (`sizeup.graph.assuming`). Every result
is held against the shape that ONNX's own inference gives at the example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import Array
from sizeup.formats.onnx.free_values import NotClosed, numbers
from sizeup.graph import Expression, Number, Shape, largest, quotient
from sizeup.ops import kind_of, rule_of
from sizeup.ops.einsum import letters


@dataclass(frozen=True, slots=True)
class Spot:
    """An operator with the shapes and the small tensors that it reads; None where one is not known."""

    node: Node
    shapes: Sequence[Shape | None]
    values: Sequence[Array | None]

    def shape(self, index: int = 0) -> Shape:
        """The shape of an input that must be known."""
        found = self.shapes[index] if index < len(self.shapes) else None
        if found is None:
            raise NotClosed(f"the shape of its input {index} is not known")
        return found

    def numbers(self, index: int) -> list[Number]:
        """The numbers of an input that decides a shape."""
        return numbers(self.values[index] if index < len(self.values) else None, f"its input {index}")

    def plain_numbers(self, index: int) -> list[int]:
        """The same, where they may not depend on a free dimension: axes and the like."""
        found = self.numbers(index)
        if any(isinstance(each, Expression) for each in found):
            raise NotClosed(f"its input {index} depends on a free dimension")
        return found

    def given(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def axes(self, place: int) -> list[int]:
        """Axes, which older operators have as an attribute and newer ones as an input."""
        return self.plain_numbers(place) if self.given(place) else list(self.node.integers("axes"))


_Rule: TypeAlias = Callable[[Spot], list[Shape]]
_RULES: dict[str, _Rule] = {}
_FINEST = 2**10  # longer denominators of a scale are rounded decimals


def shapes_of(spot: Spot) -> list[Shape]:
    """The shapes of an operator's outputs, as far as it has a rule here."""
    rule = _RULES.get(spot.node.op)
    if rule is None:
        kind = kind_of("onnx", spot.node.op)
        known = None if kind is None else rule_of(kind)
        if known is None or known.family != "elementwise" or "::" in spot.node.op:
            raise NotClosed("its shape is not known where a dimension is free")
        rule = _broadcast_all
    return rule(spot)


def _shapes(names: str) -> Callable[[_Rule], _Rule]:
    def register(function: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def broadcast(left: Shape, right: Shape) -> Shape:
    """The shape of what two tensors are spread to."""
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(_spread(a, b) for a, b in pairs)


def _spread(left: Number, right: Number) -> Number:
    if isinstance(left, int) and left == 1:
        return right
    if isinstance(right, int) and right == 1:
        return left
    if isinstance(left - right, int) and left - right == 0:
        return left
    if left == 1:
        return right
    if right == 1 or left == right:
        return left
    raise NotClosed(f"{left} and {right} do not fit")


def _broadcast_all(spot: Spot) -> list[Shape]:
    found: Shape = ()
    for index, name in enumerate(spot.node.inputs):
        if name:
            found = broadcast(found, spot.shape(index))
    return [found]


@_shapes(
    "Identity Cast CastLike Softmax LogSoftmax Hardmax CumSum Trilu BatchNormalization Clip Gelu"
    " InstanceNormalization GroupNormalization MeanVarianceNormalization LpNormalization LRN"
    " QuantizeLinear DequantizeLinear ScatterND ScatterElements Scatter RMSNormalization"
    " LayerNormalization RandomNormalLike RandomUniformLike EyeLike Bernoulli ReverseSequence"
)
def _like_first(spot: Spot) -> list[Shape]:
    return [spot.shape()]


@_shapes("Dropout")
def _dropout(spot: Spot) -> list[Shape]:
    return [spot.shape()] * len(spot.node.outputs)


@_shapes("Shape")
def _shape(spot: Spot) -> list[Shape]:
    last = spot.node.attributes.get("end")
    return [(len(spot.shape()[spot.node.integer("start") : last if isinstance(last, int) else None]),)]


@_shapes("Size")
def _size(spot: Spot) -> list[Shape]:
    return [()]


def _windows(spot: Spot, kernel: Sequence[int]) -> list[Number]:
    """How many places a window has along every spatial axis."""
    node, sides = spot.node, spot.shape()[2:]
    strides = node.integers("strides") or (1,) * len(kernel)
    dilations = node.integers("dilations") or (1,) * len(kernel)
    pads = node.integers("pads") or (0,) * (2 * len(kernel))
    mode = node.text("auto_pad", "NOTSET")
    found = []
    for axis, (side, taps, stride, gap) in enumerate(zip(sides, kernel, strides, dilations, strict=True)):
        reach = gap * (taps - 1) + 1
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            found.append(-quotient(-side, stride))
            continue
        padded = side if mode == "VALID" else side + pads[axis] + pads[axis + len(kernel)]
        if not node.integer("ceil_mode"):
            found.append(quotient(padded - reach, stride) + 1)
            continue
        count = -quotient(reach - padded, stride) + 1
        before = 0 if mode == "VALID" else pads[axis]
        # The last window starts inside of the picture or its first border, or is left out.
        found.append(count - 1 if (count - 1) * stride >= side + before else count)
    return found


@_shapes("Conv ConvInteger QLinearConv")
def _conv(spot: Spot) -> list[Shape]:
    place = 3 if spot.node.op == "QLinearConv" else 1
    weight = spot.shape(place)
    kernel = spot.node.integers("kernel_shape") or weight[2:]
    return [(spot.shape()[0], weight[0], *_windows(spot, kernel))]


@_shapes("MaxPool AveragePool LpPool")
def _pool(spot: Spot) -> list[Shape]:
    made = (*spot.shape()[:2], *_windows(spot, spot.node.integers("kernel_shape")))
    return [made] * len(spot.node.outputs)


@_shapes("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def _global_pool(spot: Spot) -> list[Shape]:
    return [(*spot.shape()[:2], *[1] * (len(spot.shape()) - 2))]


@_shapes("ConvTranspose")
def _conv_transpose(spot: Spot) -> list[Shape]:
    node, data, weight = spot.node, spot.shape(), spot.shape(1)
    kernel = node.integers("kernel_shape") or weight[2:]
    count = len(kernel)
    strides, dilations = node.integers("strides") or (1,) * count, node.integers("dilations") or (1,) * count
    pads, added = node.integers("pads") or (0,) * 2 * count, node.integers("output_padding") or (0,) * count
    if node.integers("output_shape"):
        sides: list[Number] = list(node.integers("output_shape"))
    elif node.text("auto_pad", "NOTSET").startswith("SAME"):
        sides = [side * stride for side, stride in zip(data[2:], strides, strict=True)]
    else:
        sides = [
            strides[a] * (data[2 + a] - 1) + added[a] + dilations[a] * (kernel[a] - 1) + 1
            - pads[a] - pads[a + count]
            for a in range(count)
        ]  # fmt: skip
    return [(data[0], weight[1] * node.integer("group", 1), *sides)]


@_shapes("MatMul MatMulInteger QLinearMatMul")
def _matmul(spot: Spot) -> list[Shape]:
    left, right = spot.shape(), spot.shape(3 if spot.node.op == "QLinearMatMul" else 1)
    rows = left[-2:-1] if len(left) > 1 else ()
    columns = right[-1:] if len(right) > 1 else ()
    _spread(left[-1], right[-2] if len(right) > 1 else right[0])
    return [(*broadcast(left[:-2], right[:-2]), *rows, *columns)]


@_shapes("Gemm")
def _gemm(spot: Spot) -> list[Shape]:
    left, right, node = spot.shape(), spot.shape(1), spot.node
    return [(left[1 if node.integer("transA") else 0], right[0 if node.integer("transB") else 1])]


@_shapes("Reshape")
def _reshape(spot: Spot) -> list[Shape]:
    data, wanted = spot.shape(), spot.numbers(1)
    sides: list[Number] = []
    for axis, each in enumerate(wanted):
        copied = isinstance(each, int) and each == 0 and not spot.node.integer("allowzero")
        sides.append(data[axis] if copied else each)
    open_places = [place for place, each in enumerate(sides) if isinstance(each, int) and each == -1]
    if open_places:
        rest = math.prod(each for place, each in enumerate(sides) if place not in open_places)
        sides[open_places[0]] = quotient(math.prod(data), rest)
    return [tuple(sides)]


@_shapes("Flatten")
def _flatten(spot: Spot) -> list[Shape]:
    data = spot.shape()
    axis = spot.node.integer("axis", 1) % (len(data) + 1) if data else 0
    return [(math.prod(data[:axis]), math.prod(data[axis:]))]


@_shapes("Transpose")
def _transpose(spot: Spot) -> list[Shape]:
    data = spot.shape()
    order = spot.node.integers("perm") or tuple(reversed(range(len(data))))
    return [tuple(data[axis] for axis in order)]


@_shapes("Concat")
def _concat(spot: Spot) -> list[Shape]:
    shapes = [spot.shape(index) for index in range(len(spot.node.inputs))]
    axis = spot.node.integer("axis") % len(shapes[0])
    made = list(shapes[0])
    made[axis] = sum(shape[axis] for shape in shapes)
    return [tuple(made)]


@_shapes("Split")
def _split(spot: Spot) -> list[Shape]:
    data, node = spot.shape(), spot.node
    axis, count = node.integer("axis") % len(data), len(node.outputs)
    if spot.given(1):
        parts = spot.numbers(1)
    elif node.integers("split"):
        parts = list(node.integers("split"))
    else:
        part = -quotient(-data[axis], count)
        parts = [part] * (count - 1) + [data[axis] - part * (count - 1)]
    return [(*data[:axis], part, *data[axis + 1 :]) for part in parts]


@_shapes("Slice")
def _slice(spot: Spot) -> list[Shape]:
    node, made = spot.node, list(spot.shape())
    if spot.given(1):
        starts, ends = spot.numbers(1), spot.numbers(2)
        axes = spot.plain_numbers(3) if spot.given(3) else list(range(len(starts)))
        steps = spot.plain_numbers(4) if spot.given(4) else [1] * len(starts)
    else:
        starts, ends = list(node.integers("starts")), list(node.integers("ends"))
        axes, steps = list(node.integers("axes")) or list(range(len(starts))), [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        made[axis] = _length(made[axis], start, end, step)
    return [tuple(made)]


def _length(side: Number, start: Number, end: Number, step: int) -> Number:
    if isinstance(side, int) and isinstance(start, int) and isinstance(end, int):
        return len(range(*slice(start, end if end > -(2**31) else None, step).indices(side)))
    if step < 0:
        raise NotClosed("it walks backwards along a free dimension")
    first, last = (_inside(each, side) for each in (start, end))
    return largest([0, -quotient(first - last, step)]) if last < first else -quotient(first - last, step)


def _inside(place: Number, side: Number) -> Number:
    place = place + side if place < 0 else place
    return 0 if place < 0 else side if place > side else place


@_shapes("Gather")
def _gather(spot: Spot) -> list[Shape]:
    data = spot.shape()
    axis = spot.node.integer("axis") % len(data)
    return [(*data[:axis], *spot.shape(1), *data[axis + 1 :])]


@_shapes("GatherElements")
def _gather_elements(spot: Spot) -> list[Shape]:
    return [spot.shape(1)]


@_shapes("GatherND")
def _gather_nd(spot: Spot) -> list[Shape]:
    data, indices = spot.shape(), spot.shape(1)
    depth = indices[-1] + spot.node.integer("batch_dims")
    if isinstance(depth, Expression):
        raise NotClosed("the depth of its indices is free")
    return [(*indices[:-1], *data[depth:])]


@_shapes("Unsqueeze")
def _unsqueeze(spot: Spot) -> list[Shape]:
    data, axes = list(spot.shape()), spot.axes(1)
    rank = len(data) + len(axes)
    for axis in sorted(each % rank for each in axes):
        data.insert(axis, 1)
    return [tuple(data)]


@_shapes("Squeeze")
def _squeeze(spot: Spot) -> list[Shape]:
    data, axes = spot.shape(), spot.axes(1)
    gone = {each % len(data) for each in axes}
    if not axes:
        gone = {axis for axis, side in enumerate(data) if side == 1}
    return [tuple(side for axis, side in enumerate(data) if axis not in gone)]


@_shapes("Expand")
def _expand(spot: Spot) -> list[Shape]:
    return [broadcast(spot.shape(), tuple(spot.numbers(1)))]


@_shapes("Tile")
def _tile(spot: Spot) -> list[Shape]:
    return [tuple(side * times for side, times in zip(spot.shape(), spot.numbers(1), strict=True))]


@_shapes("Pad")
def _pad(spot: Spot) -> list[Shape]:
    made = list(spot.shape())
    borders = spot.numbers(1) if spot.given(1) else list(spot.node.integers("pads"))
    axes = spot.plain_numbers(3) if spot.given(3) else list(range(len(made)))
    for place, axis in enumerate(axes):
        made[axis] += borders[place] + borders[place + len(axes)]
    return [tuple(made)]


@_shapes(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum"
    " ReduceLogSumExp"
)
def _reduce(spot: Spot) -> list[Shape]:
    data, axes = spot.shape(), spot.axes(1)
    if not axes and spot.node.integer("noop_with_empty_axes"):
        return [data]
    gone = {each % len(data) for each in axes} or set(range(len(data)))
    return [_reduced(data, gone, bool(spot.node.integer("keepdims", 1)))]


@_shapes("ArgMax ArgMin")
def _arg(spot: Spot) -> list[Shape]:
    data = spot.shape()
    return [_reduced(data, {spot.node.integer("axis") % len(data)}, bool(spot.node.integer("keepdims", 1)))]


def _reduced(data: Shape, gone: set[int], kept: bool) -> Shape:
    return tuple(1 if axis in gone else side for axis, side in enumerate(data) if kept or axis not in gone)


@_shapes("TopK")
def _top(spot: Spot) -> list[Shape]:
    made = list(spot.shape())
    made[spot.node.integer("axis", -1)] = spot.numbers(1)[0] if spot.given(1) else spot.node.integer("k")
    return [tuple(made)] * 2


@_shapes("Resize")
def _resize(spot: Spot) -> list[Shape]:
    made = list(spot.shape())
    axes = list(spot.node.integers("axes")) or list(range(len(made)))
    if spot.node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotClosed("it keeps the aspect ratio")
    if spot.given(3):
        for axis, side in zip(axes, spot.numbers(3), strict=True):
            made[axis] = side
        return [tuple(made)]
    scales = spot.values[2] if spot.given(2) else None
    if scales is None or scales.dtype == object or not scales.size:
        raise NotClosed("its scales are not known before the run")
    for axis, scale in zip(axes, scales.tolist(), strict=True):
        ratio = Fraction(scale)
        if ratio.denominator > _FINEST:
            raise NotClosed(f"it scales by {scale}, which is rounded")
        made[axis] = quotient(made[axis] * ratio.numerator, ratio.denominator)
    return [tuple(made)]


@_shapes("Range")
def _range(spot: Spot) -> list[Shape]:
    (start,), (limit,), (step,) = spot.numbers(0), spot.numbers(1), spot.plain_numbers(2)
    if step < 0:
        start, limit, step = limit, start, -step
    return [
        (largest([0, -quotient(start - limit, step)]) if limit < start else -quotient(start - limit, step),)
    ]


@_shapes("ConstantOfShape")
def _constant_of_shape(spot: Spot) -> list[Shape]:
    return [tuple(spot.numbers(0))]


@_shapes("OneHot")
def _one_hot(spot: Spot) -> list[Shape]:
    made = list(spot.shape())
    axis = spot.node.integer("axis", -1) % (len(made) + 1)
    return [(*made[:axis], spot.numbers(1)[0], *made[axis:])]


@_shapes("Einsum")
def _einsum(spot: Spot) -> list[Shape]:
    shapes = [spot.shape(index) for index in range(len(spot.node.inputs))]
    terms, result = letters(spot.node.text("equation"), [len(shape) for shape in shapes])
    sizes: dict[str, Number] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, side in zip(term, shape, strict=True):
            sizes[letter] = _spread(sizes.get(letter, 1), side)
    return [tuple(sizes[letter] for letter in result)]


@_shapes("LSTM GRU RNN")
def _recurrent(spot: Spot) -> list[Shape]:
    data, node = spot.shape(), spot.node
    directions, hidden = spot.shape(2)[0], spot.shape(2)[-1]
    if node.integer("layout"):
        last: Shape = (data[0], directions, hidden)
        return [(data[0], data[1], directions, hidden), last, last]
    last = (directions, data[1], hidden)
    return [(data[0], directions, data[1], hidden), last, last]


@_shapes("DepthToSpace")
def _depth_to_space(spot: Spot) -> list[Shape]:
    batch, depth, height, width = spot.shape()
    block = spot.node.integer("blocksize")
    return [(batch, quotient(depth, block * block), height * block, width * block)]


@_shapes("SpaceToDepth")
def _space_to_depth(spot: Spot) -> list[Shape]:
    batch, depth, height, width = spot.shape()
    block = spot.node.integer("blocksize")
    return [(batch, depth * block * block, quotient(height, block), quotient(width, block))]


@_shapes("Attention")
def _attention(spot: Spot) -> list[Shape]:
    query, value = spot.shape(), spot.shape(2)
    if len(spot.node.outputs) > 1 or spot.given(4):
        raise NotClosed("it keeps keys and values")
    if len(query) == 4:
        return [(*query[:3], value[-1])]
    heads, shared = spot.node.integer("q_num_heads"), spot.node.integer("kv_num_heads")
    return [(*query[:2], quotient(value[-1] * heads, shared or heads))]
