"""TFLite Micro's arena for a model, and the reasons for which its interpreter rejects a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sizeup.backends.tflm.head import ONLINE, HeadBuffers, head_buffers, place_greedily
from sizeup.backends.tflm.layout import FIRMWARE, PYTHON_PACKAGE, Build
from sizeup.backends.tflm.overlap import FOREIGN_LABEL, LABEL, check_plan, npu_operands
from sizeup.backends.tflm.subgraphs import is_declared, subgraphs, variable_bytes
from sizeup.backends.tflm.support import caveats, unsupported_reason
from sizeup.backends.tflm.tail import kernel_memory, needed_bytes, tail_bytes
from sizeup.errors import Incomplete, InvalidPlan
from sizeup.graph import Graph, Tensor
from sizeup.memory.check import check_offsets
from sizeup.memory.liveness import Buffers


@dataclass(frozen=True, slots=True)
class Scratch:
    """A scratch buffer of a kernel; subgraph 0 is the main graph."""

    subgraph: int
    operator: int
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class MicroArena:
    """TFLite Micro's arena: the head with planned tensors and scratch, and the persistent tail.

    The 64-bit tail is that of the interpreter in the PyPI package, and is verified against it. Everything
    else is that of `firmware`, without allocation recorder and compression; for Arm cores it was verified on
    emulated boards. Tails are None if a kernel is unknown (see `tail_unknown_reason`). `arena_bytes_*` is the
    smallest arena: small models may need more than head and tail during initialization.
    """

    head_bytes: int
    live_bytes: int  # peak live bytes in the head: the lower bound of all plans without overlaps
    tail_bytes_64: int | None
    tail_bytes_32: int | None
    tail_unknown_reason: str  # why the tail is not known; empty if it is known
    offsets: tuple[int, ...]  # per tensor of the main graph; -1 if it is not in the head
    scratch: tuple[Scratch, ...]
    notes: tuple[str, ...]
    arena_bytes_64: int | None
    arena_bytes_32: int | None
    overlapping_tensors: int  # tensors that share bytes with other live tensors in an offline plan
    valid_kernels: str | None  # the kernels that such a plan is valid for; None if valid for all
    unsupported_reason: str | None  # why the interpreter rejects the model
    caveats: tuple[str, ...]  # where it runs, but computes something else or fails for some inputs

    def arena_bytes(self, word_bits: int = 32) -> int | None:
        """The smallest arena on a processor with that word size; None if the tail is unknown."""
        return self.arena_bytes_32 if word_bits == 32 else self.arena_bytes_64

    def tail_bytes(self, word_bits: int = 32) -> int | None:
        """The arena tail on a processor with that word size; None if unknown."""
        return self.tail_bytes_32 if word_bits == 32 else self.tail_bytes_64


def arena(
    graph: Graph,
    *,
    offsets: Sequence[int] | None = None,
    overlap: bool = False,
    firmware: Build = FIRMWARE,
    is_file: bool = True,
) -> MicroArena:
    """Predict the arena of a TFLite model in a build of TFLite Micro for a 32-bit processor.

    `offsets` is an offline memory plan: one offset per tensor of the main graph, or per tensor of all
    subgraphs; -1 for tensors that the interpreter plans. With `overlap`, live tensors may share bytes in that
    plan as the reference kernels permit (see `tflm.overlap`). `is_file` is False for a graph whose dtypes are
    those of an assumed precision (see `unsupported_reason`). Raises Incomplete if a shape depends on data, or
    if a graph of the file cannot be read or prepared, and InvalidPlan if the plan changes the outputs.
    """
    graphs = subgraphs(graph)
    _check_outputs(graphs)
    offline = _offline(graphs, offsets)
    head_plan = head_buffers(graph, offline, firmware)
    reason = unsupported_reason(graphs, firmware, is_file=is_file)
    if reason is None:
        _check_scratch(graphs, head_plan)
    buffers, placed = head_plan.buffers, _placed(head_plan, offline)
    is_online = [(owner.subgraph, owner.tensor) not in offline for owner in head_plan.owners]
    _check(buffers, placed, [not overlap or online for online in is_online])
    unknown = _unknown_kernels(graphs, firmware)
    shared: set[int] = set()
    if offline:
        from sizeup.memory.overlap_packing import overlapping_buffers

        check_plan(graphs, head_plan, placed)
        shared = overlapping_buffers(buffers, placed)
    is_verified = not any(map(npu_operands, graphs))
    head = _end(head_plan, placed)
    tail_64 = tail_32 = arena_64 = arena_32 = None
    if not unknown:
        tail_32 = tail_bytes(graphs, firmware, offline)
        arena_32 = needed_bytes(graphs, firmware, head, len(placed), offline)
    if not unknown and not _unknown_kernels(graphs, PYTHON_PACKAGE):
        tail_64 = tail_bytes(graphs, PYTHON_PACKAGE, offline)
        arena_64 = _arena_of_package(graph, graphs, offline, head_plan, placed)
    return MicroArena(
        head_bytes=head,
        live_bytes=int(buffers.live_bytes().max()),
        tail_bytes_64=tail_64,
        tail_bytes_32=tail_32,
        tail_unknown_reason=unknown,
        offsets=tuple(placed[number] if number >= 0 else -1 for number in buffers.buffer_of_tensor),
        scratch=tuple(
            Scratch(owner.subgraph, owner.operator, size, offset)
            for owner, size, offset in zip(head_plan.owners, head_plan.requested, placed, strict=True)
            if owner.operator >= 0
        ),
        notes=_notes(graphs, unknown, firmware),
        arena_bytes_64=arena_64,
        arena_bytes_32=arena_32,
        overlapping_tensors=len(shared),
        valid_kernels=(LABEL if is_verified else FOREIGN_LABEL) if shared else None,
        unsupported_reason=reason,
        caveats=() if reason else tuple(caveats(graphs, firmware)),
    )


def _placed(head_plan: HeadBuffers, offline: Mapping[tuple[int, int], int]) -> list[int]:
    buffers = head_plan.buffers
    fixed = [offline.get((owner.subgraph, owner.tensor), ONLINE) for owner in head_plan.owners]
    columns = (buffers.size.tolist(), buffers.first.tolist(), buffers.last.tolist(), fixed)
    return list(_greedy_plan(*map(tuple, columns)))


# Builds differ in the scratch of few kernels, and a file is planned before and after a change.
@lru_cache(maxsize=4)
def _greedy_plan(
    sizes: tuple[int, ...], firsts: tuple[int, ...], lasts: tuple[int, ...], offline: tuple[int, ...]
) -> tuple[int, ...]:
    return tuple(place_greedily(sizes, firsts, lasts, offline))


def _end(head_plan: HeadBuffers, placed: Sequence[int]) -> int:
    return max(map(sum, zip(placed, head_plan.buffers.size.tolist(), strict=True)), default=0)


def _arena_of_package(
    graph: Graph,
    graphs: Sequence[Graph],
    offline: Mapping[tuple[int, int], int],
    head_plan: HeadBuffers,
    placed: Sequence[int],
) -> int:
    """The smallest arena of the package on PyPI; most often it has the same head as the firmware."""
    own = head_buffers(graph, offline, PYTHON_PACKAGE)
    if own.requested != head_plan.requested:
        head_plan, placed = own, _placed(own, offline)
    return needed_bytes(graphs, PYTHON_PACKAGE, _end(head_plan, placed), len(placed), offline)


def _check_outputs(graphs: Sequence[Graph]) -> None:
    """Raise Incomplete for an output that is not produced, not a graph input and not a variable."""
    for graph in graphs:
        encoded = [output for output in graph.outputs if _is_encoded(graph.tensors[output])]
        if encoded:
            name = graph.tensors[encoded[0]].name
            raise Incomplete(
                f"the output {name!r} is an encoded weight, for which TFLite Micro's memory is not known"
            )
        unproduced = [output for output in graph.outputs if is_declared(graph.tensors[output])]
        variables = variable_bytes(graph) if unproduced else {}
        for identity in unproduced:
            if identity not in variables:
                name = graph.tensors[identity].name
                raise Incomplete(f"no operator produces the output {name!r} of {graph.name!r}")


def _is_encoded(tensor: Tensor) -> bool:
    return (
        tensor.data is not None and tensor.data.role in ("parameter", "constant") and tensor.data.read is None
    )


def _check_scratch(graphs: Sequence[Graph], head_plan: HeadBuffers) -> None:
    """Raise Incomplete for scratch that is never live: the interpreter of the package crashes on it."""
    for owner, last in zip(head_plan.owners, head_plan.buffers.last.tolist(), strict=True):
        if owner.operator >= 0 and not last:
            source = graphs[owner.subgraph].ops[owner.operator].source
            raise Incomplete(
                f"TFLite Micro crashes on this model: {source} requests scratch in the graph"
                f" {graphs[owner.subgraph].name!r}, which is never called"
            )


def _offline(graphs: Sequence[Graph], offsets: Sequence[int] | None) -> dict[tuple[int, int], int]:
    """The offline offsets by (subgraph, tensor)."""
    if offsets is None:
        return {}
    keys = [
        (number, identity) for number, graph in enumerate(graphs) for identity in range(len(graph.tensors))
    ]
    if len(offsets) not in (len(graphs[0].tensors), len(keys)):
        raise InvalidPlan(
            f"the memory plan does not have one offset per tensor: {len(graphs[0].tensors)} in the main"
            f" graph, {len(keys)} in all"
        )
    if min(offsets, default=0) < ONLINE:
        raise InvalidPlan(
            f"offset {min(offsets)} is invalid: the only negative value is {ONLINE} (not planned)"
        )
    return {key: offset for key, offset in zip(keys, offsets, strict=False) if offset != ONLINE}


def _check(buffers: Buffers, offsets: Sequence[int], is_checked: Sequence[bool]) -> None:
    numbers = [number for number, checked in enumerate(is_checked) if checked]
    tensors = tuple(buffers.tensors[number] for number in numbers)
    columns = (buffers.size[numbers], buffers.first[numbers], buffers.last[numbers])
    check_offsets(Buffers(*columns, tensors, (), buffers.steps), [offsets[number] for number in numbers])


def _unknown_kernels(graphs: Sequence[Graph], build: Build) -> str:
    ops = [op for graph in graphs for op in graph.ops]
    names = {op.source or op.kind for op in ops if kernel_memory(op.source, build) is None}
    return f"persistent memory of these kernels is not known: {', '.join(sorted(names))}" if names else ""


def _notes(graphs: Sequence[Graph], unknown: str, build: Build) -> tuple[str, ...]:
    notes = [f"memory of kernels is that of {build.kernels}"]
    if build.kernels == "reference":
        notes = ["scratch is that of TFLite Micro's reference kernels; optimized kernels may need more"]
    if unknown:
        notes.append(f"{unknown}; the head excludes their scratch")
    if len(graphs) > 1:
        notes.append(f"{len(graphs)} subgraphs are planned together")
    return tuple(notes)
