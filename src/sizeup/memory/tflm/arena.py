"""TFLite Micro's arena for a model, and why its interpreter refuses one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizeup.errors import Incomplete, InvalidPlan
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.memory.check import check_offsets
from sizeup.memory.liveness import Buffers
from sizeup.memory.overlapping import sharing
from sizeup.memory.tflm.head import ONLINE, Planned, place, planned
from sizeup.memory.tflm.kernels import KERNELS
from sizeup.memory.tflm.layout import FIRMWARE, PYTHON_PACKAGE
from sizeup.memory.tflm.overlap import label
from sizeup.memory.tflm.program import is_described, subgraphs, variable_bytes
from sizeup.memory.tflm.tail import needed_bytes, tail_bytes


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory that a kernel asks for while it runs; subgraph 0 is the main graph."""

    subgraph: int
    operator: int
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class MicroArena:
    """TFLite Micro's memory: the head, where tensors and scratch are planned, and the tail, kept for good.

    The tail is given as the 64-bit interpreter of the package on PyPI reports it, and as usual firmware of a
    32-bit processor takes it, which has neither the recorder of allocations nor compression. The former is
    measured, the latter computed from the same structures with narrow pointers and measured on no board. Both
    are None where a kernel is not known; `unknown` says which. `needed` is the smallest arena that works:
    a small model may need more while it is set up than head and tail.
    """

    head_bytes: int
    live_bytes: int  # of it in use at once at the worst moment: no plan without overlaps has a smaller head
    tail_bytes_64: int | None
    tail_bytes_32: int | None
    unknown: str  # why the tail is not known; empty where it is
    offsets: tuple[int, ...]  # of every tensor of the main graph; -1 where it is not in the head
    scratch: tuple[Scratch, ...]
    notes: tuple[str, ...]
    needed_bytes_64: int | None = None
    needed_bytes_32: int | None = None
    overlapping: int = 0  # tensors that an offline plan lays over others in use at the same time
    kernels: str | None = None  # the kernels that such a plan holds for; None where it holds for all
    refused: str | None = None  # why the interpreter of the package does not take the model at all

    def arena_bytes(self, word_bits: int = 32) -> int | None:
        """The smallest arena that works on a processor of that word size; None if the tail is unknown."""
        return self.needed_bytes_32 if word_bits == 32 else self.needed_bytes_64

    def tail_bytes(self, word_bits: int = 32) -> int | None:
        """The tail on a processor of that word size; None if unknown."""
        return self.tail_bytes_32 if word_bits == 32 else self.tail_bytes_64


def arena(graph: Graph, *, offsets: Sequence[int] | None = None, overlap: bool = False) -> MicroArena:
    """Predict the interpreter's arena for a TFLite model, provided that its kernels take the model at all.

    `offsets` is an offline plan: an offset for every tensor of the main graph and, if there are any, of the
    subgraphs behind it; -1 for those that the interpreter is to place. `overlap` accepts a plan in which
    tensors in use at once share bytes, which the interpreter does not check either. Raises Incomplete where
    a shape depends on data, and where a graph of the file cannot be read or prepared.
    """
    graphs = subgraphs(graph)
    _refuse_unmade_outputs(graphs)
    offline = _offline(graphs, offsets)
    asked = planned(graph, offline)
    refused = refusal(graphs)
    if refused is None:
        _refuse_idle_scratch(graphs, asked)
    buffers = asked.buffers
    given = [offline.get((owner.subgraph, owner.tensor), ONLINE) for owner in asked.owners]
    found = place(buffers.size.tolist(), buffers.first.tolist(), buffers.last.tolist(), given)
    _check(buffers, found, [not overlap or offset == ONLINE for offset in given])
    unknown = _unknown(graphs)
    shared = sharing(buffers, found) if offline else set()
    head = max(map(sum, zip(found, buffers.size.tolist(), strict=True)), default=0)
    return MicroArena(
        head_bytes=head,
        live_bytes=int(buffers.live_bytes().max()),
        tail_bytes_64=None if unknown else tail_bytes(graphs, PYTHON_PACKAGE, offline),
        tail_bytes_32=None if unknown else tail_bytes(graphs, FIRMWARE, offline),
        unknown=unknown,
        offsets=tuple(found[number] if number >= 0 else -1 for number in buffers.of_tensor),
        scratch=tuple(
            Scratch(owner.subgraph, owner.operator, size, offset)
            for owner, size, offset in zip(asked.owners, asked.asked, found, strict=True)
            if owner.operator >= 0
        ),
        notes=_notes(graphs, unknown),
        needed_bytes_64=None if unknown else needed_bytes(graphs, PYTHON_PACKAGE, head, len(found), offline),
        needed_bytes_32=None if unknown else needed_bytes(graphs, FIRMWARE, head, len(found), offline),
        overlapping=len(shared),
        kernels=label(graph, asked, found) if shared else None,
        refused=refused,
    )


def _refuse_unmade_outputs(graphs: Sequence[Graph]) -> None:
    """Raise Incomplete for an output that is neither made nor fed nor a variable."""
    for graph in graphs:
        encoded = [each for each in graph.outputs if _is_encoded(graph.tensors[each])]
        if encoded:
            name = graph.tensors[encoded[0]].name
            raise Incomplete(
                f"TFLite Micro's memory for the output {name!r}, an encoded weight, is not known"
            )
        unmade = [each for each in graph.outputs if is_described(graph.tensors[each])]
        variables = variable_bytes(graph) if unmade else {}
        for identity in unmade:
            if identity not in variables:
                name = graph.tensors[identity].name
                raise Incomplete(f"nothing makes the output {name!r} of {graph.name!r}")


