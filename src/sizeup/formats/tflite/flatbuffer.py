"""Byte-level access to the FlatBuffer of a .tflite file: tables, vectors and their offsets.

LiteRT's schema can only read files. This module changes bytes in place and leaves the rest of the file
untouched. FlatBuffer references are forward distances. So an entry of a vector can refer to any other table
of the vector, and bytes inserted before the file leave its internal references valid.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sizeup.errors import WriteError

Content: TypeAlias = bytes | bytearray

IDENTIFIER = b"TFL3"
HEADER = 8  # offset of the root table, then the identifier
_NUMBERS = {2: "<H", 4: "<I", 8: "<Q"}


def read_unsigned(content: Content, position: int, width: int) -> int:
    """The unsigned integer at a position."""
    number: int = struct.unpack_from(_NUMBERS[width], content, position)[0]
    return number


def write_unsigned(content: bytearray, position: int, width: int, number: int) -> None:
    """Overwrite the unsigned integer at a position."""
    struct.pack_into(_NUMBERS[width], content, position, number)


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector; `first` is the position of its first entry."""

    content: Content = field(repr=False)
    first: int
    length: int

    def slot(self, index: int) -> int:
        """The position of an entry that refers to a table."""
        return self.first + 4 * index

    def target(self, index: int) -> int:
        """The position of the table that an entry refers to."""
        return self.slot(index) + read_unsigned(self.content, self.slot(index), 4)

    def table(self, index: int) -> Table:
        """The table that an entry refers to."""
        return Table(self.content, self.target(index))

    def tables(self) -> list[Table]:
        """The tables that the entries refer to, in order."""
        return [self.table(index) for index in range(self.length)]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the schema numbers its fields from 0."""

    content: Content = field(repr=False)
    position: int

    @property
    def fields(self) -> int:
        """Number of fields in its vtable."""
        return (read_unsigned(self.content, self._vtable, 2) - 4) // 2

    @property
    def _vtable(self) -> int:
        distance: int = struct.unpack_from("<i", self.content, self.position)[0]
        return self.position - distance

    def slot(self, number: int) -> int | None:
        """The position of a field, or None if the field has its default."""
        if number >= self.fields:
            return None
        offset = read_unsigned(self.content, self._vtable + 4 + 2 * number, 2)
        return self.position + offset if offset else None

    def number(self, number: int, width: int) -> int:
        """The value of an unsigned field, 0 if the field has its default."""
        slot = self.slot(number)
        return 0 if slot is None else read_unsigned(self.content, slot, width)

    def target(self, number: int) -> int | None:
        """The position that a field refers to, or None if the field is absent."""
        slot = self.slot(number)
        return None if slot is None else slot + read_unsigned(self.content, slot, 4)

    def vector(self, number: int) -> Vector:
        """The vector that a field refers to, empty if the field is absent."""
        target = self.target(number)
        if target is None:
            return Vector(self.content, 0, 0)
        return Vector(self.content, target + 4, read_unsigned(self.content, target, 4))

    def text(self, number: int) -> bytes:
        """The bytes of the string that a field refers to."""
        characters = self.vector(number)
        return bytes(self.content[characters.first : characters.first + characters.length])


def root(content: Content) -> Table:
    """The root table; raises WriteError if the content is not a TFLite file."""
    if content[4:HEADER] != IDENTIFIER:
        raise WriteError(f"not a TFLite file: bytes 4 to 8 are not {IDENTIFIER.decode()!r}")
    return Table(content, read_unsigned(content, 0, 4))


@dataclass(frozen=True, slots=True)
class Record:
    """An object written to a prefix: its position, and the slots of its references, not set yet."""

    position: int
    slots: tuple[int, ...] = ()


class Prefix:
    """New content to put before a file, written from the root down so that all references point forward."""

    def __init__(self) -> None:
        self.content = bytearray(4) + IDENTIFIER
        self._old_references: list[tuple[int, int]] = []  # (slot, position in the old file)

    def table(self, fields: int, numbers: Mapping[int, int], references: Sequence[int]) -> Record:
        """Write a table of 32-bit fields: numbers with their values, and references."""
        offsets = {number: 4 + 4 * index for index, number in enumerate((*numbers, *references))}
        self._align(4)
        vtable = len(self.content)
        self.content += struct.pack("<HH", 4 + 2 * fields, 4 + 4 * len(offsets))
        self.content += b"".join(struct.pack("<H", offsets.get(number, 0)) for number in range(fields))
        self._align(4)
        position = len(self.content)
        self.content += struct.pack("<i", position - vtable)
        self.content += b"".join(struct.pack("<I", numbers.get(number, 0)) for number in offsets)
        return Record(position, tuple(position + offsets[number] for number in references))

    def vector(self, length: int) -> Record:
        """Write a vector of references."""
        self._align(4)
        position = len(self.content)
        self.content += struct.pack("<I", length) + bytes(4 * length)
        return Record(position, tuple(position + 4 + 4 * index for index in range(length)))

    def data(self, raw: bytes, alignment: int = 4) -> Record:
        """Write an aligned vector of bytes with a terminating zero."""
        self._align(alignment, ahead=4)
        position = len(self.content)
        self.content += struct.pack("<I", len(raw)) + raw + b"\0"
        return Record(position)

    def refer(self, slot: int, to: Record) -> None:
        """Set a reference to an object in this prefix."""
        write_unsigned(self.content, slot, 4, to.position - slot)

    def refer_to_old(self, slot: int, position: int) -> None:
        """Set a reference to a position of the old file."""
        self._old_references.append((slot, position))

    def join(self, old: bytearray, root: Record, alignment: int) -> tuple[bytearray, int]:
        """The new file, and the number of bytes by which the old content moved."""
        self._align(alignment, ahead=-HEADER)
        shift = len(self.content) - HEADER
        write_unsigned(self.content, 0, 4, root.position)
        for slot, position in self._old_references:
            write_unsigned(self.content, slot, 4, position + shift - slot)
        return self.content + old[HEADER:], shift

    def _align(self, to: int, ahead: int = 0) -> None:
        self.content += bytes(-(len(self.content) + ahead) % to)
