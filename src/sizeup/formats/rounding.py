"""Numbers as a narrower type would hold them, and where in a network they are to be so.

What a type holds is simulated: numbers are put on its grid and stay float32. The arithmetic is that of ONNX's
QuantizeLinear and DequantizeLinear, step by step in float32, so that all runtimes see the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import DType

Array: TypeAlias = np.ndarray[Any, Any]

# A number of bfloat16 is the upper half of one of float32.
_LOWER_HALF = 16
_SAMPLE = 1 << 16  # numbers of a value that are kept from all batches


@dataclass(frozen=True, slots=True)
class Rounding:
    """A number type and, for integers, the grid: real = scale x (stored - zero point)."""

    dtype: DType
    scale: Array = field(default_factory=lambda: np.float32(1) * np.ones(()))  # spreads over the numbers
    zero_point: int = 0
    restricted: bool = False  # without the lowest integer, which has no opposite

    @property
    def low(self) -> int:
        """The least integer."""
        return -(1 << (self.dtype.bits - 1)) + int(self.restricted)

    @property
    def high(self) -> int:
        """The greatest integer."""
        return (1 << (self.dtype.bits - 1)) - 1


@dataclass(frozen=True, slots=True)
class Roundings:
    """What a network computes with: by tensor id where a value is made, and by operator where it is read."""

    made: Mapping[int, Rounding] = field(default_factory=dict)
    read: Mapping[tuple[int, int], Rounding] = field(default_factory=dict)  # (operator, tensor)
    constants: Mapping[tuple[int, int], Array] = field(default_factory=dict)  # (operator, tensor): numbers


@dataclass(frozen=True, slots=True)
class Seen:
    """The least and the greatest number of a value over some data, and some of its numbers."""

    low: float
    high: float
    sample: Array


@dataclass(frozen=True, slots=True)
class Observed:
    """What calibration data brought: values by tensor id, and constants, also computed ones."""

    values: Mapping[int, Seen]
    constants: Mapping[int, Array]


def rounded(numbers: Array, rounding: Rounding) -> Array:
    """The numbers as the type holds them, as float32."""
    plain = np.asarray(numbers, np.float32)
    if rounding.dtype.name == "bfloat16":
        return _as_bfloat16(plain)
    scale = np.asarray(rounding.scale, np.float32)
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and on a grid the last number
        if rounding.dtype.family == "float":
            return plain.astype(rounding.dtype.name).astype(np.float32)
        stored = np.clip(np.rint(plain / scale) + rounding.zero_point, rounding.low, rounding.high)
    return np.asarray((stored - np.float32(rounding.zero_point)) * scale, np.float32)


def _as_bfloat16(plain: Array) -> Array:
    """To the nearest, and to the even one of two that are as near."""
    bits = np.ascontiguousarray(plain).view(np.uint32).astype(np.uint64)
    half = (np.uint64(1) << np.uint64(_LOWER_HALF - 1)) - np.uint64(1)
    bits += half + ((bits >> np.uint64(_LOWER_HALF)) & np.uint64(1))
    kept = (bits >> np.uint64(_LOWER_HALF) << np.uint64(_LOWER_HALF)).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(plain), kept.reshape(plain.shape), plain)


def sample_step(elements: int, batches: int = 1) -> int:
    """Every how many numbers of a batch one is kept: out of step with rows and channels, which differ."""
    step = max(1, -(-elements * batches // _SAMPLE))
    while math.gcd(step, elements) > 1:
        step += 1
    return step


def merged(one: Seen | None, other: Seen) -> Seen:
    """Both together."""
    if one is None:
        return other
    sample = np.concatenate([one.sample, other.sample])
    return Seen(min(one.low, other.low), max(one.high, other.high), sample)
