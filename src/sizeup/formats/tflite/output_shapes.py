"""The shapes and the dtype that an operator gives its outputs, whatever the file records for them.

LiteRT computes both before the first inference, from the inputs and the options of an operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from sizeup.formats.tflite.node import Node
from sizeup.formats.tflite.operators import operator_of
from sizeup.formats.tflite.schema import numbers
from sizeup.graph import ABSENT, Shape
from sizeup.ops import cost_rule_of
from sizeup.ops.handlers import Handlers

# The shape of the only output, of each output, or the elements of all outputs; None if it is not known.
_Inference: TypeAlias = Callable[[Node, Shape], "Shape | list[Shape] | int | None"]
_EXACT = Handlers[_Inference]()  # no runtime can run the operator with another shape on record
_SAME_ELEMENTS = Handlers[_Inference]()  # TFLite Micro writes the same elements in the shape on record
_AS_RECORDED = Handlers[_Inference]()  # TFLite Micro writes as many elements as are on record


def computed_shapes(node: Node) -> list[Shape] | int | None:
    """The shape of each output, or the elements of all, if that follows from the inputs."""
    data = _shape(node, 0)
    handlers = (_EXACT, _SAME_ELEMENTS, _AS_RECORDED)
    infer = next((each[node.source] for each in handlers if node.source in each), _by_kind(node))
    computed = None if data is None or infer is None else infer(node, data)
    return [computed] if isinstance(computed, tuple) else computed


def inferred_shape(node: Node) -> Shape | None:
    """The shape of the first output, if it follows from the inputs."""
    computed = computed_shapes(node)
    return computed[0] if isinstance(computed, list) and computed else None


def needed_shapes(node: Node, computed: list[Shape] | int | None) -> list[Shape] | int | None:
    """What of computed shapes holds in any runtime; None if TFLite Micro writes as much as is on record."""
    by_kind = None if node.source in _AS_RECORDED else _by_kind(node)
    if node.source in _SAME_ELEMENTS or by_kind is _reduced:
        return sum(map(math.prod, computed)) if isinstance(computed, list) else computed
    return computed if node.source in _EXACT or by_kind else None


def computed_dtype(node: Node) -> str | None:
    """The dtype of every output, where the kernel sets it whatever the file records."""
    source = operator_of(node.source).dtype
    if isinstance(source, int):
        return node.tensor(source).dtype.name if node.has(source) else None
    if isinstance(source, tuple):
        return {2: "int32", 4: "int64"}.get(_setting(node, *source))
    return source


def _by_kind(node: Node) -> _Inference | None:
    """The inference that all operators of an op kind share."""
    rule = cost_rule_of(node.kind)
    if rule is None or len(node.outputs) != 1:
        return None
    if rule.family == "elementwise":
        return _broadcast
    if "reduces_axes" in rule.traits:
        return _reduced
    return _like_first if "keeps_shape" in rule.traits else None


def _shape(node: Node, position: int) -> Shape | None:
    return node.tensors[node.inputs[position]].shape if node.has(position) else None


def _integers(node: Node, position: int) -> list[int] | None:
    return node.integers(position) if node.has(position) else None


def _setting(node: Node, table: str, field: str) -> int:
    """A number or a flag of the options; 0 without options, as runtimes read it."""
    options = node.options(table)
    return 0 if options is None else int(getattr(options, field)())


def _axis(value: int, rank: int) -> int | None:
    """An axis counted from the start, if there is one."""
    return value % rank if -rank <= value < rank else None


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


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


@_EXACT("REVERSE_V2")
@_AS_RECORDED("REVERSE_SEQUENCE", "ZEROS_LIKE")
@_AS_RECORDED("DYNAMIC_UPDATE_SLICE", "MATRIX_SET_DIAG")
def _like_first(node: Node, data: Shape) -> Shape:
    return data


def _shape_in(position: int) -> _Inference:
    """The shape is the content of an input."""

    def infer(node: Node, data: Shape) -> Shape | None:
        size = _integers(node, position)
        return None if size is None else tuple(size)

    return infer


# Windows and matrices


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


@_EXACT("CONV_2D", "DEPTHWISE_CONV_2D")
def _conv(node: Node, data: Shape) -> Shape | None:
    sides = _window_output(node, data)
    return None if sides is None else (data[0], *sides, node.attrs["out_channels"])


@_EXACT("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def _pool(node: Node, data: Shape) -> Shape | None:
    sides = _window_output(node, data)
    return None if sides is None else (data[0], *sides, data[3])


@_SAME_ELEMENTS("FULLY_CONNECTED")
def _fully_connected(node: Node, data: Shape) -> Shape | None:
    is_cut = node.attrs.get("cut", False)
    weights, values = (data, _shape(node, 1)) if is_cut else (_shape(node, 1), data)
    if weights is None or values is None:
        return None
    if _setting(node, "FullyConnectedOptions", "KeepNumDims"):
        return (*values[:-1], weights[0])
    return math.prod(values) // weights[1], weights[0]


@_EXACT("BATCH_MATMUL")
def _batch_matmul(node: Node, data: Shape) -> Shape | None:
    right = _shape(node, 1)
    if right is None or min(len(data), len(right)) < 2:
        return None
    first, second = node.attrs["adjoint"]
    rank = max(len(data), len(right)) - 2
    wide = [(1,) * (rank + 2 - len(shape)) + shape[:-2] for shape in (data, right)]
    leading = [max(pair) for pair in zip(*wide, strict=True)]
    return (*leading, data[-1 if first else -2], right[-2 if second else -1])


@_AS_RECORDED("SVDF")
def _svdf(node: Node, data: Shape) -> Shape | None:
    weights, rank = _shape(node, 1), node.attrs["rank"]
    return (data[0], weights[0] // rank) if weights and data and rank > 0 else None


def _sequence(matrix: int, axis: int) -> _Inference:
    """A recurrent layer, whose outputs are as many as a side of one of its matrices."""

    def infer(node: Node, data: Shape) -> Shape | None:
        shape = _shape(node, matrix)
        return (*data[:-1], shape[axis]) if shape is not None and len(shape) == 2 and data else None

    return infer


# Layout


@_SAME_ELEMENTS("RESHAPE")
def _reshaped(node: Node, data: Shape) -> Shape | int | None:
    if node.has(1):
        target = node.integers(1)
        target = target if len(_shape(node, 1) or ()) == 1 else None
    else:
        options = node.options("ReshapeOptions")
        target = None if options is None else numbers(options.NewShapeAsNumpy())
    total = math.prod(data)
    if not target or 0 in target or target.count(-1) > 1:
        return total
    rest = -math.prod(target) if -1 in target else total
    sides = [total // rest if side == -1 else side for side in target]
    return tuple(sides) if rest > 0 and math.prod(sides) == total else total


@_SAME_ELEMENTS("SQUEEZE")
def _squeezed(node: Node, data: Shape) -> Shape:
    removed = {axis % len(data) for axis in node.attrs["axes"]} if data else set()
    return tuple(side for axis, side in enumerate(data) if (axis not in removed if removed else side != 1))


@_SAME_ELEMENTS("EXPAND_DIMS")
def _expanded(node: Node, data: Shape) -> Shape | int:
    axes = _integers(node, 1) or []
    axis = _axis(axes[0], len(data) + 1) if len(axes) == 1 else None
    return math.prod(data) if axis is None else (*data[:axis], 1, *data[axis:])


@_SAME_ELEMENTS("TRANSPOSE")
def _transposed(node: Node, data: Shape) -> Shape | int:
    order = [_axis(axis, len(data)) for axis in _integers(node, 1) or []]
    sides = [data[axis] for axis in order if axis is not None]
    return tuple(sides) if len(order) == len(sides) == len(data) else math.prod(data)


@_SAME_ELEMENTS("DEPTH_TO_SPACE")
def _depth_to_space(node: Node, data: Shape) -> Shape | int:
    block = node.attrs["block_size"]
    if len(data) != 4 or block <= 0:
        return math.prod(data)
    return data[0], data[1] * block, data[2] * block, data[3] // block**2


@_SAME_ELEMENTS("SPACE_TO_DEPTH")
def _space_to_depth(node: Node, data: Shape) -> Shape | int:
    block = node.attrs["block_size"]
    if len(data) != 4 or block <= 0:
        return math.prod(data)
    return data[0], data[1] // block, data[2] // block, data[3] * block**2


def _blocks(node: Node, data: Shape) -> list[tuple[int, int, int]] | None:
    """The side, the block and the border or the cut of each axis that a block divides."""
    blocks, margins = _integers(node, 1), _integers(node, 2)
    if not blocks or margins is None or len(margins) != 2 * len(blocks) or min(blocks) <= 0:
        return None
    totals = map(sum, zip(margins[::2], margins[1::2], strict=True))
    axes = list(zip(data[1:], blocks, totals, strict=False))
    return axes if len(axes) == len(blocks) else None


@_AS_RECORDED("SPACE_TO_BATCH_ND")
def _space_to_batch(node: Node, data: Shape) -> Shape | None:
    axes = _blocks(node, data)
    if axes is None:
        return None
    sides = [(side + border) // block for side, block, border in axes]
    return (data[0] * math.prod(block for _, block, _ in axes), *sides, *data[len(axes) + 1 :])


@_AS_RECORDED("BATCH_TO_SPACE_ND")
def _batch_to_space(node: Node, data: Shape) -> Shape | None:
    axes = _blocks(node, data)
    if axes is None:
        return None
    sides = [side * block - cut for side, block, cut in axes]
    return (data[0] // math.prod(block for _, block, _ in axes), *sides, *data[len(axes) + 1 :])


@_SAME_ELEMENTS("UNPACK")
def _unpacked(node: Node, data: Shape) -> list[Shape] | int:
    axis = _axis(_setting(node, "UnpackOptions", "Axis"), len(data))
    return math.prod(data) if axis is None else [_without(data, axis)] * len(node.outputs)


@_SAME_ELEMENTS("PACK")
def _packed(node: Node, data: Shape) -> Shape | None:
    axis = _axis(_setting(node, "PackOptions", "Axis"), len(data) + 1)
    return None if axis is None else (*data[:axis], len(node.inputs), *data[axis:])


@_SAME_ELEMENTS("CONCATENATION")
def _concatenated(node: Node, data: Shape) -> Shape | int | None:
    shapes = [node.tensors[identity].shape for identity in node.inputs if identity != ABSENT]
    known = [shape for shape in shapes if shape is not None]
    axis = _axis(_setting(node, "ConcatenationOptions", "Axis"), len(data))
    if len(known) < len(shapes):
        return None
    if axis is None or {len(shape) for shape in known} != {len(data)}:
        return sum(map(math.prod, known))
    return (*data[:axis], sum(shape[axis] for shape in known), *data[axis + 1 :])


@_AS_RECORDED("SPLIT")
def _split(node: Node, _: Shape) -> list[Shape] | int | None:
    """Inputs: the axis, data."""
    data, axes, count = _shape(node, 1), _integers(node, 0), len(node.outputs)
    axis = _axis(axes[0], len(data)) if data and axes else None
    if data is None or axis is None:  # an axis of another dtype, whose bytes LiteRT takes for an integer
        return None if data is None else math.prod(data)
    return [(*data[:axis], data[axis] // count, *data[axis + 1 :])] * count


@_AS_RECORDED("SPLIT_V")
def _split_by_lengths(node: Node, data: Shape) -> list[Shape] | None:
    """Inputs: data, the length of each output, the axis."""
    lengths, axes = _integers(node, 1), _integers(node, 2)
    axis = _axis(axes[0], len(data)) if axes else None
    if axis is None or lengths is None or lengths.count(-1) > 1:
        return None
    rest = data[axis] - sum(length for length in lengths if length != -1)
    return [(*data[:axis], rest if length == -1 else length, *data[axis + 1 :]) for length in lengths]


@_EXACT("PAD", "PADV2", "MIRROR_PAD")
def _padded(node: Node, data: Shape) -> Shape | None:
    borders = node.integers(1)
    if borders is None or len(borders) != 2 * len(data):
        return None
    pairs = zip(borders[::2], borders[1::2], strict=True)
    return tuple(side + before + after for side, (before, after) in zip(data, pairs, strict=True))


@_EXACT("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resized(node: Node, data: Shape) -> Shape | None:
    size = _integers(node, 1)
    return (data[0], *size, data[3]) if size is not None and len(size) == 2 and len(data) == 4 else None


@_AS_RECORDED("TILE")
def _tiled(node: Node, data: Shape) -> Shape | None:
    times = _integers(node, 1)
    if times is None or len(times) != len(data):
        return None
    return tuple(side * count for side, count in zip(data, times, strict=True))


# Selection and reduction


def _reduced(node: Node, data: Shape) -> Shape | int | None:
    axes = _integers(node, 1)
    if axes is None or not data:
        return None
    reduced = {axis % len(data) for axis in axes}
    keeps = _setting(node, "ReducerOptions", "KeepDims")
    sides = [1 if axis in reduced else side for axis, side in enumerate(data) if keeps or axis not in reduced]
    return tuple(sides)


@_AS_RECORDED("ARG_MAX", "ARG_MIN")
def _arg(node: Node, data: Shape) -> Shape | None:
    axes = _integers(node, 1)
    axis = _axis(axes[0], len(data)) if axes else None
    return None if axis is None else _without(data, axis)


@_EXACT("SLICE")
def _sliced(node: Node, data: Shape) -> Shape | None:
    begins, sizes = (_integers(node, position) for position in (1, 2))
    if begins is None or sizes is None or not len(begins) == len(sizes) == len(data):
        return None
    sides = zip(data, begins, sizes, strict=True)
    return tuple(side - begin if size == -1 else size for side, begin, size in sides)


@_AS_RECORDED("STRIDED_SLICE")
def _strided(node: Node, data: Shape) -> Shape | None:
    masks = [node.attrs.get(f"{name}_mask", 0) for name in ("begin", "end", "shrink_axis")]
    rows = [_integers(node, position) for position in (1, 2, 3)]
    is_plain = not any(node.attrs.get(f"{name}_mask") for name in ("ellipsis", "new_axis"))
    if not is_plain or None in rows or _setting(node, "StridedSliceOptions", "Offset"):
        return None
    sides = list(data)
    for axis, (begin, end, step) in enumerate(zip(*(row or () for row in rows), strict=False)):
        if axis >= len(data) or not step:
            return None
        open_begin, open_end = (mask >> axis & 1 for mask in masks[:2])
        chosen = slice(None if open_begin else begin, None if open_end else end, step)
        sides[axis] = len(range(*chosen.indices(data[axis])))
    return tuple(side for axis, side in enumerate(sides) if not masks[2] >> axis & 1)


@_AS_RECORDED("GATHER")
def _gathered(node: Node, data: Shape) -> Shape | None:
    indices = _shape(node, 1)
    if indices is None:
        return None
    axis = _axis(node.attrs["axis"], len(data))
    batch = node.attrs["batch_dims"]
    batch += len(indices) if batch < 0 else 0
    return None if axis is None else (*data[:axis], *indices[batch:], *data[axis + 1 :])


@_AS_RECORDED("GATHER_ND")
def _gathered_elements(node: Node, data: Shape) -> Shape | None:
    indices = _shape(node, 1)
    return None if not indices else (*indices[:-1], *data[indices[-1] :])


@_AS_RECORDED("EMBEDDING_LOOKUP")
def _looked_up(node: Node, indices: Shape) -> Shape | None:
    table = _shape(node, 1)
    return (*indices[:1], *table[1:]) if table else None


@_AS_RECORDED("TOPK_V2")
def _largest(node: Node, data: Shape) -> list[Shape] | None:
    count = _integers(node, 1)
    return [(*data[:-1], count[0])] * len(node.outputs) if count and data else None


@_AS_RECORDED("ONE_HOT")
def _one_hot(node: Node, indices: Shape) -> Shape | None:
    depth, axis = _integers(node, 1), _setting(node, "OneHotOptions", "Axis")
    place = _axis(axis, len(indices) + 1)
    return (*indices[:place], depth[0], *indices[place:]) if depth and place is not None else None


@_AS_RECORDED("SHAPE")
def _rank(node: Node, data: Shape) -> Shape:
    return (len(data),)


@_AS_RECORDED("BROADCAST_ARGS")
def _longest(node: Node, data: Shape) -> Shape | None:
    """BROADCAST_ARGS: the common shape of two shapes has as many sides as the longer one."""
    other = _shape(node, 1) or ()
    return (max(data[0], other[0]),) if len(data) == len(other) == 1 else None


_EXACT("TRANSPOSE_CONV")(_shape_in(3))
_AS_RECORDED("UNIDIRECTIONAL_SEQUENCE_LSTM")(_sequence(8, 1))
_AS_RECORDED("UNIDIRECTIONAL_SEQUENCE_RNN", "RNN")(_sequence(1, 0))
_AS_RECORDED("FILL")(_shape_in(0))
_AS_RECORDED("BROADCAST_TO")(_shape_in(1))
_AS_RECORDED("SCATTER_ND")(_shape_in(2))
