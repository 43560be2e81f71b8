"""Searches for the schedule and memory plan with the smallest arena, with a proven lower bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sizeup.dtypes import DType
from sizeup.errors import Incomplete
from sizeup.graph import Graph
from sizeup.memory.check import check_offsets
from sizeup.memory.liveness import Buffers, is_scratch, size_is_known
from sizeup.memory.packing import Packing, pack
from sizeup.memory.schedule import Progress, find_schedule, search_progress, with_schedule
from sizeup.memory.schedule_problem import Schedule
from sizeup.memory.usage import Usage, usage

_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """A schedule, an offset per buffer, and a proven lower bound of the arena."""

    schedule: tuple[int, ...]  # ops of the graph in execution order
    file_order_usage: Usage  # memory in file order
    usage: Usage  # memory in this schedule; ops are numbered by step
    packing: Packing
    best_schedule: Schedule | None  # None if no other schedule was searched for
    lower_bound_bytes: int  # over all schedules, or for file order if `reorder` is off

    @property
    def status(self) -> str:
        """'optimal' if the arena equals the lower bound, otherwise 'feasible'."""
        return "optimal" if self.packing.height == self.lower_bound_bytes else "feasible"


def best_memory_plan(
    graph: Graph,
    *,
    reorder: bool = True,
    alignment: int = 1,
    precision: DType | None = None,
    time_limit: float = 10.0,
    progress: Progress | None = None,
    aliases: bool = True,
) -> MemoryPlan:
    """The smallest arena found; file order is kept unless another schedule is better.

    With `aliases`, aliases share the buffer of their input.

    Each search ends after `time_limit` seconds. Raises Incomplete if a tensor size depends on data.
    """
    file_usage = usage(graph, precision=precision, aliases=aliases)
    _require_sizes(graph, file_usage)

    def plan(memory_usage: Usage) -> Packing:
        report = search_progress(progress, "arena")
        buffers = memory_usage.buffers if graph.ops else _all_live(memory_usage.buffers)
        packing = pack(buffers, alignment=alignment, time_limit=time_limit, progress=report)
        check_offsets(buffers, packing.offsets, capacity=packing.height, alignment=alignment)
        return packing

    file_order = tuple(range(len(graph.ops)))
    if not reorder or not graph.ops:
        packing = plan(file_usage)
        return MemoryPlan(
            file_order, file_usage, file_usage, packing, None, _bound(graph, file_usage, packing.lower_bound)
        )
    schedule = find_schedule(
        graph,
        aliases=aliases,
        time_limit=time_limit,
        progress=progress,
        precision=precision,
        alignment=alignment,
    )
    peak = _aligned_peak(file_usage, alignment)
    bound = _bound(graph, file_usage, schedule.lower_bound_bytes)
    if schedule.peak_bytes < peak:
        memory_usage = usage(with_schedule(graph, schedule.ops), precision=precision, aliases=aliases)
        packing = plan(memory_usage)
        # A schedule with a lower peak can pack worse. Only then pack file order as well.
        if packing.height <= peak or packing.height < (file_packing := plan(file_usage)).height:
            return MemoryPlan(schedule.ops, file_usage, memory_usage, packing, schedule, bound)
        return MemoryPlan(file_order, file_usage, file_usage, file_packing, schedule, bound)
    return MemoryPlan(file_order, file_usage, file_usage, plan(file_usage), schedule, bound)


def _bound(graph: Graph, memory_usage: Usage, bound: int) -> int:
    """The lower bound. If a graph declares scratch, that may contain inputs and outputs of its op, so only
    the largest buffer is a valid bound.
    """
    if any(map(is_scratch, graph.tensors)):
        return min(bound, int(memory_usage.buffers.size.max()))
    return bound


def _require_sizes(graph: Graph, memory_usage: Usage) -> None:
    if memory_usage.unknown_sizes:
        names = [
            repr(tensor.name) for tensor in graph.tensors if tensor.data is None and not size_is_known(tensor)
        ]
        listed = ", ".join(names[:_MAX_NAMED]) + (" and more" if len(names) > _MAX_NAMED else "")
        raise Incomplete(
            f"{graph.name or 'graph'}: cannot plan memory: {memory_usage.unavailable_reason}: {listed}"
        )


def _all_live(buffers: Buffers) -> Buffers:
    """The buffers of a graph without ops: all are live at once."""
    return replace(buffers, steps=1)


def _aligned_peak(memory_usage: Usage, alignment: int) -> int:
    """The peak with sizes rounded up to the alignment."""
    rounded = replace(
        memory_usage.buffers, size=-(-memory_usage.buffers.size // alignment) * alignment
    ).live_bytes()
    return int(rounded.max()) if len(rounded) else 0
