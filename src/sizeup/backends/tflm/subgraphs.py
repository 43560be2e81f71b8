"""The subgraphs of a model as TFLite Micro prepares them, and the part of the arena each tensor is in."""

from __future__ import annotations

from collections.abc import Iterator

from sizeup.errors import Incomplete
from sizeup.graph import Graph, Tensor
from sizeup.memory.liveness import tensor_bytes

# Operators whose subgraphs are planned together with the calling graph.
CALLERS = frozenset(("IF", "WHILE", "CALL_ONCE"))


def subgraphs(graph: Graph) -> tuple[Graph, ...]:
    """The graph, then all other graphs of its file, called or not: the interpreter prepares all of them.

    Without a file, the other graphs are those that are called, in order of their first call. Raises
    Incomplete if a graph of the file cannot be read.
    """
    if graph.other_graphs is None:
        raise Incomplete(
            f"{graph.name or 'graph'}: another graph of the file, part of the memory plan, cannot be read"
        )
    if graph.other_graphs:
        return (graph, *graph.other_graphs)
    visited: dict[int, Graph] = {}
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        if id(current) not in visited:
            visited[id(current)] = current
            waiting.extend(reversed(list(_called(current))))
    return tuple(visited.values())


def _called(graph: Graph) -> Iterator[Graph]:
    for op in graph.ops:
        for body in op.bodies:
            yield body.graph


def planned_bytes(graph: Graph) -> dict[int, int]:
    """Bytes of every tensor that is planned in the head, by tensor id.

    Excludes constants, variables (kept between inferences) and variable handles (which point into the tail).
    Includes unused leftovers of a converter, which the interpreter plans as live before the inference.
    """
    handles = {identity for op in graph.ops if op.source == "VAR_HANDLE" for identity in op.outputs}
    sizes = leftover_bytes(graph)
    for identity, tensor in enumerate(graph.tensors):
        is_computed = tensor.data is None or tensor.data.role in ("derived", "scratch")
        if is_computed and identity not in handles:
            sizes[identity] = exact_bytes(graph, tensor)
    return {identity: size for identity, size in sizes.items() if size}


def leftover_bytes(graph: Graph) -> dict[int, int]:
    """Bytes of every tensor without content that no operator uses, by tensor id: leftovers of a converter."""
    read = _read(graph)
    return {
        identity: exact_bytes(graph, tensor)
        for identity, tensor in enumerate(graph.tensors)
        if is_declared(tensor) and not _is_variable(tensor) and identity not in read
    }


def variable_bytes(graph: Graph) -> dict[int, int]:
    """Bytes of every variable tensor (kept between inferences), by tensor id.

    A variable is a buffer without content that takes no bytes in the file, or that an operator reads.
    """
    read = _read(graph)
    return {
        identity: exact_bytes(graph, tensor)
        for identity, tensor in enumerate(graph.tensors)
        if is_declared(tensor) and (identity in read or _is_variable(tensor))
    }


def _read(graph: Graph) -> set[int]:
    return {identity for op in graph.ops for identity in op.inputs}


def is_declared(tensor: Tensor) -> bool:
    """Whether the file declares it without content."""
    return tensor.data is not None and tensor.data.role == "buffer" and tensor.data.read is None


def _is_variable(tensor: Tensor) -> bool:
    return tensor.data is not None and tensor.data.stored_bytes == 0


def exact_bytes(graph: Graph, tensor: Tensor) -> int:
    """Bytes of a tensor, one byte per 4-bit element; raises Incomplete if its shape depends on data."""
    if tensor.elements is None:
        raise Incomplete(
            f"{graph.name or 'graph'}: TFLite Micro cannot plan {tensor.name!r}, whose size depends on data"
        )
    return tensor.elements if 0 < tensor.dtype.bits < 8 else tensor_bytes(tensor)
