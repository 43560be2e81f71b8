"""A model as TFLite Micro sees it: its subgraphs, and where each of their tensors lives."""

from __future__ import annotations

from collections.abc import Iterator

from sizeup.errors import Incomplete
from sizeup.graph import Graph, Tensor
from sizeup.memory.liveness import tensor_bytes

# The operators whose subgraphs the interpreter plans together with the graph that calls them.
CALLERS = frozenset(("IF", "WHILE", "CALL_ONCE"))


def subgraphs(graph: Graph) -> tuple[Graph, ...]:
    """The graph itself, then all others of its file, called or not: the interpreter prepares every one.

    Without a file it is what the graph calls, each once and in the order of the first call. Raises Incomplete
    where a graph of the file cannot be read.
    """
    if graph.others is None:
        raise Incomplete(
            f"{graph.name or 'graph'}: another graph of the file, which is planned too, cannot be read"
        )
    if graph.others:
        return (graph, *graph.others)
    found: dict[int, Graph] = {}
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        if id(current) not in found:
            found[id(current)] = current
            waiting.extend(reversed(list(_called(current))))
    return tuple(found.values())


def _called(graph: Graph) -> Iterator[Graph]:
    for op in graph.ops:
        for body in op.bodies:
            yield body.graph


def planned_bytes(graph: Graph) -> dict[int, int]:
    """Bytes of every tensor that gets a place in the head, by its id.

    Not constants, nor variables, which outlive a run; nor handles of variables, which point into the tail.
    But also leftovers of a converter that no operator knows: the interpreter plans them for the time
    before the run.
    """
    handles = {identity for op in graph.ops if op.source == "VAR_HANDLE" for identity in op.outputs}
    read = _read(graph)
    sizes = {}
    for identity, tensor in enumerate(graph.tensors):
        is_made = tensor.data is None or tensor.data.role in ("derived", "scratch")
        is_leftover = is_described(tensor) and not _is_variable(tensor) and identity not in read
        if (is_made or is_leftover) and identity not in handles:
            sizes[identity] = exact_bytes(graph, tensor)
    return {identity: size for identity, size in sizes.items() if size}


def variable_bytes(graph: Graph) -> dict[int, int]:
    """Bytes of every variable tensor, which a run leaves for the next, by its id.

    Formats describe one as a buffer without content that takes no bytes of the file, or that is read.
    """
    read = _read(graph)
    return {
        identity: exact_bytes(graph, tensor)
        for identity, tensor in enumerate(graph.tensors)
        if is_described(tensor) and (identity in read or _is_variable(tensor))
    }


def _read(graph: Graph) -> set[int]:
    return {identity for op in graph.ops for identity in op.inputs}


def is_described(tensor: Tensor) -> bool:
    """Whether the file only describes it and gives it no content."""
    return tensor.data is not None and tensor.data.role == "buffer" and tensor.data.read is None


def _is_variable(tensor: Tensor) -> bool:
    return tensor.data is not None and tensor.data.stored_bytes == 0


def exact_bytes(graph: Graph, tensor: Tensor) -> int:
    """Bytes of a tensor, a 4-bit number taking a whole one; Incomplete if its shape depends on data."""
    if tensor.elements is None:
        raise Incomplete(
            f"{graph.name or 'graph'}: TFLite Micro cannot plan {tensor.name!r}, whose size depends on data"
        )
    return tensor.elements if 0 < tensor.dtype.bits < 8 else tensor_bytes(tensor)
