"""The files beside a model in which it keeps numbers, found without the library and without reading any.

Whoever only has to tell models apart need not load them: the rows of the file are walked, and of those alone
that speak of a place elsewhere.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from sizeup.formats.external import external_file, home_of
from sizeup.formats.onnx.wire import Malformed, fields

_WORD = b"location"
# Field numbers of onnx.proto: in which message which fields hold which messages.
_INSIDE = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_KEY, _VALUE = 1, 2
_DEEPEST = 100  # messages within messages: protobuf itself reads no more


def files_beside(path: Path) -> list[str]:
    """The names of these files, as the model spells them; none where the file is no model."""
    if path.stat().st_size == 0:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            found = dict.fromkeys(_named(content))
        except (Malformed, IndexError):
            return []
    return [name.decode("utf-8", "surrogateescape") for name in found]


def check_files_beside(path: Path) -> None:
    """Raise if a library that reads the model would be led out of its folder, or to a pipe or a device."""
    for name in files_beside(path):
        external_file(home_of(path), name, "external data")


def _named(content: mmap.mmap) -> Iterator[bytes]:
    waiting = [("model", 0, len(content), 0)]
    while waiting:
        kind, first, last, depth = waiting.pop()
        # Most of a file speaks of no place at all: looking for the word is much faster than walking rows.
        if depth > _DEEPEST or content.find(_WORD, first, last) < 0:
            continue
        if kind == "entry":
            yield from _location(content, first, last)
        else:
            held = _INSIDE[kind]
            rows = fields(content, first, last)
            waiting += [
                (held[number], body, end, depth + 1) for number, _, body, end in rows if number in held
            ]


def _location(content: mmap.mmap, first: int, last: int) -> Iterator[bytes]:
    entry = {number: content[body:end] for number, _, body, end in fields(content, first, last)}
    if entry.get(_KEY) == _WORD and _VALUE in entry:
        yield entry[_VALUE]
