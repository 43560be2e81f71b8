"""Validates schedules and memory plans, independently of the code that computes them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sizeup.errors import InvalidPlan
from sizeup.graph import Graph
from sizeup.memory.liveness import Buffers


class Overlap(NamedTuple):
    """Permission for an output to share bytes with an input that is not used afterwards.

    The input must start at least `distance` bytes after the output (if negative: at most that many bytes
    before it). With `in_place`, both must start at the same offset.
    """

    source: int  # buffer of the input
    result: int  # buffer of the output
    distance: int
    in_place: bool = False


def check_schedule(graph: Graph, schedule: Sequence[int]) -> None:
    """Raise InvalidPlan unless the schedule runs every op once, after the producers of its inputs."""
    if sorted(schedule) != list(range(len(graph.ops))):
        raise InvalidPlan(f"a schedule of {len(graph.ops)} ops must contain each of them once")
    producer = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    done: set[int] = set()
    for index in schedule:
        for identity in graph.ops[index].inputs:
            if identity in producer and producer[identity] not in done:
                name, before = graph.tensors[identity].name, producer[identity]
                raise InvalidPlan(f"op {index} runs before op {before}, which produces its input {name!r}")
        done.add(index)


def check_offsets(
    buffers: Buffers, offsets: Sequence[int], *, capacity: int | None = None, alignment: int = 1
) -> None:
    """Raise InvalidPlan unless live buffers are disjoint, aligned and within the capacity.

    Sweeps over time. Live buffers are sorted by offset, so only neighbors are compared.
    """
    sizes = _check_bounds(buffers, offsets, capacity, alignment)
    starts, ends = _changes(buffers)
    _sweep(starts, ends, offsets, sizes)


def check_overlapping(
    buffers: Buffers, offsets: Sequence[int], allowed: Iterable[Overlap], *, alignment: int = 1
) -> None:
    """Raise InvalidPlan if buffers that are live at once share bytes beyond the allowed overlaps.

    All pairs of live buffers are compared: with overlaps, comparing neighbors is not enough.
    """
    _check_bounds(buffers, offsets, None, alignment)
    permitted = {(overlap.source, overlap.result): overlap for overlap in allowed}
    starts, ends = _changes(buffers)
    live: set[int] = set()
    for step in sorted({*starts, *ends}):
        live.difference_update(ends.get(step, ()))
        for buffer in starts.get(step, ()):
            for other in live:
                overlap = permitted.get((other, buffer)) or permitted.get((buffer, other))
                _check_pair(buffers, offsets, buffer, other, overlap)
            live.add(buffer)


def _check_pair(
    buffers: Buffers, offsets: Sequence[int], one: int, other: int, overlap: Overlap | None
) -> None:
    lower, upper = sorted((one, other), key=lambda buffer: offsets[buffer])
    if offsets[lower] + int(buffers.size[lower]) <= offsets[upper]:
        return
    pair = f"buffers {lower} and {upper} share bytes"
    if overlap is None:
        raise InvalidPlan(f"{pair} while both are live")
    if buffers.last[overlap.source] != buffers.first[overlap.result]:
        raise InvalidPlan(
            f"{pair}, but buffer {overlap.source} is used after buffer {overlap.result} is written"
        )
    distance = offsets[overlap.source] - offsets[overlap.result]
    if distance != 0 if overlap.in_place else distance < overlap.distance:
        raise InvalidPlan(
            f"{pair}: buffer {overlap.source} starts {distance} B after buffer {overlap.result},"
            f" {overlap.distance} B required"
        )


def _check_bounds(
    buffers: Buffers, offsets: Sequence[int], capacity: int | None, alignment: int
) -> list[int]:
    if len(offsets) != len(buffers):
        raise InvalidPlan(f"{len(offsets)} offsets for {len(buffers)} buffers")
    sizes: list[int] = buffers.size.tolist()
    for buffer, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if offset < 0 or offset % alignment:
            raise InvalidPlan(f"buffer {buffer} at offset {offset}: not a multiple of {alignment} B")
        if capacity is not None and offset + size > capacity:
            raise InvalidPlan(f"buffer {buffer} ends at {offset + size} B, capacity is {capacity} B")
    return sizes


def _changes(buffers: Buffers) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The buffers that become live at each step, and those that are no longer live from each step on."""
    starts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for buffer, (first, last) in enumerate(zip(buffers.first.tolist(), buffers.last.tolist(), strict=True)):
        if buffers.size[buffer]:
            starts.setdefault(first, []).append(buffer)
            ends.setdefault(last + 1, []).append(buffer)
    return starts, ends


def _sweep(
    starts: dict[int, list[int]], ends: dict[int, list[int]], offsets: Sequence[int], sizes: Sequence[int]
) -> None:
    live: list[tuple[int, int]] = []  # (address, buffer)
    for step in sorted({*starts, *ends}):
        for buffer in ends.get(step, ()):
            live.pop(bisect_left(live, (offsets[buffer], buffer)))
        for buffer in starts.get(step, ()):
            insort(live, (offsets[buffer], buffer))
            index = bisect_left(live, (offsets[buffer], buffer))
            for lower, upper in ((index - 1, index), (index, index + 1)):
                if lower < 0 or upper >= len(live):
                    continue
                below, above = live[lower][1], live[upper][1]
                if offsets[below] + sizes[below] > offsets[above]:
                    raise InvalidPlan(f"buffers {below} and {above} share bytes while op {step} runs")
