"""The graph of a file as TFLite Micro runs it, for searches over schedules and memory plans."""

from __future__ import annotations

from dataclasses import replace

from sizeup.backends.tflm.layout import Build
from sizeup.backends.tflm.tail import kernel_requests
from sizeup.dtypes import DTYPES
from sizeup.graph import Graph, Tensor, name_of


def without_derived_constants(graph: Graph) -> Graph:
    """The graph with tensors derived from constants computed at run time, so that they take memory."""
    tensors = tuple(
        replace(tensor, data=None) if tensor.data is not None and tensor.data.role == "derived" else tensor
        for tensor in graph.tensors
    )
    return replace(graph, tensors=tensors)


def with_scratch(graph: Graph, build: Build) -> Graph:
    """The graph with each scratch buffer of a kernel as another output, live while its operator runs."""
    tensors, ops = list(graph.tensors), []
    for op in graph.ops:
        sizes = kernel_requests(graph, op, build).scratch if op.outputs else ()
        added = [
            Tensor(f"scratch of {name_of(graph, op)}", (size,), DTYPES["int8"]) for size in sizes if size
        ]
        identities = range(len(tensors), len(tensors) + len(added))
        tensors += added
        ops.append(replace(op, outputs=(*op.outputs, *identities)) if added else op)
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def graph_as_run(graph: Graph, build: Build) -> Graph:
    """The main graph as a build runs it: derived tensors are computed, and scratch takes memory.

    Handles of resource variables take none: they point into the arena tail.
    """
    as_run = with_scratch(without_derived_constants(graph), build)
    tensors = list(as_run.tensors)
    for op in as_run.ops:
        for identity in op.outputs if op.source == "VAR_HANDLE" else ():
            tensors[identity] = replace(tensors[identity], shape=(0,))
    return replace(as_run, tensors=tuple(tensors))
