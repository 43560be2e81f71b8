"""Validates schedules and memory plans, independently of the code that computes them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
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
    """Raise InvalidPlan if buffers that are live at once share bytes beyond the allowed overlaps."""
    _check_bounds(buffers, offsets, None, alignment)
    shared = shared_bytes(buffers, offsets, allowed)
    if shared is not None:
        raise InvalidPlan(shared.text)


class SharedBytes(NamedTuple):
    """Two buffers that are live at once and share bytes that they must not share."""

    pair: tuple[int, int]
    text: str


def shared_bytes(buffers: Buffers, offsets: Sequence[int], allowed: Iterable[Overlap]) -> SharedBytes | None:
    """The first two buffers that share bytes beyond the allowed overlaps; None if there are none.

    With overlaps, comparing neighbors is not enough: the live buffers that share bytes are counted instead,
    and compared with the allowed ones.
    """
    permitted: dict[int, dict[int, Overlap]] = {}
    for overlap in allowed:
        permitted.setdefault(overlap.source, {})[overlap.result] = overlap
        permitted.setdefault(overlap.result, {}).setdefault(overlap.source, overlap)
    ranges = AddressRanges()
    live: set[int] = set()
    for added, removed in live_changes(buffers):
        for buffer in removed:
            ranges.remove(*_range(buffers, offsets, buffer))
        live.difference_update(removed)
        for buffer in added:
            partners = permitted.get(buffer, {})
            overlapping = [
                (pair, partners[other])
                for other in partners.keys() & live
                if (pair := _pair(buffers, offsets, buffer, other)) is not None
            ]
            for pair, overlap in overlapping:
                text = _violation(buffers, offsets, overlap)
                if text:
                    return SharedBytes(pair, f"buffers {pair[0]} and {pair[1]} share bytes{text}")
            if ranges.count(*_range(buffers, offsets, buffer)) > len(overlapping):
                pairs = (_pair(buffers, offsets, buffer, other) for other in sorted(live - partners.keys()))
                pair = next(pair for pair in pairs if pair is not None)
                return SharedBytes(pair, f"buffers {pair[0]} and {pair[1]} share bytes while both are live")
            ranges.add(*_range(buffers, offsets, buffer))
            live.add(buffer)
    return None


def _range(buffers: Buffers, offsets: Sequence[int], buffer: int) -> tuple[int, int]:
    return offsets[buffer], offsets[buffer] + int(buffers.size[buffer])


def _pair(buffers: Buffers, offsets: Sequence[int], one: int, other: int) -> tuple[int, int] | None:
    """The buffers in the order of their offsets; None if they share no bytes."""
    lower, upper = sorted((one, other), key=lambda buffer: offsets[buffer])
    return None if _range(buffers, offsets, lower)[1] <= offsets[upper] else (lower, upper)


def _violation(buffers: Buffers, offsets: Sequence[int], overlap: Overlap) -> str:
    """Why two buffers overlap in another way than they may; empty if they do not."""
    if buffers.last[overlap.source] != buffers.first[overlap.result]:
        return f", but buffer {overlap.source} is used after buffer {overlap.result} is written"
    distance = offsets[overlap.source] - offsets[overlap.result]
    if distance != 0 if overlap.in_place else distance < overlap.distance:
        return (
            f": buffer {overlap.source} starts {distance} B after buffer {overlap.result},"
            f" {overlap.distance} B required"
        )
    return ""


class AddressRanges:
    """Address ranges, none of them empty, that may overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add a range."""
        insort(self._starts, start)
        insort(self._ends, end)

    def remove(self, start: int, end: int) -> None:
        """Remove a range that was added."""
        self._starts.pop(bisect_left(self._starts, start))
        self._ends.pop(bisect_left(self._ends, end))

    def count(self, start: int, end: int) -> int:
        """How many ranges share an address with this one."""
        return bisect_left(self._starts, end) - bisect_right(self._ends, start)


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


def live_changes(buffers: Buffers) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """The buffers that become live, and those that are no longer live, in the order of the steps."""
    starts, ends = _changes(buffers)
    for step in sorted({*starts, *ends}):
        yield starts.get(step, ()), ends.get(step, ())


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
