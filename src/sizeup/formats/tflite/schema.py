"""Access to LiteRT's generated schema, and limits on the sizes that a file declares."""

from __future__ import annotations

import functools
import importlib
import re
import struct
from typing import Any

from sizeup.errors import CorruptModel, MissingLibrary

# Raised by the accessors for invalid offsets, lengths or types: reads past the end (struct, numpy's
# frombuffer) and numbers that cannot be an offset (checks in flatbuffers).
BROKEN = (struct.error, ValueError, TypeError, OverflowError)

_OFFSET = re.compile(r"at offset (-?\d+)")


def damage(error: Exception) -> str:
    """What an error of the accessors means for the file."""
    offset = _OFFSET.search(str(error))
    is_end = offset is not None or "smaller than requested" in str(error) or "offset must be" in str(error)
    if not is_end:
        return f"the file is damaged: {error}"
    return "truncated or damaged file: reads past its end" + (f" at byte {offset[1]}" if offset else "")


# The metadata entry with a memory plan for TFLite Micro.
PLAN = "OfflineMemoryAllocation"

# Indexed by type code, since older schema releases do not name the newest types.
TYPE_NAMES = (
    *("float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8"),
    *("float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16"),
    *("int2", "uint4", "float8_e4m3fn", "float8_e5m2"),
)

# Bounds far above real files. They limit the time and memory that a hostile file can cost: tables and
# vectors may be shared inside a file, so a small file could describe a very large model.
MAX_NESTING = 50
MAX_DIMENSIONS = 64
MAX_ELEMENTS = 2**50
MAX_OPERATORS_RUN, BYTES_PER_OPERATOR_RUN = 100_000, 10  # the first, or more in a large file
_TEXT_PER_BYTE = 16
# What is read of a file may be twice as large as the file. Writers share vectors and quantization, but a
# tensor or an operator takes more than these bytes, with its entry in a list, its fields and its vectors.
_READ_PER_BYTE = 2
_TABLE_BYTES, _REFERENCE_BYTES = 24, 4


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
    return {code: name for name, code in codes.items() if not name.startswith("_")}


def options(operator: Any, table: str) -> Any | None:
    """An operator's options as the named table, or None if it has other options or none."""
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
    table_options = getattr(tables, table)()
    table_options.Init(union.Bytes, union.Pos)
    return table_options


def numbers(vector: Any) -> list[int]:
    """The content of an `...AsNumpy()` accessor, which returns 0 if the vector is absent."""
    values: list[int] = [] if isinstance(vector, int) else vector.tolist()
    return values


class FileLimits:
    """Limits on what a file of a given size may declare; methods raise CorruptModel if exceeded."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._read = 0
        self._characters = 0

    def length(self, count: int) -> int:
        """Check the length of a vector of tables against the file size."""
        if count * 4 > self.size:
            raise CorruptModel(f"{self.name}: a list of {count} entries does not fit in {self.size} bytes")
        return count

    def tables(self, count: int) -> int:
        """Count the tensors or operators of a graph, also those that an earlier graph shares."""
        self.read(_TABLE_BYTES * self.length(count))
        return count

    def refer(self, count: int) -> None:
        """Count references from operators to tensors."""
        self.read(_REFERENCE_BYTES * count)

    def read(self, size: int) -> None:
        """Count bytes that are read, each time that they are."""
        self._read += size
        if self.is_exceeded:
            raise CorruptModel(
                f"{self.name}: its graphs share tables, and would be more than {_READ_PER_BYTE} times as"
                " large as the file without that"
            )

    @property
    def is_exceeded(self) -> bool:
        """Whether more was read than a file of this size may hold."""
        return self._read > _READ_PER_BYTE * self.size

    def label(self, raw: bytes | None) -> str:
        """Decode a name; invalid UTF-8 is replaced."""
        if raw is None:
            return ""
        self._characters += len(raw)
        if self._characters > _TEXT_PER_BYTE * self.size:
            raise CorruptModel(f"{self.name}: its names are longer than the file")
        return raw.decode("utf-8", "replace")
