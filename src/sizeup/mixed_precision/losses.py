"""Losses of outputs against the float network's: measured, or estimated from the rounding of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.formats.simulated_rounding import Array
from sizeup.graph import ABSENT, Graph, Tensor
from sizeup.mixed_precision.layers import Layer, layers

# logits: inputs of a softmax; values: neither logits nor probabilities, so there is no divergence.
Meaning = Literal["logits", "probabilities", "values"]
_MEANINGS = ("logits", "probabilities", "values")
_MIN_PROBABILITY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True)
class Losses:
    """Outputs compared with those of the float network on the same data.

    `sqnr_db`: signal power over noise power. `kl`: mean KL(float || this) in nats; None if outputs are not
    distributions. With labels also the accuracy and the increase of the mean cross-entropy (`loss`).
    """

    sqnr_db: float
    kl: float | None = None
    accuracy: float | None = None
    loss: float | None = None

    @property
    def noise(self) -> float:
        """Noise power over signal power."""
        return float(10 ** (-self.sqnr_db / 10))

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data; numbers that are not finite are written as text, as JSON lacks them."""
        return {name: plain(value) for name, value in asdict(self).items()}


def plain(value: float | None) -> float | str | None:
    """Returns a value that JSON can represent."""
    return value if value is None or math.isfinite(value) else str(value)


def number(value: float | str | None) -> float | None:
    """Reverses `plain`."""
    return None if value is None else float(value)


def losses_from(content: Any) -> Losses:
    """Reverses `Losses.to_dict`."""
    values = {field.name: number(content[field.name]) for field in fields(Losses)}
    if values["sqnr_db"] is None:
        raise ValueError("sqnr_db is missing")
    return Losses(**values)  # type: ignore[arg-type]  # sqnr_db was checked above


