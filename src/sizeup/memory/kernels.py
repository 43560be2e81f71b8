"""What PyTorch's CPU kernels take beside the tensors that a model sees, and give back when they are done.

Each formula follows from what the kernel does; none is fitted to a measurement. Kernels that are known to
take what no formula tells are named as well: with one of them the peak of a run is a lower bound. All others
take nothing, or the few kilobytes that docs/memory.md tells of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op, Run, Shape
from sizeup.memory.liveness import tensor_bytes
from sizeup.ops import rule_of

_INDEX_BYTES = 8


class _Call(NamedTuple):
    """One operator as its kernel sees it."""

    op: Op
    shapes: list[Shape]  # of its inputs
    types: list[str]  # of its inputs
    result: Shape
    more: bool  # whether there are numbers in further results
    width: float  # bytes of a number
    run: Run

    def layout(self, place: int) -> str:
        """How an input lies in memory; empty where row by row."""
        found = self.run.layouts.get(self.op.inputs[place], "")
        return "" if found == "apart" else found  # products alone mind that


def workspaces(graph: Graph, run: Run, precision: DType | None = None) -> list[int]:
    """Bytes beside inputs and outputs at the worst moment of every operator; 0 where no kernel is known."""
    if not _is_here(run):
        return [0] * len(graph.ops)
    return [_workspace(graph, op, run, precision) for op in graph.ops]


def unmodelled(graph: Graph, run: Run) -> tuple[str, ...]:
    """The operators, by torch's names, that take what is not known here, as they first run."""
    return tuple(dict.fromkeys(op.source or op.kind for op in graph.ops if _is_unmodelled(graph, op, run)))


def _is_here(run: Run) -> bool:
    return run.device in ("cpu", "meta")  # what is on no device yet is taken to run on this one


def _workspace(graph: Graph, op: Op, run: Run, precision: DType | None) -> int:
    kernel = _KERNELS.get(op.source)
    call = None if kernel is None else _call(graph, op, run, precision)
    if kernel is None or call is None or graph.tensors[op.outputs[0]].dtype.name != "float32":
        return 0  # other number types have kernels of their own
    is_beyond = _BEYOND.get(op.source)
    if is_beyond is not None and is_beyond(call):
        return 0  # what it takes is not known: the peak without it is a bound
    return math.ceil(kernel(call))


def _call(graph: Graph, op: Op, run: Run, precision: DType | None = None) -> _Call | None:
    """An operator and what it works on; None where there are no numbers, or only data tells how many."""
    result = graph.tensors[op.outputs[0]]
    inputs = [graph.tensors[identity] for identity in op.inputs if identity != ABSENT]
    known = [tensor.shape for tensor in inputs if tensor.shape is not None]
    if not result.shape or not result.elements or len(known) < len(inputs):
        return None
    width = tensor_bytes(result, precision) / result.elements
    types = [tensor.dtype.name for tensor in inputs]
    more = any(graph.tensors[identity].elements for identity in op.outputs[1:])
    return _Call(op, known, types, result.shape, more, width, run)


def _is_unmodelled(graph: Graph, op: Op, run: Run) -> bool:
    if op.bodies or op.kind in _UNMODELLED or op.source in _UNMODELLED:
        return True
    if op.source and (not op.source.startswith(("aten.", "prims.")) or rule_of(op.kind) is None):
        return True  # a kernel of somebody else, or one that nobody looked at
    if not _is_here(run):
        return op.source in _KERNELS
    result = graph.tensors[op.outputs[0]].dtype.name if op.outputs else ""
    if result in ("float16", "bfloat16") and op.kind == "matmul":
        return True
    if op.source not in _KERNELS or op.source in _ANY_TYPE:
        return False
    if result != "float32":
        return True
    is_beyond = _BEYOND.get(op.source)
    call = _call(graph, op, run) if is_beyond else None
    return is_beyond is not None and call is not None and is_beyond(call)


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
    given = math.prod(found.data) if call.layout(0) == "other" else 0  # brought into rows first
    if "channels_last" in (call.layout(0), call.layout(1)):
        return _channels_last(call, found)
    if not found.suits_onednn(call.run):
        return (given + _as_products(found)) * call.width
    taken = _copies(found, call.run.lanes) + _gathered(found, call.run.lanes) * call.run.threads
    # Once it is done its result is brought back into the model's layout, and only then is there an output.
    return (
        given + _blocked(found.result, found.groups, call.run.lanes) + max(taken - result, 0)
    ) * call.width


def _channels_last(call: _Call, found: Convolution) -> float:
    """What lies channels last is read and written as it is; filters are brought into that layout."""
    # A filter of one channel or of one number a channel lies the same either way.
    is_same = call.layout(1) or found.is_pointwise or found.weight[1] == 1
    copied = 0 if is_same else math.prod(found.weight)
    if not call.layout(0):
        copied += math.prod(found.data)
    if not found.suits_onednn(call.run):
        return (copied + _as_products(found)) * call.width
    return (copied + _filter_copy(found, call.run.lanes)) * call.width


