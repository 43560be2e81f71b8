"""The operators of a model file as they stand in it, for whoever shows that file and not our graph of it."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.graph import ABSENT, Graph


@dataclass(frozen=True, slots=True)
class FileNodes:
    """The main graph: its name, a name for every node that no other has, and the tensors that each makes.

    Tensors are told by their names in ONNX, by their numbers in TFLite. Names are those of Model Explorer.
    """

    graph: str
    names: tuple[str, ...]
    outputs: tuple[tuple[str | int, ...], ...]


def owners(graph: Graph, nodes: FileNodes) -> list[int | None]:
    """Of every operator of the graph the node that it came from.

    That is the node which makes what the operator makes. Operators of a function that was expanded, and
    conversions that a mixture of number types needs, belong to the node that takes what they make.
    """
    by_name = graph.format == "onnx"
    makers = {key: place for place, keys in enumerate(nodes.outputs) for key in keys if key != ""}
    silent = iter([place for place, keys in enumerate(nodes.outputs) if not keys])
    found: list[int | None] = [None] * len(graph.ops)
    for index, op in enumerate(graph.ops):
        keys = [graph.tensors[identity].name if by_name else identity for identity in op.outputs]
        found[index] = next((makers[key] for key in keys if key in makers), None)
        if not op.outputs:
            found[index] = next(silent, None)
    reader: dict[int, int | None] = {}
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        if found[index] is None:
            found[index] = next((reader[each] for each in op.outputs if each in reader), None)
        for identity in op.inputs:
            if identity != ABSENT:
                reader[identity] = found[index]
    return found
