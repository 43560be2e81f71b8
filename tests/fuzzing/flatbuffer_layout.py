"""The tables of the TFLite schema and where an instance of each keeps its fields.

Which fields a table has is read from the source of LiteRT's generated accessors, so that every table of the
installed version is covered. The bytes are walked by this file's own arithmetic.
"""

from __future__ import annotations

import functools
import inspect
import re
import struct
from typing import NamedTuple

from ai_edge_litert import schema_py_generated as schema

_FORMATS = {
    "Bool": "<B",
    "Int8": "<b",
    "Uint8": "<B",
    "Int16": "<h",
    "Uint16": "<H",
    "Int32": "<i",
    "Uint32": "<I",
    "Int64": "<q",
    "Uint64": "<Q",
    "Float32": "<f",
    "Float64": "<d",
}
_CLASS = re.compile(r"^class (\w+)\(object\):", re.MULTILINE)
_METHOD = re.compile(r"    def (\w+)\(self(, j)?\):\n(.*?)(?=\n    # |\n    def |\Z)", re.DOTALL)
_CREATOR = re.compile(r"self\.(\w+) = (\w+)Creator\(")
MOST_SITES = 4000  # of one input: large files are changed where their tables begin
_MOST_NUMBERS = 16  # of one vector


class Field(NamedTuple):
    """One field of a table: `kind` is number, text, table, union, numbers, texts or tables."""

    name: str
    slot: int
    kind: str
    type: str


class Site(NamedTuple):
    """A place of an input that can be changed; `extra` is a number's format, a length or a type's name."""

    kind: str  # number, length, reference, entries, presence or text
    position: int
    extra: str
    size: int = 0  # characters of a text, entries of a vector, the position that a reference points to


@functools.cache
def tables() -> dict[str, tuple[Field, ...]]:
    """Every table of the schema with its fields."""
    source = inspect.getsource(schema)
    starts = [(each[1], each.start()) for each in _CLASS.finditer(source)]
    ends = [start for _, start in starts[1:]] + [len(source)]
    unions = {each[1]: each[2] for each in _CREATOR.finditer(source)}
    bodies = {name: source[start:end] for (name, start), end in zip(starts, ends, strict=True)}
    return {
        name: tuple(filter(None, (_field(each, unions) for each in _METHOD.finditer(body))))
        for name, body in bodies.items()
        if "__slots__ = ['_tab']" in body
    }


def _field(method: re.Match[str], unions: dict[str, str]) -> Field | None:
    name, is_indexed, body = method.groups()
    offset = re.search(r"_tab\.Offset\((\d+)\)", body)
    if offset is None or name.endswith(("AsNumpy", "IsNone")) or "VectorLen" in body:
        return None
    slot, plural = (int(offset[1]) - 4) // 2, "s" if is_indexed else ""
    number, table = (
        re.search(r"Get\(flatbuffers\.number_types\.(\w+)Flags", body),
        re.search(r"obj = (\w+)\(", body),
    )
    if number:
        return Field(name, slot, "number" + plural, _FORMATS[number[1]])
    if "_tab.String(" in body:
        return Field(name, slot, "text" + plural, "")
    if "_tab.Union(" in body:
        return Field(name, slot, "union", unions[name[0].lower() + name[1:]])
    return Field(name, slot, "table" + plural, table[1]) if table else None


def sites(content: bytes) -> dict[str, list[Site]]:
    """All places of an input that can be changed, by field; damaged parts are left out."""
    walk = _Walk(content)
    try:
        walk.table("Model", walk.unsigned(0), 0)
    except (struct.error, IndexError):
        pass
    return walk.sites


class _Walk:
    """One pass over an input."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.sites: dict[str, list[Site]] = {}
        self._seen: set[tuple[str, int]] = set()
        self._left = MOST_SITES

    def unsigned(self, position: int, format: str = "<I") -> int:
        found: int = struct.unpack_from(format, self.content, position)[0]
        return found

    def add(self, path: str, site: Site) -> None:
        self._left -= 1
        if self._left > 0:
            self.sites.setdefault(path, []).append(site)

    def table(self, name: str, position: int, depth: int) -> None:
        """Note the fields of a table, and of all that it refers to."""
        if (name, position) in self._seen or depth > 12 or self._left <= 0:
            return
        self._seen.add((name, position))
        layout = position - self.unsigned(position, "<i")
        fields = (self.unsigned(layout, "<H") - 4) // 2
        for field in tables().get(name, ()):
            if field.slot >= fields:
                continue
            entry = layout + 4 + 2 * field.slot
            within = self.unsigned(entry, "<H")
            if within:
                path = f"{name}.{field.name}"
                self.add(path, Site("presence", entry, "<H"))
                self._field(path, field, position + within, name, position, depth)

    def _field(self, path: str, field: Field, slot: int, owner: str, start: int, depth: int) -> None:
        if field.kind == "number":
            self.add(path, Site("number", slot, field.type))
            return
        target = slot + self.unsigned(slot)
        kind = self._union(field, owner, start) if field.kind == "union" else field.type
        self.add(path, Site("reference", slot, kind or field.kind, target))
        if field.kind in ("table", "union"):
            self.table(kind, target, depth + 1)
            return
        length = self.unsigned(target)
        self.add(path, Site("length", target, "<I"))
        if field.kind == "text":
            self.add(path, Site("text", target + 4, "", min(length, 64)))
        elif field.kind == "numbers":
            self._numbers(path, field.type, target + 4, length)
        else:
            self._entries(path, field, target + 4, length, depth)

    def _numbers(self, path: str, format: str, first: int, length: int) -> None:
        width = struct.calcsize(format)
        for number in range(min(length, _MOST_NUMBERS)):
            self.add(path, Site("number", first + number * width, format))
        if path == "Buffer.Data":  # most are 32-bit numbers: shapes, axes, offsets, weights
            for number in range(min(length // 4, _MOST_NUMBERS)):
                self.add("Buffer.Data as numbers", Site("number", first + 4 * number, "<i"))

    def _entries(self, path: str, field: Field, first: int, length: int, depth: int) -> None:
        length = min(length, max(len(self.content) - first, 0) // 4)  # a damaged input may claim more
        self.add(path, Site("entries", first, field.type, length))
        for number in range(min(length, 256)):
            slot = first + 4 * number
            target = slot + self.unsigned(slot)
            self.add(path, Site("reference", slot, field.type or field.kind, target))
            if field.kind == "tables":
                self.table(field.type, target, depth + 1)

    def _union(self, field: Field, owner: str, start: int) -> str:
        """The table that a union holds, by the number in the field before it."""
        layout = start - self.unsigned(start, "<i")
        within = self.unsigned(layout + 4 + 2 * (field.slot - 1), "<H")
        number = self.content[start + within] if within else 0
        names: dict[int, str] = {
            value: name for name, value in vars(getattr(schema, field.type)).items() if name[0] != "_"
        }
        return names.get(number, "")
