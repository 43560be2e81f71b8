"""Temporary tensors of PyTorch's CUDA kernels, in addition to the tensors of the model.

Workspaces of cuDNN are not counted: it chooses them by the memory that is free, and PyTorch falls back to an
algorithm with less if one cannot be allocated (aten/src/ATen/native/cudnn/Conv_v8.cpp). The workspace of
cuBLAS is part of `cuda_usage`, because it stays allocated.
"""

from __future__ import annotations

import math

from sizeup.dtypes import DType
from sizeup.graph import Graph, Op, RecordedRun
from sizeup.memory.torch_workspaces import (
    KERNELS,
    Kernel,
    KernelCall,
    as_image_convolution,
    attention_is_unmodeled,
    attention_layer,
    attention_layer_is_unmodeled,
    has_unmodeled_inputs,
    is_never_modeled,
    kernel_call,
    max_pool_indices,
)

_STATISTIC_BYTES = 4  # means, reciprocal deviations and logarithms of sums are float32


def workspaces(graph: Graph, run: RecordedRun, precision: DType | None = None) -> list[int]:
    """Bytes of temporary tensors per op; 0 if no formula is known."""
    return [_workspace(graph, op, run, precision) for op in graph.ops]


def unmodeled(graph: Graph, run: RecordedRun) -> tuple[str, ...]:
    """The torch names of ops whose temporary tensors are not modeled, in order of first use."""
    return tuple(dict.fromkeys(op.source or op.kind for op in graph.ops if _is_unmodeled(graph, op, run)))


def _workspace(graph: Graph, op: Op, run: RecordedRun, precision: DType | None) -> int:
    kernel = _KERNELS.get(op.source)
    if kernel is None or _is_unmodeled(graph, op, run):
        return 0
    call = kernel_call(graph, op, run, precision)
    return 0 if call is None or kernel.size is None else math.ceil(kernel.size(call))


def _is_unmodeled(graph: Graph, op: Op, run: RecordedRun) -> bool:
    if is_never_modeled(op):
        return True
    return op.source in _KERNELS and has_unmodeled_inputs(_KERNELS[op.source], graph, op, run)


def _convolution(call: KernelCall) -> float:
    """Copies of data and filter if their layouts differ from that of the result."""
    conv, copied = as_image_convolution(call), 0
    if "channels_last" in (call.layout(0), call.layout(1)):
        # A filter with one channel or with kernel size 1 has the same bytes in both layouts.
        is_same = call.layout(1) or conv.is_pointwise or conv.weight[1] == 1
        copied = (0 if call.layout(0) else math.prod(conv.data)) + (0 if is_same else math.prod(conv.weight))
    elif call.layout(0) == "other":
        copied = math.prod(conv.data)
    return copied * call.width


def _attention(call: KernelCall) -> float:
    """A boolean mask as an additive one; flash attention in 16 bits also returns sums per query."""
    query = call.shapes[0]
    mask = math.prod(call.shapes[3]) * call.width if "bool" in call.types[3:4] else 0
    return mask + (math.prod(query[:-1]) * _STATISTIC_BYTES if call.width < 4 else 0)


def _rms_norm(call: KernelCall) -> float:
    """The reciprocal root of every row."""
    return _rows(call) * _STATISTIC_BYTES


def _layer_norm(call: KernelCall) -> float:
    """Mean and reciprocal deviation of every row, and a copy of the input if it is not row-major."""
    copied = math.prod(call.result) * call.width if call.layout(0) else 0
    return copied + 2 * _rows(call) * _STATISTIC_BYTES


def _rows(call: KernelCall) -> int:
    normalized = math.prod(call.shapes[1]) if len(call.shapes) > 1 else call.result[-1]
    return math.prod(call.result) // max(normalized, 1)  # an empty tensor has 0


_IMAGES, _POOL = Kernel(_convolution), Kernel(max_pool_indices)
_KERNELS: dict[str, Kernel] = {
    **{source: _IMAGES for source in KERNELS if source.startswith("aten.") and "conv" in source},
    "aten.max_pool2d": _POOL,
    "aten.max_pool3d": _POOL,
    "aten.rms_norm": Kernel(_rms_norm),
    "aten.layer_norm": Kernel(_layer_norm),
    "aten.scaled_dot_product_attention": Kernel(_attention, attention_is_unmodeled),
    "aten._native_multi_head_attention": Kernel(attention_layer, attention_layer_is_unmodeled),
}
