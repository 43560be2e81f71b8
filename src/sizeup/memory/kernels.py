"""What PyTorch's CPU kernels take beside the tensors that a model sees, and give back when they are done.

Each formula follows from what the kernel does; none is fitted to a measurement. Kernels that are not here
take nothing, or are named in docs/memory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op, Run, Shape
from sizeup.memory.liveness import tensor_bytes

_INDEX_BYTES = 8


class _Call(NamedTuple):
    """One operator as its kernel sees it."""

    op: Op
    shapes: list[Shape]  # of its inputs
    result: Shape
    width: float  # bytes of a number
    run: Run


def workspaces(graph: Graph, run: Run, precision: DType | None = None) -> list[int]:
    """Bytes beside inputs and outputs at the worst moment of every operator; 0 where no kernel is known."""
    if run.device not in ("cpu", "meta"):  # what is on no device yet is taken to run on this one
        return [0] * len(graph.ops)
    return [_workspace(graph, op, run, precision) for op in graph.ops]


def _workspace(graph: Graph, op: Op, run: Run, precision: DType | None) -> int:
    kernel = _KERNELS.get(op.source)
    if kernel is None:
        return 0
    result = graph.tensors[op.outputs[0]]
    shapes = [graph.tensors[identity].shape for identity in op.inputs if identity != ABSENT]
    known = [shape for shape in shapes if shape is not None]
    if result.dtype.name != "float32" or not result.shape or not result.elements or len(known) < len(shapes):
        return 0  # other number types have kernels of their own
    width = tensor_bytes(result, precision) / result.elements
    return math.ceil(kernel(_Call(op, known, result.shape, width, run)))


class Convolution(NamedTuple):
    """A convolution over images; a sequence is an image of one row."""

    data: Shape
    weight: Shape
    result: Shape
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def is_pointwise(self) -> bool:
        """Whether its window is one number of each channel."""
        return math.prod(self.weight[2:]) == 1

    def suits_onednn(self, run: Run) -> bool:
        """Whether torch hands it to oneDNN, for float32; the thresholds are torch's own."""
        if not run.lanes:
            return False
        is_product = self.weight[-1] == self.weight[-2] == 1 and max(*self.stride, *self.dilation) == 1
        if is_product and run.threads == 1 and self.data[0] < 16:
            return False
        has_large_window = self.weight[-1] > 3 and self.weight[-2] > 3
        return self.groups > 1 or has_large_window or self.data[0] > 1 or math.prod(self.data[:4]) > 20_480


def _seen_as_images(call: _Call) -> Convolution:
    data, weight, result = call.shapes[0], call.shapes[1], call.result
    if len(data) < len(weight):  # one image, not in a batch
        data, result = (1, *data), (1, *result)
    if len(weight) == 3:
        data, weight, result = ((*each[:2], 1, *each[2:]) for each in (data, weight, result))
    given, axes = call.op.attrs, len(data) - 2
    stride, dilation = (_per_axis(given.get(name, 1), axes) for name in ("stride", "dilation"))
    return Convolution(data, weight, result, stride, dilation, given["groups"])


def _per_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    if isinstance(value, int) or len(value) == 1:
        # A sequence's own axis is the last; on the row that was added any step is the same.
        return (value if isinstance(value, int) else value[0],) * axes
    return tuple(value)


def _convolution(call: _Call) -> float:
    """oneDNN works on copies in a layout of its own; what is too small for it becomes a matrix product."""
    if call.op.kind == "conv_transpose":
        return _transposed_convolution(call)
    found, result = _seen_as_images(call), math.prod(call.result)
    if not found.suits_onednn(call.run):
        # Groups are done one after the other, and put together at the end.
        return (result if found.groups > 1 else _columns(found)) * call.width
    taken = _copies(found, call.run.lanes) + _gathered(found, call.run.lanes) * call.run.threads
    # Once it is done its result is brought back into the model's layout, and only then is there an output.
    return (_blocked(found.result, found.groups, call.run.lanes) + max(taken - result, 0)) * call.width


