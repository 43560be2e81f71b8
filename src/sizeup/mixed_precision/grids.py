"""Grids of integers for real numbers: how wide a step, and which integer is zero."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.formats.rounding import Array, Rounding, Seen, rounded

# range: all that was seen fits; error: the least squared error, large numbers may be cut off.
Clipping = Literal["range", "error"]
_SHARES = np.linspace(1, 0.1, 46)  # of the range, that are tried for the least error
_FLOATS = ("float16", "bfloat16")
_BITS = range(2, 17)


def can_be_simulated(dtype: DType) -> bool:
    """Whether numbers can be rounded to a type."""
    integer = dtype.family == "int" and not dtype.name.startswith("u") and dtype.bits in _BITS
    return integer or dtype.name in (*_FLOATS, "float32")


def check_type(dtype: DType) -> None:
    """Refuse a number type that cannot be simulated."""
    if not can_be_simulated(dtype):
        raise SizeupError(
            f"{dtype} cannot be simulated; what can: fp32, fp16, bf16 and integers of 2 to 16 bits"
        )


def value_rounding(seen: Seen, dtype: DType, symmetric: bool, clipping: Clipping) -> Rounding:
    """How a value is rounded whose numbers were seen on calibration data; one grid for all of it."""
    if dtype.family == "float":
        return Rounding(dtype)
    if not np.isfinite([seen.low, seen.high]).all():
        raise SizeupError("the calibration data brings numbers that are not finite; no grid fits these")
    if clipping == "range":
        return _grid(seen.low, seen.high, dtype, symmetric)
    grids = [_grid(share * seen.low, share * seen.high, dtype, symmetric) for share in _SHARES]
    errors = [float(np.square(rounded(seen.sample, grid) - seen.sample).sum()) for grid in grids]
    return grids[int(np.argmin(errors))]


def _grid(low: float, high: float, dtype: DType, symmetric: bool) -> Rounding:
    """Zero is always on it: borders are padded with it, and rectifiers make many."""
    low, high = min(low, 0.0), max(high, 0.0)
    made = Rounding(dtype)
    if symmetric:
        return Rounding(dtype, _step(max(-low, high), made.high))
    scale = _step(high - low, made.high - made.low)
    point = int(np.clip(np.rint(made.low - low / float(scale)), made.low, made.high))
    return Rounding(dtype, scale, point)


def _step(width: float | Array, steps: int) -> Array:
    scale = np.asarray(np.asarray(width, np.float64) / steps, np.float32)
    # Nothing but zeros: any step will do. A step that is no normal number has no exact quotients.
    return np.where(scale < np.finfo(np.float32).tiny, np.float32(1), scale)


def rounded_weight(weight: Array, dtype: DType, axis: int | None, clipping: Clipping) -> Array:
    """A weight as a type holds it: integers are symmetric, with a step for each output channel."""
    if dtype.family == "float":
        return rounded(weight, Rounding(dtype))
    others = tuple(place for place in range(weight.ndim) if place != axis)
    most = np.abs(weight).max(axis=others, keepdims=True, initial=0)
    high = Rounding(dtype).high
    best = rounded(weight, Rounding(dtype, _step(most, high), restricted=True))
    if clipping == "range":
        return best
    least = np.square(best - weight).sum(axis=others, keepdims=True)
    for share in _SHARES[1:]:
        tried = rounded(weight, Rounding(dtype, _step(share * most, high), restricted=True))
        error = np.square(tried - weight).sum(axis=others, keepdims=True)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return np.asarray(best, np.float32)
