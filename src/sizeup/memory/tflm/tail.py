"""The tail: what the interpreter keeps for good, in the order in which it asks for it.

The tail grows downward from the arena's end, which is taken to be a multiple of 16 as a buffer declared
`alignas(16)` has it; an end that is not shifts the sum by up to 15 bytes.

Setting a model up takes more for a while, because the tables of whoever plans the arena lie in the arena
itself (micro_allocator.cc, micro_allocation_info.cc, greedy_memory_planner.h of tensorflow/tflite-micro).
While the tail grows from the arena's end, requests for scratch are noted at its beginning, and behind them
lies what is needed for one step only: descriptions of the tensors of the operator that is being prepared,
and at last a row for every tensor, and for every buffer to be placed. Only then the head takes their place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sizeup.errors import Incomplete
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.memory.tflm.kernels import EVAL_TENSOR, KERNELS, Call, Demand
from sizeup.memory.tflm.layout import ALIGNMENT, Build, Extent, extent, round_up
from sizeup.memory.tflm.program import exact_bytes, variable_bytes

_ARENA = "2p5ppi"  # SingleArenaBufferAllocator: two tables of virtual functions, five addresses, two checks
_RECORDED_ARENA = "2p5ppi4p"
_PLANNER = "p2i4p2ipb"  # GreedyMemoryPlanner
_ALLOCATOR = "p4pb3p"  # MicroAllocator
_RECORDED_ALLOCATOR = "p4pb3pp21p|3p"  # seven kinds of allocations, each by bytes asked, used, and number
_OPTIONS_ALLOCATOR = "2p"
_SUBGRAPH = "2p|p"
_NODE = "6pip"  # TfLiteNode and the pointer to its kernel
_TENSOR = "ipii3p2ib"  # TfLiteTensor, for inputs and outputs only
_QUANTISATION = "2pi"
_VARIABLES = "p2i"  # MicroResourceVariables
_VARIABLE = "i4p"
_REQUEST = "p2i"  # of scratch: bytes, operator, subgraph
_SPARE_REQUESTS = 12  # as many as one operator may add
_OFFSET = "p"  # where the rows of a subgraph begin
_ROW = "2p3ib"  # AllocationInfo, of every tensor and every request
_PLACED = "10i"  # what the planner keeps of a buffer: its size and time, and its place in three lists


def demand(graph: Graph, op: Op, build: Build) -> Demand:
    """What an operator's kernel asks for when it is prepared; nothing where the kernel is not known.

    Raises Incomplete if the operator has tensors that no such kernel takes.
    """
    kernel = KERNELS.get(op.source)
    if kernel is None or kernel.prepare is None:
        return Demand()
    try:
        asked = kernel.prepare(Call(op, graph.tensors, build))
    except (LookupError, ValueError):  # fewer dimensions than the kernel reads
        asked = None
    if asked is None or min((*asked.persistent, *asked.scratch), default=0) < 0:
        raise Incomplete(
            f"{op.source} {op.name!r}: the kernel of TFLite Micro takes no tensors of these shapes"
        )
    return asked


def tail_bytes(
    graphs: Sequence[Graph],
    build: Build,
    offline: Collection[tuple[int, int]] = (),
    *,
    prepared: bool = True,
    ends: bool = True,
) -> int:
    """Bytes of the tail of a model all of whose kernels are known.

    `offline` are tensors, as pairs of subgraph and tensor, that an offline plan puts into the head. Without
    `ends` it is the tail before inputs and outputs are described, which comes last; without `prepared` that
    before the first kernel is prepared.
    """
    used = 0
    for size, alignment in _allocations(graphs, build, offline, prepared=prepared, ends=prepared and ends):
        used = round_up(used + size, alignment)
    return used


def _allocations(
    graphs: Sequence[Graph],
    build: Build,
    offline: Collection[tuple[int, int]],
    *,
    prepared: bool,
    ends: bool,
) -> Iterator[Extent]:
    yield from _interpreter(build)
    yield from _resource_table(graphs, build)
    yield from _model(graphs, build)
    yield from _kernels(graphs, build, prepared=prepared)
    if prepared:
        yield from _variables(graphs, offline)
    for identities in (graphs[0].inputs, graphs[0].outputs) if ends else ():
        yield from _ends([graphs[0].tensors[identity] for identity in identities], build)


def _interpreter(build: Build) -> Iterator[Extent]:
    yield extent(_RECORDED_ARENA if build.recorder else _ARENA, build)
    yield extent(_PLANNER, build)
    yield extent(_RECORDED_ALLOCATOR if build.recorder else _ALLOCATOR, build)


def _model(graphs: Sequence[Graph], build: Build) -> Iterator[Extent]:
    yield extent(_OPTIONS_ALLOCATOR, build)
    yield _array(_SUBGRAPH, len(graphs), build)
    for graph in graphs:
        yield _array(EVAL_TENSOR, len(graph.tensors), build)
    for graph in graphs:
        yield _array(_NODE, len(graph.ops), build)
    for graph in graphs:
        for op in graph.ops:
            yield extent(KERNELS[op.source].options, build)


def _kernels(graphs: Sequence[Graph], build: Build, *, prepared: bool) -> Iterator[Extent]:
    handles = 0
    assigned: set[object] = set()
    for graph in graphs:
        for op in graph.ops:
            yield _requested(extent(KERNELS[op.source].data, build).size)
            if not prepared:
                continue
            asked = demand(graph, op, build)
            handles += len(asked.scratch)
            yield from map(_requested, asked.persistent)
        for name, size in _assignments(graph) if prepared else ():
            if name not in assigned:
                assigned.add(name)
                yield _requested(size)
    yield _array("p", handles, build)


def _variables(graphs: Sequence[Graph], offline: Collection[tuple[int, int]]) -> Iterator[Extent]:
    for number, graph in enumerate(graphs):
        for identity, size in variable_bytes(graph).items():
            if (number, identity) not in offline:
                yield _requested(size)


def _ends(tensors: Sequence[Tensor], build: Build) -> Iterator[Extent]:
    """Inputs or outputs: an array of pointers, and a full description of each."""
    yield Extent(build.pointer_bytes * len(tensors), ALIGNMENT)  # aligned even if there are none
    for tensor in tensors:
        yield extent(_TENSOR, build)
        if tensor.quant is not None:
            yield extent(_QUANTISATION, build)
            yield Extent(4 + 4 * tensor.quant.scale.size, 4)


def _resource_table(graphs: Sequence[Graph], build: Build) -> Iterator[Extent]:
    names = {name for graph in graphs for name in _handles(graph).values()}
    if names:
        yield _requested(extent(_VARIABLES, build).size)
        yield _requested(extent(_VARIABLE, build).size * len(names))


def _handles(graph: Graph) -> dict[int, object]:
    """The names of resource variables by the tensors that hold their handles."""
    return {
        op.outputs[0]: op.attrs.get("variable", (id(graph), index))
        for index, op in enumerate(graph.ops)
        if op.source == "VAR_HANDLE" and op.outputs
    }


def _assignments(graph: Graph) -> Iterator[tuple[object, int]]:
    """Resource variables that this subgraph writes, and their bytes: the first to be prepared makes room."""
    names = _handles(graph)
    for op in graph.ops:
        if op.source != "ASSIGN_VARIABLE":
            continue
        handle, value = (*op.inputs[:2], ABSENT, ABSENT)[:2]
        if handle in names and value != ABSENT:
            yield names[handle], exact_bytes(graph, graph.tensors[value])


def _array(fields: str, count: int, build: Build) -> Extent:
    size, alignment = extent(fields, build)
    return Extent(size * count, alignment) if count else Extent(0, 1)


def _requested(size: int) -> Extent:
    """A kernel's request, which is aligned for any use."""
    return Extent(size, ALIGNMENT) if size else Extent(0, 1)


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
        end = _behind(end, _TENSOR, 1, build)
        quant = graph.tensors[identity].quant
        if quant is not None:
            end = _behind(end, _QUANTISATION, 1, build)
            end = round_up(end, 4) + 4 + 4 * quant.scale.size
    return end


def _behind(end: int, fields: str, count: int, build: Build) -> int:
    """Where an array ends that begins behind what is there."""
    found: Extent = extent(fields, build)
    return round_up(end, found.alignment) + count * found.size
