"""Simulated quantization: values are rounded to the grid of a dtype and remain float32.

The arithmetic is that of ONNX's QuantizeLinear and DequantizeLinear in float32, so that all runtimes compute
with the same values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import DType

Array: TypeAlias = np.ndarray[Any, Any]

# A bfloat16 is the upper half of a float32.
_LOWER_HALF = 16
_SAMPLE = 1 << 16  # elements sampled per tensor over all batches


@dataclass(frozen=True, slots=True)
class Rounding:
    """A dtype and, for integers, the grid: real = scale x (stored - zero point)."""

    dtype: DType
    scale: Array = field(default_factory=lambda: np.float32(1) * np.ones(()))  # broadcast to the values
    zero_point: int = 0
    is_symmetric: bool = False  # symmetric: excludes the lowest integer

    @property
    def low(self) -> int:
        """The smallest integer."""
        return -(1 << (self.dtype.bits - 1)) + int(self.is_symmetric)

    @property
    def high(self) -> int:
        """The largest integer."""
        return (1 << (self.dtype.bits - 1)) - 1


@dataclass(frozen=True, slots=True)
class Roundings:
    """The roundings of a network: of produced tensors by tensor id, and of inputs by op and tensor."""

    outputs: Mapping[int, Rounding] = field(default_factory=dict)
    inputs: Mapping[tuple[int, int], Rounding] = field(default_factory=dict)  # (op, tensor)
    constants: Mapping[tuple[int, int], Array] = field(default_factory=dict)  # (op, tensor): rounded values


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """The minimum, the maximum and a sample of a tensor over some data."""

    low: float
    high: float
    sample: Array


@dataclass(frozen=True, slots=True)
class CalibrationStatistics:
    """Activation statistics of calibration data by tensor id, and constants, including computed ones."""

    values: Mapping[int, TensorStatistics]
    constants: Mapping[int, Array]


def round_values(numbers: Array, rounding: Rounding) -> Array:
    """The values rounded to the grid of the dtype, as float32."""
    plain = np.asarray(numbers, np.float32)
    if rounding.dtype.name == "bfloat16":
        return _as_bfloat16(plain)
    scale = np.asarray(rounding.scale, np.float32)
    with np.errstate(over="ignore"):  # overflow becomes infinity, or is clipped to the grid
        if rounding.dtype.family == "float":
            return plain.astype(rounding.dtype.name).astype(np.float32)
        stored = np.clip(np.rint(plain / scale) + rounding.zero_point, rounding.low, rounding.high)
    return np.asarray((stored - np.float32(rounding.zero_point)) * scale, np.float32)


def _as_bfloat16(plain: Array) -> Array:
    """Round to nearest, ties to even."""
    bits = np.ascontiguousarray(plain).view(np.uint32).astype(np.uint64)
    half = (np.uint64(1) << np.uint64(_LOWER_HALF - 1)) - np.uint64(1)
    bits += half + ((bits >> np.uint64(_LOWER_HALF)) & np.uint64(1))
    upper = (bits >> np.uint64(_LOWER_HALF) << np.uint64(_LOWER_HALF)).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(plain), upper.reshape(plain.shape), plain)


def sample_stride(elements: int, batches: int = 1) -> int:
    """The stride of the sample of a batch, coprime to its size so that all rows and channels are sampled."""
    step = max(1, -(-elements * batches // _SAMPLE))
    while math.gcd(step, elements) > 1:
        step += 1
    return step


def merge_statistics(one: TensorStatistics | None, other: TensorStatistics) -> TensorStatistics:
    """The statistics of both."""
    if one is None:
        return other
    sample = np.concatenate([one.sample, other.sample])
    return TensorStatistics(min(one.low, other.low), max(one.high, other.high), sample)
