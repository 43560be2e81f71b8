"""Live memory per op, and the tensors that are live at the peak."""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, RecordedRun
from sizeup.memory.liveness import Buffers, Column, buffer_liveness, is_scratch, size_is_known, tensor_bytes
from sizeup.ops import cost_rule_of

MAX_LISTED = 16
"""Maximum number of live tensors listed per op: listing all would be quadratic in the number of ops."""

_RUN_ONCE = "call_once"  # before the first inference
_GPU = "cuda"  # torch's name, also for AMD's GPUs

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class LiveTensor(NamedTuple):
    """A live tensor, the bytes of its buffer and its producer."""

    name: str
    bytes: int | None  # None if the size depends on data
    op: int | None  # None: a graph input, or scratch declared in the file


@dataclass(frozen=True, slots=True)
class LiveBreakdown:
    """The live bytes per op, split into four parts."""

    inputs: Column
    outputs: Column  # excluding aliases of inputs
    others: Column  # tensors for later ops
    workspaces: Column  # of its kernel


@dataclass(frozen=True, slots=True)
class Usage:
    """Activation memory, excluding weights, in the schedule of the graph."""

    buffers: Buffers
    live_bytes: Column  # per step
    peak_bytes: int
    peak_op: int | None  # the first op at which the peak is reached
    peak_tensors: tuple[LiveTensor, ...]  # live at the peak, largest first
    unknown_sizes: int  # number of tensors whose size depends on data; not counted anywhere here
    unmodeled: tuple[str, ...] = ()  # ops with an unknown workspace: the peak is then a lower bound

    @property
    def unavailable_reason(self) -> str:
        """Why the peak is not known; empty if it is known."""
        if not self.unknown_sizes:
            return ""
        if self.unknown_sizes == 1:
            return "the size of 1 tensor depends on data"
        return f"the sizes of {self.unknown_sizes:,} tensors depend on data"

    @property
    def unmodeled_reason(self) -> str:
        """Why the peak is a lower bound; empty if the memory of all ops is modeled."""
        names = ", ".join(self.unmodeled)
        return f"the internal memory of {names} is not known" if names else ""


def usage(
    graph: Graph,
    *,
    precision: DType | None = None,
    use_recorded_run: bool = False,
    on_gpu: bool = False,
    aliases: bool = True,
) -> Usage:
    """Live bytes per op; with `aliases`, aliases share the buffer of their input.

    With `use_recorded_run`, a graph recorded from a run uses the storages and liveness of that run. Kernels
    have the workspaces of the device of the run, or with `on_gpu` those of a GPU.
    """
    unmodeled_ops = _unmodeled(graph)
    if use_recorded_run and graph.recorded_run is not None:
        run = replace(graph.recorded_run, device=_GPU) if on_gpu else graph.recorded_run
        from sizeup.memory import cuda_workspaces, torch_workspaces

        kernels = cuda_workspaces if run.device == _GPU else torch_workspaces
        buffers = _recorded_buffers(graph, run, kernels.workspaces(graph, run, precision), precision)
        unmodeled_ops += kernels.unmodeled(graph, run)
    else:
        buffers = buffer_liveness(graph, precision=precision, aliases=aliases)
    live = buffers.live_bytes()
    peak_op = int(live.argmax()) if len(live) else None
    at_peak = buffers.live_at(peak_op or 0)  # without ops, the inputs are live
    peak = sum(int(buffers.size[buffer]) for buffer in at_peak)
    inputs = frozenset(graph.inputs)
    live_at_peak = tuple(
        _live_tensor(graph, buffers, buffer, inputs, is_known=_is_known(graph, buffers.tensors[buffer]))
        for buffer in at_peak
    )
    unknown = sum(tensor.data is None and not size_is_known(tensor) for tensor in graph.tensors)
    return Usage(buffers, live, peak, peak_op, live_at_peak, unknown, tuple(dict.fromkeys(unmodeled_ops)))


def _unmodeled(graph: Graph) -> tuple[str, ...]:
    """The ops whose own memory is not known: those with bodies, whose tensors are not counted, and those
    without a cost rule, which may be of any kind."""
    return tuple(
        op.kind if op.bodies else op.source or op.kind
        for op in graph.ops
        if (op.bodies and op.kind != _RUN_ONCE) or cost_rule_of(op.kind) is None or "invalid" in op.attrs
    )


def live_breakdown(graph: Graph, buffers: Buffers) -> LiveBreakdown:
    """Split the live bytes per op; the buffers must be those of the graph's schedule."""
    inputs, outputs, workspaces = (np.zeros(buffers.steps, np.int64) for _ in range(3))
    buffer_of, size = buffers.buffer_of_tensor, buffers.size.tolist()
    for step, op in enumerate(graph.ops):
        read = {buffer_of[identity] for identity in op.inputs if identity != ABSENT} - {-1}
        written = {buffer_of[identity] for identity in op.outputs} - read - {-1}
        inputs[step] = sum(size[buffer] for buffer in read)
        outputs[step] = sum(size[buffer] for buffer in written)
    for buffer, tensors in enumerate(buffers.tensors):
        if not tensors:
            workspaces[buffers.first[buffer] : buffers.last[buffer] + 1] += size[buffer]
    return LiveBreakdown(inputs, outputs, buffers.live_bytes() - inputs - outputs - workspaces, workspaces)


