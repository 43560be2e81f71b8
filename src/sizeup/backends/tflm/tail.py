"""The arena tail: persistent allocations of the interpreter, in order.

The tail grows downward from the end of the arena. The end is assumed to be 16-byte aligned, as in a buffer
declared `alignas(16)`; otherwise the sum changes by up to 15 bytes.

Initialization temporarily needs more memory, because the planner's tables are in the arena as well
(micro_allocator.cc, micro_allocation_info.cc, greedy_memory_planner.h of tensorflow/tflite-micro). While the
tail grows, scratch requests are stored at the start of the arena, followed by temporary data: the
TfLiteTensors of the operator being prepared, and finally one row per tensor and per planned buffer. The head
then replaces all of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeAlias

from sizeup.backends.tflm.kernel import Call, KernelMemory, KernelRequests
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.layout import (
    ALIGNMENT,
    EVAL_TENSOR,
    FIRMWARE,
    Build,
    Chip,
    Extent,
    extent,
    round_up,
)
from sizeup.backends.tflm.subgraphs import exact_bytes, variable_bytes
from sizeup.errors import Incomplete
from sizeup.graph import ABSENT, Graph, Op, Tensor

_ARENA = "2p5ppi"  # SingleArenaBufferAllocator: two vtable pointers, five addresses, two check fields
_RECORDED_ARENA = "2p5ppi4p"
_PLANNER = "p2i4p2ipb"  # GreedyMemoryPlanner
_ALLOCATOR = "p4pb3p"  # MicroAllocator
_RECORDED_ALLOCATOR = "p4pb3pp21p|3p"  # seven allocation types: requested bytes, used bytes, count
_OPTIONS_ALLOCATOR = "2p"
_SUBGRAPH = "2p|p"
_NODE = "6pip"  # TfLiteNode and a pointer to its kernel
_TENSOR = "ipii3p2eb"  # TfLiteTensor
_QUANTIZATION = "2pi"
_VARIABLES = "p2i"  # MicroResourceVariables
_VARIABLE = "i4p"
_REQUEST = "p2i"  # scratch request: bytes, operator, subgraph
_SPARE_REQUESTS = 12  # the maximum number of requests per operator
_OFFSET = "p"  # start of the rows of a subgraph
_ROW = "2p3ib"  # AllocationInfo, one per tensor and request
_LEAST_ARENA = 512  # smaller arenas have not been tried in firmware
_PLANNER_ROW = "10i"  # planner data per buffer: size, liveness, and its positions in three lists


def kernel_memory(source: str, build: Build) -> KernelMemory | None:
    """The memory of an operator's kernel in the library of a build; None if it is not known."""
    kernel = KERNELS.get(source)
    if kernel is None or (kernel.needs_npu and not build.has_ethos_u):
        return None
    return (build.kernels == "cmsis-nn" and kernel.cmsis_nn) or kernel.memory


def _known_memory(source: str, build: Build) -> KernelMemory:
    memory = kernel_memory(source, build)
    assert memory is not None
    return memory


def scratch_bytes(graph: Graph, op: Op, chip: Chip) -> int:
    """The scratch of ESP-NN's kernel; raises Incomplete if a shape depends on data."""
    return _esp_nn_scratch(Call(op, graph.tensors, replace(FIRMWARE, chip=chip)))


def _esp_nn_scratch(call: Call) -> int:
    op, kernel = call.op, KERNELS.get(call.op.source)
    if kernel is None or kernel.esp_nn is None or not op.outputs or not call.has(0):
        return 0
    return kernel.esp_nn(call) if call.input(0).dtype.name == "int8" else 0


def largest_scratch_bytes(graphs: Iterable[Graph], chip: Chip) -> int:
    """The largest scratch buffer of one of ESP-NN's kernels, rounded up as in the arena."""
    sizes = (scratch_bytes(graph, op, chip) for graph in graphs for op in graph.ops)
    return round_up(max(sizes, default=0), ALIGNMENT)


def kernel_requests(graph: Graph, op: Op, build: Build) -> KernelRequests:
    """The requests of an operator's kernel; empty if the kernel is not known.

    Raises Incomplete if the kernel does not accept the operator's tensors.
    """
    return _requests_of(Call(op, graph.tensors, build))


def _requests_of(call: Call) -> KernelRequests:
    op = call.op
    memory = kernel_memory(op.source, call.build)
    if memory is None:
        return KernelRequests()
    try:
        requests = memory.prepare(call) if memory.prepare else KernelRequests()
        if call.build.kernels == "esp-nn" and (size := _esp_nn_scratch(call)):
            requests = replace(requests, scratch=(*requests.scratch, size))
    except (LookupError, ValueError, ZeroDivisionError):  # too few dimensions, or an empty filter
        requests = None
    if requests is None or min((*requests.persistent, *requests.scratch), default=0) < 0:
        raise Incomplete(
            f"{op.source} {op.name!r}: TFLite Micro's kernel does not accept tensors of these shapes"
        )
    return requests


