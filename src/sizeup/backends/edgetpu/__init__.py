"""The Edge TPU Compiler.

Sources: Coral, "TensorFlow models on the Edge TPU", https://coral.ai/docs/edgetpu/models-intro/, and
"Edge TPU Compiler", https://coral.ai/docs/edgetpu/compiler/.
"""

from __future__ import annotations

from sizeup import units
from sizeup.backends.backend import Support
from sizeup.backends.needs import Needs
from sizeup.backends.system import System
from sizeup.graph import ABSENT, Graph

_LAYERS = ("conv", "conv_transpose", "matmul")


class EdgeTpu(System):
    """An Edge TPU next to an operating system."""

    def support(self, needs: Needs) -> Support:
        """The operators that the compiler takes, by name."""
        return _support(needs)


BACKEND = EdgeTpu

_CACHE = 8_000_000
_OPERATORS = frozenset(
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


def _support(needs: Needs) -> Support:
    graph = needs.graph
    if needs.precision is None and (layer := _float_layer(graph)) is not None:
        return Support(
            f"the Edge TPU Compiler takes only models quantized to 8 bits: {layer} has float weights"
        )
    caveats = ["modeled: operators by name and the size of weights, not the options of operators"]
    reason = ""
    on_host = next((i for i, op in enumerate(graph.ops) if op.source not in _OPERATORS), None)
    if graph.format == "tflite" and on_host is not None:
        rest = graph.ops[on_host:]
        first = f"{rest[0].source} is not supported by the Edge TPU"
        caveats.append(
            f"{first}: it and what follows ({units.plural(len(rest), 'operator')}) run on the host"
        )
        if any(op.kind in _LAYERS for op in rest):
            reason = f"{first}, and layers after it run on the host, which is not modeled"
    if needs.weight_bytes > _CACHE:
        streamed = units.size(needs.weight_bytes - _CACHE)
        caveats.append(
            f"weights of {units.size(needs.weight_bytes)} exceed the about 8 MB on the chip:"
            f" at least {streamed} are sent by the host in every inference"
        )
    return Support(gaps=(("host", reason),) if reason else (), caveats=tuple(caveats))


def _float_layer(graph: Graph) -> str | None:
    for index, op in enumerate(graph.ops):
        if op.kind in _LAYERS and len(op.inputs) > 1 and op.inputs[1] != ABSENT:
            weights = graph.tensors[op.inputs[1]]
            if weights.data is not None and weights.dtype.family == "float":
                return f"operator {index} ({op.source or op.kind})"
    return None
