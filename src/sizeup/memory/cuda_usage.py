"""Memory of a GPU that PyTorch allocates and reserves: a graph replayed in its caching allocator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import Graph, Op, Tensor
from sizeup.memory.cuda_allocator import CachingAllocator
from sizeup.memory.liveness import Buffers, initial_tensors, tensor_bytes
from sizeup.ops import has_trait

# The second inference finds the segments and the BLAS workspace that the first one left behind.
_INFERENCES = 2


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of PyTorch's caching allocator on a GPU, with weights and inputs."""

    weight_bytes: int  # blocks of the weights
    allocated_bytes: int  # most bytes of blocks in use, as torch.cuda.max_memory_allocated
    reserved_bytes: int  # bytes of all segments, as torch.cuda.max_memory_reserved
    segments: int
    blas_workspace_bytes: int  # included in both; 0 if no op calls the BLAS library


def device_memory(
    graph: Graph,
    buffers: Buffers,
    *,
    precision: DType | None = None,
    blas_workspace_bytes: int = 0,
    inferences: int = _INFERENCES,
) -> DeviceMemory:
    """Allocate the weights, the inputs, and then the buffers of each inference in the schedule's order.

    `buffers` are those of the graph. The BLAS library allocates its workspace at its first call and keeps it.
    """
    allocator = CachingAllocator()
    for tensor in _weights(graph):
        allocator.allocate(_stored_bytes(tensor, precision))
    weight_bytes = allocator.allocated_bytes
    initial = frozenset(initial_tensors(graph))
    sizes, allocations, frees = _events(buffers)
    inputs = {buffer: None for buffer in allocations[0] if initial.intersection(buffers.tensors[buffer])}
    for buffer in inputs:
        allocator.allocate(sizes[buffer])
    workspace_bytes = 0
    for _ in range(inferences):
        addresses: dict[int, int | None] = {}
        for step, op in enumerate(graph.ops):
            for buffer in allocations[step]:
                if buffer not in inputs:
                    addresses[buffer] = allocator.allocate(sizes[buffer])
            if not workspace_bytes and _calls_blas(op):
                workspace_bytes = blas_workspace_bytes
                allocator.allocate(workspace_bytes)
            for buffer in frees[step]:
                if buffer not in inputs:
                    allocator.free(addresses.pop(buffer))
    return DeviceMemory(
        weight_bytes,
        allocator.peak_allocated_bytes,
        allocator.reserved_bytes,
        len(allocator.segments),
        workspace_bytes,
    )


def _stored_bytes(tensor: Tensor, precision: DType | None) -> int:
    """The bytes of a weight with its scales, as stored or at a precision."""
    stored = None if tensor.data is None or precision is not None else tensor.data.stored_bytes
    return tensor_bytes(tensor, precision) if stored is None else stored


def _events(buffers: Buffers) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Sizes, and the buffers allocated and freed per step; outputs come before workspaces."""
    steps = max(buffers.steps, 1)
    allocations: list[list[int]] = [[] for _ in range(steps)]
    frees: list[list[int]] = [[] for _ in range(steps)]
    first, last = buffers.first.tolist(), buffers.last.tolist()
    for buffer in np.flatnonzero(buffers.size).tolist():
        allocations[first[buffer]].append(buffer)
        frees[last[buffer]].append(buffer)
    return buffers.size.tolist(), allocations, frees


def _calls_blas(op: Op) -> bool:
    return has_trait(op.kind, "blas") or any(
        _calls_blas(inner) for body in op.bodies for inner in body.graph.ops
    )


def _weights(graph: Graph) -> Iterator[Tensor]:
    """The weights in the order in which `Module.to` moves them: inner modules before outer ones."""
    modules: dict[str, list[Tensor]] = {"": []}
    children: dict[str, list[str]] = {"": []}
    for tensor in graph.tensors:
        if tensor.data is None or tensor.data.role in ("derived", "scratch"):
            continue
        path = tensor.name.rpartition(".")[0]
        _add_module(path, modules, children)
        modules[path].append(tensor)
    pending = [("", False)]
    while pending:
        path, is_done = pending.pop()
        if is_done:
            yield from modules[path]
        else:
            pending.append((path, True))
            pending.extend((child, False) for child in reversed(children[path]))


def _add_module(path: str, modules: dict[str, list[Tensor]], children: dict[str, list[str]]) -> None:
    while path not in modules:
        modules[path] = []
        children.setdefault(path, [])
        parent = path.rpartition(".")[0]
        children.setdefault(parent, []).append(path)
        path = parent
