"""The nodes of an ONNX file as they stand in it: functions not expanded, constants among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from onnx import NodeProto

from sizeup.formats.nodes import FileNodes
from sizeup.formats.onnx.read import graphs_of, message_of

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
