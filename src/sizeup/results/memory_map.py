"""Where every buffer of a model is in memory, and from which operator to which."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.graph import Graph
from sizeup.memory import Overview, Usage, lifetimes, tensor_bytes
from sizeup.memory.arena import first_fit
from sizeup.memory.tflm import MicroArena


@dataclass(frozen=True, slots=True, eq=False)
class MemoryMap:
    """Buffers as columns, placed by first fit or, for TFLite files, as TFLite Micro places them."""

    tensors: tuple[tuple[int, ...], ...]  # none for what a kernel takes for itself
    first: list[int]
    last: list[int]
    size: list[int]
    offset: list[int]
    height: int
    is_micro: bool  # whether it is the head of TFLite Micro's arena


def memory_map(graph: Graph, memory: Overview) -> MemoryMap | None:
    """The map of a graph's memory; None if sizes depend on data or nothing runs."""
    if memory.usage.missing or memory.usage.peak_op is None:
        return None
    return _packed(memory.usage) if memory.arena is None else _micro(graph, memory.arena)


def _packed(usage: Usage) -> MemoryMap:
    """What is live, placed by first fit: a fixed effort, which is the same in every page on one model."""
    buffers = usage.buffers
    packing = first_fit(buffers)
    return MemoryMap(
        buffers.tensors,
        buffers.first.tolist(),
        buffers.last.tolist(),
        buffers.size.tolist(),
        list(packing.offsets),
        packing.height,
        is_micro=False,
    )


def _micro(graph: Graph, arena: MicroArena) -> MemoryMap:
    """TFLite Micro's own plan of the head, which shares no memory between views."""
    alive = lifetimes(graph, views=False)
    placed = [
        (buffer, identity)
        for buffer, members in enumerate(alive.tensors)
        for identity in members
        if arena.offsets[identity] >= 0
    ]
    scratch = [each for each in arena.scratch if each.subgraph == 0]
    return MemoryMap(
        (*((identity,) for _, identity in placed), *(() for _ in scratch)),
        [int(alive.first[buffer]) for buffer, _ in placed] + [each.operator for each in scratch],
        [int(alive.last[buffer]) for buffer, _ in placed] + [each.operator for each in scratch],
        [tensor_bytes(graph.tensors[identity]) for _, identity in placed] + [each.size for each in scratch],
        [arena.offsets[identity] for _, identity in placed] + [each.offset for each in scratch],
        arena.head_bytes,
        is_micro=True,
    )
