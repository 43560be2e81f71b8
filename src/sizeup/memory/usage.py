"""What a run holds in memory, operator by operator, and which tensors set the peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph
from sizeup.memory.kernels import unmodelled
from sizeup.memory.live import LiveTensor, live_tensor
from sizeup.memory.liveness import Buffers, Column, lifetimes, size_is_known
from sizeup.memory.run import lifetimes_as_run


@dataclass(frozen=True, slots=True)
class Shares:
    """The live bytes of every operator in four parts, which add up to them."""

    inputs: Column  # what it reads
    outputs: Column  # what it makes, where that is not what it reads under another name
    others: Column  # what waits for a later operator
    workspaces: Column  # what its kernel takes beside all that


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory beside the weights, in the order in which the graph runs."""

    buffers: Buffers
    live_bytes: Column  # while each operator runs
    peak_bytes: int
    peak_op: int | None  # the first operator at which the peak is reached
    held: tuple[LiveTensor, ...]  # then, largest first
    unknown: int  # tensors whose size only data decides, and which are missing from all of this
    unmodelled: tuple[str, ...] = ()  # operators by name that take more inside: the peak is at least as high

    @property
    def missing(self) -> str:
        """Why the peak is not known; empty where it is."""
        if not self.unknown:
            return ""
        if self.unknown == 1:
            return "the size of 1 tensor depends on data"
        return f"the sizes of {self.unknown:,} tensors depend on data"


def usage(graph: Graph, *, precision: DType | None = None, as_run: bool = False) -> Usage:
    """Live bytes of every operator, views sharing the bytes that they show.

    With `as_run`, a graph that was recorded from a run holds what that run held, for as long as it did.
    """
    beyond: tuple[str, ...] = ()
    if as_run and graph.run is not None:
        buffers = lifetimes_as_run(graph, graph.run, precision)
        beyond = unmodelled(graph, graph.run)
    else:
        buffers = lifetimes(graph, precision=precision)
    live = buffers.live_bytes()
    peak_op = int(live.argmax()) if len(live) else None
    at_peak = buffers.live_at(peak_op or 0)  # without operators, the inputs are live all the same
    peak = sum(int(buffers.size[each]) for each in at_peak)
    inputs = frozenset(graph.inputs)
    held = tuple(live_tensor(graph, buffers, each, inputs) for each in at_peak)
    unknown = sum(tensor.data is None and not size_is_known(tensor) for tensor in graph.tensors)
    return Usage(buffers, live, peak, peak_op, held, unknown, beyond)


def shares(graph: Graph, buffers: Buffers) -> Shares:
    """What of the memory in use each operator reads and makes; the buffers are those of the graph's order."""
    inputs, outputs, workspaces = (np.zeros(buffers.steps, np.int64) for _ in range(3))
    place, size = buffers.of_tensor, buffers.size.tolist()
    for step, op in enumerate(graph.ops):
        read = {place[identity] for identity in op.inputs if identity != ABSENT} - {-1}
        made = {place[identity] for identity in op.outputs} - read - {-1}
        inputs[step] = sum(size[buffer] for buffer in read)
        outputs[step] = sum(size[buffer] for buffer in made)
    for buffer, tensors in enumerate(buffers.tensors):
        if not tensors:
            workspaces[buffers.first[buffer] : buffers.last[buffer] + 1] += size[buffer]
    return Shares(inputs, outputs, buffers.live_bytes() - inputs - outputs - workspaces, workspaces)
