"""Searches the segments to execute in strips, and their numbers of strips, with the smallest arena.

Lower bounds come first: the arena head while a segment runs does not depend on other segments, and each adds
its own operators to the arena tail. For a limit of the head, the segments that add least to the tail are a
shortest path over the operators. Candidates are planned exactly in the order of their bounds, until no bound
is below the best arena.
"""

from __future__ import annotations

import itertools
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from sizeup.formats.tflite.restructure import Restructuring
from sizeup.graph import Graph
from sizeup.rewrite.split.assembly import assemble, restructured_graph
from sizeup.rewrite.split.closed_forms import Price, Prices
from sizeup.rewrite.split.program import Program, program
from sizeup.rewrite.split.row_rules import Rows
from sizeup.rewrite.split.segments import AXES, Segment, segments, strip_rules

MAX_STRIPS = 40
_COARSE = (2, 3, 4, 6, 8, 12, 16, 24)
_COARSE_PLANNED = 3
_SHIFTED = 12  # candidates whose strips are tried with different heights
_MAX_SHIFTED = 6  # inner edges that are moved one by one
_BOUND_SHARE = 4  # of the time limit, to bound candidates before any is planned
_CLOCK = 16  # segments per look at the clock, which is slow on some systems
_STEP = 64  # bytes
_EDGES = 256  # positions of an edge that are tried between strips of different height
_SLACK = 32  # bytes of alignment in the tail that the closed form does not know


class Split(NamedTuple):
    """A segment in strips."""

    segment: Segment
    strips: tuple[Rows, ...]  # of the output of the segment
    price: Price
    slices_first: bool = False  # all inputs are sliced before the first strip

    def program(self, graph: Graph) -> Program:
        """The program of this split."""
        steps = program(graph, self.segment, self.strips)
        assert steps is not None  # it has a price
        return steps.with_slices_first() if self.slices_first else steps


class Candidate(NamedTuple):
    """Splits of segments that do not overlap, with a lower bound of the arena."""

    bound_bytes: int
    splits: tuple[Split, ...]

    @property
    def macs(self) -> int:
        """The MACs that all splits add."""
        return sum(split.price.macs for split in self.splits)

    def graph(self, graph: Graph) -> Graph:
        """The graph with these splits."""
        return restructured_graph(graph, self.restructuring(graph))

    def restructuring(self, graph: Graph) -> Restructuring:
        """The tensors and operators of the graph with these splits."""
        return assemble(graph, [split.program(graph) for split in self.splits])


class PlannedArena(NamedTuple):
    """The arena of a graph with its best memory plan, and whether no plan needs less."""

    arena_bytes: int
    is_proven: bool


ArenaOf: TypeAlias = Callable[[Graph], "PlannedArena | None"]


class SplitSearch(NamedTuple):
    """The best candidate and its exact arena, if it is below the limit, and whether that is proven."""

    best: Candidate | None
    arena_bytes: int | None
    bound_bytes: int | None  # of all candidates; None if there are none
    is_proven: bool


def find_segments(graph: Graph) -> Iterator[Segment]:
    """All segments, each along the longer axis of its output."""
    for axis in AXES:
        for segment in segments(graph, axis, strip_rules(graph, axis)):
            shape = graph.tensors[graph.ops[segment.last].outputs[0]].shape or ()
            if axis == (1 if shape[1] >= shape[2] else 2):
                yield segment


def find_splits(
    graph: Graph,
    prices: Prices,
    limit_bytes: int,
    max_macs: int,
    counts: Sequence[int],
    deadline: float = math.inf,
) -> tuple[list[Split], bool]:
    """The splits of single segments that may have an arena below the limit, and whether all were tried.

    More strips are tried, in the order of `counts`, until they add too many MACs or too much to the tail.
    """
    spare = limit_bytes - prices.tail + _SLACK
    now = time.process_time()
    possible, is_complete = [], True
    for number, segment in enumerate(find_segments(graph)):
        if number % _CLOCK == 0 and time.process_time() > now + (deadline - now) / 2:
            is_complete = False
            break
        if prices.least_head(segment) < spare:
            possible.append(segment)
    floor = head_floor(prices, possible) if is_complete else 0
    splits: list[Split] = []
    for number, segment in enumerate(possible):
        if number % _CLOCK == 0 and time.process_time() > deadline:
            return splits, False
        if max(prices.live[segment.first : segment.last + 1]) > floor:
            splits += _splits(graph, prices, segment, spare, floor, max_macs, counts)
    return splits, is_complete


def head_floor(prices: Prices, possible: Sequence[Segment]) -> int:
    """A lower bound of the head of every candidate: that of operators that no segment contains."""
    is_covered = [False] * len(prices.live)
    for segment in possible:
        is_covered[segment.first : segment.last + 1] = [True] * (segment.last + 1 - segment.first)
    return max(
        (live for live, covered in zip(prices.live, is_covered, strict=True) if not covered), default=0
    )


