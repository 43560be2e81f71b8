"""What setting a model up takes for a while: the tables of whoever plans the arena lie in the arena itself.

Facts of micro_allocator.cc, micro_allocation_info.cc and greedy_memory_planner.h of tensorflow/tflite-micro.
While the tail grows from the arena's end, requests for scratch are noted at its beginning, and behind them
lies what is needed for one step only: descriptions of the tensors of the operator that is being prepared,
and at last a row for every tensor, and for every buffer to be placed. Only then the head takes their place,
so a small model may need more for its setting up than for its runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sizeup.graph import ABSENT, Graph, Op
from sizeup.memory.tflm.kernels import KERNELS
from sizeup.memory.tflm.layout import ALIGNMENT, Build, Extent, extent, round_up
from sizeup.memory.tflm.tail import QUANTISATION, TENSOR, demand, tail_bytes

_REQUEST = "p2i"  # of scratch: bytes, operator, subgraph
_SPARE_REQUESTS = 12  # as many as one operator may add
_OFFSET = "p"  # where the rows of a subgraph begin
_ROW = "2p3ib"  # AllocationInfo, of every tensor and every request
_PLACED = "10i"  # what the planner keeps of a buffer: its size and time, and its place in three lists


def needed_bytes(
    graphs: Sequence[Graph],
    build: Build,
    head: int,
    buffers: int,
    offline: Collection[tuple[int, int]] = (),
) -> int:
    """The smallest arena, a multiple of 16, that a model with known kernels can be set up and run in.

    `head` and `buffers` are the size of its plan and the number of buffers in it. Descriptions are taken to
    be asked for once for every tensor of an operator, and as often as the table of kernels says.
    """
    running = head + tail_bytes(graphs, build, offline)
    planning = round_up(tail_bytes(graphs, build, offline, ends=False), ALIGNMENT)
    planning += _tables(graphs, build, buffers)
    return round_up(max(running, planning, _preparing(graphs, build)), ALIGNMENT)


def _tables(graphs: Sequence[Graph], build: Build, buffers: int) -> int:
    requests = sum(len(demand(graph, op, build).scratch) for graph in graphs for op in graph.ops)
    tensors = sum(len(graph.tensors) for graph in graphs)
    end = _behind(0, _REQUEST, requests + _SPARE_REQUESTS, build)
    end = _behind(end, _OFFSET, len(graphs), build)
    end = _behind(end, _ROW, tensors + requests, build)
    return round_up(end, ALIGNMENT) + buffers * extent(_PLACED, build).size


def _preparing(graphs: Sequence[Graph], build: Build) -> int:
    """The most in use while a kernel is prepared: the tail so far, and descriptions of its tensors."""
    most, requests = 0, 0
    used = tail_bytes(graphs, build, prepared=False)
    for graph in graphs:
        for op in graph.ops:
            asked = demand(graph, op, build)
            used += sum(round_up(size, ALIGNMENT) for size in asked.persistent)
            end = _behind(0, _REQUEST, requests + _SPARE_REQUESTS, build)
            most = max(most, used + _descriptions(graph, op, end, build))
            requests += len(asked.scratch)
    return most


def _descriptions(graph: Graph, op: Op, end: int, build: Build) -> int:
    # Slices: a kernel asks for nothing about a tensor that a damaged file does not list.
    places = KERNELS[op.source].again
    again = [each for place in places for each in (op.outputs[:1] if place < 0 else op.inputs[place:][:1])]
    for identity in (*op.inputs, *op.outputs, *again):
        if identity == ABSENT:
            continue
        end = _behind(end, TENSOR, 1, build)
        quant = graph.tensors[identity].quant
        if quant is not None:
            end = _behind(end, QUANTISATION, 1, build)
            end = round_up(end, 4) + 4 + 4 * quant.scale.size
    return end


def _behind(end: int, fields: str, count: int, build: Build) -> int:
    """Where an array ends that begins behind what is there."""
    found: Extent = extent(fields, build)
    return round_up(end, found.alignment) + count * found.size
