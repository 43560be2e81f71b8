"""Segments of a graph that can be executed in strips: consecutive operators with one result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizeup.graph import ABSENT, Graph, Op
from sizeup.rewrite.split.row_rules import Rows, StripRule, strip_rule

AXES = (1, 2)  # height and width
_MAX_OPS = 100  # of a segment; longer ones add too many MACs


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators `first` to `last` of the schedule; only the output of the last one is used after them."""

    first: int
    last: int
    axis: int
    rules: tuple[StripRule, ...]
    rows: int  # of the output along the axis

    def equal_strips(self, strips: int) -> tuple[Rows, ...]:
        """The rows of each strip of the output; their numbers differ by at most one."""
        edges = [self.rows * number // strips for number in range(strips + 1)]
        return tuple(map(Rows, edges, edges[1:]))


def strip_rules(graph: Graph, axis: int) -> list[StripRule | str]:
    """Per operator, how it is executed in strips, or the reason why it cannot be."""
    return [strip_rule(graph, op, axis) for op in graph.ops]


def segments(graph: Graph, axis: int, rules: Sequence[StripRule | str]) -> Iterator[Segment]:
    """All segments along an axis."""
    last_use = _last_uses(graph)
    producer = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    for first in range(len(graph.ops)):
        latest: float = first
        for last in range(first, min(first + _MAX_OPS, len(graph.ops))):
            rule = rules[last]
            if isinstance(rule, str) or any(
                producer.get(identity, -1) >= first for identity in _read_whole(graph.ops[last], rule)
            ):
                break
            output = graph.ops[last].outputs[0]
            if output not in last_use:
                break
            # All results before the last one are used up.
            if latest <= last:
                shape = graph.tensors[output].shape or ()
                chosen = tuple(rule for rule in rules[first : last + 1] if isinstance(rule, StripRule))
                yield Segment(first, last, axis, chosen, shape[axis])
            latest = max(latest, last_use[output])
            if math.isinf(latest):
                break


def _read_whole(op: Op, rule: StripRule) -> list[int]:
    """The inputs of which every strip reads all rows, so that none of them is computed in strips."""
    return [identity for position, identity in enumerate(op.inputs) if position not in rule.sliced]


def _last_uses(graph: Graph) -> dict[int, float]:
    uses: dict[int, float] = {}
    for index, op in enumerate(graph.ops):
        for identity in op.inputs:
            if identity != ABSENT:
                uses[identity] = index
    return uses | dict.fromkeys(graph.outputs, math.inf)


def entries(graph: Graph, segment: Segment) -> set[int]:
    """The tensors that a segment reads and does not produce."""
    ops = graph.ops[segment.first : segment.last + 1]
    read = {identity for op in ops for identity in op.inputs if identity != ABSENT}
    return read - {op.outputs[0] for op in ops}