def _splits(
    graph: Graph,
    prices: Prices,
    segment: Segment,
    spare: int,
    floor: int,
    max_macs: int,
    counts: Sequence[int],
) -> Iterator[Split]:
    own_tail = sum(prices.operators[segment.first : segment.last + 1])
    least = max(floor, prices.least_head(segment))
    best_head = max(prices.live[segment.first : segment.last + 1])
    for count in counts:
        if count > segment.rows or least + (count - 1) * own_tail >= spare:
            return
        split = _split(graph, prices, segment, segment.equal_strips(count), max_macs)
        if split is None:
            return
        price = split.price
        if price.head_bytes < best_head and max(floor, price.head_bytes) + price.tail_bytes < spare:
            best_head = price.head_bytes
            yield split


def _split(
    graph: Graph, prices: Prices, segment: Segment, strips: tuple[Rows, ...], max_macs: int
) -> Split | None:
    """The split with its price; None if it adds too many MACs, or if a strip consists of padding."""
    macs = prices.extra_macs(segment, strips)
    steps = program(graph, segment, strips) if macs is not None and macs <= max_macs else None
    if steps is None or macs is None:
        return None
    price, other = (prices.price(each, macs) for each in (steps, steps.with_slices_first()))
    is_less = other.head_bytes < price.head_bytes
    return Split(segment, strips, other if is_less else price, is_less)


class _Label(NamedTuple):
    """A way to execute the operators before a position."""

    tail: int
    macs: int
    head: int
    splits: tuple[Split, ...]


def candidates(
    prices: Prices, splits: Sequence[Split], limit_bytes: int, max_macs: int, deadline: float = math.inf
) -> list[Candidate]:
    """Candidates below the limit by their bounds, lowest first: single splits and best combinations."""
    by_start: dict[int, dict[Segment, list[Split]]] = {}
    for split in splits:
        by_start.setdefault(split.segment.first, {}).setdefault(split.segment, []).append(split)
    ranked = {}
    heads = sorted({*(split.price.head_bytes for split in splits), *prices.live})
    floor = head_floor(prices, [split.segment for split in splits])
    least = math.inf
    for head in heads:
        if head < floor:
            continue
        if head + prices.tail >= min(limit_bytes + _SLACK, least) or time.process_time() > deadline:
            break
        label = _shortest(prices, by_start, head, max_macs)
        if label is not None and label.splits:
            shared = sum(split.price.shared_bytes for split in label.splits[1:])
            candidate = Candidate(label.head + prices.tail + label.tail - shared, label.splits)
            ranked[candidate.splits] = candidate
            least = min(least, candidate.bound_bytes + _SLACK)
    for split in splits:
        outside = max(
            (*prices.live[: split.segment.first], *prices.live[split.segment.last + 1 :]), default=0
        )
        bound = max(outside, split.price.head_bytes) + prices.tail + split.price.tail_bytes
        ranked[split,] = Candidate(bound, (split,))
    below = [candidate for candidate in ranked.values() if candidate.bound_bytes < limit_bytes + _SLACK]
    return sorted(below, key=lambda candidate: (candidate.bound_bytes, candidate.macs, len(candidate.splits)))


def _shortest(
    prices: Prices, by_start: dict[int, dict[Segment, list[Split]]], head: int, max_macs: int
) -> _Label | None:
    """The splits with the least tail whose head is at most `head`; None if there are none."""
    count = len(prices.live)
    labels: list[list[_Label]] = [[] for _ in range(count + 1)]
    labels[0] = [_Label(0, 0, 0, ())]
    for position in range(count):
        here = labels[position] = _undominated(labels[position])
        if not here:
            continue
        live = prices.live[position]
        if live <= head:
            labels[position + 1] += [label._replace(head=max(label.head, live)) for label in here]
        for options in by_start.get(position, {}).values():
            split = next((split for split in options if split.price.head_bytes <= head), None)
            if split is None:
                continue
            labels[split.segment.last + 1] += [
                _Label(
                    label.tail + split.price.tail_bytes,
                    label.macs + split.price.macs,
                    max(label.head, split.price.head_bytes),
                    (*label.splits, split),
                )
                for label in here
                if label.macs + split.price.macs <= max_macs
            ]
    return min(labels[count], key=lambda label: (label.tail, label.macs), default=None)


def _undominated(labels: list[_Label]) -> list[_Label]:
    """The labels of which none has both less tail and fewer MACs."""
    kept: list[_Label] = []
    for label in sorted(labels, key=lambda label: (label.tail, label.macs)):
        if not kept or label.macs < kept[-1].macs:
            kept.append(label)
    return kept


