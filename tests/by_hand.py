"""Memory counted the plain way, from the definition: the judge of plans and pictures, without their code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from sizeup.graph import Graph


class Span(NamedTuple):
    """A tensor that is no constant: its bytes, and the first and last step at which it must be there."""

    bytes: int
    first: int
    last: int


def spans(graph: Graph, order: Sequence[int] | None = None) -> dict[int, Span]:
    """Every tensor of a graph without views: from its making, or the start, to its last use, or the end."""
    steps = [graph.ops[index] for index in (order if order is not None else range(len(graph.ops)))]
    found = {}
    for identity, tensor in enumerate(graph.tensors):
        if tensor.data is not None:
            continue
        made = [step for step, op in enumerate(steps) if identity in op.outputs]
        used = [step for step, op in enumerate(steps) if identity in op.inputs]
        first = 0 if identity in graph.inputs else made[0]
        last = len(steps) - 1 if identity in graph.outputs else max([first, *used])
        elements = 1
        for size in tensor.shape or ():
            elements *= size
        half_bytes = {"int4": 1, "int8": 2, "float32": 8}[tensor.dtype.name]
        found[identity] = Span((elements * half_bytes + 1) // 2, first, last)
    return found


def in_use(graph: Graph, order: Sequence[int] | None = None) -> list[int]:
    """Bytes that must be there while each operator runs."""
    found = spans(graph, order).values()
    return [
        sum(each.bytes for each in found if each.first <= step <= each.last) for step in range(len(graph.ops))
    ]


def clashes(graph: Graph, order: Sequence[int], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of tensors that must be there at once and share a byte; every pair is looked at."""
    found = spans(graph, order)
    return [
        (one, other)
        for one, other in combinations(found, 2)
        if found[one].first <= found[other].last
        and found[other].first <= found[one].last
        and offsets[one] < offsets[other] + found[other].bytes
        and offsets[other] < offsets[one] + found[one].bytes
    ]