def tail_bytes(graphs: Sequence[Graph], build: Build, offline: Collection[tuple[int, int]] = ()) -> int:
    """Bytes of the arena tail; all kernels of the model must be known.

    `offline` are the tensors, as (subgraph, tensor), that an offline plan puts into the head.
    """
    return _tails(graphs, build, offline, all_requests(graphs, build)).whole


class _Tails(NamedTuple):
    """The tail before the first Prepare, before the TfLiteTensors of inputs and outputs, and with them."""

    initialized: int
    prepared: int
    whole: int


Requests: TypeAlias = "Sequence[Sequence[KernelRequests]]"  # by subgraph and operator


def all_requests(graphs: Sequence[Graph], build: Build) -> Requests:
    """What every kernel requests; raises Incomplete as `kernel_requests` does."""
    return [[kernel_requests(graph, op, build) for op in graph.ops] for graph in graphs]


def _tails(
    graphs: Sequence[Graph], build: Build, offline: Collection[tuple[int, int]], requests: Requests
) -> _Tails:
    initialized = _end(
        0, _interpreter(build), _resource_table(graphs, build), _model(graphs, build), _data(graphs, build)
    )
    handles = sum(len(each.scratch) for rows in requests for each in rows)
    prepared = _end(
        initialized,
        _persistent(graphs, requests),
        [_array("p", handles, build)],
        _variables(graphs, offline),
    )
    ports = (graphs[0].inputs, graphs[0].outputs)
    tensors = [[graphs[0].tensors[identity] for identity in identities] for identities in ports]
    whole = _end(prepared, *(_io_tensors(each, build) for each in tensors))
    return _Tails(initialized, prepared, whole)


def _end(used: int, *allocations: Iterable[Extent]) -> int:
    """The end of allocations after one another: the order matters for alignment."""
    for size, alignment in chain(*allocations):
        used = round_up(used + size, alignment)
    return used


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
            yield extent(_known_memory(op.source, build).options, build)


def _data(graphs: Sequence[Graph], build: Build) -> Iterator[Extent]:
    """What Init of all kernels requests."""
    for graph in graphs:
        for op in graph.ops:
            yield _requested(extent(_known_memory(op.source, build).data, build).size)


def _persistent(graphs: Sequence[Graph], requests: Requests) -> Iterator[Extent]:
    """What Prepare of all kernels requests."""
    assigned: set[object] = set()
    for graph, rows in zip(graphs, requests, strict=True):
        for each in rows:
            yield from map(_requested, each.persistent)
        for name, size in _assignments(graph):
            if name not in assigned:
                assigned.add(name)
                yield _requested(size)


def kernel_bytes(op: Op, tensors: Sequence[Tensor], build: Build) -> tuple[int, int] | None:
    """The bytes of an operator in the tail, and of its scratch; None if its kernel takes other tensors."""
    if kernel_memory(op.source, build) is None:
        return None
    try:
        call = Call(op, tensors, build)
        requests = _requests_of(call)
        return _operator_bytes(call, requests), sum(requests.scratch)
    except Incomplete:
        return None


def plain_bytes(op: Op, build: Build) -> int | None:
    """The bytes of an operator in the tail, without what its kernel requests; None if it has none."""
    if kernel_memory(op.source, build) is None:
        return None
    return _operator_bytes(Call(op, (), build), KernelRequests())


def operator_bytes(graph: Graph, op: Op, build: Build) -> int:
    """The bytes of an operator in the tail, without alignment between its structures."""
    call = Call(op, graph.tensors, build)
    return _operator_bytes(call, _requests_of(call))


def _operator_bytes(call: Call, requests: KernelRequests) -> int:
    build = call.build
    memory = _known_memory(call.op.source, build)
    own = extent(_NODE, build).size + extent(memory.options, build).size
    handles = extent("p", build).size * len(requests.scratch)
    data = (extent(memory.data, build).size, *requests.persistent)
    return own + handles + sum(round_up(size, ALIGNMENT) for size in data)


def tensor_bytes(build: Build) -> int:
    """The bytes of the description of a tensor in the tail."""
    return extent(EVAL_TENSOR, build).size


def _variables(graphs: Sequence[Graph], offline: Collection[tuple[int, int]]) -> Iterator[Extent]:
    for number, graph in enumerate(graphs):
        for identity, size in variable_bytes(graph).items():
            if (number, identity) not in offline:
                yield _requested(size)


