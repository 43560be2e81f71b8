"""A copy of an ONNX file whose nodes carry properties of ours, and nothing else changed.

Properties of nodes are part of the format since its version 10; readers of older ones pass over fields that
they do not know, so the version of the file stays what it is. As in `write`, bytes are copied and not parsed.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from onnx import NodeProto

from sizeup.errors import WriteError
from sizeup.files import replacing
from sizeup.formats.nodes import FileNodes
from sizeup.formats.onnx.read import graphs_of, message_of
from sizeup.formats.onnx.wire import Malformed, fields, message, varint
from sizeup.formats.onnx.write import graph_in, rows_of

# Field numbers of onnx.proto, and the type of a field that has a length.
_GRAPH, _NODE = 7, 1
_OF_MODEL, _OF_NODE = 14, 9
_KEY, _VALUE = 1, 2
_LENGTH = 2
_CHUNK = 1 << 24

Properties = Mapping[str, str]


def annotate(
    source: Path, out: Path, prefix: str, of_model: Properties, of_nodes: Mapping[int, Properties]
) -> None:
    """Write the model with properties for itself and for nodes by their place.

    Properties whose keys begin with the prefix are replaced, wherever they are: they told of an older count.
    """
    try:
        with (
            source.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            replacing(out, like=source) as new,
            new.open("wb") as target,
        ):
            target.writelines(_pieces(content, prefix.encode(), of_model, of_nodes))
    except Malformed as error:
        raise WriteError(f"{source}: not an ONNX model, or cut short ({error})") from error


def _pieces(
    content: mmap.mmap, prefix: bytes, of_model: Properties, of_nodes: Mapping[int, Properties]
) -> Iterator[bytes]:
    start, body, end = graph_in(content)
    rows = rows_of(content)
    nodes = []
    for place, row in enumerate(rows):
        kept = b"".join(_kept(content, row.body, row.end, _OF_NODE, prefix))
        nodes.append(b"".join(message(_NODE, kept + b"".join(_entries(_OF_NODE, of_nodes.get(place, {}))))))
    grown = sum(map(len, nodes)) - sum(row.end - row.start for row in rows)
    yield from _kept(content, 0, start, _OF_MODEL, prefix)
    yield varint(_GRAPH << 3 | _LENGTH) + varint(end - body + grown)
    copied = body
    for node, row in zip(nodes, rows, strict=True):
        yield from _copied(content, copied, row.start)
        yield node
        copied = row.end
    yield from _copied(content, copied, end)
    yield from _kept(content, end, len(content), _OF_MODEL, prefix)
    yield from _entries(_OF_MODEL, of_model)


def _kept(content: mmap.mmap, first: int, last: int, properties: int, prefix: bytes) -> Iterator[bytes]:
    """The fields of a message, but for properties whose keys begin with the prefix."""
    for number, start, body, end in fields(content, first, last):
        if number != properties or not _key(content, body, end).startswith(prefix):
            yield content[start:end]


def _key(content: mmap.mmap, first: int, last: int) -> bytes:
    keys = (content[body:end] for number, _, body, end in fields(content, first, last) if number == _KEY)
    return next(keys, b"")


def _copied(content: mmap.mmap, first: int, last: int) -> Iterator[bytes]:
    """A part of the file, piece by piece: weights may be larger than memory."""
    for start in range(first, last, _CHUNK):
        yield content[start : min(start + _CHUNK, last)]


def _entries(number: int, properties: Properties) -> Iterator[bytes]:
    for key, value in properties.items():
        pair = (*message(_KEY, key.encode()), *message(_VALUE, value.encode(errors="replace")))
        yield from message(number, b"".join(pair))


NAMELESS = "<main>"
"""What viewers call a graph without a name."""


def nodes_of(path: Path) -> FileNodes:
    """The nodes of a file's main graph, in its order: a name that no other node has, and what each makes."""
    graph = message_of(path).graph
    outputs = tuple(tuple(node.output) for node in graph.node)
    name = graph.name if graph.HasField("name") else NAMELESS
    return FileNodes(name, tuple(_mended(graph.node, Counter())), outputs)


def _mended(nodes: Iterable[NodeProto], counts: Counter[str]) -> Iterator[str]:
    """Names as onnx_ir mends them, on which viewers build: numbered where two are equal or one is missing.

    The numbers are counted through the graphs that nodes carry, in each of which names begin anew.
    """
    used: set[str] = set()
    for node in nodes:
        wanted = node.name or "node"
        name = wanted
        while name in used:
            counts[wanted] += 1
            name = f"{wanted}_{counts[wanted]}"
        used.add(name)
        yield name
        for _, inner in graphs_of(node):
            for _ in _mended(inner.node, counts):
                pass
