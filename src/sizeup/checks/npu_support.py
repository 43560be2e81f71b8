"""What is published about the compilers of three NPUs, as reasons and caveats of a fit verdict.

Sources: ai8x-training, "Limitations of MAX78000 Networks", https://github.com/analogdevicesinc/ai8x-training;
Coral, "TensorFlow models on the Edge TPU", https://coral.ai/docs/edgetpu/models-intro/, and "Edge TPU
Compiler", https://coral.ai/docs/edgetpu/compiler/; Hailo Model Zoo, https://github.com/hailo-ai/hailo_model_zoo.
"""

from __future__ import annotations

from dataclasses import dataclass

from sizeup import units
from sizeup.checks.limits import MemoryNeed, MemoryPart
from sizeup.checks.needs import Needs
from sizeup.dtypes import DType, precision
from sizeup.graph import ABSENT, Graph, Op
from sizeup.memory import tensor_bytes
from sizeup.targets import Target

_LAYERS = ("conv", "conv_transpose", "matmul")


@dataclass(frozen=True, slots=True)
class NpuSupport:
    """Why a compiler rejects a model, why its verdict is undetermined, and caveats; empty if unknown."""

    refusal: str | None = None
    undetermined_reason: str = ""
    caveats: tuple[str, ...] = ()


def npu_support(needs: Needs, target: Target) -> NpuSupport:
    """The support of a model by the compiler of the target's NPU."""
    name = target.runtime.name
    if name == "ai8x":
        return NpuSupport(_ai8x_refusal(needs.graph), caveats=(_AI8X,))
    if name == "edgetpu":
        return _edge_tpu(needs)
    return NpuSupport(None, _HAILO_UNKNOWN, (_HAILO,)) if name == "hailort" else NpuSupport()


_HAILO_UNKNOWN = "whether the Dataflow Compiler takes all operators is not modeled"
_HAILO = (
    "not modeled: which operators the Dataflow Compiler takes, and the memory of the chip; a network that"
    " exceeds it is split into contexts, which are loaded one after the other"
)
_EDGE_TPU_CACHE = 8_000_000
_EDGE_TPU = frozenset(
    {
        "ADD",
        "AVERAGE_POOL_2D",
        "CONCATENATION",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "EXPAND_DIMS",
        "FULLY_CONNECTED",
        "L2_NORMALIZATION",
        "LOGISTIC",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "MAXIMUM",
        "MAX_POOL_2D",
        "MEAN",
        "MINIMUM",
        "MUL",
        "PACK",
        "PAD",
        "PRELU",
        "QUANTIZE",
        "REDUCE_MAX",
        "REDUCE_MIN",
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RESHAPE",
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "RSQRT",
        "SLICE",
        "SOFTMAX",
        "SPACE_TO_DEPTH",
        "SPLIT",
        "SQUEEZE",
        "STRIDED_SLICE",
        "SUB",
        "SUM",
        "SQUARED_DIFFERENCE",
        "TANH",
        "TRANSPOSE",
        "TRANSPOSE_CONV",
    }
)


def _edge_tpu(needs: Needs) -> NpuSupport:
    graph = needs.graph
    if needs.precision is None and (layer := _float_layer(graph)) is not None:
        return NpuSupport(
            f"the Edge TPU Compiler takes only models quantized to 8 bits: {layer} has float weights"
        )
    caveats = ["modeled: operators by name and the size of weights, not the options of operators"]
    reason = ""
    on_host = next((i for i, op in enumerate(graph.ops) if op.source not in _EDGE_TPU), None)
    if graph.format == "tflite" and on_host is not None:
        rest = graph.ops[on_host:]
        first = f"{rest[0].source} is not supported by the Edge TPU"
        caveats.append(
            f"{first}: it and what follows ({units.plural(len(rest), 'operator')}) run on the host"
        )
        if any(op.kind in _LAYERS for op in rest):
            reason = f"{first}, and layers after it run on the host, which is not modeled"
    if needs.weight_bytes > _EDGE_TPU_CACHE:
        streamed = units.size(needs.weight_bytes - _EDGE_TPU_CACHE)
        caveats.append(
            f"weights of {units.size(needs.weight_bytes)} exceed the about 8 MB on the chip:"
            f" at least {streamed} are sent by the host in every inference"
        )
    return NpuSupport(None, reason, tuple(caveats))


def _float_layer(graph: Graph) -> str | None:
    for index, op in enumerate(graph.ops):
        if op.kind in _LAYERS and len(op.inputs) > 1 and op.inputs[1] != ABSENT:
            weights = graph.tensors[op.inputs[1]]
            if weights.data is not None and weights.dtype.family == "float":
                return f"operator {index} ({op.source or op.kind})"
    return None


_AI8X = (
    "modeled: the published limits of operators, layers and weight memory; not how layers are placed in data"
    " and weight memory, streaming, and accuracy after quantization-aware training"
)
_AI8X_OTHER = frozenset(
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


def _ai8x_refusal(graph: Graph) -> str | None:
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
        return "" if op.kind in _AI8X_OTHER else "no such operation"
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


def ai8x_memories(needs: Needs, target: Target) -> tuple[MemoryNeed, MemoryNeed]:
    """The data memory and the weight memory of the accelerator; how they are filled is not modeled."""
    device = target.device
    dtype = needs.precision or precision("int8")
    assert dtype is not None
    data = MemoryPart(
        "tensors", _largest_output(needs.graph), None, "largest tensor after layers that can stream"
    )
    weights = MemoryPart(
        "weights", _weight_bytes(needs, dtype), None, f"at {dtype.bits} bits, in 64 equal memories"
    )
    unknown = ("how layers are placed in the memories of the accelerator is not modeled",)
    source = f"the accelerator of {device.title}"
    return (
        MemoryNeed("ram", device.npu_ram_bytes, (data,), 0, source, unknown),
        MemoryNeed("weight memory", device.npu_weight_bytes, (weights,), 0, source, unknown),
    )


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
