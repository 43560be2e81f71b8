"""Bounds of activation memory for runtimes whose memory planner and kernels are not published.

Such a runtime decides which outputs overwrite inputs and how much its kernels buffer. Whatever it decides,
all tensors that are needed later exist between two ops: that is the lower bound. The upper bound shares no
bytes between inputs and outputs, and adds the copies that a kernel may make: of its padded input, and of
numbers in the 16 bits that SIMD instructions multiply. docs/vendor-runtimes.md compares both with
what ST Edge AI reports.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op
from sizeup.memory.liveness import Buffers, Column, buffer_liveness, tensor_bytes

# SIMD kernels multiply numbers of at least 16 bits.
_KERNEL_BYTES = 2
_WITH_WINDOW = ("conv", "conv_transpose")
_WITH_WEIGHTS = (*_WITH_WINDOW, "matmul")


class ActivationBounds(NamedTuple):
    """Lower and upper bound of the bytes of activations, excluding weights."""

    low_bytes: int
    high_bytes: int


def activation_bounds(graph: Graph, precision: DType | None = None) -> ActivationBounds:
    """Bounds in the schedule of the graph; both exclude tensors whose size depends on data."""
    buffers = buffer_liveness(graph, precision=precision)
    live = buffers.live_bytes()
    if not len(live):
        size = int(buffers.size.sum())
        return ActivationBounds(size, size)
    copies = np.array([_copy_bytes(graph, op, precision) for op in graph.ops], np.int64)
    return ActivationBounds(_between_ops(graph, buffers), int((live + copies).max()))


def _between_ops(graph: Graph, buffers: Buffers) -> int:
    """Most bytes that exist between two ops, before the first and after the last."""
    steps = buffers.steps
    created = np.zeros(len(buffers), np.int64)  # number of ops executed before the buffer exists
    for step, op in enumerate(graph.ops):
        for identity in op.outputs:
            buffer = buffers.buffer_of_tensor[identity]
            if buffer >= 0 and buffers.tensors[buffer][0] == identity:
                created[buffer] = step + 1
    # A buffer that op `last` reads is still there after `last` ops, but not after `last + 1`.
    end = buffers.last.copy()
    for identity in graph.outputs:
        if (buffer := buffers.buffer_of_tensor[identity]) >= 0:
            end[buffer] = steps
    change = np.zeros(steps + 2, np.int64)
    sizes = _least_sizes(graph, buffers)
    np.add.at(change, created, sizes)
    np.subtract.at(change, end + 1, sizes)
    return int(np.cumsum(change).max())


def _least_sizes(graph: Graph, buffers: Buffers) -> Column:
    """Bytes of each buffer if compilers merge padding into convolutions, and convolutions with pooling.

    A merged tensor does not exist as a whole: it counts as the smaller one of the tensors around it.
    """
    sizes = buffers.size.copy()
    users: dict[int, list[Op]] = {}
    for op in graph.ops:
        for identity in op.inputs:
            users.setdefault(identity, []).append(op)
    producer = {identity: op for op in graph.ops for identity in op.outputs}
    for op in graph.ops:
        if not op.inputs or op.inputs[0] == ABSENT or not op.outputs:
            continue
        source, result = op.inputs[0], op.outputs[0]
        before, after = buffers.buffer_of_tensor[source], buffers.buffer_of_tensor[result]
        if before < 0 or after < 0:
            continue
        if op.kind == "pad" and all(user.kind == "conv" for user in users.get(result, ())):
            sizes[after] = min(sizes[after], sizes[before])
        maker = producer.get(source)
        is_only_user = maker is not None and maker.kind == "conv" and len(users[source]) == 1
        if op.kind == "pool" and is_only_user and not _windows_overlap(op):
            sizes[before] = min(sizes[before], sizes[after])
    return sizes


def _windows_overlap(op: Op) -> bool:
    kernel, stride = op.attrs.get("kernel"), op.attrs.get("stride")
    if not isinstance(kernel, tuple) or not isinstance(stride, tuple) or len(kernel) != len(stride):
        return False
    return any(taps > step for taps, step in zip(kernel, stride, strict=True))


def _copy_bytes(graph: Graph, op: Op, precision: DType | None) -> int:
    """What a kernel may copy: the padded input, and weights or input in 16 bits, whichever are fewer."""
    if op.kind not in _WITH_WEIGHTS or len(op.inputs) < 2 or ABSENT in op.inputs[:2]:
        return 0
    source, weights = (graph.tensors[identity] for identity in op.inputs[:2])
    size, elements = tensor_bytes(source, precision), source.elements or 0
    padded = size
    if op.kind in _WITH_WINDOW and (margin := _margin(op, source.shape, graph.format)) > 1:
        padded = int(size * margin) + 1
    copy = padded if padded > size else 0
    if not elements:
        return copy
    widened = max(_KERNEL_BYTES * padded * elements // max(size, 1), padded)
    weight_bytes = max(_KERNEL_BYTES * (weights.elements or 0), tensor_bytes(weights, precision))
    return copy + min(widened, weight_bytes)


def _margin(op: Op, shape: tuple[int, ...] | None, format: str) -> float:
    """The padded input as a multiple of the input: at most a window minus one more in each direction."""
    kernel = op.attrs.get("kernel")
    if not isinstance(kernel, tuple) or shape is None or op.attrs.get("padding") in ("valid", "VALID"):
        return 1.0
    sides = shape[1:-1] if format == "tflite" else shape[2:]
    if len(sides) != len(kernel) or not all(sides):
        return 1.0
    padded = prod(side + taps - 1 for side, taps in zip(sides, kernel, strict=True))
    return float(padded / prod(sides))
