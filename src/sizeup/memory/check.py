"""The judge of every plan: it shares no code with whoever made it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from sizeup.errors import InvalidPlan
from sizeup.graph import Graph
from sizeup.memory.liveness import Buffers


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
    if len(offsets) != len(buffers):
        raise InvalidPlan(f"{len(offsets)} offsets for {len(buffers)} buffers")
    sizes = buffers.size.tolist()
    for buffer, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if offset < 0 or offset % alignment:
            raise InvalidPlan(f"buffer {buffer} at {offset}: not a multiple of {alignment}")
        if capacity is not None and offset + size > capacity:
            raise InvalidPlan(f"buffer {buffer} ends at {offset + size}, beyond the capacity of {capacity}")
    starts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for buffer, (first, last) in enumerate(zip(buffers.first.tolist(), buffers.last.tolist(), strict=True)):
        if sizes[buffer]:
            starts.setdefault(first, []).append(buffer)
            ends.setdefault(last + 1, []).append(buffer)
    _sweep(starts, ends, offsets, sizes)


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
