"""What narrower weights lose where nobody measured: the noise of rounding, from the weights themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Tensor
from sizeup.mixed_precision.layers import Layer, layers

_POINTS = 4001  # of the distribution of weights
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


def analytic_losses(graph: Graph, precisions: Sequence[DType]) -> dict[str, dict[str, float]]:
    """The same without the numbers: what is expected of normally distributed weights of that shape and type.

    The largest of n such weights is about sqrt(2 ln 2n) standard deviations, so layers with more inputs per
    channel have coarser steps.
    """
    found = {}
    for layer in layers(graph):
        weights = [
            (max((tensor.elements or 0) // max((tensor.shape or (1,))[0], 1), 1), tensor.dtype.bits)
            for tensor in _weights(graph, layer)
        ]
        found[f"#{layer.op}"] = {
            precision_name(each): float(
                sum(_expected_noise(fan_in, each) for fan_in, bits in weights if each.bits < bits)
            )
            for each in precisions
        }
    return found


def _expected_noise(fan_in: int, precision: DType) -> float:
    """The power of rounding errors over that of weights, of a channel with so many of them."""
    if precision.family == "float":
        return _float_noise(precision)
    most = math.sqrt(2 * math.log(2 * fan_in)) if fan_in > 1 else 1.0
    values = np.linspace(-most, most, _POINTS)
    share = np.exp(-(values**2) / 2)
    share /= share.sum()
    steps = _steps(precision)
    rounded = np.round(values * steps / most) * most / steps
    return float((share * (values - rounded) ** 2).sum() / (share * values**2).sum())


def _steps(precision: DType) -> int:
    """Steps of the grid from zero to the largest weight."""
    return int(max(2 ** (precision.bits - 1) - 1, 1))


def _float_noise(precision: DType) -> float:
    bits = _FLOAT_BITS.get(precision_name(precision), 24)
    return 0.0 if bits >= 24 else float(4.0**-bits / 3)


def _weights(graph: Graph, layer: Layer) -> list[Tensor]:
    inputs = [graph.tensors[i] for i in graph.ops[layer.op].inputs if i != ABSENT]
    return [
        each
        for each in inputs
        if each.data is not None and each.follows_precision and len(each.shape or ()) > 1
    ]


def _content(tensor: Tensor) -> np.ndarray[Any, Any]:
    if tensor.data is None or tensor.data.read is None:
        raise SizeupError(
            f"the weights {tensor.name!r} have a shape but no values, so rounding them cannot be judged: give"
            " a model with weights (a file, or package.module:factory that loads them), data (--data FILE),"
            " losses (--losses FILE), or --sensitivity analytic, which judges by shapes and types alone"
        )
    numbers = np.asarray(tensor.data.read(), np.float32)
    if tensor.quant is not None:
        numbers = numbers * np.float32(np.mean(tensor.quant.scale))
    return numbers


def _noise(weights: np.ndarray[Any, Any], precision: DType) -> float:
    rows = weights.reshape(weights.shape[0], -1)
    power = _power(rows)
    if not power:
        return 0.0
    if precision.family == "float":
        return _float_noise(precision)
    most = np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True))
    scale = np.where(most > 0, most, 1.0) / np.float32(_steps(precision))
    error = rows / scale
    error -= np.rint(error)
    error *= scale
    return _power(error) / power


def _power(rows: np.ndarray[Any, Any]) -> float:
    """The sum of squares; single rows are summed at 32 bits, their sums at 64."""
    return float(np.einsum("ij,ij->i", rows, rows).sum(dtype=np.float64))
