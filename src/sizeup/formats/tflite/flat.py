"""A .tflite file as the bytes it is: tables, vectors and the places that they point to.

LiteRT's schema reads files but changes none. What is changed here is changed in place, and only that. In a
flat buffer everything refers to what lies behind it, by its distance. So an entry of a vector of tables can
be pointed at any other entry's table, and whatever is put in front of a file leaves its inside intact.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sizeup.errors import WriteError

Content: TypeAlias = bytes | bytearray

IDENTIFIER = b"TFL3"
HEADER = 8  # the distance to the root table, then the identifier
_NUMBERS = {2: "<H", 4: "<I", 8: "<Q"}


def unsigned(content: Content, position: int, width: int) -> int:
    """The number at a position."""
    found: int = struct.unpack_from(_NUMBERS[width], content, position)[0]
    return found


def put(content: bytearray, position: int, width: int, number: int) -> None:
    """Write a number over what is at a position."""
    struct.pack_into(_NUMBERS[width], content, position, number)


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector, `first` being the position of its first entry."""

    content: Content = field(repr=False)
    first: int
    length: int

    def slot(self, index: int) -> int:
        """The position of an entry that refers to a table."""
        return self.first + 4 * index

    def target(self, index: int) -> int:
        """The position of the table that an entry refers to."""
        return self.slot(index) + unsigned(self.content, self.slot(index), 4)

    def table(self, index: int) -> Table:
        """The table that an entry refers to."""
        return Table(self.content, self.target(index))

    def tables(self) -> list[Table]:
        """All tables that it refers to, in order."""
        return [self.table(index) for index in range(self.length)]


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its fields, which the schema numbers from 0."""

    content: Content = field(repr=False)
    position: int

    @property
    def fields(self) -> int:
        """How many fields its layout has room for."""
        return (unsigned(self.content, self._layout, 2) - 4) // 2

    @property
    def _layout(self) -> int:
        distance: int = struct.unpack_from("<i", self.content, self.position)[0]
        return self.position - distance

    def slot(self, number: int) -> int | None:
        """The position of a field's own bytes; None where the field is left at its default."""
        if number >= self.fields:
            return None
        within = unsigned(self.content, self._layout + 4 + 2 * number, 2)
        return self.position + within if within else None

    def number(self, number: int, width: int) -> int:
        """A field that holds an unsigned number; 0 where it is left at its default."""
        slot = self.slot(number)
        return 0 if slot is None else unsigned(self.content, slot, width)

    def target(self, number: int) -> int | None:
        """The position of what a field refers to."""
        slot = self.slot(number)
        return None if slot is None else slot + unsigned(self.content, slot, 4)

    def vector(self, number: int) -> Vector:
        """The vector that a field refers to, empty where there is none."""
        target = self.target(number)
        if target is None:
            return Vector(self.content, 0, 0)
        return Vector(self.content, target + 4, unsigned(self.content, target, 4))

    def text(self, number: int) -> bytes:
        """The characters that a field refers to."""
        found = self.vector(number)
        return bytes(self.content[found.first : found.first + found.length])


def root(content: Content) -> Table:
    """The table with which everything begins."""
    if content[4:HEADER] != IDENTIFIER:
        raise WriteError(f"not a TFLite file: bytes 4 to 8 are not {IDENTIFIER.decode()!r}")
    return Table(content, unsigned(content, 0, 4))


@dataclass(frozen=True, slots=True)
class Written:
    """What was put into a new front: its position, and its references, which are still to be set."""

    position: int
    slots: tuple[int, ...] = ()


class Front:
    """A new beginning for a file, written from its root down: all references point further on."""

    def __init__(self) -> None:
        self.content = bytearray(4) + IDENTIFIER
        self._inward: list[tuple[int, int]] = []  # (slot, position in the old file)

    def table(self, fields: int, numbers: Mapping[int, int], references: Sequence[int]) -> Written:
        """A table of 32-bit fields: numbers with their values, and references."""
        places = {each: 4 + 4 * place for place, each in enumerate((*numbers, *references))}
        self._align(4)
        layout = len(self.content)
        self.content += struct.pack("<HH", 4 + 2 * fields, 4 + 4 * len(places))
        self.content += b"".join(struct.pack("<H", places.get(each, 0)) for each in range(fields))
        self._align(4)
        position = len(self.content)
        self.content += struct.pack("<i", position - layout)
        self.content += b"".join(struct.pack("<I", numbers.get(each, 0)) for each in places)
        return Written(position, tuple(position + places[each] for each in references))

    def vector(self, length: int) -> Written:
        """A vector of references."""
        self._align(4)
        position = len(self.content)
        self.content += struct.pack("<I", length) + bytes(4 * length)
        return Written(position, tuple(position + 4 + 4 * index for index in range(length)))

    def data(self, raw: bytes, alignment: int = 4) -> Written:
        """A vector of bytes, the first of them aligned, with the zero behind it that texts end with."""
        self._align(alignment, ahead=4)
        position = len(self.content)
        self.content += struct.pack("<I", len(raw)) + raw + b"\0"
        return Written(position)

    def refer(self, slot: int, to: Written) -> None:
        """Let a reference point to something in this front."""
        put(self.content, slot, 4, to.position - slot)

    def refer_inward(self, slot: int, position: int) -> None:
        """Let a reference point to a position of the file that follows."""
        self._inward.append((slot, position))

    def joined(self, old: bytearray, start: Written, alignment: int) -> tuple[bytearray, int]:
        """The new file with its root table, and by how far the old one was moved."""
        self._align(alignment, ahead=-HEADER)
        shift = len(self.content) - HEADER
        put(self.content, 0, 4, start.position)
        for slot, position in self._inward:
            put(self.content, slot, 4, position + shift - slot)
        return self.content + old[HEADER:], shift

    def _align(self, to: int, ahead: int = 0) -> None:
        self.content += bytes(-(len(self.content) + ahead) % to)
