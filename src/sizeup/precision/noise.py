"""What narrower weights lose where nobody measured: the noise of rounding, from the weights themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Tensor
from sizeup.precision.layers import Layer, layers

_FLOAT_BITS = {"fp32": 24, "fp16": 11, "bf16": 8, "fp8": 4, "fp4": 2}  # of the fraction, and the hidden one


def assumed_losses(graph: Graph, precisions: Sequence[DType]) -> dict[str, dict[str, float]]:
    """{layer: {precision: loss}}: the power of rounding errors over that of the weights, per output channel.

    It ranks layers by how coarse a grid their weights can bear, and knows nothing of activations or of what
    the network is for: a stand-in for measured losses. Raises SizeupError where weights have no content.
    """
    found = {}
    for layer in layers(graph):
        weights = [(_content(tensor), tensor.dtype.bits) for tensor in _weights(graph, layer)]
        noise = {
            # At the width that it is stored in nothing is rounded.
            precision_name(each): float(
                sum(_noise(weight, each) for weight, bits in weights if each.bits < bits)
            )
            for each in precisions
        }
        found[f"#{layer.op}"] = noise
    return found


def _weights(graph: Graph, layer: Layer) -> list[Tensor]:
    inputs = [graph.tensors[i] for i in graph.ops[layer.op].inputs if i != ABSENT]
    return [each for each in inputs if each.data is not None and len(each.shape or ()) > 1]


def _content(tensor: Tensor) -> np.ndarray[Any, Any]:
    if tensor.data is None or tensor.data.read is None:
        raise SizeupError(
            f"the weights {tensor.name!r} have no content here: measure with data, or give losses"
        )
    numbers = np.asarray(tensor.data.read(), np.float64)
    if tensor.quant is not None:
        numbers = numbers * float(np.mean(tensor.quant.scale))
    return numbers


def _noise(weights: np.ndarray[Any, Any], precision: DType) -> float:
    power = float(np.square(weights).mean())
    if not power:
        return 0.0
    if precision.family == "float":
        bits = _FLOAT_BITS.get(precision_name(precision), 24)
        return 0.0 if bits >= 24 else float(4.0**-bits / 3)
    rows = weights.reshape(weights.shape[0], -1)
    most = np.abs(rows).max(axis=1, keepdims=True)
    steps = max(2 ** (precision.bits - 1) - 1, 1)
    scale = np.where(most > 0, most, 1.0) / steps
    return float(np.square(rows - np.clip(np.round(rows / scale), -steps - 1, steps) * scale).mean()) / power
