"""The compiler of the MAX78000 and MAX78002: what is published about its limits.

Source: ai8x-training, "Limitations of MAX78000 Networks", https://github.com/analogdevicesinc/ai8x-training.
"""

from __future__ import annotations

from sizeup.backends.backend import Support
from sizeup.backends.memory_need import MemoryNeed, MemoryPart
from sizeup.backends.micro_unknown import MicroUnknown
from sizeup.backends.needs import Needs
from sizeup.dtypes import DType, precision
from sizeup.graph import ABSENT, Graph, Op
from sizeup.memory import tensor_bytes

_LAYERS = ("conv", "conv_transpose", "matmul")
_UNKNOWN = ("how layers are placed in the memories of the accelerator is not modeled",)


class Ai8x(MicroUnknown):
    """The accelerator with its own memories for data and for weights."""

    def ram(self, needs: Needs, available: int | None) -> MemoryNeed:
        """The need of the data memory, of which only the largest tensor is known."""
        basis = "largest tensor after layers that can stream"
        data = MemoryPart("tensors", _largest_output(needs.graph), None, basis)
        return MemoryNeed("ram", self.target.device.npu_ram_bytes, (data,), 0, self._source, _UNKNOWN)

    def weight_memory(self, needs: Needs) -> MemoryNeed:
        """The need of the weight memory."""
        dtype = needs.precision or precision("int8")
        assert dtype is not None
        basis = f"at {dtype.bits} bits, in 64 equal memories"
        weights = MemoryPart("weights", _weight_bytes(needs, dtype), None, basis)
        limit = self.target.device.npu_weight_bytes
        return MemoryNeed("weight memory", limit, (weights,), 0, self._source, _UNKNOWN)

    def support(self, needs: Needs) -> Support:
        """The published limits of operators and layers."""
        caveats = (*self.conversion_caveats(needs), _MODELED)
        return Support(_refusal(needs.graph), caveats=caveats)

    @property
    def _source(self) -> str:
        return f"the accelerator of {self.target.device.title}"


BACKEND = Ai8x

_MODELED = (
    "modeled: the published limits of operators, layers and weight memory; not how layers are placed in data"
    " and weight memory, streaming, and accuracy after quantization-aware training"
)
_OTHER = frozenset(
    {
        "add",
        "sub",
        "bitwise",
        "pool",
        "global_pool",
        "mean",
        "concat",
        "relu",
        "abs",
        "reshape",
        "view",
        "identity",
        "pad",
        "batch_norm",
        "softmax",
        "quantize",
        "dequantize",
        "dropout",
        "cast",
    }
)
_MOST_CHANNELS, _MOST_LAYERS, _MOST_POOL = 1024, 32, 16
_STREAMED_LAYERS = 8
_PROCESSORS, _KERNEL = 64, 9  # weights of a 3 x 3 kernel
_LONGEST = 9  # weights of a 1D kernel


def _refusal(graph: Graph) -> str | None:
    """The first limit of the MAX78000 that the network exceeds."""
    layers = 0
    for index, op in enumerate(graph.ops):
        layers += op.kind in _LAYERS
        reason = _op_refusal(graph, op)
        if reason:
            return f"the MAX78000 does not support operator {index} ({op.source or op.kind}): {reason}"
    if layers > _MOST_LAYERS:
        return f"the MAX78000 runs at most {_MOST_LAYERS} layers, and the model has {layers}"
    return None


def _op_refusal(graph: Graph, op: Op) -> str:
    if op.kind not in _LAYERS:
        if op.kind == "pool" and max(_sizes(op, "kernel"), default=1) > _MOST_POOL:
            return f"pooling windows above {_MOST_POOL} x {_MOST_POOL}"
        return "" if op.kind in _OTHER else "no such operation"
    if max(_channels(graph, op)) > _MOST_CHANNELS:
        return f"more than {_MOST_CHANNELS} channels"
    if op.attrs.get("activation") not in (None, "", "none", "relu"):
        return f"activation {op.attrs['activation']}; only ReLU and Abs"
    if op.kind == "matmul":
        return ""
    return _window_refusal(graph, op)


def _window_refusal(graph: Graph, op: Op) -> str:
    kernel, stride, dilation = (_sizes(op, name) for name in ("kernel", "stride", "dilation"))
    if op.attrs.get("groups", 1) != 1:
        return "groups or depthwise convolution"
    if op.kind == "conv_transpose":
        is_supported = kernel in ((), (3, 3)) and stride in ((), (2, 2))
        return "" if is_supported else "transposed convolution other than 3 x 3, stride 2"
    if max(stride, default=1) > 1:
        return f"stride {max(stride)}; convolutions have stride 1"
    is_dilated = max(dilation, default=1) > 1
    if _is_one_dimensional(graph, op, len(kernel)):
        if max(kernel) > _LONGEST:
            return f"1D kernel longer than {_LONGEST}"
        return "dilation of a 1D kernel longer than 3" if is_dilated and max(kernel) > 3 else ""
    if is_dilated:
        return "dilation in a 2D convolution"
    if kernel in ((), (1, 1), (2, 2), (3, 3)):
        return ""
    return f"kernel {' x '.join(map(str, kernel))}; only 1 x 1 and 3 x 3"


def _sizes(op: Op, name: str) -> tuple[int, ...]:
    """The sizes of a window along its axes; empty if not known. PyTorch's are lists."""
    values = op.attrs.get(name)
    return tuple(values) if isinstance(values, tuple | list) else ()


def _is_one_dimensional(graph: Graph, op: Op, axes: int) -> bool:
    """Whether a window moves along one axis only; TFLite has images of one row or column for that."""
    shape = graph.tensors[op.inputs[0]].shape or ()
    sides = shape[1:-1] if graph.format == "tflite" else shape[2:]
    return axes == 1 or (axes == 2 and 1 in sides)


def _channels(graph: Graph, op: Op) -> tuple[int, int]:
    """Input and output channels of a layer; 1 if not known."""
    axis = -1 if graph.format == "tflite" or op.kind == "matmul" else 1
    shapes = (graph.tensors[identity].shape for identity in (op.inputs[0], op.outputs[0]))
    first, second = (shape[axis] if shape and len(shape) > 1 else 1 for shape in shapes)
    return first, second


def _largest_output(graph: Graph) -> int:
    """Bytes of the largest tensor, at 8 bits, that a layer which cannot stream writes."""
    layers, largest = 0, 0
    for op in graph.ops:
        layers += op.kind in _LAYERS
        if layers > _STREAMED_LAYERS:
            largest = max([largest, *(graph.tensors[identity].elements or 0 for identity in op.outputs)])
    return largest


def _weight_bytes(needs: Needs, dtype: DType) -> int:
    """Bytes of all weights; 3 x 3 kernels take a place in all 64 memories for every output channel."""
    graph, placed = needs.graph, 0
    for op in graph.ops:
        if op.kind == "conv" and op.attrs.get("groups", 1) == 1 and _sizes(op, "kernel") == (3, 3):
            inputs, outputs = _channels(graph, op)
            placed += -(-inputs // _PROCESSORS) * outputs * _PROCESSORS * _KERNEL
    stored = sum(tensor_bytes(graph.tensors[i], dtype) for i in _layer_weights(graph))
    return max(stored, placed * dtype.bits // 8)


def _layer_weights(graph: Graph) -> set[int]:
    return {
        op.inputs[1]
        for op in graph.ops
        if op.kind in _LAYERS and len(op.inputs) > 1 and op.inputs[1] != ABSENT
    }
