"""Memory plans in which an output overlaps an input that is not used afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sizeup.backends.tflm.head import HeadBuffers, Owner
from sizeup.backends.tflm.kernel import Call
from sizeup.backends.tflm.kernels import ETHOS_U, KERNELS
from sizeup.backends.tflm.layout import FIRMWARE
from sizeup.backends.tflm.subgraphs import variable_bytes
from sizeup.errors import InvalidPlan
from sizeup.graph import Graph
from sizeup.memory.check import Overlap, shared_bytes

LABEL = "TFLite Micro reference kernels only (not CMSIS-NN, Ethos-U or other optimized kernels)"
"""The kernels that a plan with overlaps is valid for; shown with every such plan."""

FOREIGN_LABEL = (
    "only the kernels that the plan was made for (tensors share bytes in a way that is not verified for"
    " TFLite Micro's reference kernels)"
)
"""The label of a plan with other overlaps than those of this module."""

OVERLAPPING = frozenset(name for name, kernel in KERNELS.items() if kernel.overlaps)
"""The operators whose output may overlap an input."""


def overlaps(graph: Graph, head: HeadBuffers) -> tuple[Overlap, ...]:
    """The pairs of an input, not used afterwards, and an output of the main graph that may share bytes."""
    buffers = head.buffers
    pairs = []
    for op in graph.ops:
        kernel = KERNELS.get(op.source)
        if kernel is None or kernel.overlaps is None or len(op.outputs) != 1:
            continue
        result = buffers.buffer_of_tensor[op.outputs[0]]
        call = Call(op, graph.tensors, FIRMWARE)
        for input_overlap in kernel.overlaps(call) if result >= 0 else ():
            identity = op.inputs[input_overlap.position]
            source = buffers.buffer_of_tensor[identity]
            if source < 0 or identity in graph.outputs or buffers.last[source] != buffers.first[result]:
                continue
            pairs.append(Overlap(source, result, input_overlap.distance, input_overlap.in_place))
    return tuple(dict.fromkeys(pairs))


def check_plan(graphs: Sequence[Graph], head: HeadBuffers, offsets: Sequence[int]) -> None:
    """Raise InvalidPlan if the interpreter computes something else with a memory plan of a file.

    It takes any offset: it checks neither alignment nor whether tensors that are live at once are apart.
    Operands of an NPU's operator are left out, since only its compiler knows when it reads and writes them.
    """
    for owner, offset in zip(head.owners, offsets, strict=True):
        tensor = graphs[owner.subgraph].tensors[owner.tensor]
        width = tensor.dtype.bits // 8
        if owner.tensor >= 0 and width and offset % width:
            raise InvalidPlan(
                f"the memory plan in the file puts {tensor.name!r} at offset {offset:,}, not a multiple of"
                f" {width} B"
            )
    head = _as_used(graphs, head)
    shared = shared_bytes(head.buffers, offsets, overlaps(graphs[0], head))
    if shared is not None:
        names = " and ".join(_owner_name(graphs, head.owners[buffer]) for buffer in sorted(shared.pair))
        raise InvalidPlan(f"the memory plan in the file lets live tensors overlap: {names}")


def _as_used(graphs: Sequence[Graph], head: HeadBuffers) -> HeadBuffers:
    """The buffers as they are used: variables between inferences too, what never runs not at all."""
    size, first, last = head.buffers.size.copy(), head.buffers.first.copy(), head.buffers.last.copy()
    variables = [variable_bytes(graph) for graph in graphs]
    ignored = [npu_operands(graph) for graph in graphs]
    for buffer, owner in enumerate(head.owners):
        if owner.tensor in variables[owner.subgraph]:
            first[buffer], last[buffer] = 0, head.buffers.steps - 1
        if not last[buffer] or owner.tensor in ignored[owner.subgraph]:
            size[buffer] = 0
    return replace(head, buffers=replace(head.buffers, size=size, first=first, last=last))


def npu_operands(graph: Graph) -> set[int]:
    """The tensors that an NPU's operator reads, writes or keeps its intermediate results in."""
    return {identity for op in graph.ops if op.source == ETHOS_U for identity in (*op.inputs, *op.outputs)}


def _owner_name(graphs: Sequence[Graph], owner: Owner) -> str:
    graph = graphs[owner.subgraph]
    if owner.tensor >= 0:
        return repr(graph.tensors[owner.tensor].name)
    return f"the scratch of {graph.ops[owner.operator].source}"
