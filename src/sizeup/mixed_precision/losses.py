"""How far outputs are from those of the float network, measured or estimated from the rounding of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.formats.rounding import Array
from sizeup.graph import ABSENT, Graph, Tensor
from sizeup.mixed_precision.layers import Layer, layers

# logits: a softmax makes probabilities of them; values: neither, so that there is no divergence.
Meaning = Literal["logits", "probabilities", "values"]
_MEANINGS = ("logits", "probabilities", "values")
_LEAST = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True)
class Losses:
    """Outputs against those of the float network on the same data.

    `sqnr_db`: power of the signal over power of the noise. `kl`: the mean of KL(float || this) in nats; None
    where outputs are no distributions. With labels also the accuracy, and how much the mean cross-entropy
    grew; None without.
    """

    sqnr_db: float
    kl: float | None = None
    accuracy: float | None = None
    loss: float | None = None

    @property
    def noise(self) -> float:
        """Power of the noise over power of the signal."""
        return float(10 ** (-self.sqnr_db / 10))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is not finite is written as text, for JSON has no such numbers."""
        return {name: plain(value) for name, value in asdict(self).items()}


def plain(value: float | None) -> float | str | None:
    """A number that JSON can hold."""
    return value if value is None or math.isfinite(value) else str(value)


def number(value: float | str | None) -> float | None:
    """The number again."""
    return None if value is None else float(value)


def losses_from(content: Any) -> Losses:
    """What `to_dict` gave."""
    found = {each.name: number(content[each.name]) for each in fields(Losses)}
    if found["sqnr_db"] is None:
        raise ValueError("sqnr_db is missing")
    return Losses(**found)  # type: ignore[arg-type]  # only this one may not be None, and it is not


@dataclass(frozen=True, slots=True)
class Reading:
    """What the outputs mean: which axis has the classes, and what their numbers are."""

    meaning: Meaning = "logits"
    axis: int = -1

    def __post_init__(self) -> None:
        if self.meaning not in _MEANINGS:
            raise SizeupError(f"outputs are {', '.join(_MEANINGS)}, not {self.meaning!r}")

    def logarithms(self, outputs: Array) -> Array:
        """The logarithms of the probabilities, classes last."""
        moved = np.moveaxis(np.asarray(outputs, np.float64), self.axis, -1)
        if self.meaning == "probabilities":
            return np.log(np.maximum(moved, _LEAST))
        shifted = moved - moved.max(axis=-1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

    def accuracy(self, outputs: Array, labels: Array) -> float:
        """The share of samples whose label has the greatest output; what is no number is no answer."""
        moved = np.moveaxis(np.asarray(outputs, np.float64), self.axis, -1)
        right = (moved.argmax(axis=-1) == labels) & ~np.isnan(moved).any(axis=-1)
        return float(right.mean())

    def cross_entropy(self, outputs: Array, labels: Array) -> float:
        """The mean of minus the logarithm of the label's probability."""
        found = np.take_along_axis(self.logarithms(outputs), labels[..., None].astype(np.int64), axis=-1)
        return float(-found.mean())

    def check(self, outputs: Array, labels: Array | None) -> None:
        """Refuse labels that do not fit the outputs."""
        if labels is None:
            return
        if self.meaning == "values":
            raise SizeupError("labels need outputs that are logits or probabilities, not values")
        wanted = np.moveaxis(outputs, self.axis, -1).shape
        if labels.shape != wanted[:-1]:
            raise SizeupError(f"labels of the shape {labels.shape} do not fit outputs of {outputs.shape}")
        if labels.size and not 0 <= labels.min() <= labels.max() < wanted[-1]:
            raise SizeupError(f"labels go from {labels.min()} to {labels.max()}, for {wanted[-1]} outputs")


def losses(true: Array, found: Array, labels: Array | None, reading: Reading) -> Losses:
    """All losses of outputs; what broke down to something infinite has lost infinitely much."""
    kl = accuracy = loss = None
    whole = bool(np.isfinite(found).all())
    if reading.meaning != "values":
        kl = _divergence(true, found, reading) if whole else math.inf
    if labels is not None:
        accuracy = reading.accuracy(found, labels)
        before = reading.cross_entropy(true, labels)
        loss = reading.cross_entropy(found, labels) - before if whole else math.inf
    return Losses(_sqnr(true, found) if whole else -math.inf, kl, accuracy, loss)


def _sqnr(true: Array, found: Array) -> float:
    signal = np.asarray(true, np.float64)
    noise = float(np.square(signal - found).sum())
    power = float(np.square(signal).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(power / noise) if power else -math.inf


def _divergence(true: Array, found: Array, reading: Reading) -> float:
    before, after = reading.logarithms(true), reading.logarithms(found)
    return max(0.0, float((np.exp(before) * (before - after)).sum(axis=-1).mean()))


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
