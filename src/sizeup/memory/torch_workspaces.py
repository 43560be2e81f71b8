"""Temporary workspaces of PyTorch's CPU kernels, in addition to the tensors of the model.

Each formula is derived from the kernel's algorithm, not fitted to measurements. Kernels with a workspace of
unknown size are listed too: with one of them, the peak is a lower bound. All other kernels need no workspace,
or a few kilobytes (see docs/memory.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, Op, RecordedRun, Shape
from sizeup.memory.liveness import tensor_bytes
from sizeup.ops import cost_rule_of

_INDEX_BYTES = 8


class KernelCall(NamedTuple):
    """A call of an op's kernel."""

    op: Op
    shapes: list[Shape]  # of its inputs
    types: list[str]  # of its inputs
    result: Shape
    has_more_outputs: bool  # whether further outputs have elements
    width: float  # bytes per element
    run: RecordedRun

    def layout(self, position: int) -> str:
        """The memory layout of an input; empty if row-major."""
        layout = self.run.layouts.get(self.op.inputs[position], "")
        return "" if layout == "apart" else layout  # relevant for matrix products only


def workspaces(graph: Graph, run: RecordedRun, precision: DType | None = None) -> list[int]:
    """Peak workspace bytes per op, excluding inputs and outputs; 0 if no formula is known."""
    if not _is_cpu(run):
        return [0] * len(graph.ops)
    return [_workspace(graph, op, run, precision) for op in graph.ops]


def unmodeled(graph: Graph, run: RecordedRun) -> tuple[str, ...]:
    """The torch names of ops whose workspace is not modeled, in order of first use."""
    return tuple(dict.fromkeys(op.source or op.kind for op in graph.ops if _is_unmodeled(graph, op, run)))


def _is_cpu(run: RecordedRun) -> bool:
    return run.device in ("cpu", "meta")  # meta tensors are assumed to run on this CPU


def _workspace(graph: Graph, op: Op, run: RecordedRun, precision: DType | None) -> int:
    kernel = KERNELS.get(op.source, _UNMODELED)
    call = None if kernel.size is None else kernel_call(graph, op, run, precision)
    if kernel.size is None or call is None or graph.tensors[op.outputs[0]].dtype.name != "float32":
        return 0  # other dtypes have other kernels
    if kernel.is_unmodeled is not None and kernel.is_unmodeled(call):
        return 0  # workspace not known: the peak is then a lower bound
    return math.ceil(kernel.size(call))


def kernel_call(graph: Graph, op: Op, run: RecordedRun, precision: DType | None = None) -> KernelCall | None:
    """The kernel call of an op, or None if its output is empty or a shape depends on data."""
    result = graph.tensors[op.outputs[0]]
    inputs = [graph.tensors[identity] for identity in op.inputs if identity != ABSENT]
    shapes = [tensor.shape for tensor in inputs if tensor.shape is not None]
    if not result.shape or not result.elements or len(shapes) < len(inputs):
        return None
    width = tensor_bytes(result, precision) / result.elements
    types = [tensor.dtype.name for tensor in inputs]
    has_more_outputs = any(graph.tensors[identity].elements for identity in op.outputs[1:])
    return KernelCall(op, shapes, types, result.shape, has_more_outputs, width, run)


def is_never_modeled(op: Op) -> bool:
    """Whether the workspace of an op is unknown on every device."""
    if op.bodies or _UNMODELED in (KERNELS.get(op.kind), KERNELS.get(op.source)):
        return True
    # A third-party kernel, or one without a cost rule.
    return bool(op.source) and (
        not op.source.startswith(("aten.", "prims.")) or cost_rule_of(op.kind) is None
    )


def _is_unmodeled(graph: Graph, op: Op, run: RecordedRun) -> bool:
    if is_never_modeled(op):
        return True
    if not _is_cpu(run):
        return op.source in KERNELS
    result = graph.tensors[op.outputs[0]].dtype.name if op.outputs else ""
    if result in ("float16", "bfloat16") and op.kind == "matmul":
        return True
    kernel = KERNELS.get(op.source)
    if kernel is None or kernel.takes_any_type:
        return False
    return result != "float32" or has_unmodeled_inputs(kernel, graph, op, run)