@dataclass(frozen=True, slots=True)
class OutputInterpretation:
    """How to interpret outputs: the class axis, and the meaning of the values."""

    meaning: Meaning = "logits"
    axis: int = -1

    def __post_init__(self) -> None:
        if self.meaning not in _MEANINGS:
            raise SizeupError(f"unknown meaning of outputs {self.meaning!r}; known: {', '.join(_MEANINGS)}")

    def logarithms(self, outputs: Array) -> Array:
        """Returns log-probabilities, classes last."""
        by_class = np.moveaxis(np.asarray(outputs, np.float64), self.axis, -1)
        if self.meaning == "probabilities":
            return np.log(np.maximum(by_class, _MIN_PROBABILITY))
        shifted = by_class - by_class.max(axis=-1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

    def accuracy(self, outputs: Array, labels: Array) -> float:
        """Returns the share of samples whose label has the greatest output; NaN outputs count as wrong."""
        by_class = np.moveaxis(np.asarray(outputs, np.float64), self.axis, -1)
        is_correct = (by_class.argmax(axis=-1) == labels) & ~np.isnan(by_class).any(axis=-1)
        return float(is_correct.mean())

    def cross_entropy(self, outputs: Array, labels: Array) -> float:
        """Returns the mean negative log-probability of the labels."""
        logarithms = np.take_along_axis(self.logarithms(outputs), labels[..., None].astype(np.int64), axis=-1)
        return float(-logarithms.mean())

    def check(self, outputs: Array, labels: Array | None) -> None:
        """Raises SizeupError if labels do not match the outputs."""
        if labels is None:
            return
        if self.meaning == "values":
            raise SizeupError("labels need outputs that are logits or probabilities")
        shape = np.moveaxis(outputs, self.axis, -1).shape
        if labels.shape != shape[:-1]:
            raise SizeupError(f"labels of shape {labels.shape} do not match outputs of shape {outputs.shape}")
        if labels.size and not 0 <= labels.min() <= labels.max() < shape[-1]:
            raise SizeupError(
                f"labels range from {labels.min()} to {labels.max()}, but there are {shape[-1]} classes"
            )


def losses(expected: Array, outputs: Array, labels: Array | None, reading: OutputInterpretation) -> Losses:
    """Returns all losses of outputs; infinite if an output is not finite."""
    kl = accuracy = loss = None
    is_finite = bool(np.isfinite(outputs).all())
    if reading.meaning != "values":
        kl = _divergence(expected, outputs, reading) if is_finite else math.inf
    if labels is not None:
        accuracy = reading.accuracy(outputs, labels)
        before = reading.cross_entropy(expected, labels)
        loss = reading.cross_entropy(outputs, labels) - before if is_finite else math.inf
    return Losses(_sqnr(expected, outputs) if is_finite else -math.inf, kl, accuracy, loss)


def _sqnr(expected: Array, outputs: Array) -> float:
    signal = np.asarray(expected, np.float64)
    noise = float(np.square(signal - outputs).sum())
    power = float(np.square(signal).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(power / noise) if power else -math.inf


def _divergence(expected: Array, outputs: Array, reading: OutputInterpretation) -> float:
    before, after = reading.logarithms(expected), reading.logarithms(outputs)
    return max(0.0, float((np.exp(before) * (before - after)).sum(axis=-1).mean()))


_POINTS = 4001  # samples of the weight distribution
_FLOAT_BITS = {
    "fp32": 24,
    "fp16": 11,
    "bf16": 8,
    "fp8": 4,
    "fp4": 2,
}  # of the significand, the implicit bit included


def weight_rounding_losses(graph: Graph, precisions: Sequence[DType]) -> dict[str, dict[str, float]]:
    """Returns {layer: {precision: loss}}: rounding error power over weight power, per output channel.

    A proxy for measured losses: it ranks layers by how coarse a grid their weights tolerate, and knows
    nothing of activations or the task. Raises SizeupError if weights have no values.
    """
    noise_by_layer = {}
    for layer in layers(graph):
        weights = [(_content(tensor), tensor.dtype.bits) for tensor in _weights(graph, layer)]
        noise = {
            # Nothing is rounded at the stored width.
            precision_name(dtype): float(
                sum(_noise(weight, dtype) for weight, bits in weights if dtype.bits < bits)
            )
            for dtype in precisions
        }
        noise_by_layer[f"#{layer.op}"] = noise
    return noise_by_layer


def analytic_losses(graph: Graph, precisions: Sequence[DType]) -> dict[str, dict[str, float]]:
    """Returns the same without weight values: expected for normally distributed weights of that shape and
    dtype.

    The largest of n such weights is about sqrt(2 ln 2n) standard deviations, so layers with more inputs per
    channel have coarser steps.
    """
    noise_by_layer = {}
    for layer in layers(graph):
        weights = [
            (max((tensor.elements or 0) // max((tensor.shape or (1,))[0], 1), 1), tensor.dtype.bits)
            for tensor in _weights(graph, layer)
        ]
        noise_by_layer[f"#{layer.op}"] = {
            precision_name(dtype): float(
                sum(_expected_noise(fan_in, dtype) for fan_in, bits in weights if dtype.bits < bits)
            )
            for dtype in precisions
        }
    return noise_by_layer


def _expected_noise(fan_in: int, precision: DType) -> float:
    """Returns rounding error power over weight power, for a channel with `fan_in` weights."""
    if precision.family == "float":
        return _float_noise(precision)
    largest = math.sqrt(2 * math.log(2 * fan_in)) if fan_in > 1 else 1.0
    values = np.linspace(-largest, largest, _POINTS)
    share = np.exp(-(values**2) / 2)
    share /= share.sum()
    steps = _steps(precision)
    rounded = np.round(values * steps / largest) * largest / steps
    return float((share * (values - rounded) ** 2).sum() / (share * values**2).sum())


def _steps(precision: DType) -> int:
    """Returns the number of grid steps from zero to the largest weight."""
    return int(max(2 ** (precision.bits - 1) - 1, 1))


def _float_noise(precision: DType) -> float:
    bits = _FLOAT_BITS.get(precision_name(precision), 24)
    return 0.0 if bits >= 24 else float(4.0**-bits / 3)


def _weights(graph: Graph, layer: Layer) -> list[Tensor]:
    inputs = [graph.tensors[i] for i in graph.ops[layer.op].inputs if i != ABSENT]
    return [
        tensor
        for tensor in inputs
        if tensor.data is not None and tensor.follows_precision and len(tensor.shape or ()) > 1
    ]


def _content(tensor: Tensor) -> np.ndarray[Any, Any]:
    if tensor.data is None or tensor.data.read is None:
        raise SizeupError(
            f"weights {tensor.name!r} have a shape but no values, so their rounding error is unknown; give"
            " a model with weights (a file, or package.module:factory that loads them), --data FILE,"
            " --losses FILE, or --sensitivity analytic, which needs only shapes and dtypes"
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
    largest = np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True))
    scale = np.where(largest > 0, largest, 1.0) / np.float32(_steps(precision))
    error = rows / scale
    error -= np.rint(error)
    error *= scale
    return _power(error) / power


def _power(rows: np.ndarray[Any, Any]) -> float:
    """Returns the sum of squares; rows are summed in 32 bits, their sums in 64."""
    return float(np.einsum("ij,ij->i", rows, rows).sum(dtype=np.float64))
