"""What TFLite Micro's kernels require of shapes, axes and indices in a file that no converter checked.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels, commit 90b983c). Some kernels report an
error; others read or write past a tensor, which ends the process or overwrites the arena.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sizeup.backends.tflm.kernel import Call, Rule, elements_of, gathered_axes, shape_of
from sizeup.backends.tflm.kernel_rules import integers, listed, values

_MAX_INDEXED = 5  # indices of one position of GATHER_ND


def listed_shape(shape: Sequence[int]) -> str:
    """A shape in a message."""
    return "x".join(map(str, shape)) or "a scalar"


def elementwise_output(call: Call) -> str | None:
    """Two inputs of one shape are computed in one loop, over as many elements of the output."""
    if shape_of(call.input(0)) != shape_of(call.input(1)):
        return None
    read, written = elements_of(call.input(0)), elements_of(call.output())
    return None if read == written else f"writes as many elements as it reads, {read}, not {written}"


def axes_in_range(call: Call) -> str | None:
    """The axes of the second input, from the end if they are negative."""
    axes, dimensions = values(call.input(1)), len(shape_of(call.input(0)))
    if all(-dimensions <= axis < dimensions for axis in axes or ()):
        return None
    return f"takes axes from {-dimensions} to {dimensions - 1}"


def reduced_output(call: Call) -> str | None:
    """A reduction writes an element for each that its axes leave."""
    axes, data, result = values(call.input(1)), shape_of(call.input(0)), shape_of(call.output())
    if len(result) > len(data):
        return f"writes at most {len(data)} dimensions, not {len(result)}"
    if axes is None or not data:
        return None
    removed = {axis % len(data) for axis in axes}
    left = math.prod(size for axis, size in enumerate(data) if axis not in removed)
    written = math.prod(result)
    return None if left == written else f"writes {left} elements, not {written}"


def same_ranks(call: Call) -> str | None:
    """Inputs with as many dimensions as the first one."""
    ranks = [len(shape_of(call.input(position))) for position in range(len(call.op.inputs))]
    other = next((rank for rank in ranks if rank != ranks[0]), None)
    return None if other is None else f"takes inputs of one rank, not of {ranks[0]} and {other} dimensions"


def outputs_of_rank(data: int) -> Rule:
    """Outputs with as many dimensions as the input at that position."""

    def rule(call: Call) -> str | None:
        dimensions = len(shape_of(call.input(data)))
        for position in range(len(call.op.outputs)):
            written = len(shape_of(call.output(position)))
            if written != dimensions:
                return f"writes {dimensions} dimensions, not {written}"
        return None

    return rule


def sliced(call: Call) -> str | None:
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


def gathered(call: Call) -> str | None:
    """The axes of GATHER and, if its indices are constant, each of them."""
    data, shape, (axis, batch) = shape_of(call.input(0)), shape_of(call.input(1)), gathered_axes(call)
    if not 0 <= axis < len(data):
        return f"takes axes from {-len(data)} to {len(data) - 1}"
    if not 0 <= batch <= min(axis, len(shape)) or data[:batch] != shape[:batch]:
        return "takes batch dimensions that its data and its indices have in common, before the axis"
    return _indices(values(call.input(1)), data[axis])


def _indices(indices: Sequence[int] | None, size: int) -> str | None:
    wrong = next((index for index in indices or () if not 0 <= index < size), None)
    return None if wrong is None else f"takes indices from 0 to {size - 1}, not {wrong}"


def gathered_blocks(call: Call) -> str | None:
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


def looked_up(call: Call) -> str | None:
    """Constant indices of EMBEDDING_LOOKUP, and room for its rows."""
    table, result = shape_of(call.input(1)), shape_of(call.output())
    computed = (elements_of(call.input(0)), *table[1:])
    if len(result) != len(table) or math.prod(computed) > math.prod(result):
        return f"computes an output of {listed_shape(computed)}, and the file has {listed_shape(result)}"
    return _indices(values(call.input(0)), table[0])


def broadcasts_to_output(call: Call) -> str | None:
    """Data of BROADCAST_TO."""
    data, result = shape_of(call.input(0)), shape_of(call.output())
    return None if broadcast(data, result) == result else not_broadcast(data, result)


def broadcast_shapes(call: Call) -> str | None:
    """Constant shapes of BROADCAST_ARGS, and room for their broadcast shape."""
    shapes = [tuple(integers(call.input(position)) or ()) for position in range(2)]
    if len(max(shapes, key=len)) > elements_of(call.output()):
        return f"needs an output of {len(max(shapes, key=len))} sizes, not {elements_of(call.output())}"
    return not_broadcast(*shapes) if broadcast(*shapes) is None else None


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that all are broadcast to; None if they do not match."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def not_broadcast(*shapes: tuple[int, ...]) -> str:
    """The reason for shapes that do not match."""
    return f"takes shapes that broadcast, not {listed([*map(listed_shape, shapes)])}"