def has_unmodeled_inputs(kernel: Kernel, graph: Graph, op: Op, run: RecordedRun) -> bool:
    """Whether the formula of a kernel is not valid for the inputs of an op."""
    call = kernel_call(graph, op, run) if kernel.is_unmodeled else None
    return kernel.is_unmodeled is not None and call is not None and kernel.is_unmodeled(call)


class Convolution(NamedTuple):
    """A convolution over images; a 1-D convolution is one over images with one row."""

    data: Shape
    weight: Shape
    result: Shape
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def is_pointwise(self) -> bool:
        """Whether the kernel size is 1."""
        return math.prod(self.weight[2:]) == 1

    def suits_onednn(self, run: RecordedRun) -> bool:
        """Whether torch uses oneDNN for float32; the thresholds are those of torch."""
        if not run.simd_lanes:
            return False
        is_product = self.weight[-1] == self.weight[-2] == 1 and max(*self.stride, *self.dilation) == 1
        if is_product and run.threads == 1 and self.data[0] < 16:
            return False
        has_large_window = self.weight[-1] > 3 and self.weight[-2] > 3
        return self.groups > 1 or has_large_window or self.data[0] > 1 or math.prod(self.data[:4]) > 20_480


def as_image_convolution(call: KernelCall) -> Convolution:
    """The convolution of a call, with a batch dimension."""
    data, weight, result = call.shapes[0], call.shapes[1], call.result
    if len(data) < len(weight):  # no batch dimension
        data, result = (1, *data), (1, *result)
    if len(weight) == 3:
        data, weight, result = ((*shape[:2], 1, *shape[2:]) for shape in (data, weight, result))
    attrs, axes = call.op.attrs, len(data) - 2
    stride, dilation = (_per_axis(attrs.get(name, 1), axes) for name in ("stride", "dilation"))
    return Convolution(data, weight, result, stride, dilation, attrs["groups"])


def _per_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    if isinstance(value, int) or len(value) == 1:
        # In 1-D, the value is for the last axis; on the added axis of size 1 it has no effect.
        return (value if isinstance(value, int) else value[0],) * axes
    return tuple(value)


def _convolution(call: KernelCall) -> float:
    """oneDNN works on copies in a blocked layout; small convolutions become a matrix product."""
    if call.op.kind == "conv_transpose":
        return _transposed_convolution(call)
    conv, result = as_image_convolution(call), math.prod(call.result)
    row_major_copy = math.prod(conv.data) if call.layout(0) == "other" else 0  # first copied to row-major
    if "channels_last" in (call.layout(0), call.layout(1)):
        return _channels_last(call, conv)
    if not conv.suits_onednn(call.run):
        return (row_major_copy + _as_products(conv)) * call.width
    copies = (
        _copies(conv, call.run.simd_lanes) + _gathered_elements(conv, call.run.simd_lanes) * call.run.threads
    )
    # The result is converted back at the end; the output is allocated only then.
    return (
        row_major_copy + _blocked(conv.result, conv.groups, call.run.simd_lanes) + max(copies - result, 0)
    ) * call.width


def _channels_last(call: KernelCall, conv: Convolution) -> float:
    """Channels-last tensors are used directly; filters are copied to that layout."""
    # A filter with one channel or with kernel size 1 has the same bytes in both layouts.
    is_same = call.layout(1) or conv.is_pointwise or conv.weight[1] == 1
    copied = 0 if is_same else math.prod(conv.weight)
    if not call.layout(0):
        copied += math.prod(conv.data)
    if not conv.suits_onednn(call.run):
        return (copied + _as_products(conv)) * call.width
    return (copied + _filter_copy(conv, call.run.simd_lanes)) * call.width


