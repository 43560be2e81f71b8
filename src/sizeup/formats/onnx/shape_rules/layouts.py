"""Shape rules of operators that rearrange, reduce and create tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sizeup.formats.onnx.shape_rules.context import RULES, InferenceContext, by_trait
from sizeup.symbolic import Expression, NoClosedForm, SymbolicShape, broadcast, largest, quotient

# As the end of a slice, these mean the end of the axis in the direction of the step.
_TO_THE_END = (2**31 - 1, 2**63 - 1)


@RULES("Dropout")
def _dropout(context: InferenceContext) -> list[SymbolicShape]:
    return [context.shape()] * len(context.node.outputs)


@RULES("Shape")
def _shape(context: InferenceContext) -> list[SymbolicShape]:
    end = context.node.attributes.get("end")
    return [(len(context.shape()[context.node.integer("start") : end if isinstance(end, int) else None]),)]


@RULES("Size")
def _size(context: InferenceContext) -> list[SymbolicShape]:
    return [()]


@RULES("Reshape")
def _reshape(context: InferenceContext) -> list[SymbolicShape]:
    data, target = context.shape(), context.numbers(1)
    sizes: list[Any] = []
    for axis, size in enumerate(target):
        is_copied = isinstance(size, int) and size == 0 and not context.node.integer("allowzero")
        sizes.append(data[axis] if is_copied else size)
    inferred = [axis for axis, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if inferred:
        rest = math.prod(size for axis, size in enumerate(sizes) if axis not in inferred)
        if rest == 0:
            raise NoClosedForm("-1 is ambiguous next to a zero dimension")
        sizes[inferred[0]] = quotient(math.prod(data), rest)
        if sizes[inferred[0]] * rest != math.prod(data):
            raise NoClosedForm(f"{math.prod(data)} elements cannot be reshaped to {target}")
    elif math.prod(sizes) != math.prod(data):
        raise NoClosedForm(f"{math.prod(data)} elements cannot be reshaped to {sizes}")
    return [tuple(sizes)]


@RULES("Flatten")
def _flatten(context: InferenceContext) -> list[SymbolicShape]:
    data = context.shape()
    axis = context.node.integer("axis", 1)
    if not -len(data) <= axis <= len(data):
        raise NoClosedForm(f"axis {axis} is out of range for rank {len(data)}")
    axis = axis + len(data) if axis < 0 else axis
    return [(math.prod(data[:axis]), math.prod(data[axis:]))]


@RULES("Transpose")
def _transpose(context: InferenceContext) -> list[SymbolicShape]:
    data = context.shape()
    order = context.node.integers("perm") or tuple(reversed(range(len(data))))
    if sorted(order) != list(range(len(data))):
        raise NoClosedForm(f"{order} is not a permutation of {len(data)} axes")
    return [tuple(data[axis] for axis in order)]


@RULES("Concat")
def _concat(context: InferenceContext) -> list[SymbolicShape]:
    inputs = [context.shape(index) for index in range(len(context.node.inputs))]
    axis = _axis(context.node.integer("axis"), len(inputs[0]))
    output = list(inputs[0])
    for shape in inputs[1:]:
        if any(one != other for i, (one, other) in enumerate(zip(output, shape, strict=True)) if i != axis):
            raise NoClosedForm("its inputs also differ along other axes")
    output[axis] = sum(shape[axis] for shape in inputs)
    return [tuple(output)]


@RULES("Split")
def _split(context: InferenceContext) -> list[SymbolicShape]:
    data, node = context.shape(), context.node
    axis, count = _axis(node.integer("axis"), len(data)), len(node.outputs)
    if context.has_input(1):
        parts = context.numbers(1)
    elif node.integers("split"):
        parts = list(node.integers("split"))
    else:
        part = -quotient(-data[axis], count)
        parts = [part] * (count - 1) + [data[axis] - part * (count - 1)]
    if sum(parts) != data[axis] or parts[-1] < 0:
        raise NoClosedForm("the sizes of its outputs do not add up to the axis length")
    return [(*data[:axis], part, *data[axis + 1 :]) for part in parts]


@RULES("Slice")
def _slice(context: InferenceContext) -> list[SymbolicShape]:
    node, output = context.node, list(context.shape())
    if context.has_input(1):
        starts, ends = context.numbers(1), context.numbers(2)
        axes = context.plain_numbers(3) if context.has_input(3) else list(range(len(starts)))
        steps = context.plain_numbers(4) if context.has_input(4) else [1] * len(starts)
    else:
        starts, ends = list(node.integers("starts")), list(node.integers("ends"))
        axes, steps = list(node.integers("axes")) or list(range(len(starts))), [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        output[axis] = _slice_length(output[axis], start, end, step)
    return [tuple(output)]


def _slice_length(size: Any, start: Any, end: Any, step: int) -> Any:
    """The length of a slice, with start and end clamped as runtimes do."""
    is_backward = step < 0
    first = _clamped(start + size if start < 0 else start, 0, size - 1 if is_backward else size)
    if isinstance(end, int) and end in _TO_THE_END:
        last = -1 if is_backward else size
    else:
        last = _clamped(end + size if end < 0 else end, -1 if is_backward else 0, size)
    distance = first - last if is_backward else last - first
    return -quotient(-distance, abs(step)) if distance >= 0 else 0


def _clamped(position: Any, low: Any, high: Any) -> Any:
    position = high if position > high else position
    return low if position < low else position


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise NoClosedForm(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def _axes(axes: Sequence[int], rank: int) -> list[int]:
    normalized = [_axis(axis, rank) for axis in axes]
    if len(set(normalized)) < len(normalized):
        raise NoClosedForm(f"axes {list(axes)} has duplicates")
    return normalized


@RULES("Gather")
def _gather(context: InferenceContext) -> list[SymbolicShape]:
    data = context.shape()
    axis = _axis(context.node.integer("axis"), len(data))
    return [(*data[:axis], *context.shape(1), *data[axis + 1 :])]


@RULES("GatherElements")
def _gather_elements(context: InferenceContext) -> list[SymbolicShape]:
    return [context.shape(1)]


@RULES("GatherND")
def _gather_nd(context: InferenceContext) -> list[SymbolicShape]:
    data, indices = context.shape(), context.shape(1)
    depth = indices[-1] + context.node.integer("batch_dims")
    if isinstance(depth, Expression):
        raise NoClosedForm("the depth of its indices depends on a symbolic dimension")
    return [(*indices[:-1], *data[depth:])]


@RULES("Unsqueeze")
def _unsqueeze(context: InferenceContext) -> list[SymbolicShape]:
    data, axes = list(context.shape()), context.axes(1)
    rank = len(data) + len(axes)
    for axis in sorted(_axes(axes, rank)):
        data.insert(axis, 1)
    return [tuple(data)]


@RULES("Squeeze")
def _squeeze(context: InferenceContext) -> list[SymbolicShape]:
    data, axes = context.shape(), context.axes(1)
    removed = {_axis(axis, len(data)) for axis in axes}
    if not axes:
        removed = {axis for axis, size in enumerate(data) if size == 1}
    elif any(data[axis] != 1 for axis in removed):
        raise NoClosedForm("it removes an axis that is longer than 1")
    return [tuple(size for axis, size in enumerate(data) if axis not in removed)]


@RULES("Expand")
def _expand(context: InferenceContext) -> list[SymbolicShape]:
    return [broadcast(context.shape(), tuple(context.numbers(1)))]


@RULES("Tile")
def _tile(context: InferenceContext) -> list[SymbolicShape]:
    return [tuple(size * times for size, times in zip(context.shape(), context.numbers(1), strict=True))]


@RULES("Pad")
def _pad(context: InferenceContext) -> list[SymbolicShape]:
    output = list(context.shape())
    pads = context.numbers(1) if context.has_input(1) else list(context.node.integers("pads"))
    axes = context.plain_numbers(3) if context.has_input(3) else list(range(len(output)))
    for index, axis in enumerate(axes):
        output[axis] += pads[index] + pads[index + len(axes)]
    return [tuple(output)]


@by_trait("reduces_axes")
def _reduce(context: InferenceContext) -> list[SymbolicShape]:
    data, axes = context.shape(), context.axes(1)
    if not axes and context.node.integer("noop_with_empty_axes"):
        return [data]
    reduced = {axis % len(data) for axis in axes} or set(range(len(data)))
    return [_reduced(data, reduced, bool(context.node.integer("keepdims", 1)))]


@RULES("ArgMax", "ArgMin")
def _arg(context: InferenceContext) -> list[SymbolicShape]:
    data = context.shape()
    return [
        _reduced(data, {context.node.integer("axis") % len(data)}, bool(context.node.integer("keepdims", 1)))
    ]


def _reduced(data: SymbolicShape, axes: set[int], keepdims: bool) -> SymbolicShape:
    return tuple(
        1 if axis in axes else size for axis, size in enumerate(data) if keepdims or axis not in axes
    )


@RULES("TopK")
def _top(context: InferenceContext) -> list[SymbolicShape]:
    output, axis = list(context.shape()), context.node.integer("axis", -1)
    k = context.numbers(1)[0] if context.has_input(1) else context.node.integer("k")
    if k > output[axis]:
        raise NoClosedForm("k exceeds the axis length")
    output[axis] = k
    return [tuple(output)] * 2


@RULES("Range")
def _range(context: InferenceContext) -> list[SymbolicShape]:
    if any(value is not None and value.dtype.kind == "f" for value in context.values):
        return [(_float_range_length(context),)]
    (start,), (limit,), (step,) = context.numbers(0), context.numbers(1), context.plain_numbers(2)
    if step < 0:
        start, limit, step = limit, start, -step
    count = -quotient(start - limit, step)
    return [(largest([0, count]) if limit < start else count,)]


def _float_range_length(context: InferenceContext) -> int:
    """The length of a Range of floats, computed in double precision as ONNX Runtime does for all dtypes."""
    if any(value is None or value.dtype == object for value in context.values):
        raise NoClosedForm("its bounds are unknown before the run")
    start, limit, step = (float(value.item()) for value in context.values if value is not None)
    return max(0, math.ceil((limit - start) / step))


@RULES("ConstantOfShape")
def _constant_of_shape(context: InferenceContext) -> list[SymbolicShape]:
    return [tuple(context.numbers(0))]


@RULES("OneHot")
def _one_hot(context: InferenceContext) -> list[SymbolicShape]:
    indices = context.shape()
    axis = context.node.integer("axis", -1) % (len(indices) + 1)
    return [(*indices[:axis], context.numbers(1)[0], *indices[axis:])]


@RULES("DepthToSpace")
def _depth_to_space(context: InferenceContext) -> list[SymbolicShape]:
    batch, depth, height, width = context.shape()
    block = context.node.integer("blocksize")
    return [(batch, quotient(depth, block * block), height * block, width * block)]


@RULES("SpaceToDepth")
def _space_to_depth(context: InferenceContext) -> list[SymbolicShape]:
    batch, depth, height, width = context.shape()
    block = context.node.integer("blocksize")
    return [(batch, depth * block * block, quotient(height, block), quotient(width, block))]
