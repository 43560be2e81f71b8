"""Decode and validate JSON values of a .pt2 file (schema: torch/_export/serde/schema.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch

from sizeup.errors import CorruptModel

# Raised by reading JSON that does not follow the schema.
_SCHEMA_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError)

Json: TypeAlias = Mapping[str, Any]


class Reference(NamedTuple):
    """A reference by name to a program input or to an output of an earlier node."""

    name: str


class Opaque(NamedTuple):
    """An argument that is never resolved: an operator name, or a custom object."""

    label: str


@contextmanager
def schema_checked() -> Iterator[None]:
    """Convert errors of reading invalid JSON to CorruptModel."""
    try:
        yield
    except _SCHEMA_ERRORS as error:
        raise CorruptModel(
            f"does not match torch's schema: {type(error).__name__}: {str(error)[:80]}"
        ) from error


def field(item: Json, name: str, expected_type: type) -> Any:
    """Return a field of an object; raises CorruptModel if it has another type."""
    value = item.get(name)
    if not isinstance(value, expected_type) or (expected_type is int and isinstance(value, bool)):
        raise CorruptModel(f"{name!r} must be of type {expected_type.__name__}, not {str(value)[:60]!r}")
    return value


def text_field(item: Json, name: str) -> str:
    """Return a string field of an object."""
    value: str = field(item, name, str)
    return value


def union(item: Any) -> tuple[str, Any]:
    """Return the variant and the value of a tagged union."""
    if not isinstance(item, dict) or len(item) != 1:
        raise CorruptModel(f"expected an object with one key, not {str(item)[:60]!r}")
    return next(iter(item.items()))


def integer(value: Any) -> int:
    """Return a 64-bit integer."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise CorruptModel(f"{str(value)[:60]!r} is not a 64-bit integer")
    return value


def boolean(value: Any) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise CorruptModel(f"{str(value)[:60]!r} is not true or false")
    return value


def number(value: Any) -> float:
    """Return a number, which may be infinite or NaN."""
    if isinstance(value, str):  # torch writes non-finite numbers as strings
        value = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptModel(f"{str(value)[:60]!r} is not a number")
    return float(value)


def text(value: Any) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise CorruptModel(f"{str(value)[:60]!r} is not a string")
    return value


def _tensor(value: Any) -> Reference:
    return Reference(text_field(value, "name"))


def _symbolic(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decoder for a number or a reference to one."""

    def decode(item: Any) -> Any:
        variant, value = union(item)
        return Reference(text(value)) if variant == "as_name" else plain(value)

    return decode


def _optional_tensor(item: Any) -> Reference | None:
    variant, value = union(item)
    return None if variant == "as_none" else _tensor(value)


def _list_of(one: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def decode(items: Any) -> list[Any]:
        if not isinstance(items, list):
            raise CorruptModel(f"{str(items)[:60]!r} is not a list")
        return [one(item) for item in items]

    return decode


# Enum values of torch/_export/serde/schema.py.
DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64,
    6: torch.float16, 7: torch.float32, 8: torch.float64, 9: torch.complex32, 10: torch.complex64,
    11: torch.complex128, 12: torch.bool, 13: torch.bfloat16, 28: torch.uint16,
    29: torch.float8_e4m3fn, 30: torch.float8_e5m2, 31: torch.float8_e4m3fnuz, 32: torch.float8_e5m2fnuz,
    33: getattr(torch, "float8_e8m0fnu", torch.uint8), 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip
_LAYOUTS = {
    1: torch.sparse_coo, 2: torch.sparse_csr, 3: torch.sparse_csc, 4: torch.sparse_bsr, 5: torch.sparse_bsc,
    7: torch.strided,
}  # fmt: skip
_MEMORY_FORMATS = {
    1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format
}  # fmt: skip
_CPU = torch.device("cpu")

DECODERS: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda _: None,
    "as_tensor": _tensor,
    "as_tensors": _list_of(_tensor),
    "as_optional_tensor": _optional_tensor,
    "as_optional_tensors": _list_of(_optional_tensor),
    "as_nested_tensors": _list_of(_list_of(_tensor)),
    "as_int": integer,
    "as_ints": _list_of(integer),
    "as_int_lists": _list_of(_list_of(integer)),
    "as_float": number,
    "as_floats": _list_of(number),
    "as_float_lists": _list_of(_list_of(number)),
    "as_complex": lambda value: complex(number(value["real"]), number(value["imag"])),
    "as_bool": boolean,
    "as_bools": _list_of(boolean),
    "as_string": text,
    "as_strings": _list_of(text),
    "as_sym_int": _symbolic(integer),
    "as_sym_ints": _list_of(_symbolic(integer)),
    "as_sym_float": _symbolic(number),
    "as_sym_floats": _list_of(_symbolic(number)),
    "as_sym_bool": _symbolic(boolean),
    "as_sym_bools": _list_of(_symbolic(boolean)),
    "as_scalar_type": DTYPES.__getitem__,
    "as_layout": _LAYOUTS.__getitem__,
    "as_memory_format": _MEMORY_FORMATS.__getitem__,
    # A program exported for a GPU is recorded on the CPU.
    "as_device": lambda _: _CPU,
    "as_custom_obj": lambda _: Opaque("an object"),
    "as_operator": lambda value: Opaque(text(value)),
}
