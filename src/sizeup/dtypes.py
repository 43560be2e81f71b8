"""Dtypes with their widths, and the precisions that users can request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sizeup.errors import SizeupError

Family = Literal["float", "int", "bool", "complex", "opaque"]

# Integers of at most this width are quantized; their biases have 32 bits.
_QUANTIZED_BITS = 16


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype; `bits` is 0 if elements have no fixed size (strings)."""

    name: str
    bits: int
    family: Family

    def __str__(self) -> str:
        return self.name

    @property
    def is_quantized(self) -> bool:
        """Whether this is a dtype of quantized values, whose biases are wider."""
        return self.family == "int" and self.bits <= _QUANTIZED_BITS


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
# Dtype of biases of quantized weights.
BIAS = DTYPES["int32"]

# Precisions by the name that users type.
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
    """The dtype of that name (`float32`, `int4`, `bool`, ...)."""
    return DTYPES[name]


# Names of dtypes in PyTorch, NumPy and compilers, by the names above.
_ALIASES = {
    **{name: dtype.name for name, dtype in PRECISIONS.items()},
    "double": "float64",
    "f64": "float64",
    "float": "float32",
    "single": "float32",
    "f32": "float32",
    "half": "float16",
    "f16": "float16",
    "float8": "float8_e4m3fn",
    "long": "int64",
    "short": "int16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i4": "int4",
}


def precision(value: Any) -> DType:
    """The dtype of a precision as users write it.

    `value` is a text (`fp16`, `half`, `float16`, `torch.float16`) or a dtype of PyTorch, NumPy or sizeup.
    """
    name = dtype_name(value)
    if name not in _PRECISION_NAMES:
        raise SizeupError(f"unknown precision {_text_of(value)!r}; known: {', '.join(PRECISIONS)}")
    return DTYPES[name]


def dtype_name(value: Any) -> str:
    """The name of a dtype, given as a text or as a dtype of PyTorch, NumPy or sizeup.

    A text that is no known name is returned in lower case.
    """
    name = _text_of(value).strip().lower()
    for package in ("torch.", "numpy.", "np.", "tf."):
        name = name.removeprefix(package)
    return _ALIASES.get(name, name)


def _text_of(value: Any) -> str:
    """The text of a precision: NumPy's dtypes have a name, its scalar types are classes."""
    if isinstance(value, type) and value.__module__ != "builtins":
        return value.__name__
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value)


def precision_name(dtype: DType) -> str:
    """The short name of a dtype (`fp32` for float32)."""
    return _PRECISION_NAMES.get(dtype.name, dtype.name)