def _as_products(found: Convolution) -> int:
    """A convolution without oneDNN: groups are done one after the other, and put together at the end."""
    return math.prod(found.result) if found.groups > 1 else _columns(found)


def _convolution_is_beyond(call: _Call) -> bool:
    """Whether a convolution takes a way that is not known here."""
    found, lanes = _seen_as_images(call), call.run.lanes
    if call.op.kind == "conv_transpose":
        return not found.suits_onednn(call.run) or call.run.threads > _FEW_THREADS
    # Several filters on each of a few channels: more is padded than the copies tell.
    is_spread = 1 < found.groups == found.data[1] < min(found.weight[0], lanes)
    return is_spread and found.suits_onednn(call.run)


def _transposed_convolution(call: _Call) -> float:
    """The same, but its result is copied twice on the way back."""
    found, result = _seen_as_images(call), math.prod(call.result)
    if not found.suits_onednn(call.run):
        return 0
    taken = _copies(found, call.run.lanes)
    return (_blocked(found.result, found.groups, call.run.lanes) + max(taken - result, result)) * call.width


def _copies(found: Convolution, lanes: int) -> int:
    """Numbers of the input and the filter in oneDNN's layout: channels in blocks as wide as a vector."""
    given = 0 if _is_read(found, lanes) else _blocked(found.data, found.groups, lanes)
    return given + _filter_copy(found, lanes)


def _is_read(found: Convolution, lanes: int) -> bool:
    """Whether it is a window over the few channels of a picture, which is read as it is."""
    channels = found.data[1]
    is_few = channels < lanes if lanes == 16 else channels in (1, 3)
    return is_few and found.groups == 1 and not found.is_pointwise


def _filter_copy(found: Convolution, lanes: int) -> int:
    made, taken = found.weight[:2]
    if found.groups == 1:
        made, taken = _rounded(made, lanes), taken if _is_read(found, lanes) else _rounded(taken, lanes)
    elif found.groups == found.data[1]:
        made = _rounded(made, lanes)
    return made * taken * math.prod(found.weight[2:])


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
    query, key = call.shapes[:2]
    if _attention_is_beyond(call):
        return 0
    queries = min(query[-2], 256 if query[-2] >= 768 else 64 if query[-2] >= 192 else 32)
    keys = min(key[-2], 512)
    block = queries * (keys + query[-1] + 2)
    # A mask of yes and no becomes one of numbers that are added.
    mask = math.prod(call.shapes[3]) if "bool" in call.types[3:4] else 0
    return (math.prod(query[:-1]) + block * call.run.threads + mask) * call.width


def _attention_is_beyond(call: _Call) -> bool:
    """Whether it is done step by step, through operators of their own."""
    query, key, value = call.shapes[:3]
    return len(query) != 4 or not query[-1] == key[-1] == value[-1]


def _attention_layer_is_beyond(call: _Call) -> bool:
    """Whether the weights of attention were asked for, which are averaged over heads."""
    return call.more


def _attention_layer(call: _Call) -> float:
    """Queries, keys and values, then the same by heads, and the scores of all queries with all keys."""
    batch, length, size = call.shapes[0]
    heads: int = call.op.attrs["heads"]
    projected, scores = 3 * batch * length * size, batch * heads * length * length
    return (projected + max(projected, scores) - math.prod(call.result)) * call.width


def _rms_norm(call: _Call) -> float:
    """With a scale, a root for every row, and the numbers divided by it before they are scaled."""
    if len(call.shapes) < 2:
        return 0
    numbers = math.prod(call.result)
    return (numbers + numbers // math.prod(call.shapes[1])) * call.width


def _layer_norm(call: _Call) -> float:
    """A copy of what does not lie row by row."""
    return math.prod(call.result) * call.width if call.layout(0) else 0


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
    "aten.rms_norm": _rms_norm,
    "aten.layer_norm": _layer_norm,
    "aten.scaled_dot_product_attention": _attention,
    "aten._native_multi_head_attention": _attention_layer,
}
_ANY_TYPE = ("aten.max_pool2d", "aten.max_pool3d", "aten.layer_norm")  # other number types need little more

_FEW_THREADS = 2  # on more, what oneDNN gives each for a transposed convolution is more than the copies

# Operators, by their kind or by torch's name, that take what is not known here, whatever they work on.
_UNMODELLED = frozenset(
    {
        *("lstm", "gru", "rnn", "embedding_bag", "bilinear", "distance", "deform_conv"),
        "aten._transformer_encoder_layer_fwd",
        *("aten.roll", "aten.im2col", "aten.col2im"),
        *("aten.argsort", "aten.msort", "aten.median", "aten.nanmedian", "aten.kthvalue", "aten.mode"),
        *("aten.logsumexp", "aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa"),
    }
)

# Of the operators above, those that take such a way for some of what they work on.
_BEYOND: dict[str, Callable[[_Call], bool]] = {
    **{name: _convolution_is_beyond for name, kernel in _KERNELS.items() if kernel is _convolution},
    "aten.scaled_dot_product_attention": _attention_is_beyond,
    "aten._native_multi_head_attention": _attention_layer_is_beyond,
}