def search(
    graph: Graph,
    prices: Prices,
    arena_of: ArenaOf,
    limit_bytes: int,
    max_macs: int,
    time_limit: float,
) -> SplitSearch:
    """The candidate with the smallest exact arena below the limit, as `arena_of` returns it.

    A few numbers of strips come first: their best arena is the limit for all others. `time_limit` is in
    seconds of processor time, so that the result does not depend on the load of the machine.
    """
    best, least, bound, is_proven = None, limit_bytes, None, True
    unproven: list[int] = []  # bounds of candidates that a better memory plan may reach
    for counts in (_COARSE, range(2, MAX_STRIPS + 1)):
        deadline = time.process_time() + _BOUND_SHARE * time_limit
        splits, is_complete = find_splits(graph, prices, least, max_macs, counts, deadline)
        ranked = candidates(prices, splits, least, max_macs, deadline)
        if counts is not _COARSE:
            ranked = _with_shifted_edges(graph, prices, ranked, splits, least, max_macs, deadline)
            bound = ranked[0].bound_bytes if ranked else None
            is_proven = is_complete and time.process_time() <= deadline
        else:
            ranked = ranked[:_COARSE_PLANNED]
        deadline = time.process_time() + time_limit
        for candidate in ranked:
            if candidate.bound_bytes - _SLACK >= least:
                break
            if best is not None and time.process_time() > deadline:
                is_proven = False
                break
            planned = arena_of(candidate.graph(graph))
            if planned is not None and planned.arena_bytes < least:
                best, least = candidate, planned.arena_bytes
            if planned is not None and not planned.is_proven:
                unproven.append(candidate.bound_bytes - _SLACK)
    # Per limit of the head, only the best combination is planned; others have a bound that is not lower.
    combined = [candidate.bound_bytes + _SLACK for candidate in ranked if len(candidate.splits) > 1]
    is_proven &= min((*unproven, *combined), default=least) >= least
    return SplitSearch(best, None if best is None else least, bound, is_proven)


def _with_shifted_edges(
    graph: Graph,
    prices: Prices,
    ranked: list[Candidate],
    splits: list[Split],
    limit_bytes: int,
    max_macs: int,
    deadline: float,
) -> list[Candidate]:
    """The candidates, and those with strips of different height in the segments of the best ones."""
    promising = dict.fromkeys(split for candidate in ranked[:_SHIFTED] for split in candidate.splits)
    shifted = []
    keys = dict.fromkeys((split.segment, len(split.strips), split.slices_first) for split in promising)
    for segment, count, slices_first in keys:
        if time.process_time() > deadline:
            break
        variants = dict.fromkeys(_shifted(segment.equal_strips(count)))
        for number in (count - 1, count):
            strips = balanced_strips(prices, segment, number, slices_first) if number > 1 else None
            variants |= {} if strips is None else dict.fromkeys((strips, *_shifted(strips)))
        splits_of = [_split(graph, prices, segment, strips, max_macs) for strips in variants]
        shifted += [split for split in splits_of if split is not None]
    by_head = sorted({*splits, *shifted}, key=lambda split: (split.price.tail_bytes, split.price.head_bytes))
    return candidates(prices, by_head, limit_bytes, max_macs, deadline)


def _shifted(strips: tuple[Rows, ...]) -> Iterator[tuple[Rows, ...]]:
    """The strips with all inner edges, or one of them, moved by a row."""
    edges = [rows.start for rows in strips[1:]]
    whole = [True] * len(edges)
    single = [[other == edge for other in edges] for edge in edges] if len(edges) < _MAX_SHIFTED else []
    for moved in (whole, *single):
        for step in (-1, 1):
            inner = [edge + step * is_moved for edge, is_moved in zip(edges, moved, strict=True)]
            outer = [0, *inner, strips[-1].stop]
            if all(start < stop for start, stop in itertools.pairwise(outer)):
                yield tuple(map(Rows, outer, outer[1:]))


def balanced_strips(
    prices: Prices, segment: Segment, count: int, slices_first: bool
) -> tuple[Rows, ...] | None:
    """At most `count` strips, of different height, with the lowest head; None if there are none.

    The first and the last strip need less around them, and later ones run after earlier results.
    """
    heads: dict[Rows, float] = {}
    step = -(-segment.rows // _EDGES)

    def head(rows: Rows) -> float:
        if rows not in heads:
            heads[rows] = prices.strip_head(segment, rows, slices_first=slices_first)
        return heads[rows]

    def strips(limit: float) -> tuple[Rows, ...] | None:
        """As few strips as possible within a head, each as high as possible; None if that is too many."""
        edges = [0]
        while edges[-1] < segment.rows and len(edges) <= count:
            start = edges[-1]
            stops = [*range(start + step, segment.rows, step), segment.rows]
            fitting = bisect_right(stops, limit, key=lambda stop: head(Rows(start, stop)))
            if not fitting:
                return None
            edges.append(stops[fitting - 1])
        return tuple(map(Rows, edges, edges[1:])) if edges[-1] == segment.rows else None

    low, high = 0, max(int(head(rows)) for rows in segment.equal_strips(count))
    best = None
    while high - low > _STEP:
        middle = (low + high) // 2
        within = strips(middle)
        best, low, high = (best, middle, high) if within is None else (within, low, middle)
    return best
