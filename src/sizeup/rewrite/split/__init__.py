"""Executes segments of a model in strips, so that it needs a smaller arena."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.backends.tflm import Build
from sizeup.cost import count
from sizeup.errors import Incomplete
from sizeup.formats.tflite.restructure import restructured
from sizeup.graph import Graph, name_of
from sizeup.rewrite.split.closed_forms import Prices
from sizeup.rewrite.split.search import ArenaOf, Candidate, SplitSearch, search
from sizeup.rewrite.split.segments import AXES, strip_rules


@dataclass(frozen=True, slots=True)
class StripSegment:
    """Consecutive operators of the original file that run in strips of rows (or columns)."""

    first_op: int
    last_op: int
    first_name: str
    last_name: str
    axis: int  # 1: rows, 2: columns
    strip_rows: tuple[int, ...]  # of the last operator's output, per strip


@dataclass(frozen=True, slots=True)
class SplitModel:
    """A file whose segments run in strips, and what that costs."""

    content: bytes
    segments: tuple[StripSegment, ...]
    extra_macs: int
    added_ops: int
    status: str  # optimal over the splits searched, or feasible
    bound_bytes: int | None  # lower bound of the arena over the splits searched


def split_model(
    content: bytes,
    graph: Graph,
    build: Build,
    arena_of: ArenaOf,
    limit_bytes: int,
    *,
    overlap: bool,
    max_extra_macs: float,
    time_limit: float,
) -> SplitModel | str:
    """The file with the smallest arena below the limit, or the reason why there is none.

    `arena_of` returns the exact arena of a graph with its best plan, or None if it does not run.
    """
    if any(op.bodies for op in graph.ops) or graph.other_graphs:
        return "a file with several graphs is not executed in strips"
    try:
        prices = Prices(graph, build, overlap)
    except Incomplete as error:
        return str(error)
    max_macs = int(max_extra_macs * sum(prices.macs))
    result = search(graph, prices, arena_of, limit_bytes, max_macs, time_limit)
    if result.best is None:
        return _reason(graph, prices) or no_split(limit_bytes, is_proven=result.is_proven)
    return _model(content, graph, result, result.best)


def _model(content: bytes, graph: Graph, result: SplitSearch, best: Candidate) -> SplitModel:
    restructuring = best.restructuring(graph)
    segments = tuple(
        StripSegment(
            split.segment.first,
            split.segment.last,
            name_of(graph, graph.ops[split.segment.first]),
            name_of(graph, graph.ops[split.segment.last]),
            split.segment.axis,
            tuple(rows.size for rows in split.strips),
        )
        for split in sorted(best.splits, key=lambda split: split.segment.first)
    )
    return SplitModel(
        restructured(content, restructuring),
        segments,
        count(best.graph(graph)).total_macs - count(graph).total_macs,
        len(restructuring.ops) - len(graph.ops),
        "optimal" if result.is_proven else "feasible",
        result.bound_bytes,
    )


def no_split(limit_bytes: int, *, is_proven: bool = True) -> str:
    """That nothing needs less than the limit, or that nothing was found."""
    if is_proven:
        return f"no split needs less than {limit_bytes:,} B"
    return f"no split was found that needs less than {limit_bytes:,} B"


def _reason(graph: Graph, prices: Prices) -> str | None:
    """Why no segment in strips can need less: the operator that sets the peak cannot be split."""
    peak = max(range(len(prices.live)), key=lambda index: prices.live[index], default=None)
    if peak is None:
        return "it has no operators"
    reasons = [strip_rules(graph, axis)[peak] for axis in AXES]
    if all(isinstance(reason, str) for reason in reasons):
        return f"the operator that sets the peak cannot be split: {reasons[0]}"
    return None
