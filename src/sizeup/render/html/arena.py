"""The map of memory in a page: every buffer from its first to its last operator, at a place of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizeup.memory import Buffers, lifetimes, tensor_bytes
from sizeup.memory.arena import first_fit
from sizeup.render.html.columns import grouped

if TYPE_CHECKING:
    from sizeup.memory.tflm import MicroArena
    from sizeup.results.report import Report


@dataclass(frozen=True, slots=True)
class _Boxes:
    tensors: tuple[tuple[int, ...], ...]  # none for what a kernel takes for itself
    first: list[int]
    last: list[int]
    size: list[int]
    offset: list[int]
    height: int
    caption: str


def arena_map(report: Report) -> dict[str, Any] | None:
    """Boxes as columns, and what laid them so; None where sizes depend on data or nothing runs."""
    found = report.memory
    if found.usage.missing or found.usage.peak_op is None:
        return None
    boxes = _packed(report) if found.arena is None else _micro(report, found.arena)
    return {
        "tensors": grouped(boxes.tensors),
        "first": boxes.first,
        "last": boxes.last,
        "size": boxes.size,
        "offset": boxes.offset,
        "height": boxes.height,
        "caption": boxes.caption,
        "peak_bytes": found.usage.peak_bytes,
        "peak_op": found.usage.peak_op,
    }


def _packed(report: Report) -> _Boxes:
    """What is in use, laid by first fit: a fixed effort, which is the same in every page on one model."""
    buffers: Buffers = report.memory.usage.buffers
    packing = first_fit(buffers)
    peak = report.memory.usage.peak_bytes
    others = f"{peak:,} B are in use at once. sizeup plan searches for the best place of every tensor."
    above = "no plan needs less." if packing.height == peak else others
    return _Boxes(
        buffers.tensors,
        buffers.first.tolist(),
        buffers.last.tolist(),
        buffers.size.tolist(),
        list(packing.offsets),
        packing.height,
        f"Laid by first fit into {packing.height:,} B; {above}",
    )


def _micro(report: Report, arena: MicroArena) -> _Boxes:
    """TFLite Micro's own plan of the head, which shares no memory between views."""
    graph = report.graph
    alive = lifetimes(graph, views=False)
    placed = [
        (buffer, identity)
        for buffer, members in enumerate(alive.tensors)
        for identity in members
        if arena.offsets[identity] >= 0
    ]
    scratch = [each for each in arena.scratch if each.subgraph == 0]
    return _Boxes(
        (*((identity,) for _, identity in placed), *(() for _ in scratch)),
        [int(alive.first[buffer]) for buffer, _ in placed] + [each.operator for each in scratch],
        [int(alive.last[buffer]) for buffer, _ in placed] + [each.operator for each in scratch],
        [tensor_bytes(graph.tensors[identity]) for _, identity in placed] + [each.size for each in scratch],
        [arena.offsets[identity] for _, identity in placed] + [each.offset for each in scratch],
        arena.head_bytes,
        f"As TFLite Micro lays it: the head of its arena, {arena.head_bytes:,} B.",
    )
