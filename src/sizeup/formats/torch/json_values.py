"""Values of a .pt2 file's JSON, checked one by one: numbers, texts, references and torch's enumerations.

The layout is that of torch/_export/serde/schema.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch

from sizeup.errors import CorruptModel

# What reading JSON of another layout raises.
_SCHEMA_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError)

Json: TypeAlias = Mapping[str, Any]


class Reference(NamedTuple):
    """A value of the program, by the name that an input or an earlier node gave it."""

    name: str


class Opaque(NamedTuple):
    """An argument that is never looked up: an operator's name, or an object of a class of the file's."""

    label: str


@contextmanager
def schema_checked() -> Iterator[None]:
    """Turn what JSON of another layout raises into CorruptModel."""
    try:
        yield
    except _SCHEMA_ERRORS as error:
        raise CorruptModel(
            f"it does not follow torch's schema: {type(error).__name__}: {str(error)[:80]}"
        ) from error


def field(item: Json, name: str, kind: type) -> Any:
    """A field of an object that is of that type."""
    value = item.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise CorruptModel(f"{name!r} should be of type {kind.__name__}, and is {str(value)[:60]!r}")
    return value


def text_field(item: Json, name: str) -> str:
    """A field of an object that is a text."""
    value: str = field(item, name, str)
    return value


def union(item: Any) -> tuple[str, Any]:
    """Which of several kinds a value has, and the value."""
    if not isinstance(item, dict) or len(item) != 1:
        raise CorruptModel(f"an object with one key is expected, not {str(item)[:60]!r}")
    return next(iter(item.items()))


def integer(value: Any) -> int:
    """An integer of 64 bits."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise CorruptModel(f"{str(value)[:60]!r} is not an integer of 64 bits")
    return value


def boolean(value: Any) -> bool:
    """True or false, and no number."""
    if not isinstance(value, bool):
        raise CorruptModel(f"{str(value)[:60]!r} is not true or false")
    return value


def number(value: Any) -> float:
    """A number, which may be infinite or none."""
    if isinstance(value, str):  # how torch writes what JSON cannot
        value = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptModel(f"{str(value)[:60]!r} is not a number")
    return float(value)


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise CorruptModel(f"{str(value)[:60]!r} is not a text")
    return value


def _tensor(value: Any) -> Reference:
    return Reference(text_field(value, "name"))


def _symbolic(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A number, or the name of the value that holds it."""

    def decoded(item: Any) -> Any:
        kind, value = union(item)
        return Reference(text(value)) if kind == "as_name" else plain(value)

    return decoded


def _optional_tensor(item: Any) -> Reference | None:
    kind, value = union(item)
    return None if kind == "as_none" else _tensor(value)


def _several(one: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def decoded(items: Any) -> list[Any]:
        if not isinstance(items, list):
            raise CorruptModel(f"{str(items)[:60]!r} is not a list")
        return [one(each) for each in items]

    return decoded


# Numbers of torch/_export/serde/schema.py.
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
    "as_tensors": _several(_tensor),
    "as_optional_tensor": _optional_tensor,
    "as_optional_tensors": _several(_optional_tensor),
    "as_nested_tensors": _several(_several(_tensor)),
    "as_int": integer,
    "as_ints": _several(integer),
    "as_int_lists": _several(_several(integer)),
    "as_float": number,
    "as_floats": _several(number),
    "as_float_lists": _several(_several(number)),
    "as_complex": lambda value: complex(number(value["real"]), number(value["imag"])),
    "as_bool": boolean,
    "as_bools": _several(boolean),
    "as_string": text,
    "as_strings": _several(text),
    "as_sym_int": _symbolic(integer),
    "as_sym_ints": _several(_symbolic(integer)),
    "as_sym_float": _symbolic(number),
    "as_sym_floats": _several(_symbolic(number)),
    "as_sym_bool": _symbolic(boolean),
    "as_sym_bools": _several(_symbolic(boolean)),
    "as_scalar_type": DTYPES.__getitem__,
    "as_layout": _LAYOUTS.__getitem__,
    "as_memory_format": _MEMORY_FORMATS.__getitem__,
    # A program for a GPU is read on any machine.
    "as_device": lambda _: _CPU,
    "as_custom_obj": lambda _: Opaque("an object"),
    "as_operator": lambda value: Opaque(text(value)),
}
