"""The tail: what the interpreter keeps for good, in the order in which it asks for it.

The tail grows downward from the arena's end, which is taken to be a multiple of 16 as a buffer declared
`alignas(16)` has it; an end that is not shifts the sum by up to 15 bytes.
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
TENSOR = "ipii3p2ib"  # TfLiteTensor, for inputs and outputs only
QUANTISATION = "2pi"
_VARIABLES = "p2i"  # MicroResourceVariables
_VARIABLE = "i4p"


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
        yield extent(TENSOR, build)
        if tensor.quant is not None:
            yield extent(QUANTISATION, build)
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
