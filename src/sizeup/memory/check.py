"""The judge of every plan: it shares no code with whoever made it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sizeup.errors import InvalidPlan
from sizeup.graph import Graph
from sizeup.memory.liveness import Buffers


class Overlap(NamedTuple):
    """Leave for an output to share bytes with an input that nobody needs afterwards.

    The input must begin at least `distance` bytes behind the output (below zero: at most so many before it);
    where it is to be `in_place` they begin at one address.
    """

    source: int  # buffer of the input
    result: int  # buffer of the output
    distance: int
    in_place: bool = False


def check_order(graph: Graph, order: Sequence[int]) -> None:
    """Raise InvalidPlan unless the order runs every operator once, after what it reads was made."""
    if sorted(order) != list(range(len(graph.ops))):
        raise InvalidPlan(f"an order of {len(graph.ops)} operators must name each of them once")
    maker = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    done: set[int] = set()
    for index in order:
        for identity in graph.ops[index].inputs:
            if identity in maker and maker[identity] not in done:
                name, made_by = graph.tensors[identity].name, maker[identity]
                raise InvalidPlan(f"operator {index} runs before {made_by}, which makes its input {name!r}")
        done.add(index)


def check_offsets(
    buffers: Buffers, offsets: Sequence[int], *, capacity: int | None = None, alignment: int = 1
) -> None:
    """Raise InvalidPlan unless buffers in use at once share no byte, are aligned and within the capacity.

    Buffers are swept in the order of time; those in use are kept sorted by address, so that only
    neighbours need comparing.
    """
    sizes = _check_places(buffers, offsets, capacity, alignment)
    starts, ends = _turns(buffers)
    _sweep(starts, ends, offsets, sizes)


def check_overlapping(
    buffers: Buffers, offsets: Sequence[int], allowed: Iterable[Overlap], *, alignment: int = 1
) -> None:
    """Raise InvalidPlan unless buffers in use at once share bytes only where, and only as far as, allowed.

    All pairs that are in use at once are compared, for neighbours tell little where buffers may overlap.
    """
    _check_places(buffers, offsets, None, alignment)
    leaves = {(leave.source, leave.result): leave for leave in allowed}
    starts, ends = _turns(buffers)
    in_use: set[int] = set()
    for step in sorted({*starts, *ends}):
        in_use.difference_update(ends.get(step, ()))
        for buffer in starts.get(step, ()):
            for other in in_use:
                leave = leaves.get((other, buffer)) or leaves.get((buffer, other))
                _check_pair(buffers, offsets, buffer, other, leave)
            in_use.add(buffer)


def _check_pair(
    buffers: Buffers, offsets: Sequence[int], one: int, other: int, leave: Overlap | None
) -> None:
    lower, upper = sorted((one, other), key=lambda buffer: offsets[buffer])
    if offsets[lower] + int(buffers.size[lower]) <= offsets[upper]:
        return
    what = f"buffers {lower} and {upper} share bytes"
    if leave is None:
        raise InvalidPlan(f"{what} while both are in use")
    if buffers.last[leave.source] != buffers.first[leave.result]:
        raise InvalidPlan(f"{what}, but {leave.source} is needed after {leave.result} is made")
    behind = offsets[leave.source] - offsets[leave.result]
    if behind != 0 if leave.in_place else behind < leave.distance:
        raise InvalidPlan(
            f"{what}: {leave.source} begins {behind} behind {leave.result}, not {leave.distance}"
        )


def _check_places(
    buffers: Buffers, offsets: Sequence[int], capacity: int | None, alignment: int
) -> list[int]:
    if len(offsets) != len(buffers):
        raise InvalidPlan(f"{len(offsets)} offsets for {len(buffers)} buffers")
    sizes: list[int] = buffers.size.tolist()
    for buffer, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if offset < 0 or offset % alignment:
            raise InvalidPlan(f"buffer {buffer} at {offset}: not a multiple of {alignment}")
        if capacity is not None and offset + size > capacity:
            raise InvalidPlan(f"buffer {buffer} ends at {offset + size}, beyond the capacity of {capacity}")
    return sizes


def _turns(buffers: Buffers) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The buffers whose use begins with each step, and those whose use has ended by then."""
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
    in_use: list[tuple[int, int]] = []  # (address, buffer)
    for step in sorted({*starts, *ends}):
        for buffer in ends.get(step, ()):
            in_use.pop(bisect_left(in_use, (offsets[buffer], buffer)))
        for buffer in starts.get(step, ()):
            insort(in_use, (offsets[buffer], buffer))
            place = bisect_left(in_use, (offsets[buffer], buffer))
            for lower, upper in ((place - 1, place), (place, place + 1)):
                if lower < 0 or upper >= len(in_use):
                    continue
                below, above = in_use[lower][1], in_use[upper][1]
                if offsets[below] + sizes[below] > offsets[above]:
                    raise InvalidPlan(f"buffers {below} and {above} share bytes while operator {step} runs")