def _as_products(conv: Convolution) -> int:
    """Elements of the workspace without oneDNN; groups run in sequence and are concatenated at the end."""
    return math.prod(conv.result) if conv.groups > 1 else _columns(conv)


def _convolution_is_unmodeled(call: KernelCall) -> bool:
    """Whether a convolution uses an algorithm that is not modeled."""
    conv, lanes = as_image_convolution(call), call.run.simd_lanes
    if call.op.kind == "conv_transpose":
        return not conv.suits_onednn(call.run) or call.run.threads > _FEW_THREADS
    # With several filters per channel and few channels, oneDNN pads more than modeled.
    is_spread = 1 < conv.groups == conv.data[1] < min(conv.weight[0], lanes)
    return is_spread and conv.suits_onednn(call.run)


def _transposed_convolution(call: KernelCall) -> float:
    """Like a convolution, but the result is copied twice."""
    conv, result = as_image_convolution(call), math.prod(call.result)
    if not conv.suits_onednn(call.run):
        return 0
    copies = _copies(conv, call.run.simd_lanes)
    return (
        _blocked(conv.result, conv.groups, call.run.simd_lanes) + max(copies - result, result)
    ) * call.width


def _copies(conv: Convolution, lanes: int) -> int:
    """Elements of input and filter in oneDNN's blocked layout (channel blocks of one vector)."""
    data = 0 if _is_read_directly(conv, lanes) else _blocked(conv.data, conv.groups, lanes)
    return data + _filter_copy(conv, lanes)


def _is_read_directly(conv: Convolution, lanes: int) -> bool:
    """Whether the input has few channels, so that oneDNN reads it without a copy."""
    channels = conv.data[1]
    is_few = channels < lanes if lanes == 16 else channels in (1, 3)
    return is_few and conv.groups == 1 and not conv.is_pointwise


def _filter_copy(conv: Convolution, lanes: int) -> int:
    out_channels, in_channels = conv.weight[:2]
    if conv.groups == 1:
        out_channels, in_channels = (
            _rounded(out_channels, lanes),
            in_channels if _is_read_directly(conv, lanes) else _rounded(in_channels, lanes),
        )
    elif conv.groups == conv.data[1]:
        out_channels = _rounded(out_channels, lanes)
    return out_channels * in_channels * math.prod(conv.weight[2:])


def _blocked(shape: Shape, groups: int, lanes: int) -> int:
    channels = _rounded(shape[1], lanes) if groups in (1, shape[1]) else shape[1]
    return shape[0] * channels * math.prod(shape[2:])


