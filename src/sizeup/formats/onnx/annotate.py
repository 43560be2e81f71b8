"""Writes a copy of an ONNX file with additional metadata properties, without other changes.

Node properties exist since IR version 10. Older readers skip unknown fields, so the version of the file does
not change. As in `write`, bytes are copied and not parsed.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from onnx import NodeProto

from sizeup.errors import WriteError
from sizeup.files import atomic_path
from sizeup.formats.nodes import FileNodes
from sizeup.formats.onnx.read import graphs_of, message_of
from sizeup.formats.onnx.wire import Malformed, fields, message, varint
from sizeup.formats.onnx.write import graph_in, rows_of

# Field numbers of onnx.proto, and the wire type of a length-delimited field.
_GRAPH, _NODE = 7, 1
_OF_MODEL, _OF_NODE = 14, 9
_KEY, _VALUE = 1, 2
_LENGTH = 2
_CHUNK = 1 << 24

Properties = Mapping[str, str]


def annotate(
    source: Path, out: Path, prefix: str, of_model: Properties, of_nodes: Mapping[int, Properties]
) -> None:
    """Write the model with properties for itself and for its nodes by index.

    Existing properties whose keys start with the prefix are removed, in the model and in every node.
    """
    try:
        with (
            source.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            atomic_path(out, like=source) as new,
            new.open("wb") as target,
        ):
            target.writelines(_chunks(content, prefix.encode(), of_model, of_nodes))
    except Malformed as error:
        raise WriteError(f"{source}: not an ONNX model, or cut short ({error})") from error


def _chunks(
    content: mmap.mmap, prefix: bytes, of_model: Properties, of_nodes: Mapping[int, Properties]
) -> Iterator[bytes]:
    start, body, end = graph_in(content)
    rows = rows_of(content)
    nodes = []
    for index, row in enumerate(rows):
        other = b"".join(_other_fields(content, row.body, row.end, _OF_NODE, prefix))
        nodes.append(b"".join(message(_NODE, other + b"".join(_entries(_OF_NODE, of_nodes.get(index, {}))))))
    growth = sum(map(len, nodes)) - sum(row.end - row.start for row in rows)
    yield from _other_fields(content, 0, start, _OF_MODEL, prefix)
    yield varint(_GRAPH << 3 | _LENGTH) + varint(end - body + growth)
    position = body
    for node, row in zip(nodes, rows, strict=True):
        yield from _copy(content, position, row.start)
        yield node
        position = row.end
    yield from _copy(content, position, end)
    yield from _other_fields(content, end, len(content), _OF_MODEL, prefix)
    yield from _entries(_OF_MODEL, of_model)


def _other_fields(
    content: mmap.mmap, first: int, last: int, properties: int, prefix: bytes
) -> Iterator[bytes]:
    """The fields of a message, except properties whose keys start with the prefix."""
    for number, start, body, end in fields(content, first, last):
        if number != properties or not _key(content, body, end).startswith(prefix):
            yield content[start:end]


def _key(content: mmap.mmap, first: int, last: int) -> bytes:
    keys = (content[body:end] for number, _, body, end in fields(content, first, last) if number == _KEY)
    return next(keys, b"")


def _copy(content: mmap.mmap, first: int, last: int) -> Iterator[bytes]:
    """A part of the file in chunks: weights may be larger than memory."""
    for start in range(first, last, _CHUNK):
        yield content[start : min(start + _CHUNK, last)]


def _entries(number: int, properties: Properties) -> Iterator[bytes]:
    for key, value in properties.items():
        pair = (*message(_KEY, key.encode()), *message(_VALUE, value.encode(errors="replace")))
        yield from message(number, b"".join(pair))


NAMELESS = "<main>"
"""The name that viewers give to an unnamed graph."""


def nodes_of(path: Path) -> FileNodes:
    """The nodes of a file's main graph, in file order: unique names and outputs."""
    graph = message_of(path).graph
    outputs = tuple(tuple(node.output) for node in graph.node)
    name = graph.name if graph.HasField("name") else NAMELESS
    return FileNodes(name, tuple(_unique_names(graph.node, Counter())), outputs)


def _unique_names(nodes: Iterable[NodeProto], counts: Counter[str]) -> Iterator[str]:
    """Unique node names as onnx_ir, used by viewers, creates them: duplicates and missing names are numbered.

    Names must be unique within a graph; the counters are shared with its subgraphs.
    """
    used: set[str] = set()
    for node in nodes:
        base = node.name or "node"
        name = base
        while name in used:
            counts[base] += 1
            name = f"{base}_{counts[base]}"
        used.add(name)
        yield name
        for _, inner in graphs_of(node):
            for _ in _unique_names(inner.node, counts):
                pass
