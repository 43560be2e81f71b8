"""What TFLite Micro's kernels that move, select and resize data accept.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c): the checks of Prepare and
the dtypes of Eval. Checks that only debug builds of the kernels have are not rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from sizeup.backends.tflm.kernel_call import Call, elements_of, shape_of
from sizeup.backends.tflm.kernel_rules import (
    BOOL,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    OUTPUT,
    UINT8,
    Rule,
    Rules,
    constant,
    dtype,
    integers,
    like_output,
    rank,
    same_types,
    scale,
    symmetric,
    takes,
    values,
    without_activation,
    writes,
    zero_point,
)
from sizeup.backends.tflm.shape_rules import (
    broadcast,
    broadcast_shapes,
    broadcasts_to_output,
    gathered,
    gathered_blocks,
    listed_shape,
    looked_up,
    not_broadcast,
    outputs_of_rank,
    same_ranks,
    sliced,
)
from sizeup.graph import Tensor

_MAX_CONCATENATED = 10
_MAX_RANK = 6  # of the shapes that kernels copy
_MAX_SLICED = 4  # dimensions of STRIDED_SLICE


def _writes_shape(call: Call, computed: Sequence[int]) -> str | None:
    """The kernel computes the output shape, and compares it with that of the file."""
    recorded = shape_of(call.output())
    if tuple(computed) == recorded:
        return None
    return f"computes an output of {listed_shape(computed)}, and the file has {listed_shape(recorded)}"


def _concatenation(call: Call) -> str | None:
    count = len(call.op.inputs)
    if count > _MAX_CONCATENATED:
        return f"takes at most {_MAX_CONCATENATED} inputs, not {count}"
    positions = range(count)
    rules: tuple[Rule, ...] = (same_types(*positions, OUTPUT), rank(0, _MAX_RANK, *positions), same_ranks)
    if dtype(call) == INT8:
        rules += (like_output(*positions),)
    elif dtype(call) == INT16:
        rules += (symmetric(*positions, OUTPUT),)
    return next((reason for rule in rules if (reason := rule(call))), None)


def _pad(call: Call) -> str | None:
    data, paddings = shape_of(call.input(0)), values(call.input(1))
    if paddings is None:
        return "needs constant paddings"
    if elements_of(call.input(1)) != 2 * len(shape_of(call.output())):
        return "needs two paddings per dimension"
    # The kernel reads 32-bit integers, also from a tensor of 64-bit integers.
    padded = [
        size + paddings[2 * axis] + paddings[2 * axis + 1]
        for axis, size in enumerate(data)
        if 2 * axis + 1 < len(paddings)
    ]
    return _writes_shape(call, padded) or _pad_value(call)


def _pad_value(call: Call) -> str | None:
    if not call.has(2):
        return None
    value, output = call.input(2), call.output()
    if value.dtype != call.input(0).dtype or elements_of(value) != 1:
        return f"takes one padding value of the dtype of its data, not {value.dtype.name}"
    if dtype(call) == INT8 and (scale(value), zero_point(value)) != (scale(output), zero_point(output)):
        return "needs a padding value with the scale and zero point of its output"
    return None


def _transpose(call: Call) -> str | None:
    axes = values(call.input(1))
    if axes is None:
        return "needs constant axes"
    dimensions = len(shape_of(call.input(0)))
    if shape_of(call.input(1)) != (dimensions,):
        return f"needs one axis per dimension, not {listed_shape(shape_of(call.input(1)))}"
    if len(axes) < dimensions:
        return f"takes int32 axes, not {dtype(call, 1)}"
    if not all(0 <= axis < dimensions for axis in axes[:dimensions]):
        return f"takes axes from 0 to {dimensions - 1}"
    return None


def _strided_slice(call: Call) -> str | None:
    """Masks for an ellipsis and for new axes are ignored, so that the output has another shape."""
    data = shape_of(call.input(0))
    if len(data) > _MAX_SLICED:
        return f"takes at most {_MAX_SLICED} dimensions, not {len(data)}"
    bounds = []
    for position, what in ((1, "begins"), (2, "ends"), (3, "strides")):
        numbers = values(call.input(position))
        if numbers is None:
            return f"needs constant {what}"
        if len(numbers) < len(data):
            return f"needs {what} for all {len(data)} dimensions, not for {len(numbers)}"
        bounds.append(numbers)
    masks = {name: call.op.attrs.get(f"{name}_mask", 0) for name in ("begin", "end", "shrink_axis")}
    if 0 in bounds[2][: len(data)]:
        return "needs strides that are not 0"
    reason = _writes_shape(call, _sliced(data, bounds, masks))
    ignored = [name for name in ("ellipsis", "new_axis") if call.op.attrs.get(f"{name}_mask")]
    return f"ignores the {ignored[0]} mask" if reason and ignored else reason


def _sliced(data: Sequence[int], bounds: Sequence[Sequence[int]], masks: dict[str, int]) -> list[int]:
    sizes = []
    for axis, size in enumerate(data):
        begin, end, stride = (numbers[axis] for numbers in bounds)
        if masks["shrink_axis"] >> axis & 1:
            continue
        low, high = (0, size) if stride > 0 else (-1, size - 1)
        first = _clamped(begin, size, low, high)
        if masks["begin"] >> axis & 1:
            first = 0 if stride > 0 else size - 1
        last = _clamped(end, size, low, high)
        if masks["end"] >> axis & 1:
            last = size if stride > 0 else -1
        sizes.append(max(0, math.ceil((last - first) / stride)))
    return sizes


def _clamped(index: int, size: int, low: int, high: int) -> int:
    return min(max(index + size if index < 0 else index, low), high)


def _expand_dims(call: Call) -> str | None:
    axes = values(call.input(1))
    if axes is None:
        return "needs a constant axis"
    if len(shape_of(call.input(1))) > 1 or not axes:
        return "takes one axis"
    data = list(shape_of(call.input(0)))
    axis = axes[0] + len(data) + 1 if axes[0] < 0 else axes[0]
    if not 0 <= axis <= len(data):
        return f"takes an axis from 0 to {len(data)}, not {axis}"
    return _writes_shape(call, [*data[:axis], 1, *data[axis:]])


def _fill(call: Call) -> str | None:
    sizes = integers(call.input(0))
    if sizes is None:
        return "needs constant sizes"
    if shape_of(call.input(1)):
        return "takes a scalar value"
    return _writes_shape(call, sizes)


def _broadcast_to(call: Call) -> str | None:
    sizes = integers(call.input(1))
    return "needs a constant shape" if sizes is None else _writes_shape(call, sizes)


def _reshape(call: Call) -> str | None:
    read, written = elements_of(call.input(0)), elements_of(call.output())
    return None if read == written else f"takes as many elements as it writes, not {read} for {written}"


def _same_bytes(call: Call) -> str | None:
    read, written = (_bytes(tensor) for tensor in (call.input(0), call.output()))
    return None if read == written else f"takes as many bytes as it writes, not {read} for {written}"


def _squeeze(call: Call) -> str | None:
    """The sizes that remain are compared with the first ones of the output."""
    data, result = shape_of(call.input(0)), shape_of(call.output())
    axes = call.op.attrs.get("axes", ())
    if any(not -len(data) <= axis < len(data) or data[axis] != 1 for axis in axes):
        return "removes only dimensions of size 1"
    removed = {axis % len(data) for axis in axes} or {axis for axis, size in enumerate(data) if size == 1}
    kept = [size for axis, size in enumerate(data) if axis not in removed]
    is_less = len(kept) > len(result) or any(size > there for size, there in zip(kept, result, strict=False))
    return f"writes {listed_shape(kept)}, and the file has {listed_shape(result)}" if is_less else None


def _bytes(tensor: Tensor) -> int:
    return elements_of(tensor) * tensor.dtype.bits // 8


def _select(call: Call) -> str | None:
    shapes = [shape_of(call.input(position)) for position in range(3)]
    if shapes[0] == shapes[1] == shapes[2] or all(math.prod(shape) == 1 for shape in shapes):
        return None
    result = broadcast(*shapes)
    return not_broadcast(*shapes) if result is None else _writes_shape(call, result)


def _embedding(call: Call) -> str | None:
    names = {FLOAT: (FLOAT,), INT8: (FLOAT, INT8)}[dtype(call, 1)]
    if dtype(call, OUTPUT) not in names:
        return f"does not convert {dtype(call, 1)} to {dtype(call, OUTPUT)}"
    is_hybrid = dtype(call, 1) != dtype(call, OUTPUT)
    return symmetric(1)(call) if is_hybrid else None


def _update(call: Call) -> str | None:
    data, update, start = (shape_of(call.input(position)) for position in range(3))
    if len(update) != len(data) or start != (len(data),):
        return "needs data, update and start of one rank"
    if any(part > whole for part, whole in zip(update, data, strict=True)):
        return "takes an update that is not larger than its data"
    return None


def _reverse(call: Call) -> str | None:
    if elements_of(call.input(1)) > len(shape_of(call.input(0))):
        return "takes at most one axis per dimension"
    axes, dimensions = values(call.input(1)), len(shape_of(call.input(0)))
    if axes is None:
        return None
    ordered = sorted(axis + dimensions if axis < 0 else axis for axis in axes)
    if ordered and not 0 <= ordered[0] <= ordered[-1] < dimensions:
        return f"takes axes from 0 to {dimensions - 1}"
    are_adjacent = all(after == before + 1 for before, after in pairwise(ordered))
    return None if are_adjacent else "takes adjacent axes"


def _mirror(call: Call) -> str | None:
    paddings = shape_of(call.input(1))
    if len(paddings) != 2 or paddings[0] != len(shape_of(call.input(0))):
        return "needs two paddings per dimension"
    return None


def _split_axis(axis: int, data: int) -> Rule:
    def rule(call: Call) -> str | None:
        axes, dimensions = values(call.input(axis)), len(shape_of(call.input(data)))
        if axes is None:
            return "needs a constant axis"
        return None if axes and -dimensions <= axes[0] < dimensions else f"takes an axis below {dimensions}"

    return rule


def _depth_to_space(call: Call) -> str | None:
    block = _block(shape_of(call.output()), shape_of(call.input(0)))
    return None if block else "needs a block size that divides its data"


def _space_to_depth(call: Call) -> str | None:
    block = _block(shape_of(call.input(0)), shape_of(call.output()))
    return None if block else "needs a block size that divides its data"


def _block(wide: Sequence[int], deep: Sequence[int]) -> int:
    """The block size between an image and its blocks; 0 if there is none."""
    if len(wide) != 4 or len(deep) != 4 or not deep[1] or wide[1] % deep[1]:
        return 0
    block = wide[1] // deep[1]
    matches = wide[2] == deep[2] * block and deep[3] == wide[3] * block * block
    return block if matches else 0


_SIZES = (rank(4, 4, 0, OUTPUT), rank(1, 1, 1), takes(INT32, position=1, what="sizes"), constant(1, "sizes"))
_PADDED = (takes(FLOAT, INT8, INT16, INT32), same_types(0, OUTPUT), rank(0, 5), _pad)
_BLOCKS = (takes(FLOAT, INT8), same_types(0, OUTPUT), rank(3, 4, 0, OUTPUT))
_DEPTH = (writes(FLOAT, INT8), same_types(0, OUTPUT), rank(4, 4))

LAYOUT: dict[str, Rules] = {
    "BATCH_TO_SPACE_ND": _BLOCKS,
    "BROADCAST_ARGS": (
        takes(INT32, INT64),
        same_types(0, 1, OUTPUT),
        rank(1, 1, 0, 1, OUTPUT),
        broadcast_shapes,
    ),
    "BROADCAST_TO": (
        rank(0, 5, 0, OUTPUT),
        takes(INT32, INT64, position=1, what="shapes"),
        rank(1, 1, 1),
        same_types(0, OUTPUT),
        _broadcast_to,
        broadcasts_to_output,
    ),
    "CONCATENATION": (
        without_activation,
        takes(FLOAT, INT8, INT16, INT32, INT64, BOOL),
        _concatenation,
    ),
    "DEPTH_TO_SPACE": (*_DEPTH, _depth_to_space),
    "DYNAMIC_UPDATE_SLICE": (
        takes(FLOAT, INT8, INT16, INT32),
        same_types(0, 1),
        takes(INT32, INT64, position=2, what="starts"),
        _update,
    ),
    "EMBEDDING_LOOKUP": (
        takes(INT32, what="positions"),
        rank(1, 1),
        takes(FLOAT, INT8, position=1, what="tables"),
        rank(2, _MAX_RANK, 1),
        _embedding,
        looked_up,
    ),
    "EXPAND_DIMS": (
        takes(FLOAT, INT16, INT8),
        takes(INT32, position=1, what="axes"),
        _expand_dims,
    ),
    "FILL": (
        takes(FLOAT, INT32, INT8, position=1),
        same_types(1, OUTPUT),
        takes(INT8, INT16, INT32, INT64, what="sizes"),
        rank(1, 1),
        _fill,
    ),
    "GATHER": (takes(INT32, position=1, what="positions"), takes(FLOAT, INT8), gathered),
    "GATHER_ND": (takes(FLOAT, INT8), takes(INT32, position=1, what="indices"), gathered_blocks),
    "MIRROR_PAD": (writes(FLOAT, INT8), _mirror),
    "PACK": (writes(FLOAT, INT8, INT16, INT32, INT64),),
    "PAD": _PADDED,
    "PADV2": _PADDED,
    "RESHAPE": (same_types(0, OUTPUT), _reshape),
    "RESIZE_BILINEAR": (writes(FLOAT, INT8), *_SIZES),
    "RESIZE_NEAREST_NEIGHBOR": (
        writes(FLOAT, INT8, INT16),
        *_SIZES,
        lambda call: None if shape_of(call.input(1)) == (2,) else "takes two sizes",
    ),
    "REVERSE_V2": (
        takes(INT32, FLOAT, UINT8, INT8, INT16, INT64, BOOL),
        takes(INT32, position=1, what="axes"),
        rank(1, 1, 1),
        rank(0, _MAX_RANK),
        same_types(0, OUTPUT),
        _reverse,
    ),
    "SELECT_V2": (
        takes(BOOL, what="conditions"),
        same_types(1, 2),
        takes(FLOAT, INT8, INT16, position=1),
        _select,
    ),
    "SHAPE": (writes(INT32),),
    "SLICE": (
        takes(FLOAT, INT32, INT8, INT16, BOOL),
        takes(INT32, INT64, position=1, what="begins"),
        rank(0, 5),
        sliced,
    ),
    "SPACE_TO_BATCH_ND": _BLOCKS,
    "SPACE_TO_DEPTH": (*_DEPTH, _space_to_depth),
    "SPLIT": (takes(FLOAT, INT8, INT16, INT32, position=1), _split_axis(0, 1), outputs_of_rank(1)),
    "SPLIT_V": (takes(FLOAT, INT8, INT16, INT32), _split_axis(2, 0), outputs_of_rank(0)),
    "SQUEEZE": (_same_bytes, _squeeze),
    "STRIDED_SLICE": (writes(FLOAT, INT8, INT16, INT32, BOOL), _strided_slice),
    "TRANSPOSE": (
        takes(FLOAT, INT8, INT16),
        same_types(0, OUTPUT),
        rank(0, 5),
        outputs_of_rank(0),
        _transpose,
    ),
    "UNPACK": (takes(FLOAT, INT32, INT16, INT8),),
}
"""Rules by operator."""