def _is_encoded(tensor: Tensor) -> bool:
    return (
        tensor.data is not None and tensor.data.role in ("parameter", "constant") and tensor.data.read is None
    )


def _refuse_idle_scratch(graphs: Sequence[Graph], asked: Planned) -> None:
    """Raise Incomplete for scratch that is never in use: the interpreter of the package crashes on it."""
    for owner, last in zip(asked.owners, asked.buffers.last.tolist(), strict=True):
        if owner.operator >= 0 and not last:
            source = graphs[owner.subgraph].ops[owner.operator].source
            raise Incomplete(
                f"TFLite Micro crashes on it: {source} asks for scratch in a graph that nothing calls,"
                f" {graphs[owner.subgraph].name!r}"
            )


def _offline(graphs: Sequence[Graph], offsets: Sequence[int] | None) -> dict[tuple[int, int], int]:
    """The offsets that are given, by subgraph and tensor."""
    if offsets is None:
        return {}
    keys = [
        (number, identity) for number, graph in enumerate(graphs) for identity in range(len(graph.tensors))
    ]
    if len(offsets) not in (len(graphs[0].tensors), len(keys)):
        raise InvalidPlan(f"{len(offsets)} offsets for {len(graphs[0].tensors)} tensors ({len(keys)} in all)")
    if min(offsets, default=0) < ONLINE:
        raise InvalidPlan(f"an offset of {min(offsets)}: below zero there is only {ONLINE}, to be placed")
    return {key: offset for key, offset in zip(keys, offsets, strict=False) if offset != ONLINE}


def _check(buffers: Buffers, found: Sequence[int], is_judged: Sequence[bool]) -> None:
    kept = [number for number, judged in enumerate(is_judged) if judged]
    tensors = tuple(buffers.tensors[number] for number in kept)
    columns = (buffers.size[kept], buffers.first[kept], buffers.last[kept])
    check_offsets(Buffers(*columns, tensors, (), buffers.steps), [found[number] for number in kept])


def _unknown(graphs: Sequence[Graph]) -> str:
    names = {op.source or op.kind for graph in graphs for op in graph.ops if op.source not in KERNELS}
    return f"what these kernels keep is not known: {', '.join(sorted(names))}" if names else ""


def _notes(graphs: Sequence[Graph], unknown: str) -> tuple[str, ...]:
    notes = ["scratch is that of TFLite Micro's reference kernels; optimised ones may ask for more"]
    if unknown:
        notes.append(f"{unknown}; the head is without their scratch, if they ask for any")
    if len(graphs) > 1:
        notes.append(f"{len(graphs)} subgraphs are planned together")
    return tuple(notes)


RESOLVED = frozenset(KERNELS) | {
    # Kernels that are there and of which is not known what they keep.
    *("CIRCULAR_BUFFER", "TFLite_Detection_PostProcess"),
    *("SignalDelay", "SignalFramer", "SignalIrfft", "SignalOverlapAdd", "SignalStacker"),
}
"""Operators for which the interpreter of the package has a kernel."""

_PRODUCTS = frozenset((("float32", "float32"), ("int8", "int8"), ("int8", "int4"), ("int16", "int8")))
PRODUCTS = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), _PRODUCTS),
    "TRANSPOSE_CONV": _PRODUCTS - {("int8", "int4")} | {("int16", "int16")},
}
"""Number types of data and weights that these kernels multiply."""

DEQUANTIZED = frozenset(("int8", "int16", "uint8"))
"""Number types that DEQUANTIZE reads, always to make float32."""


def refusal(graphs: Sequence[Graph]) -> str | None:
    """The first reason for which the interpreter refuses the model; None where none is known."""
    missing = {op.source or op.kind for graph in graphs for op in graph.ops} - RESOLVED
    if missing:
        return f"it has no kernel for {', '.join(sorted(missing))}"
    return next((reason for graph in graphs for reason in _types(graph)), None)


def _types(graph: Graph) -> Iterator[str]:
    for op in graph.ops:
        names = [None if each == ABSENT else graph.tensors[each].dtype.name for each in op.inputs]
        if op.source in PRODUCTS:
            yield from _product(graph, op, names)
        elif op.source == "DEQUANTIZE" and op.inputs and op.outputs:
            made = graph.tensors[op.outputs[0]].dtype.name
            if names[0] not in DEQUANTIZED or made != "float32":
                yield f"its kernel of DEQUANTIZE does not make {made} of {names[0]}"


def _product(graph: Graph, op: Op, names: Sequence[str | None]) -> Iterator[str]:
    if len(names) < 2:
        yield f"its kernel of {op.source} needs data and weights"
        return
    data, weights = names[:2]
    first, second = (graph.tensors[each].data if each != ABSENT else None for each in op.inputs[:2])
    if op.source == "FULLY_CONNECTED" and first is not None and second is None:
        data, weights = weights, data  # where rows are cut across axes, our graph has the weights in front
    if (data, weights) not in PRODUCTS[op.source]:
        yield f"its kernel of {op.source} does not multiply {data} by weights of {weights}"
