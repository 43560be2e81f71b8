"""Bounds that no real file comes near and that keep hostile ones from costing time or memory.

Tables and vectors may be shared inside a file, so a small file can describe very much.
"""

from __future__ import annotations

from sizeup.errors import CorruptModel

DEEPEST_NESTING = 50
MOST_DIMENSIONS = 64
MOST_ELEMENTS = 2**50
MOST_OPERATORS_RUN = 2_000_000
_TEXT_PER_BYTE = 16


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
