"""What a run holds in memory, operator by operator, and which tensors set the peak."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory.liveness import Buffers, Column, lifetimes


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor that is in memory at the peak, with the bytes of its buffer."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory beside the weights, in the order in which the graph runs."""

    buffers: Buffers
    live_bytes: Column  # while each operator runs
    peak_bytes: int
    peak_op: int | None  # the first operator at which the peak is reached
    held: tuple[Held, ...]  # then, largest first
    unknown: int  # tensors whose size only data decides, and which are missing from all of this


def usage(graph: Graph, *, precision: DType | None = None) -> Usage:
    """Live bytes of every operator, views sharing the bytes that they show."""
    buffers = lifetimes(graph, precision=precision)
    live = buffers.live_bytes()
    peak_op = int(live.argmax()) if len(live) else None
    peak = 0 if peak_op is None else int(live[peak_op])
    at_peak = [] if peak_op is None else buffers.live_at(peak_op)
    held = tuple(
        Held(graph.tensors[buffers.tensors[each][0]].name, int(buffers.size[each])) for each in at_peak
    )
    unknown = sum(tensor.shape is None and tensor.data is None for tensor in graph.tensors)
    return Usage(buffers, live, peak, peak_op, held, unknown)