def _recorded_buffers(
    graph: Graph, run: RecordedRun, workspaces: list[int], precision: DType | None
) -> Buffers:
    """One buffer per storage, live from its producer to the op after which it was freed.

    The workspace of a kernel is a buffer without tensors that is live for one step.
    """
    tensors = _by_storage(graph, run)
    first, last = _spans(graph, run)
    views = {identity for op in graph.ops if _is_view(op.kind) for identity in op.outputs}
    rows: list[tuple[int, int, int, tuple[int, ...]]] = []
    of_tensor = [-1] * len(graph.tensors)
    for storage, members in tensors.items():
        # An expanded alias has more elements than its storage: take the size of the original tensor.
        originals = [identity for identity in members if identity not in views] or members
        size = max(tensor_bytes(graph.tensors[identity], precision) for identity in originals)
        for identity in members:
            of_tensor[identity] = len(rows)
        rows.append((size, first[storage], last[storage], tuple(members)))
    rows += [(size, step, step, ()) for step, size in enumerate(workspaces) if size]
    sizes, firsts, lasts = (np.array([row[index] for row in rows], np.int64) for index in range(3))
    return Buffers(sizes, firsts, lasts, tuple(row[3] for row in rows), tuple(of_tensor), len(graph.ops))


def _by_storage(graph: Graph, run: RecordedRun) -> dict[int, list[int]]:
    """The tensors of each storage, without storages that hold constants."""
    members: dict[int, list[int]] = {}
    for identity, storage in enumerate(run.storage):
        if storage >= 0:
            members.setdefault(storage, []).append(identity)
    tensors = graph.tensors
    return {
        storage: identities
        for storage, identities in members.items()
        if all(tensors[identity].data is None for identity in identities)
    }


def _spans(graph: Graph, run: RecordedRun) -> tuple[dict[int, int], dict[int, int]]:
    """The first and last step of each storage; inputs and outputs are live until the end."""
    end = max(len(graph.ops) - 1, 0)
    first: dict[int, int] = {run.storage[identity]: 0 for identity in graph.inputs}
    last: dict[int, int] = {}
    for step, op in enumerate(graph.ops):
        for identity in (*op.inputs, *op.outputs):
            if identity != ABSENT:
                first.setdefault(run.storage[identity], step)
                last[run.storage[identity]] = step
    if run.freed_after:
        last = {
            storage: max(step, run.freed_after[storage]) for storage, step in last.items() if storage >= 0
        }
    # The caller keeps references to the inputs and outputs.
    last |= {run.storage[identity]: end for identity in (*graph.inputs, *graph.outputs)}
    return first, last


def _is_view(op_kind: str) -> bool:
    rule = cost_rule_of(op_kind)
    return rule is not None and rule.views


class LiveTensors:
    """The live tensors per op, stored as columns: a graph may have 100,000 ops."""

    def __init__(self, graph: Graph, buffers: Buffers) -> None:
        self._graph, self._buffers, self._inputs = graph, buffers, frozenset(graph.inputs)
        known = (_is_known(graph, tensors) for tensors in buffers.tensors)
        is_known = np.fromiter(known, np.bool_, len(buffers))
        self._start, self._listed = _largest(buffers, is_known & (buffers.size > 0))
        self.count: Column = buffers.live_sum(((buffers.size > 0) | ~is_known).astype(np.int64))
        """Number of live tensors, including those of unknown size; aliases count as one tensor."""
        self.is_known: Flags = buffers.live_sum((~is_known).astype(np.int64)) == 0
        """False if the size of a live tensor depends on data."""

    def largest(self, step: int) -> tuple[LiveTensor, ...]:
        """The live tensors of known size, largest first, at most MOST_LISTED."""
        listed = self._listed[self._start[step] : self._start[step + 1]]
        return tuple(
            _live_tensor(self._graph, self._buffers, buffer, self._inputs, is_known=True) for buffer in listed
        )


def _live_tensor(
    graph: Graph, buffers: Buffers, buffer: int, inputs: AbstractSet[int], *, is_known: bool
) -> LiveTensor:
    """A buffer, named after its first tensor; a workspace is named after its op."""
    members, size, first = buffers.tensors[buffer], int(buffers.size[buffer]), int(buffers.first[buffer])
    if not members:
        return LiveTensor(f"workspace of {graph.ops[first].name}", size, first)
    tensor = graph.tensors[members[0]]
    is_given = members[0] in inputs or is_scratch(tensor)
    return LiveTensor(tensor.name, size if is_known else None, None if is_given else first)


def _is_known(graph: Graph, tensors: tuple[int, ...]) -> bool:
    return all(size_is_known(graph.tensors[identity]) for identity in tensors)


def _largest(buffers: Buffers, is_listed: Flags) -> tuple[array[int], array[int]]:
    """The largest live buffers of all steps, concatenated, and the start index of each step.

    The listed buffers are sorted. The others wait in a heap, and the largest one moves up when a listed
    buffer is freed.
    """
    # Memory views: lists would take five times the memory.
    size = buffers.size.data
    first = buffers.first.data
    last = buffers.last.data
    opened = iter(np.argsort(buffers.first, kind="stable"))
    following = next(opened, None)
    top: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    start, listed = array("q", [0]), array("q")
    for step in range(buffers.steps):
        while following is not None and first[following] <= step:
            if is_listed[following]:
                insort(top, (-size[following], int(following)))
            if len(top) > MAX_LISTED:
                heappush(waiting, top.pop())
            following = next(opened, None)
        listed.extend(buffer for _, buffer in top)
        start.append(len(listed))
        top = [entry for entry in top if last[entry[1]] > step]
        while waiting and len(top) < MAX_LISTED:
            entry = heappop(waiting)
            if last[entry[1]] > step:
                top.append(entry)
    return start, listed