def _rounded(channels: int, lanes: int) -> int:
    return -(-channels // lanes) * lanes


def _gathered_elements(conv: Convolution, lanes: int) -> int:
    """Input elements that each thread gathers for a strided pointwise convolution."""
    sides = zip(conv.data[2:], conv.result[2:], conv.stride, strict=True)
    divides = all(size == outputs * step for size, outputs, step in sides if size > 1)
    if not divides or not conv.is_pointwise or conv.groups > 1 or len(conv.data) > 4:
        return 0
    is_strided = conv.result[2:] != conv.data[2:]
    return _rounded(conv.data[1], lanes) * math.prod(conv.result[2:]) if is_strided else 0


def _columns(conv: Convolution) -> int:
    """Elements of the im2col matrix; 0 for a pointwise convolution without stride."""
    if conv.is_pointwise and conv.result[2:] == conv.data[2:]:
        return 0
    return conv.data[0] * math.prod(conv.weight[1:]) * math.prod(conv.result[2:])


def max_pool_indices(call: KernelCall) -> float:
    """The indices of the maxima, which the kernel always computes."""
    return math.prod(call.result) * _INDEX_BYTES


def _attention(call: KernelCall) -> float:
    """Flash attention: per thread, a block of scores, a result and two sums."""
    query, key = call.shapes[:2]
    queries = min(query[-2], 256 if query[-2] >= 768 else 64 if query[-2] >= 192 else 32)
    keys = min(key[-2], 512)
    block = queries * (keys + query[-1] + 2)
    # A boolean mask is converted to an additive one.
    mask = math.prod(call.shapes[3]) if "bool" in call.types[3:4] else 0
    return (math.prod(query[:-1]) + block * call.run.threads + mask) * call.width


def attention_is_unmodeled(call: KernelCall) -> bool:
    """Whether attention runs as separate ops."""
    query, key, value = call.shapes[:3]
    return len(query) != 4 or not query[-1] == key[-1] == value[-1]


def attention_layer_is_unmodeled(call: KernelCall) -> bool:
    """Whether the attention weights are returned, which are averaged over heads."""
    return call.has_more_outputs


def attention_layer(call: KernelCall) -> float:
    """Queries, keys and values, then the same split by head, and all scores."""
    batch, length, size = call.shapes[0]
    heads: int = call.op.attrs["heads"]
    projected, scores = 3 * batch * length * size, batch * heads * length * length
    return (projected + max(projected, scores) - math.prod(call.result)) * call.width


def _rms_norm(call: KernelCall) -> float:
    """With a scale: one root per row, and the normalized values before scaling."""
    if len(call.shapes) < 2:
        return 0
    numbers = math.prod(call.result)
    return (numbers + numbers // math.prod(call.shapes[1])) * call.width


def _layer_norm(call: KernelCall) -> float:
    """A copy of the input if it is not row-major."""
    return math.prod(call.result) * call.width if call.layout(0) else 0


_FEW_THREADS = 2  # with more, oneDNN needs more per thread for transposed convolutions than modeled


class Kernel(NamedTuple):
    """The workspace of an operator's kernel."""

    size: Callable[[KernelCall], float] | None = None  # its bytes; None if they are never modeled
    is_unmodeled: Callable[[KernelCall], bool] | None = None  # inputs for which the formula is not valid
    takes_any_type: bool = False  # dtypes other than float32 need little more


_UNMODELED = Kernel()
_IMAGES = Kernel(_convolution, _convolution_is_unmodeled)
_POOL = Kernel(max_pool_indices, takes_any_type=True)
# By torch name, or by op kind.
KERNELS: dict[str, Kernel] = {
    "aten.conv1d": _IMAGES,
    "aten.conv2d": _IMAGES,
    "aten.conv3d": _IMAGES,
    "aten.convolution": _IMAGES,
    "aten._convolution": _IMAGES,
    "aten.conv_transpose1d": _IMAGES,
    "aten.conv_transpose2d": _IMAGES,
    "aten.conv_transpose3d": _IMAGES,
    "aten.max_pool2d": _POOL,
    "aten.max_pool3d": _POOL,
    "aten.rms_norm": Kernel(_rms_norm),
    "aten.layer_norm": Kernel(_layer_norm, takes_any_type=True),
    "aten.scaled_dot_product_attention": Kernel(_attention, attention_is_unmodeled),
    "aten._native_multi_head_attention": Kernel(attention_layer, attention_layer_is_unmodeled),
    "aten._transformer_encoder_layer_fwd": _UNMODELED,
    "lstm": _UNMODELED,
    "gru": _UNMODELED,
    "rnn": _UNMODELED,
    "embedding_bag": _UNMODELED,
    "bilinear": _UNMODELED,
    "distance": _UNMODELED,
    "deform_conv": _UNMODELED,
    "aten.roll": _UNMODELED,
    "aten.im2col": _UNMODELED,
    "aten.col2im": _UNMODELED,
    "aten.argsort": _UNMODELED,
    "aten.msort": _UNMODELED,
    "aten.median": _UNMODELED,
    "aten.nanmedian": _UNMODELED,
    "aten.kthvalue": _UNMODELED,
    "aten.mode": _UNMODELED,
    "aten.logsumexp": _UNMODELED,
    "aten._upsample_bilinear2d_aa": _UNMODELED,
    "aten._upsample_bicubic2d_aa": _UNMODELED,
}
