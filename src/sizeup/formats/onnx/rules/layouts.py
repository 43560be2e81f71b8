"""Shapes of what moves, reduces and makes tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sizeup.formats.onnx.rules.spots import Spot, shapes
from sizeup.symbolic import Expression, NotClosed, Sides, broadcast, largest, quotient

# As the end of a slice these mean "as far as there is something", in whichever direction it walks.
_UNTIL_THE_END = (2**31 - 1, 2**63 - 1)


@shapes(
    "Identity Cast CastLike Softmax LogSoftmax Hardmax CumSum Trilu BatchNormalization Clip Gelu"
    " InstanceNormalization GroupNormalization MeanVarianceNormalization LpNormalization LRN"
    " QuantizeLinear DequantizeLinear ScatterND ScatterElements Scatter RMSNormalization"
    " LayerNormalization RandomNormalLike RandomUniformLike EyeLike Bernoulli ReverseSequence"
)
def _like_first(spot: Spot) -> list[Sides]:
    return [spot.shape()]


@shapes("Dropout")
def _dropout(spot: Spot) -> list[Sides]:
    return [spot.shape()] * len(spot.node.outputs)


@shapes("Shape")
def _shape(spot: Spot) -> list[Sides]:
    last = spot.node.attributes.get("end")
    return [(len(spot.shape()[spot.node.integer("start") : last if isinstance(last, int) else None]),)]


@shapes("Size")
def _size(spot: Spot) -> list[Sides]:
    return [()]


@shapes("Reshape")
def _reshape(spot: Spot) -> list[Sides]:
    data, wanted = spot.shape(), spot.numbers(1)
    sides: list[Any] = []
    for axis, each in enumerate(wanted):
        copied = isinstance(each, int) and each == 0 and not spot.node.integer("allowzero")
        sides.append(data[axis] if copied else each)
    open_places = [place for place, each in enumerate(sides) if isinstance(each, int) and each == -1]
    if open_places:
        rest = math.prod(each for place, each in enumerate(sides) if place not in open_places)
        if rest == 0:
            raise NotClosed("a side is open where others are 0")
        sides[open_places[0]] = quotient(math.prod(data), rest)
        if sides[open_places[0]] * rest != math.prod(data):
            raise NotClosed("what it reads does not divide into such rows")
    elif math.prod(sides) != math.prod(data):
        raise NotClosed(f"{math.prod(data)} elements cannot be reshaped to {sides}")
    return [tuple(sides)]


@shapes("Flatten")
def _flatten(spot: Spot) -> list[Sides]:
    data = spot.shape()
    axis = spot.node.integer("axis", 1)
    if not -len(data) <= axis <= len(data):
        raise NotClosed(f"axis {axis} is none of {len(data)}")
    axis = axis + len(data) if axis < 0 else axis
    return [(math.prod(data[:axis]), math.prod(data[axis:]))]


@shapes("Transpose")
def _transpose(spot: Spot) -> list[Sides]:
    data = spot.shape()
    order = spot.node.integers("perm") or tuple(reversed(range(len(data))))
    if sorted(order) != list(range(len(data))):
        raise NotClosed(f"{order} is no order of {len(data)} axes")
    return [tuple(data[axis] for axis in order)]


@shapes("Concat")
def _concat(spot: Spot) -> list[Sides]:
    given = [spot.shape(index) for index in range(len(spot.node.inputs))]
    axis = _axis(spot.node.integer("axis"), len(given[0]))
    made = list(given[0])
    for shape in given[1:]:
        if any(
            one != other for place, (one, other) in enumerate(zip(made, shape, strict=True)) if place != axis
        ):
            raise NotClosed("what it joins differs along other axes too")
    made[axis] = sum(shape[axis] for shape in given)
    return [tuple(made)]


@shapes("Split")
def _split(spot: Spot) -> list[Sides]:
    data, node = spot.shape(), spot.node
    axis, count = _axis(node.integer("axis"), len(data)), len(node.outputs)
    if spot.given(1):
        parts = spot.numbers(1)
    elif node.integers("split"):
        parts = list(node.integers("split"))
    else:
        part = -quotient(-data[axis], count)
        parts = [part] * (count - 1) + [data[axis] - part * (count - 1)]
    if sum(parts) != data[axis] or parts[-1] < 0:
        raise NotClosed("its parts are not the whole")
    return [(*data[:axis], part, *data[axis + 1 :]) for part in parts]


@shapes("Slice")
def _slice(spot: Spot) -> list[Sides]:
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


def _length(side: Any, start: Any, end: Any, step: int) -> Any:
    """As runtimes cut: a start outside is moved to the nearest place, an end to one beyond it."""
    backwards = step < 0
    first = _inside(start + side if start < 0 else start, 0, side - 1 if backwards else side)
    if isinstance(end, int) and end in _UNTIL_THE_END:
        last = -1 if backwards else side
    else:
        last = _inside(end + side if end < 0 else end, -1 if backwards else 0, side)
    way = first - last if backwards else last - first
    return -quotient(-way, abs(step)) if way >= 0 else 0


def _inside(place: Any, least: Any, most: Any) -> Any:
    place = most if place > most else place
    return least if place < least else place


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise NotClosed(f"axis {axis} is none of {rank}")
    return axis % rank


def _axes(axes: Sequence[int], rank: int) -> list[int]:
    places = [_axis(each, rank) for each in axes]
    if len(set(places)) < len(places):
        raise NotClosed(f"axes {list(axes)} name one twice")
    return places


@shapes("Gather")
def _gather(spot: Spot) -> list[Sides]:
    data = spot.shape()
    axis = _axis(spot.node.integer("axis"), len(data))
    return [(*data[:axis], *spot.shape(1), *data[axis + 1 :])]


@shapes("GatherElements")
def _gather_elements(spot: Spot) -> list[Sides]:
    return [spot.shape(1)]


@shapes("GatherND")
def _gather_nd(spot: Spot) -> list[Sides]:
    data, indices = spot.shape(), spot.shape(1)
    depth = indices[-1] + spot.node.integer("batch_dims")
    if isinstance(depth, Expression):
        raise NotClosed("the depth of its indices is free")
    return [(*indices[:-1], *data[depth:])]


@shapes("Unsqueeze")
def _unsqueeze(spot: Spot) -> list[Sides]:
    data, axes = list(spot.shape()), spot.axes(1)
    rank = len(data) + len(axes)
    for axis in sorted(_axes(axes, rank)):
        data.insert(axis, 1)
    return [tuple(data)]


@shapes("Squeeze")
def _squeeze(spot: Spot) -> list[Sides]:
    data, axes = spot.shape(), spot.axes(1)
    gone = {_axis(each, len(data)) for each in axes}
    if not axes:
        gone = {axis for axis, side in enumerate(data) if side == 1}
    elif any(data[axis] != 1 for axis in gone):
        raise NotClosed("an axis that it takes away is longer than 1")
    return [tuple(side for axis, side in enumerate(data) if axis not in gone)]


@shapes("Expand")
def _expand(spot: Spot) -> list[Sides]:
    return [broadcast(spot.shape(), tuple(spot.numbers(1)))]


@shapes("Tile")
def _tile(spot: Spot) -> list[Sides]:
    return [tuple(side * times for side, times in zip(spot.shape(), spot.numbers(1), strict=True))]


@shapes("Pad")
def _pad(spot: Spot) -> list[Sides]:
    made = list(spot.shape())
    borders = spot.numbers(1) if spot.given(1) else list(spot.node.integers("pads"))
    axes = spot.plain_numbers(3) if spot.given(3) else list(range(len(made)))
    for place, axis in enumerate(axes):
        made[axis] += borders[place] + borders[place + len(axes)]
    return [tuple(made)]


@shapes(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum"
    " ReduceLogSumExp"
)
def _reduce(spot: Spot) -> list[Sides]:
    data, axes = spot.shape(), spot.axes(1)
    if not axes and spot.node.integer("noop_with_empty_axes"):
        return [data]
    gone = {each % len(data) for each in axes} or set(range(len(data)))
    return [_reduced(data, gone, bool(spot.node.integer("keepdims", 1)))]


@shapes("ArgMax ArgMin")
def _arg(spot: Spot) -> list[Sides]:
    data = spot.shape()
    return [_reduced(data, {spot.node.integer("axis") % len(data)}, bool(spot.node.integer("keepdims", 1)))]


def _reduced(data: Sides, gone: set[int], kept: bool) -> Sides:
    return tuple(1 if axis in gone else side for axis, side in enumerate(data) if kept or axis not in gone)


@shapes("TopK")
def _top(spot: Spot) -> list[Sides]:
    made, axis = list(spot.shape()), spot.node.integer("axis", -1)
    most = spot.numbers(1)[0] if spot.given(1) else spot.node.integer("k")
    if most > made[axis]:
        raise NotClosed("it wants more than there are")
    made[axis] = most
    return [tuple(made)] * 2


@shapes("Range")
def _range(spot: Spot) -> list[Sides]:
    if any(each is not None and each.dtype.kind == "f" for each in spot.values):
        return [(_count_of_floats(spot),)]
    (start,), (limit,), (step,) = spot.numbers(0), spot.numbers(1), spot.plain_numbers(2)
    if step < 0:
        start, limit, step = limit, start, -step
    count = -quotient(start - limit, step)
    return [(largest([0, count]) if limit < start else count,)]


def _count_of_floats(spot: Spot) -> int:
    """The runtime computes with twice the digits, whatever the number type."""
    if any(each is None or each.dtype == object for each in spot.values):
        raise NotClosed("its fractions are not known before the run")
    start, limit, step = (float(each.item()) for each in spot.values if each is not None)
    return max(0, math.ceil((limit - start) / step))


@shapes("ConstantOfShape")
def _constant_of_shape(spot: Spot) -> list[Sides]:
    return [tuple(spot.numbers(0))]


@shapes("OneHot")
def _one_hot(spot: Spot) -> list[Sides]:
    made = list(spot.shape())
    axis = spot.node.integer("axis", -1) % (len(made) + 1)
    return [(*made[:axis], spot.numbers(1)[0], *made[axis:])]


@shapes("DepthToSpace")
def _depth_to_space(spot: Spot) -> list[Sides]:
    batch, depth, height, width = spot.shape()
    block = spot.node.integer("blocksize")
    return [(batch, quotient(depth, block * block), height * block, width * block)]


@shapes("SpaceToDepth")
def _space_to_depth(spot: Spot) -> list[Sides]:
    batch, depth, height, width = spot.shape()
    block = spot.node.integer("blocksize")
    return [(batch, depth * block * block, quotient(height, block), quotient(width, block))]
