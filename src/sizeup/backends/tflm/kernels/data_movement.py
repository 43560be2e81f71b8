"""TFLite Micro's kernels that move, select and resize data.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c): the checks of Prepare and
the dtypes of Eval. Checks that only debug builds of the kernels have are not rules. Some kernels report a
wrong shape, axis or index; others read or write past a tensor, which ends the process or changes the arena.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sizeup.backends.tflm.kernel import (
    Call,
    Kernel,
    KernelMemory,
    KernelRequests,
    Rule,
    elements_of,
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
    broadcast,
    constant,
    dtype,
    integers,
    like_output,
    listed,
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
from sizeup.graph import Tensor

_MAX_CONCATENATED = 10
_MAX_RANK = 6  # of the shapes that kernels copy
_MAX_SLICED = 4  # dimensions of STRIDED_SLICE
_MAX_INDEXED = 5  # indices of one position of GATHER_ND


def _listed_shape(shape: Sequence[int]) -> str:
    """A shape in a message."""
    return "x".join(map(str, shape)) or "a scalar"


def _not_broadcast(*shapes: tuple[int, ...]) -> str:
    """The reason for shapes that do not match."""
    return f"takes shapes that broadcast, not {listed([*map(_listed_shape, shapes)])}"


def _same_ranks(call: Call) -> str | None:
    """Inputs with as many dimensions as the first one."""
    ranks = [len(shape_of(call.input(position))) for position in range(len(call.op.inputs))]
    other = next((rank for rank in ranks if rank != ranks[0]), None)
    return None if other is None else f"takes inputs of one rank, not of {ranks[0]} and {other} dimensions"


def _outputs_of_rank(data: int) -> Rule:
    """Outputs with as many dimensions as the input at that position."""

    def rule(call: Call) -> str | None:
        dimensions = len(shape_of(call.input(data)))
        for position in range(len(call.op.outputs)):
            written = len(shape_of(call.output(position)))
            if written != dimensions:
                return f"writes {dimensions} dimensions, not {written}"
        return None

    return rule


def _slice_in_data(call: Call) -> str | None:
    """A start and a size of each dimension; those that are constant, within the data. -1 is the rest."""
    data = shape_of(call.input(0))
    least = min(elements_of(call.input(position)) for position in (1, 2))
    if least < len(data):
        return f"needs {len(data)} starts and sizes, not {least}"
    starts = integers(call.input(1)) or [0] * least
    sizes = integers(call.input(2)) or [-1] * least
    for start, size, whole in zip(starts, sizes, data, strict=False):
        if not 0 <= start <= start + max(size, 0) <= whole:
            return f"takes slices of its data, not {size} from {start} of {whole}"
    return None


def _gathered_axes(call: Call) -> tuple[int, int]:
    """The axis of GATHER, and its number of batch dimensions; both count from the end if negative."""
    axis, batch = call.op.attrs["axis"], call.op.attrs["batch_dims"]
    data, indices = shape_of(call.input(0)), shape_of(call.input(1))
    return axis + len(data) * (axis < 0), batch + len(indices) * (batch < 0)


def _gathered_indices(call: Call) -> str | None:
    """The axes of GATHER and, if its indices are constant, each of them."""
    data, shape, (axis, batch) = shape_of(call.input(0)), shape_of(call.input(1)), _gathered_axes(call)
    if not 0 <= axis < len(data):
        return f"takes axes from {-len(data)} to {len(data) - 1}"
    if not 0 <= batch <= min(axis, len(shape)) or data[:batch] != shape[:batch]:
        return "takes batch dimensions that its data and its indices have in common, before the axis"
    return _indices(values(call.input(1)), data[axis])


def _indices(indices: Sequence[int] | None, size: int) -> str | None:
    wrong = next((index for index in indices or () if not 0 <= index < size), None)
    return None if wrong is None else f"takes indices from 0 to {size - 1}, not {wrong}"


def _gathered_blocks(call: Call) -> str | None:
    """The shapes of GATHER_ND and, if its indices are constant, the position of each block in the data."""
    data, shape = shape_of(call.input(0)), shape_of(call.input(1))
    if not data or not shape:
        return "takes no scalars"
    limit = min(len(data), _MAX_INDEXED)
    if shape[-1] > limit:
        return f"takes at most {limit} indices per position, not {shape[-1]}"
    indices = values(call.input(1))
    if indices is None or not shape[-1]:
        return None
    steps = [math.prod(data[axis + 1 :]) for axis in range(shape[-1])]
    starts = np.reshape(indices, (-1, shape[-1])) @ np.array(steps)
    is_within = np.all((starts >= 0) & (starts + steps[-1] <= math.prod(data)))
    return None if is_within else "takes indices of elements that its data has"


def _looked_up_rows(call: Call) -> str | None:
    """Constant indices of EMBEDDING_LOOKUP, and room for its rows."""
    table, result = shape_of(call.input(1)), shape_of(call.output())
    computed = (elements_of(call.input(0)), *table[1:])
    if len(result) != len(table) or math.prod(computed) > math.prod(result):
        return f"computes an output of {_listed_shape(computed)}, and the file has {_listed_shape(result)}"
    return _indices(values(call.input(0)), table[0])


def _broadcasts_to_output(call: Call) -> str | None:
    """Data of BROADCAST_TO."""
    data, result = shape_of(call.input(0)), shape_of(call.output())
    return None if broadcast(data, result) == result else _not_broadcast(data, result)


def _broadcast_shapes(call: Call) -> str | None:
    """Constant shapes of BROADCAST_ARGS, and room for their broadcast shape."""
    shapes = [tuple(integers(call.input(position)) or ()) for position in range(2)]
    if len(max(shapes, key=len)) > elements_of(call.output()):
        return f"needs an output of {len(max(shapes, key=len))} sizes, not {elements_of(call.output())}"
    return _not_broadcast(*shapes) if broadcast(*shapes) is None else None


def _writes_shape(call: Call, computed: Sequence[int]) -> str | None:
    """The kernel computes the output shape, and compares it with that of the file."""
    recorded = shape_of(call.output())
    if tuple(computed) == recorded:
        return None
    return f"computes an output of {_listed_shape(computed)}, and the file has {_listed_shape(recorded)}"


def _concatenation(call: Call) -> str | None:
    count = len(call.op.inputs)
    if count > _MAX_CONCATENATED:
        return f"takes at most {_MAX_CONCATENATED} inputs, not {count}"
    positions = range(count)
    rules: tuple[Rule, ...] = (same_types(*positions, OUTPUT), rank(0, _MAX_RANK, *positions), _same_ranks)
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
        return f"needs one axis per dimension, not {_listed_shape(shape_of(call.input(1)))}"
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
    return f"writes {_listed_shape(kept)}, and the file has {_listed_shape(result)}" if is_less else None


def _bytes(tensor: Tensor) -> int:
    return elements_of(tensor) * tensor.dtype.bits // 8


def _select(call: Call) -> str | None:
    shapes = [shape_of(call.input(position)) for position in range(3)]
    if shapes[0] == shapes[1] == shapes[2] or all(math.prod(shape) == 1 for shape in shapes):
        return None
    result = broadcast(*shapes)
    return _not_broadcast(*shapes) if result is None else _writes_shape(call, result)


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
    data, indices, (axis, batch) = shape_of(call.input(0)), shape_of(call.input(1)), _gathered_axes(call)
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
        (takes(INT32, INT64), same_types(0, 1, OUTPUT), rank(1, 1, 0, 1, OUTPUT), _broadcast_shapes)),
    Kernel("BROADCAST_TO", "2", _NO_STRUCTURES,
        (rank(0, 5, 0, OUTPUT), takes(INT32, INT64, position=1, what="shapes"), rank(1, 1, 1),
        same_types(0, OUTPUT), _broadcast_to, _broadcasts_to_output)),
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
        rank(2, _MAX_RANK, 1), _embedding, _looked_up_rows), fails_by=0),
    Kernel("EXPAND_DIMS", "2", _NO_STRUCTURES,
        (takes(FLOAT, INT16, INT8), takes(INT32, position=1, what="axes"), _expand_dims)),
    Kernel("FILL", "2+", _NO_STRUCTURES,
        (takes(FLOAT, INT32, INT8, position=1), same_types(1, OUTPUT),
        takes(INT8, INT16, INT32, INT64, what="sizes"), rank(1, 1), _fill)),
    # Indices of elements that do not exist end the inference.
    Kernel("GATHER", "2", KernelMemory("2i", "", _gathered),
        (takes(INT32, position=1, what="positions"), takes(FLOAT, INT8), _gathered_indices), fails_by=1),
    Kernel("GATHER_ND", "2", KernelMemory(prepare=_gathered_slices),
        (takes(FLOAT, INT8), takes(INT32, position=1, what="indices"), _gathered_blocks), fails_by=1),
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
        _slice_in_data)),
    Kernel("SPACE_TO_BATCH_ND", "3", KernelMemory("", "i"), _BLOCKS),
    Kernel("SPLIT", "2+", KernelMemory("i"),
        (takes(FLOAT, INT8, INT16, INT32, position=1), _split_axis(0, 1), _outputs_of_rank(1)), outputs=0),
    Kernel("SPLIT_V", "3", KernelMemory("i"),
        (takes(FLOAT, INT8, INT16, INT32), _split_axis(2, 0), _outputs_of_rank(0)), outputs=0,
        optional_input=1),
    Kernel("SQUEEZE", "1", KernelMemory("9i"), (_same_bytes, _squeeze)),
    Kernel("STRIDED_SLICE", "4", KernelMemory("5ib", "21i"),
        (writes(FLOAT, INT8, INT16, INT32, BOOL), _strided_slice)),
    Kernel("TRANSPOSE", "2", _NO_STRUCTURES,
        (takes(FLOAT, INT8, INT16), same_types(0, OUTPUT), rank(0, 5), _outputs_of_rank(0), _transpose),
        cmsis_nn_caveats=(_five_dimensions,)),
    Kernel("UNPACK", "1+", KernelMemory("2i"), (takes(FLOAT, INT32, INT16, INT8),)),
)  # fmt: skip
"""Kernels that move, select and resize data."""