def _transposed_convolution(call: _Call) -> float:
    """The same, but its result is copied twice on the way back."""
    found, result = _seen_as_images(call), math.prod(call.result)
    if not found.suits_onednn(call.run):
        return 0
    taken = _copies(found, call.run.lanes)
    return (_blocked(found.result, found.groups, call.run.lanes) + max(taken - result, result)) * call.width


def _copies(found: Convolution, lanes: int) -> int:
    """Numbers of the input and the filter in oneDNN's layout: channels in blocks as wide as a vector."""
    channels = found.data[1]
    # A window over the few channels of a picture is read as it is.
    is_few = channels < lanes if lanes == 16 else channels in (1, 3)
    is_read = is_few and found.groups == 1 and not found.is_pointwise
    made, taken = found.weight[:2]
    if found.groups == 1:
        made, taken = _rounded(made, lanes), taken if is_read else _rounded(taken, lanes)
    elif found.groups == channels:
        made = _rounded(made, lanes)
    given = 0 if is_read else _blocked(found.data, found.groups, lanes)
    return given + made * taken * math.prod(found.weight[2:])


def _blocked(shape: Shape, groups: int, lanes: int) -> int:
    channels = _rounded(shape[1], lanes) if groups in (1, shape[1]) else shape[1]
    return shape[0] * channels * math.prod(shape[2:])


def _rounded(channels: int, lanes: int) -> int:
    return -(-channels // lanes) * lanes


def _gathered(found: Convolution, lanes: int) -> int:
    """What each thread gathers for a product with a stride: the numbers of the input that count."""
    sides = zip(found.data[2:], found.result[2:], found.stride, strict=True)
    divides = all(size == made * step for size, made, step in sides if size > 1)
    if not divides or not found.is_pointwise or found.groups > 1 or len(found.data) > 4:
        return 0
    is_strided = found.result[2:] != found.data[2:]
    return _rounded(found.data[1], lanes) * math.prod(found.result[2:]) if is_strided else 0


def _columns(found: Convolution) -> int:
    """Every window of the input as a column of a matrix, unless each is one number of it."""
    if found.is_pointwise and found.result[2:] == found.data[2:]:
        return 0
    return found.data[0] * math.prod(found.weight[1:]) * math.prod(found.result[2:])


def _max_pool(call: _Call) -> float:
    """Where each maximum was found, which nobody asked for."""
    return math.prod(call.result) * _INDEX_BYTES


def _attention(call: _Call) -> float:
    """Attention by blocks: scores of some queries with some keys, a result and two sums, for each thread."""
    query, key, value = call.shapes[:3]
    if len(query) != 4 or not query[-1] == key[-1] == value[-1]:
        return 0  # done step by step, through operators of their own
    queries = min(query[-2], 256 if query[-2] >= 768 else 64 if query[-2] >= 192 else 32)
    keys = min(key[-2], 512)
    block = queries * (keys + query[-1] + 2)
    return (math.prod(query[:-1]) + block * call.run.threads) * call.width


def _attention_layer(call: _Call) -> float:
    """Queries, keys and values, then the same by heads, and the scores of all queries with all keys."""
    batch, length, size = call.shapes[0]
    heads: int = call.op.attrs["heads"]
    projected, scores = 3 * batch * length * size, batch * heads * length * length
    return (projected + max(projected, scores) - math.prod(call.result)) * call.width


_KERNELS: dict[str, Callable[[_Call], float]] = {
    "aten.conv1d": _convolution,
    "aten.conv2d": _convolution,
    "aten.conv3d": _convolution,
    "aten.convolution": _convolution,
    "aten._convolution": _convolution,
    "aten.conv_transpose1d": _convolution,
    "aten.conv_transpose2d": _convolution,
    "aten.conv_transpose3d": _convolution,
    "aten.max_pool2d": _max_pool,
    "aten.max_pool3d": _max_pool,
    "aten.scaled_dot_product_attention": _attention,
    "aten._native_multi_head_attention": _attention_layer,
}
