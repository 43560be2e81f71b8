"""Read the header of a GGUF file: metadata, and names, shapes and types of tensors, but no tensor data.

This is a reader of the documented format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions
2 and 3, little-endian) instead of the package `gguf` (0.19, MIT, 118 KB). That package is made for trusted
files: it maps the whole file and fails without the tensor data, takes counts and lengths from the file
without a limit, recurses into nested arrays, and raises IndexError, KeyError, OverflowError or RecursionError
on damaged files; it also installs requests, tqdm and PyYAML. Tests compare both on valid files.

Nothing in a file is trusted: counts, lengths and dimensions are limited, types are looked up, offsets are not
used, and at most 128 MiB are read.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sizeup.errors import CorruptModel, LoadError
from sizeup.files import read_problem
from sizeup.formats.names import check_regular
from sizeup.units import quoted

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_HEADER = 128 << 20  # vocabularies of 262,144 tokens with merges take 20 MB
_FIRST_READ = 1 << 20
_MOST_KEYS = 10_000
_MOST_TENSORS = 200_000
_MOST_NAME = 1 << 16
_MOST_TEXT = 1 << 24
_MOST_KEPT = 20_000  # values of an array that are kept; longer ones, such as vocabularies, are counted only
_MOST_ELEMENTS = 1 << 50
_MOST_DIMENSIONS = 4
_TEXT, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

# Weights per block and bytes of a block, by the number of the type: ggml/src/ggml-common.h in
# https://github.com/ggml-org/llama.cpp, the `block_*` structures. A K-quant block has 256 weights.
BLOCKS: Mapping[int, tuple[str, int, int]] = {
    0: ("f32", 1, 4),
    1: ("f16", 1, 2),
    2: ("q4_0", 32, 18),
    3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24),
    8: ("q8_0", 32, 34),
    10: ("q2_K", 256, 84),
    11: ("q3_K", 256, 110),
    12: ("q4_K", 256, 144),
    13: ("q5_K", 256, 176),
    14: ("q6_K", 256, 210),
    15: ("q8_K", 256, 292),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136),
    24: ("i8", 1, 1),
    25: ("i16", 1, 2),
    26: ("i32", 1, 4),
    27: ("i64", 1, 8),
    28: ("f64", 1, 8),
    29: ("iq1_m", 256, 56),
    30: ("bf16", 1, 2),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17),
    40: ("nvfp4", 64, 36),
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a file; the first dimension is that of a row, which blocks divide."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    elements: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array that is too long to keep."""

    length: int


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata by key, and tensors in the order of the file."""

    metadata: Mapping[str, Any]
    tensors: tuple[TensorInfo, ...]


class _Cursor:
    """Sequential access to the start of a file, which is read as far as needed."""

    def __init__(self, file: BinaryIO, source: str) -> None:
        self._file, self.source = file, source
        self._data, self._position = b"", 0

    def error(self, problem: str) -> CorruptModel:
        return CorruptModel(f"{self.source}: {problem}")

    def skip(self, size: int) -> int:
        """The position of `size` bytes, which are then behind the cursor."""
        start, end = self._position, self._position + size
        if end > _MOST_HEADER:
            raise self.error(f"the header is larger than {_MOST_HEADER >> 20} MiB")
        if end > len(self._data):
            length = min(max(end, 2 * len(self._data), _FIRST_READ), _MOST_HEADER)
            self._data += self._file.read(length - len(self._data))
            if end > len(self._data):
                raise self.error("the file ends within its header")
        self._position = end
        return start

    def take(self, size: int) -> bytes:
        start = self.skip(size)
        return self._data[start : start + size]

    @property
    def passed(self) -> bytes:
        """All bytes before the cursor."""
        return self._data[: self._position]

    def scalar(self, code: str) -> Any:
        layout = _LAYOUTS[code]
        start = self.skip(layout.size)  # first: it may replace the data by more of the file
        return layout.unpack_from(self._data, start)[0]

    def scalars(self, code: str, count: int) -> list[Any]:
        size = _LAYOUTS[code].size * count
        return list(struct.unpack(f"<{count}{code}", self.take(size)))

    def text(self, most: int) -> str:
        length = self.scalar("Q")
        if length > most:
            raise self.error(f"a text of {length:,} bytes; at most {most:,} are supported")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise self.error("a name or text is not UTF-8") from None

    def skip_texts(self, count: int) -> None:
        for _ in range(count):
            length = self.scalar("Q")
            if length > _MOST_TEXT:
                raise self.error(f"a text of {length:,} bytes; at most {_MOST_TEXT:,} are supported")
            self.skip(length)


_LAYOUTS = {code: struct.Struct(f"<{code}") for code in _SCALARS.values()}


def read_header(path: str | os.PathLike[str]) -> Header:
    """Return the header of a GGUF file.

    Raises LoadError if it cannot be read or its version is not supported, CorruptModel if it is damaged.
    """
    return _read(path)[0]


def header_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of the header of a GGUF file; raises as `read_header`."""
    return hashlib.sha256(_read(path)[1]).hexdigest()


