"""Writes an ONNX file with its nodes in another order, without other changes.

The nodes are fields of the graph message, and are moved as bytes. Nothing is parsed and serialized again, so
the rest of the file is unchanged, including weights of any size.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from sizeup.errors import WriteError
from sizeup.formats.external import model_folders
from sizeup.formats.onnx.constants import region_of
from sizeup.formats.onnx.read import graphs_of
from sizeup.formats.onnx.wire import Malformed, fields, without_weights
from sizeup.graph import Graph

# Field numbers of onnx.proto.
_GRAPH, _NODE, _OUTPUT = 7, 1, 2


class Row(NamedTuple):
    """A node in the file: start, start of its content, end, and the names of its outputs."""

    start: int
    body: int
    end: int
    outputs: tuple[str, ...]


def write(source: Path, out: Path, graph: Graph, order: Sequence[int] | None) -> None:
    """Write the model with its nodes in the order of the ops in `order`, or unchanged if None.

    `out` is a temporary path of `sizeup.files.atomic_path`, so the result can be verified before it is moved.
    """
    try:
        with (
            source.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            out.open("wb") as target,
        ):
            for start, end in [(0, len(content))] if order is None else _spans(content, graph, order):
                target.write(memoryview(content)[start:end])
    except Malformed as error:
        raise WriteError(f"{source}: not an ONNX model, or cut short ({error})") from error


def _spans(content: mmap.mmap, graph: Graph, order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The spans of the old file that make up the new one, in order."""
    rows = rows_of(content)
    position = 0
    for old, new in zip(rows, _reordered(rows, graph, order), strict=True):
        yield position, old.start
        yield new.start, new.end
        position = old.end
    yield position, len(content)


def graph_in(content: mmap.mmap) -> tuple[int, int, int]:
    """The graph in a file: start, start of its content, end."""
    graphs = [span for number, *span in fields(content, 0, len(content)) if number == _GRAPH]
    if len(graphs) != 1:
        raise WriteError(f"the file has {len(graphs)} graph fields instead of 1 and is not rewritten")
    start, body, end = graphs[0]
    return start, body, end


def rows_of(content: mmap.mmap) -> list[Row]:
    """The nodes of the graph in a file."""
    return [
        Row(start, body, end, tuple(_outputs(content, body, end)))
        for number, start, body, end in fields(content, *graph_in(content)[1:])
        if number == _NODE
    ]


def _outputs(content: mmap.mmap, first: int, last: int) -> Iterator[str]:
    for number, _, body, end in fields(content, first, last):
        if number == _OUTPUT:
            yield content[body:end].decode(errors="replace")


def _reordered(rows: list[Row], graph: Graph, order: Sequence[int]) -> list[Row]:
    """The nodes in their new order: first those that are not ops of the graph (constants), then the ops."""
    producers = {name: index for index, row in enumerate(rows) for name in row.outputs if name}
    indices = []
    for op in order:
        names = [graph.tensors[identity].name for identity in graph.ops[op].outputs]
        indices.append(producers.get(names[0], -1) if names else -1)
    if -1 in indices or len(set(indices)) != len(indices):
        raise WriteError("the ops of the graph do not match the nodes of the file (it has functions)")
    moved = set(indices)
    return [row for index, row in enumerate(rows) if index not in moved] + [rows[index] for index in indices]


def external_files(source: Path) -> list[str]:
    """The names of the external data files of a model."""
    try:
        model = ModelProto()
        model.ParseFromString(without_weights(source))
    except Malformed as error:
        raise WriteError(f"{source}: not an ONNX model, or cut short ({error})") from error
    names: dict[str, None] = {}
    for tensor in _tensors_of(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            names[region_of(tensor, model_folders(source)).location] = None
    # `without_weights` turned large constants of the file itself into external data.
    names.pop(source.name, None)
    return list(names)


def _tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    yield from _tensors_in(model.graph)
    for function in model.functions:
        yield from _tensors_with(function.node)


def _tensors_in(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    yield from _tensors_with(graph.node)


def _tensors_with(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for _, graph in graphs_of(node):
            yield from _tensors_in(graph)
