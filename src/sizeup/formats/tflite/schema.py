"""The tables of a .tflite file, as the accessors of LiteRT's own schema, and limits for what they claim."""

from __future__ import annotations

import functools
import importlib
import struct
from typing import Any

from sizeup.errors import CorruptModel, MissingLibrary

# What the accessors raise when offsets, lengths or types in a file are nonsense: reads beyond the
# end (struct, numpy's frombuffer) and numbers that cannot be an offset (flatbuffers' own checks).
BROKEN = (struct.error, ValueError, TypeError, OverflowError)

# The metadata entry from which TFLite Micro takes the places of tensors.
PLAN = "OfflineMemoryAllocation"

# By number: older releases of the schema do not name the newest types.
TYPE_NAMES = (
    *("float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8"),
    *("float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16"),
    *("int2", "uint4", "float8_e4m3fn", "float8_e5m2"),
)

# Bounds that no real file comes near and that keep hostile ones from costing time or memory: tables and
# vectors may be shared inside a file, so a small file can describe very much.
DEEPEST_NESTING = 50
MOST_DIMENSIONS = 64
MOST_ELEMENTS = 2**50
MOST_OPERATORS_RUN = 2_000_000
_TEXT_PER_BYTE = 16


@functools.cache
def schema() -> Any:
    """LiteRT's generated schema, loaded on first use."""
    try:
        return importlib.import_module("ai_edge_litert.schema_py_generated")
    except ImportError as error:
        raise MissingLibrary("reading TFLite", "ai-edge-litert", "tflite") from error


@functools.cache
def operator_names() -> dict[int, str]:
    """The names of the builtin operators by their code."""
    codes = vars(schema().BuiltinOperator)
    return {code: name for name, code in codes.items() if isinstance(code, int)}


def options(operator: Any, table: str) -> Any | None:
    """An operator's options as accessors of the named table; None where it carries others or none."""
    tables = schema()
    first, second = tables.BuiltinOptions, tables.BuiltinOptions2
    if table in vars(first) and operator.BuiltinOptionsType() == getattr(first, table):
        union = operator.BuiltinOptions()
    elif table in vars(second) and operator.BuiltinOptions2Type() == getattr(second, table):
        union = operator.BuiltinOptions2()
    else:
        return None
    if union is None:
        return None
    found = getattr(tables, table)()
    found.Init(union.Bytes, union.Pos)
    return found


def numbers(vector: Any) -> list[int]:
    """The content of an `...AsNumpy()` accessor, which answers 0 where the vector is absent."""
    found: list[int] = [] if isinstance(vector, int) else vector.tolist()
    return found


class Limits:
    """What a file of a given size may claim; each method raises CorruptModel beyond that."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._references = 0
        self._characters = 0

    def length(self, claimed: int) -> int:
        """The length of a vector of tables, which cannot be longer than the file has room for."""
        if claimed * 4 > self.size:
            raise CorruptModel(f"{self.name}: a list of {claimed} entries in {self.size} bytes")
        return claimed

    def refer(self, count: int) -> None:
        """Count references from operators to tensors: no converter writes more than the file has bytes."""
        self._references += count
        if self._references > self.size:
            raise CorruptModel(f"{self.name}: its operators list more tensors than fit into the file")

    def label(self, raw: bytes | None) -> str:
        """A name from the file, in whatever bytes it was written."""
        if raw is None:
            return ""
        self._characters += len(raw)
        if self._characters > _TEXT_PER_BYTE * self.size:
            raise CorruptModel(f"{self.name}: its names are longer than the file")
        return raw.decode("utf-8", "replace")
