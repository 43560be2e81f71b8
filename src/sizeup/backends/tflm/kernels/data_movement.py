"""TFLite Micro's kernels that move, select and resize data.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c): the checks of Prepare and
the dtypes of Eval. Checks that only debug builds of the kernels have are not rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from sizeup.backends.tflm.kernel import (
    Call,
    Kernel,
    KernelMemory,
    KernelRequests,
    Rule,
    elements_of,
    gathered_axes,
    output_shape_copy,
    require_elements,
    shape_of,
)
from sizeup.backends.tflm.kernel_rules import (
    BOOL,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    OUTPUT,
    UINT8,
    constant,
    dtype,
    integers,
    like_output,
    positive,
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
from sizeup.backends.tflm.kernels import overlaps
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


def _five_dimensions(call: Call) -> str | None:
    is_deep = dtype(call) == INT8 and len(shape_of(call.input(0))) > 4
    return "writes nothing for int8 data of 5 dimensions" if is_deep else None


def _padded_batch(call: Call) -> str | None:
    data = shape_of(call.input(0))
    if dtype(call) != INT8 or len(data) < 5:
        return None
    paddings = values(call.input(1)) or []
    is_plain = data[0] == 1 and not any(paddings[:2])
    return None if is_plain else "pads only the last 4 dimensions of int8 data"


def _mirror_pad(call: Call) -> KernelRequests:
    return KernelRequests(scratch=(4 * len(shape_of(call.input(0))),) * 2)


def _rearranged(call: Call) -> KernelRequests:
    """The computed output shape has as many elements as the input."""
    require_elements(call, elements_of(call.input(0)))
    return output_shape_copy(call)


def _gathered(call: Call) -> KernelRequests:
    """The computed output shape has the indices in place of one axis."""
    data, indices, (axis, batch) = shape_of(call.input(0)), shape_of(call.input(1)), gathered_axes(call)
    require_elements(call, math.prod((*data[:axis], *indices[batch:], *data[axis + 1 :])))
    return output_shape_copy(call)


def _gathered_slices(call: Call) -> KernelRequests:
    """The computed output shape has one slice per row of indices."""
    data, indices = shape_of(call.input(0)), shape_of(call.input(1))
    require_elements(call, math.prod(indices[:-1]) * math.prod(data[indices[-1] :]))
    return output_shape_copy(call)


def _looked_up(call: Call) -> KernelRequests:
    require_elements(call, elements_of(call.input(0)) * math.prod(shape_of(call.input(1))[1:]))
    return KernelRequests((call.size("ip"), *output_shape_copy(call).persistent))


_SIZES = (rank(4, 4, 0, OUTPUT), rank(1, 1, 1), takes(INT32, position=1, what="sizes"), constant(1, "sizes"))
_PADDED = (takes(FLOAT, INT8, INT16, INT32), same_types(0, OUTPUT), rank(0, 5), _pad)
_BLOCKS = (takes(FLOAT, INT8), same_types(0, OUTPUT), rank(3, 4, 0, OUTPUT))
_BLOCK_SIZE = positive("block_size", "block size")
_NO_STRUCTURES = KernelMemory()

KERNELS = (
    Kernel("BATCH_TO_SPACE_ND", "3", _NO_STRUCTURES, _BLOCKS),
    Kernel("BROADCAST_ARGS", "2", _NO_STRUCTURES,
        (takes(INT32, INT64), same_types(0, 1, OUTPUT), rank(1, 1, 0, 1, OUTPUT), broadcast_shapes)),
    Kernel("BROADCAST_TO", "2", _NO_STRUCTURES,
        (rank(0, 5, 0, OUTPUT), takes(INT32, INT64, position=1, what="shapes"), rank(1, 1, 1),
        same_types(0, OUTPUT), _broadcast_to, broadcasts_to_output)),
    Kernel("CONCATENATION", "1+", KernelMemory("ie", "b2ph2i|10i", again=(0,)),
        (without_activation, takes(FLOAT, INT8, INT16, INT32, INT64, BOOL), _concatenation), strips="rows"),
    *(
        Kernel(name, "1", KernelMemory("i", "", _rearranged),
            (_BLOCK_SIZE, writes(FLOAT, INT8), same_types(0, OUTPUT), rank(4, 4), rule))
        for name, rule in (("DEPTH_TO_SPACE", _depth_to_space), ("SPACE_TO_DEPTH", _space_to_depth))
    ),
    Kernel("DYNAMIC_UPDATE_SLICE", "3", _NO_STRUCTURES,
        (takes(FLOAT, INT8, INT16, INT32), same_types(0, 1), takes(INT32, INT64, position=2, what="starts"),
        _update)),
    Kernel("EMBEDDING_LOOKUP", "2", KernelMemory(prepare=_looked_up),
        (takes(INT32, what="positions"), rank(1, 1), takes(FLOAT, INT8, position=1, what="tables"),
        rank(2, _MAX_RANK, 1), _embedding, looked_up), fails_by=0),
    Kernel("EXPAND_DIMS", "2", _NO_STRUCTURES,
        (takes(FLOAT, INT16, INT8), takes(INT32, position=1, what="axes"), _expand_dims)),
    Kernel("FILL", "2+", _NO_STRUCTURES,
        (takes(FLOAT, INT32, INT8, position=1), same_types(1, OUTPUT),
        takes(INT8, INT16, INT32, INT64, what="sizes"), rank(1, 1), _fill)),
    # Indices of elements that do not exist end the inference.
    Kernel("GATHER", "2", KernelMemory("2i", "", _gathered),
        (takes(INT32, position=1, what="positions"), takes(FLOAT, INT8), gathered), fails_by=1),
    Kernel("GATHER_ND", "2", KernelMemory(prepare=_gathered_slices),
        (takes(FLOAT, INT8), takes(INT32, position=1, what="indices"), gathered_blocks), fails_by=1),
    Kernel("MIRROR_PAD", "2+", KernelMemory("e", "5i", _mirror_pad), (writes(FLOAT, INT8), _mirror)),
    Kernel("PACK", "1+", KernelMemory("2i"), (writes(FLOAT, INT8, INT16, INT32, INT64),)),
    Kernel("PAD", "2+", KernelMemory("", "14i"), _PADDED, cmsis_nn_caveats=(_padded_batch,),
        overlaps=overlaps.padding, strips="padding"),
    Kernel("PADV2", "2+", KernelMemory("", "14i"), _PADDED, optional_input=2, written_inputs=3,
        cmsis_nn_caveats=(_padded_batch,), overlaps=overlaps.padding),
    Kernel("RESHAPE", "1+", KernelMemory("9i"),
        (same_types(0, OUTPUT), _reshape), optional_input=1, written_inputs=2, overlaps=overlaps.block_copy),
    Kernel("RESIZE_BILINEAR", "2", KernelMemory("2b"), (writes(FLOAT, INT8), *_SIZES)),
    Kernel("RESIZE_NEAREST_NEIGHBOR", "2", KernelMemory("2b"),
        (writes(FLOAT, INT8, INT16), *_SIZES,
        lambda call: None if shape_of(call.input(1)) == (2,) else "takes two sizes")),
    Kernel("REVERSE_V2", "2", _NO_STRUCTURES,
        (takes(INT32, FLOAT, UINT8, INT8, INT16, INT64, BOOL), takes(INT32, position=1, what="axes"),
        rank(1, 1, 1), rank(0, _MAX_RANK), same_types(0, OUTPUT), _reverse)),
    Kernel("SELECT_V2", "3", KernelMemory("", "b"),
        (takes(BOOL, what="conditions"), same_types(1, 2), takes(FLOAT, INT8, INT16, position=1), _select)),
    Kernel("SHAPE", "1", KernelMemory("e"), (writes(INT32),)),
    Kernel("SLICE", "3", _NO_STRUCTURES,
        (takes(FLOAT, INT32, INT8, INT16, BOOL), takes(INT32, INT64, position=1, what="begins"), rank(0, 5),
        sliced)),
    Kernel("SPACE_TO_BATCH_ND", "3", KernelMemory("", "i"), _BLOCKS),
    Kernel("SPLIT", "2+", KernelMemory("i"),
        (takes(FLOAT, INT8, INT16, INT32, position=1), _split_axis(0, 1), outputs_of_rank(1)), outputs=0),
    Kernel("SPLIT_V", "3", KernelMemory("i"),
        (takes(FLOAT, INT8, INT16, INT32), _split_axis(2, 0), outputs_of_rank(0)), outputs=0,
        optional_input=1),
    Kernel("SQUEEZE", "1", KernelMemory("9i"), (_same_bytes, _squeeze)),
    Kernel("STRIDED_SLICE", "4", KernelMemory("5ib", "21i"),
        (writes(FLOAT, INT8, INT16, INT32, BOOL), _strided_slice)),
    Kernel("TRANSPOSE", "2", _NO_STRUCTURES,
        (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), rank(0, 5), outputs_of_rank(0), _transpose),
        cmsis_nn_caveats=(_five_dimensions,)),
    Kernel("UNPACK", "1+", KernelMemory("2i"), (takes(FLOAT, INT32, INT16, INT8),)),
)  # fmt: skip
"""Kernels that move, select and resize data."""
