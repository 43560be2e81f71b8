"""Reads a model file without its weights, which become external data that points back into the same file.

An ONNX file is a protobuf message, a sequence of fields (tag, length, content). Only the fields of the model,
of its graph and of its constants are parsed. The rest is copied.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

_Buffer: TypeAlias = mmap.mmap | bytes

# Field numbers of onnx.proto.
_GRAPH = 7
_INITIALIZER = 5
_RAW_DATA = 9
_EXTERNAL_DATA = 13
_DATA_LOCATION = 14
_EXTERNAL = 1

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
# Smaller constants remain in the message.
_SMALL = 1024


class Malformed(Exception):
    """The bytes are not a protobuf message."""


def without_weights(path: Path) -> bytes:
    """The content of a model file, with large constants as external data in the same file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            return b"".join(_model(content, path.name))
        except IndexError as error:
            raise Malformed("the file ends within a field") from error


def _model(content: _Buffer, location: str) -> Iterator[bytes]:
    for number, start, body, end in fields(content, 0, len(content)):
        if number == _GRAPH:
            yield from message(_GRAPH, b"".join(_graph(content, body, end, location)))
        else:
            yield content[start:end]


def _graph(content: _Buffer, first: int, last: int, location: str) -> Iterator[bytes]:
    position = first  # everything before it has been copied
    for number, start, body, end in fields(content, first, last):
        if number == _INITIALIZER and end - body > _SMALL:
            yield content[position:start]
            yield from message(_INITIALIZER, b"".join(_tensor(content, body, end, location)))
            position = end
    yield content[position:last]


def _tensor(content: _Buffer, first: int, last: int, location: str) -> Iterator[bytes]:
    for number, start, body, end in fields(content, first, last):
        if number != _RAW_DATA or end - body <= _SMALL:
            yield content[start:end]
            continue
        for key, value in (("location", location), ("offset", str(body)), ("length", str(end - body))):
            entry = b"".join((*message(1, key.encode()), *message(2, value.encode())))
            yield from message(_EXTERNAL_DATA, entry)
        yield varint(_DATA_LOCATION << 3 | _VARINT) + varint(_EXTERNAL)


def message(number: int, content: bytes) -> tuple[bytes, bytes, bytes]:
    """A length-delimited field: its tag, its length and its content."""
    return varint(number << 3 | _LENGTH), varint(len(content)), content


def varint(value: int) -> bytes:
    """An integer as a protobuf varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def fields(content: _Buffer, position: int, last: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields field number, start, start of the content, and end of all fields up to `last`."""
    while position < last:
        start = position
        tag, position = _read_varint(content, position)
        wire_type = tag & 7
        if wire_type == _LENGTH:
            length, position = _read_varint(content, position)
            end = position + length
        elif wire_type == _VARINT:
            _, end = _read_varint(content, position)
        elif wire_type in (_FIXED32, _FIXED64):
            end = position + (4 if wire_type == _FIXED32 else 8)
        else:
            raise Malformed(f"a field has the unknown wire type {wire_type}")
        if end > last:
            raise Malformed("a field is longer than its message")
        yield tag >> 3, start, position, end
        position = end


def _read_varint(content: _Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise Malformed("a varint is longer than 64 bits")
