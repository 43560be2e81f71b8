"""The memory part of a report: the peak as it is, how low it could go, and TFLite Micro's arena."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

from sizeup.dtypes import DType
from sizeup.errors import Incomplete, InvalidPlan
from sizeup.graph import Graph
from sizeup.memory.schedule import best_order
from sizeup.memory.schedule_problem import problem_of
from sizeup.memory.tflm import MicroArena, arena
from sizeup.memory.usage import Usage, usage

# A report is asked for often and must say the same every time: a fixed effort, not a fixed time.
_MOST_OPS = 500
_MOST_STATES = 500
_REORDERABLE = ("onnx", "tflite")  # code runs in the order in which it is written


@dataclass(frozen=True, slots=True, repr=False)
class Overview:
    """What a run holds; the fields of the best order are None where none was looked for."""

    usage: Usage
    best_peak_bytes: int | None
    lower_bound_bytes: int | None
    status: str | None  # 'optimal' where no order goes below the best peak, otherwise 'feasible'
    arena: MicroArena | None  # for TFLite files at their own number types
    refused: str | None = None  # why TFLite Micro's interpreter does not take a TFLite file as it is
    word_bits: int = 32  # of the processor that the arena is for

    @property
    def peak_bytes(self) -> int | None:
        """The most bytes in use at once beside the weights; None where data decides."""
        return None if self.usage.unknown else self.usage.peak_bytes

    @property
    def arena_bytes(self) -> int | None:
        """The smallest arena that TFLite Micro accepts for the file; None for other formats or if unknown."""
        return None if self.arena is None else self.arena.arena_bytes(self.word_bits)

    def __repr__(self) -> str:
        figures = {"peak": self.peak_bytes, "best": self.best_peak_bytes, "arena": self.arena_bytes}
        known = [f"{name} {size:,} B" for name, size in figures.items() if size is not None]
        return f"<Memory: {', '.join(known) or self.usage.missing}>"


def overview(graph: Graph, precision: DType | None = None, word_bits: int = 32) -> Overview:
    """Look at a graph's memory with an effort that suits a report; `best_order` looks longer.

    `word_bits` is the word size of the processor, which TFLite Micro's arena depends on.
    """
    found = usage(graph, precision=precision, as_run=True)
    micro = as_shipped(graph) if precision is None else None
    refused = refusal_of(graph, micro)
    if graph.format not in _REORDERABLE or len(graph.ops) > _MOST_OPS or found.unknown:
        return Overview(found, None, None, None, micro, refused, word_bits)
    problem = problem_of(graph, precision=precision)
    best = best_order(problem, time_limit=math.inf, most_states=_MOST_STATES)
    return Overview(found, best.peak_bytes, best.lower_bound_bytes, best.status, micro, refused, word_bits)


def as_shipped(graph: Graph) -> MicroArena | None:
    """TFLite Micro's arena for a TFLite file as it is; None for other formats and where it cannot run."""
    if graph.format != "tflite":
        return None
    # A size that depends on data, or a plan for another number of tensors: the interpreter refuses either.
    with suppress(Incomplete, InvalidPlan):
        return arena(graph, offsets=graph.offsets or None, overlap=True)
    return None


def refusal_of(graph: Graph, shipped: MicroArena | None) -> str | None:
    """Why TFLite Micro's interpreter does not take a TFLite file; None where no reason is known."""
    if graph.format != "tflite":
        return None
    if shipped is not None:
        return shipped.refused
    try:
        return arena(graph, offsets=graph.offsets or None, overlap=True).refused
    except (Incomplete, InvalidPlan) as error:
        return str(error)
