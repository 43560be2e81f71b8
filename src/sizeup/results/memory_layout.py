"""The memory plan of a model: the offset of every buffer, and when it is live."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.backends.overview import Overview
from sizeup.backends.tflm import MicroArena
from sizeup.graph import Graph
from sizeup.memory import Usage, buffer_liveness, tensor_bytes
from sizeup.memory.packing import first_fit


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLayout:
    """Buffers as columns, planned by first fit or, for TFLite files, as TFLite Micro plans them."""

    tensors: tuple[tuple[int, ...], ...]  # empty for a kernel's scratch memory
    first: list[int]
    last: list[int]
    size: list[int]
    offset: list[int]
    height: int
    is_tflm: bool  # whether it is TFLite Micro's arena head


def memory_layout(graph: Graph, memory: Overview) -> MemoryLayout | None:
    """Returns the plan of a graph's memory; None if sizes depend on data or there are no ops."""
    if memory.usage.unavailable_reason or memory.usage.peak_op is None:
        return None
    return _first_fit_map(memory.usage) if memory.arena is None else _tflm_map(graph, memory.arena)


def _first_fit_map(usage: Usage) -> MemoryLayout:
    """Plans the live buffers by first fit, which is deterministic and fast."""
    buffers = usage.buffers
    packing = first_fit(buffers)
    return MemoryLayout(
        buffers.tensors,
        buffers.first.tolist(),
        buffers.last.tolist(),
        buffers.size.tolist(),
        list(packing.offsets),
        packing.height,
        is_tflm=False,
    )


def _tflm_map(graph: Graph, arena: MicroArena) -> MemoryLayout:
    """Returns TFLite Micro's plan of the arena head, in which aliases share no memory."""
    liveness = buffer_liveness(graph, aliases=False)
    planned = [
        (buffer, identity)
        for buffer, members in enumerate(liveness.tensors)
        for identity in members
        if arena.offsets[identity] >= 0
    ]
    scratch = [buffer for buffer in arena.scratch if buffer.subgraph == 0]
    return MemoryLayout(
        (*((identity,) for _, identity in planned), *(() for _ in scratch)),
        [int(liveness.first[buffer]) for buffer, _ in planned] + [request.operator for request in scratch],
        [int(liveness.last[buffer]) for buffer, _ in planned] + [request.operator for request in scratch],
        [tensor_bytes(graph.tensors[identity]) for _, identity in planned]
        + [request.size for request in scratch],
        [arena.offsets[identity] for _, identity in planned] + [request.offset for request in scratch],
        arena.head_bytes,
        is_tflm=True,
    )