def _io_tensors(tensors: Sequence[Tensor], build: Build) -> Iterator[Extent]:
    """Inputs or outputs: an array of pointers, and a TfLiteTensor per tensor."""
    yield Extent(build.pointer_bytes * len(tensors), ALIGNMENT)  # aligned even if empty
    for tensor in tensors:
        yield extent(_TENSOR, build)
        if tensor.quant is not None:
            yield extent(_QUANTIZATION, build)
            yield Extent(4 + 4 * tensor.quant.scale.size, 4)


def _resource_table(graphs: Sequence[Graph], build: Build) -> Iterator[Extent]:
    names = {name for graph in graphs for name in _handles(graph).values()}
    if names:
        yield _requested(extent(_VARIABLES, build).size)
        yield _requested(extent(_VARIABLE, build).size * len(names))


def _handles(graph: Graph) -> dict[int, object]:
    """The names of resource variables by handle tensor."""
    return {
        op.outputs[0]: op.attrs.get("variable", (id(graph), index))
        for index, op in enumerate(graph.ops)
        if op.source == "VAR_HANDLE" and op.outputs
    }


def _assignments(graph: Graph) -> Iterator[tuple[object, int]]:
    """The resource variables that a subgraph assigns, and their bytes; allocated on the first Prepare."""
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
    """The aligned request of a kernel."""
    return Extent(size, ALIGNMENT) if size else Extent(0, 1)


def needed_bytes(
    graphs: Sequence[Graph],
    build: Build,
    head: int,
    buffers: int,
    offline: Collection[tuple[int, int]] = (),
    requests: Requests | None = None,
) -> int:
    """The smallest arena, a multiple of 16 bytes, in which a model with known kernels initializes and runs.

    `head` and `buffers` are the size and the number of buffers of its memory plan. Prepare is assumed to
    allocate one TfLiteTensor per tensor of an operator, plus those in the table of kernels (`again`).
    """
    requests = requests or all_requests(graphs, build)
    tails = _tails(graphs, build, offline, requests)
    planning = round_up(tails.prepared, ALIGNMENT) + _tables(graphs, build, buffers, requests)
    preparing = _prepare_peak(graphs, build, tails.initialized, requests)
    least = 0 if build.recorder else _LEAST_ARENA
    return round_up(max(head + tails.whole, planning, preparing, least), ALIGNMENT)


def _tables(graphs: Sequence[Graph], build: Build, buffers: int, requests: Requests) -> int:
    handles = sum(len(each.scratch) for rows in requests for each in rows)
    tensors = sum(len(graph.tensors) for graph in graphs)
    end = _array_end(0, _REQUEST, handles + _SPARE_REQUESTS, build)
    end = _array_end(end, _OFFSET, len(graphs), build)
    end = _array_end(end, _ROW, tensors + handles, build)
    return round_up(end, ALIGNMENT) + buffers * extent(_PLANNER_ROW, build).size


def _prepare_peak(graphs: Sequence[Graph], build: Build, used: int, requests: Requests) -> int:
    """The maximum during Prepare: the tail so far, and the TfLiteTensors of one operator."""
    most, handles = 0, 0
    tables = _array_end(0, _REQUEST, _SPARE_REQUESTS, build)
    for graph, rows in zip(graphs, requests, strict=True):
        for op, each in zip(graph.ops, rows, strict=True):
            used += sum(round_up(size, ALIGNMENT) for size in each.persistent)
            end = tables + handles * extent(_REQUEST, build).size
            tensors = _temporary_tensors(graph, op, end, build, has_persistent=bool(each.persistent))
            most = max(most, used + tensors)
            handles += len(each.scratch)
    return most


def _temporary_tensors(graph: Graph, op: Op, end: int, build: Build, *, has_persistent: bool) -> int:
    memory = _known_memory(op.source, build)
    loaded = [*op.inputs, *op.outputs] if memory.tensors is None else []
    positions = memory.again if memory.tensors is None else memory.tensors(Call(op, graph.tensors, build))
    for position in positions:  # slices, since a damaged file may lack tensors
        loaded += op.outputs[:1] if position < 0 else op.inputs[position:][:1]
    zero_points = 0
    tensor, quantization = extent(_TENSOR, build), extent(_QUANTIZATION, build)
    for identity in loaded:
        if identity == ABSENT:
            continue
        end = round_up(end, tensor.alignment) + tensor.size
        quant = graph.tensors[identity].quant
        if quant is not None:
            end = round_up(end, quantization.alignment) + quantization.size
            zero_points = 4 + 4 * quant.scale.size
            end = round_up(end, 4) + zero_points
    if memory.overwrites and has_persistent and loaded and graph.tensors[loaded[-1]].quant is not None:
        end -= zero_points
    return end


def _array_end(end: int, fields: str, count: int, build: Build) -> int:
    """The end of an aligned array that starts after `end`."""
    struct: Extent = extent(fields, build)
    return round_up(end, struct.alignment) + count * struct.size