def _read(path: str | os.PathLike[str]) -> tuple[Header, bytes]:
    """The header and its bytes."""
    source = os.fspath(path)
    check_regular(Path(source), source)
    try:
        with Path(source).open("rb") as file:
            cursor = _Cursor(file, source)
            return _header(cursor), cursor.passed
    except OSError as error:
        raise LoadError(f"{source}: {read_problem(error)}; give a local .gguf file") from error


def _header(cursor: _Cursor) -> Header:
    if cursor.take(4) != _MAGIC:
        raise cursor.error("not a GGUF file")
    version = cursor.scalar("I")
    if version not in _VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        kind = "big-endian GGUF" if swapped in _VERSIONS else f"GGUF version {version}"
        raise LoadError(f"{cursor.source}: {kind} is not supported; versions 2 and 3, little-endian, are")
    tensors, keys = cursor.scalar("Q"), cursor.scalar("Q")
    for count, most, noun in ((tensors, _MOST_TENSORS, "tensors"), (keys, _MOST_KEYS, "keys")):
        if count > most:
            raise cursor.error(f"{count:,} {noun}; at most {most:,} are supported")
    metadata = _unique(cursor, keys, _metadata)
    infos = _unique(cursor, tensors, _tensor)
    return Header(metadata, tuple(infos.values()))


def _unique(cursor: _Cursor, count: int, read: Callable[[_Cursor, str], Any]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for _ in range(count):
        name = cursor.text(_MOST_NAME)
        if name in entries:
            raise cursor.error(f"{quoted(name)} occurs twice")
        entries[name] = read(cursor, name)
    return entries


def _metadata(cursor: _Cursor, key: str) -> Any:
    kind = cursor.scalar("I")
    if kind == _TEXT:
        return cursor.text(_MOST_TEXT)
    if kind in _SCALARS:
        return cursor.scalar(_SCALARS[kind])
    if kind != _ARRAY:
        raise cursor.error(f"{quoted(key)} has an unknown type of value ({kind})")
    inner, length = cursor.scalar("I"), cursor.scalar("Q")
    if inner == _TEXT:
        if length > _MOST_HEADER // 8:
            raise cursor.error(f"{quoted(key)} has {length:,} texts, more than a header can hold")
        cursor.skip_texts(length)
        return ArrayOf(length)
    if inner not in _SCALARS:
        raise cursor.error(f"{quoted(key)} is an array of an unknown or nested type ({inner})")
    code = _SCALARS[inner]
    if length > _MOST_KEPT:
        cursor.skip(_LAYOUTS[code].size * length)
        return ArrayOf(length)
    return cursor.scalars(code, length)


def _tensor(cursor: _Cursor, name: str) -> TensorInfo:
    dimensions = cursor.scalar("I")
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise cursor.error(
            f"tensor {quoted(name)} has {dimensions:,} dimensions, not 1 to {_MOST_DIMENSIONS}"
        )
    shape = tuple(cursor.scalars("Q", dimensions))
    elements = 1
    for dimension in shape:
        elements *= dimension
    if not 1 <= elements <= _MOST_ELEMENTS:
        raise cursor.error(f"tensor {quoted(name)} has {elements:,} elements, not 1 to {_MOST_ELEMENTS:,}")
    kind = cursor.scalar("I")
    cursor.scalar("Q")  # the offset of the data, which is not read
    if kind not in BLOCKS:
        raise LoadError(
            f"{cursor.source}: tensor {quoted(name)} has the unknown type {kind}; sizeup does not guess"
        )
    dtype, block, size = BLOCKS[kind]
    if shape[0] % block:
        raise cursor.error(
            f"tensor {quoted(name)} has rows of {shape[0]:,}, not a multiple of {block} ({dtype})"
        )
    return TensorInfo(name, shape, dtype, elements, elements // block * size)
