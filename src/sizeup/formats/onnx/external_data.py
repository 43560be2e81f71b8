"""Finds the external data files of a model without the onnx library.

Only messages that contain an external location are parsed, so that a digest does not need to load the model.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from sizeup.formats.external import external_file, model_folders
from sizeup.formats.onnx.wire import Malformed, fields

_WORD = b"location"
# Field numbers of onnx.proto: the message type of the fields of a message that can contain locations.
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
_MAX_DEPTH = 100  # of nested messages: the limit of protobuf


def external_files(path: Path) -> list[str]:
    """The names of the external files as written in the model; empty if the file is not a model."""
    if path.stat().st_size == 0:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            names = dict.fromkeys(_locations(content))
        except (Malformed, IndexError):
            return []
    return [name.decode("utf-8", "surrogateescape") for name in names]


def check_external_files(path: Path) -> None:
    """Raises if an external file is outside the model's folder, missing, or not a regular file."""
    for name in external_files(path):
        external_file(model_folders(path), name, "external data")


def _locations(content: mmap.mmap) -> Iterator[bytes]:
    stack = [("model", 0, len(content), 0)]
    while stack:
        message, first, last, depth = stack.pop()
        # Searching for the key is much faster than parsing, and most messages do not contain it.
        if depth > _MAX_DEPTH or content.find(_WORD, first, last) < 0:
            continue
        if message == "entry":
            yield from _location(content, first, last)
        else:
            types = _INSIDE[message]
            rows = fields(content, first, last)
            stack += [
                (types[number], body, end, depth + 1) for number, _, body, end in rows if number in types
            ]


def _location(content: mmap.mmap, first: int, last: int) -> Iterator[bytes]:
    entry = {number: content[body:end] for number, _, body, end in fields(content, first, last)}
    if entry.get(_KEY) == _WORD and _VALUE in entry:
        yield entry[_VALUE]
