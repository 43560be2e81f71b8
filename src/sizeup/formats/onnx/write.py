"""Writing an ONNX file with its operators in another order, and nothing else changed.

The operators of the graph are rows of one message. They are exchanged as the bytes that they are: nothing is
parsed and written anew, so that whatever else the file holds stays as it was, weights of any size included.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from sizeup.errors import WriteError
from sizeup.formats.external import home_of
from sizeup.formats.onnx.constants import region_of
from sizeup.formats.onnx.read import graphs_of
from sizeup.formats.onnx.wire import Malformed, fields, without_weights
from sizeup.graph import Graph

# Field numbers of onnx.proto.
_GRAPH, _NODE, _OUTPUT = 7, 1, 2


class Row(NamedTuple):
    """Where an operator stands in the file, where its content begins, and the names of what it makes."""

    start: int
    body: int
    end: int
    outputs: tuple[str, ...]


def write(source: Path, out: Path, graph: Graph, order: Sequence[int] | None) -> None:
    """Write the model with the operators of its graph in that order, or as it is.

    `out` is a path of `sizeup.files.replacing`, so that the result can be run before it is put in place.
    """
    try:
        with (
            source.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            out.open("wb") as target,
        ):
            for start, end in [(0, len(content))] if order is None else _pieces(content, graph, order):
                target.write(memoryview(content)[start:end])
    except Malformed as error:
        raise WriteError(f"{source}: not an ONNX model, or cut short ({error})") from error


def _pieces(content: mmap.mmap, graph: Graph, order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The spans of the old file that make up the new one, in turn."""
    rows = rows_of(content)
    copied = 0
    for row, moved in zip(rows, _exchanged(rows, graph, order), strict=True):
        yield copied, row.start
        yield moved.start, moved.end
        copied = row.end
    yield copied, len(content)


def graph_in(content: mmap.mmap) -> tuple[int, int, int]:
    """Where the graph stands in a file, where its content begins, and its end."""
    graphs = [place for number, *place in fields(content, 0, len(content)) if number == _GRAPH]
    if len(graphs) != 1:
        raise WriteError(
            f"the file holds {len(graphs)} graphs; one that is written in pieces is not rewritten"
        )
    start, body, end = graphs[0]
    return start, body, end


def rows_of(content: mmap.mmap) -> list[Row]:
    """The operators of the graph in a file."""
    return [
        Row(start, body, end, tuple(_outputs(content, body, end)))
        for number, start, body, end in fields(content, *graph_in(content)[1:])
        if number == _NODE
    ]


def _outputs(content: mmap.mmap, first: int, last: int) -> Iterator[str]:
    for number, _, body, end in fields(content, first, last):
        if number == _OUTPUT:
            yield content[body:end].decode(errors="replace")


def _exchanged(rows: list[Row], graph: Graph, order: Sequence[int]) -> list[Row]:
    """The rows in their new order: first what holds constants, then the operators of the graph."""
    makers = {name: place for place, row in enumerate(rows) for name in row.outputs if name}
    places = []
    for index in order:
        names = [graph.tensors[identity].name for identity in graph.ops[index].outputs]
        places.append(makers.get(names[0], -1) if names else -1)
    if -1 in places or len(set(places)) != len(places):
        raise WriteError("operators of the graph and of the file do not match one to one (functions)")
    moved = set(places)
    return [row for place, row in enumerate(rows) if place not in moved] + [rows[place] for place in places]


def external_files(source: Path) -> list[str]:
    """The files beside a model in which it keeps numbers, by the names that it uses."""
    try:
        model = ModelProto()
        model.ParseFromString(without_weights(source))
    except Malformed as error:
        raise WriteError(f"{source}: not an ONNX model, or cut short ({error})") from error
    found: dict[str, None] = {}
    for tensor in _tensors_of(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            found[region_of(tensor, home_of(source)).location] = None
    # Large constants of the file itself were just made to look like external ones.
    found.pop(source.name, None)
    return list(found)


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
