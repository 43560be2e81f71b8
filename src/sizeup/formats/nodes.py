"""The nodes of a model file, for tools that show the file rather than the sizeup graph."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.graph import ABSENT, Graph


@dataclass(frozen=True, slots=True)
class FileNodes:
    """The main graph of a file: its name, a unique name per node, and the output tensors per node.

    Tensors are identified by name in ONNX and by index in TFLite. Names are those of Model Explorer.
    """

    graph: str
    names: tuple[str, ...]
    outputs: tuple[tuple[str | int, ...], ...]


def source_nodes(graph: Graph, nodes: FileNodes) -> list[int | None]:
    """The index of the source node of every op of the graph.

    That is the node with the same outputs. Ops of inlined functions, and casts inserted by a precision map,
    belong to the node that reads their outputs.
    """
    by_name = graph.format == "onnx"
    producers = {key: node for node, keys in enumerate(nodes.outputs) for key in keys if key != ""}
    without_outputs = iter([node for node, keys in enumerate(nodes.outputs) if not keys])
    sources: list[int | None] = [None] * len(graph.ops)
    for index, op in enumerate(graph.ops):
        keys = [graph.tensors[identity].name if by_name else identity for identity in op.outputs]
        sources[index] = next((producers[key] for key in keys if key in producers), None)
        if not op.outputs:
            sources[index] = next(without_outputs, None)
    readers: dict[int, int | None] = {}
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        if sources[index] is None:
            sources[index] = next((readers[i] for i in op.outputs if i in readers), None)
        for identity in op.inputs:
            if identity != ABSENT:
                readers[identity] = sources[index]
    return sources
