"""What constants hold: where their bytes are, and the numbers that they encode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.external import Home, external_file
from sizeup.graph import Shape

Array: TypeAlias = np.ndarray[Any, Any]

_WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}
_NUMPY = {f"{kind}{bits}": np.dtype(f"{kind}{bits}") for kind, widths in _WIDTHS.items() for bits in widths}
_NUMPY["bool"] = np.dtype(np.bool_)


def decode(raw: Array, dtype: DType, shape: Shape) -> Array:
    """The numbers behind bytes; types that numpy lacks become the next wider one that it has."""
    count = math.prod(shape)
    plain = _NUMPY.get(dtype.name)
    if plain is not None:
        numbers = raw[: count * plain.itemsize].view(plain)
    elif dtype.name == "bfloat16":
        numbers = (raw[: 2 * count].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif dtype.name == "float8_e5m2":
        numbers = (raw[:count].astype(np.uint16) << 8).view(np.float16)
    elif dtype.name == "float8_e4m3fn":
        numbers = _E4M3[raw[:count]]
    elif dtype.family == "int" and dtype.bits < 8:
        numbers = _unpacked(raw, dtype, count)
    else:
        raise LoadError(f"numbers of type {dtype} cannot be read")
    return numbers.reshape(shape)


def _unpacked(raw: Array, dtype: DType, count: int) -> Array:
    """Narrow integers, the first of each byte in its lowest bits."""
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    fields = ((raw[:, None] >> shifts) & ((1 << dtype.bits) - 1)).reshape(-1)[:count]
    if dtype.name.startswith("uint"):
        return fields
    sign = 1 << (dtype.bits - 1)
    return (fields.astype(np.int8) ^ np.int8(sign)) - np.int8(sign)


def _e4m3_values() -> Array:
    """All 256 values of float8 e4m3fn: bias 7, no infinities, NaN where all bits but the sign are set."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    size = np.where((codes & 127) == 127, np.nan, size)
    return np.where(codes & 128, -size, size).astype(np.float32)


_E4M3 = _e4m3_values()


def stored_inside(raw: Array, dtype: DType, shape: Shape) -> Callable[[], Array]:
    """A reader of bytes that the file itself holds."""
    return lambda: decode(raw, dtype, shape)


def stored_outside(
    home: Home, name: str, offset: int, length: int, dtype: DType, shape: Shape
) -> Callable[[], Array]:
    """A reader of bytes in another file, which is opened only when asked."""

    def read() -> Array:
        path = external_file(home, name, "a weight")
        needed = (math.prod(shape) * dtype.bits + 7) // 8
        try:
            # Before anything is allocated: the length is only what the model says.
            if path.stat().st_size < offset + length:
                raise CorruptModel(f"{path}: ends before byte {offset + length}")
            if length < needed:
                raise CorruptModel(f"{path}: a tensor needs {needed} bytes, its buffer has {length}")
            raw = np.fromfile(path, np.uint8, length, offset=offset)
        except OSError as error:
            raise LoadError(f"{path}: cannot be read: {error.strerror}") from error
        return decode(raw, dtype, shape)

    return read
