"""Number types and their widths; precisions that a user may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sizeup.errors import SizeupError

Family = Literal["float", "int", "bool", "complex", "opaque"]

# Integers of at most this width are quantised: runtimes keep biases and scales beside them at 32 bits.
_QUANTISED_BITS = 16


@dataclass(frozen=True, slots=True)
class DType:
    """A number type; `bits` is 0 where one element has no fixed size (strings)."""

    name: str
    bits: int
    family: Family

    def __str__(self) -> str:
        return self.name

    @property
    def is_quantised(self) -> bool:
        """Whether numbers of this type are quantised, so that biases beside them are not."""
        return self.family == "int" and self.bits <= _QUANTISED_BITS


def _table() -> dict[str, DType]:
    floats = {
        "float64": 64,
        "float32": 32,
        "float16": 16,
        "bfloat16": 16,
        "float8_e4m3fn": 8,
        "float8_e4m3fnuz": 8,
        "float8_e5m2": 8,
        "float8_e5m2fnuz": 8,
        "float8_e8m0fnu": 8,
        "float6_e2m3": 6,
        "float6_e3m2": 6,
        "float4_e2m1fn": 4,
    }
    table = {name: DType(name, bits, "float") for name, bits in floats.items()}
    for bits in (64, 32, 16, 8, 7, 6, 5, 4, 3, 2, 1):
        table[f"int{bits}"] = DType(f"int{bits}", bits, "int")
        table[f"uint{bits}"] = DType(f"uint{bits}", bits, "int")
    for name, bits in {"complex128": 128, "complex64": 64, "complex32": 32}.items():
        table[name] = DType(name, bits, "complex")
    table["bool"] = DType("bool", 8, "bool")
    # A resource tensor holds one 32-bit handle (LiteRT's ResourceBase ids).
    table["resource"] = DType("resource", 32, "opaque")
    for name in ("string", "variant", "unknown"):
        table[name] = DType(name, 0, "opaque")
    return table


DTYPES: dict[str, DType] = _table()
# What biases and scales beside quantised weights are kept in.
BIAS = DTYPES["int32"]

# What a user asks for on the command line, and what it stands for.
PRECISIONS: dict[str, DType] = {
    "fp64": DTYPES["float64"],
    "fp32": DTYPES["float32"],
    "fp16": DTYPES["float16"],
    "bf16": DTYPES["bfloat16"],
    "fp8": DTYPES["float8_e4m3fn"],
    "fp4": DTYPES["float4_e2m1fn"],
    "int16": DTYPES["int16"],
    "int8": DTYPES["int8"],
    "int4": DTYPES["int4"],
    "int2": DTYPES["int2"],
}
_PRECISION_NAMES = {dtype.name: name for name, dtype in PRECISIONS.items()}


def dtype(name: str) -> DType:
    """The number type of that name (`float32`, `int4`, `bool`, ...)."""
    return DTYPES[name]


def precision(name: str) -> DType:
    """The number type behind a precision that a user typed (`fp32`, `int8`, ... or a type's name)."""
    name = str(name).removeprefix("torch.")  # torch's own types are welcome
    found = PRECISIONS.get(name.lower())
    if found is None and name in _PRECISION_NAMES:
        found = DTYPES[name]
    if found is None:
        raise SizeupError(f"unknown precision {name!r}; known are {', '.join(PRECISIONS)}")
    return found


def precision_name(kind: DType) -> str:
    """The short name under which users know a number type (`fp32` for float32)."""
    return _PRECISION_NAMES.get(kind.name, kind.name)
