"""The best order and the best place for every buffer, together, and how far they are from any other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sizeup.dtypes import DType
from sizeup.errors import Incomplete
from sizeup.graph import Graph
from sizeup.memory.arena import Packing, pack
from sizeup.memory.check import check_offsets
from sizeup.memory.liveness import Buffers, is_scratch
from sizeup.memory.schedule import Progress, find_order, reordered, telling
from sizeup.memory.schedule_problem import Ordering
from sizeup.memory.usage import Usage, usage

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Placement:
    """An order, an address for every buffer, and what no other order and no other addresses go below."""

    order: tuple[int, ...]  # operators of the graph, as they are to run
    given: Usage  # memory in the graph's own order
    usage: Usage  # memory in this order; its operators are steps of it
    packing: Packing
    ordering: Ordering | None  # None where other orders were not looked for
    lower_bound_bytes: int  # of the arena, whatever the order, or in the given one where only that was asked

    @property
    def status(self) -> str:
        """'optimal' where the arena is proven to be the smallest of any order, otherwise 'feasible'."""
        return "optimal" if self.packing.height == self.lower_bound_bytes else "feasible"


def best_placement(
    graph: Graph,
    *,
    reorder: bool = True,
    alignment: int = 1,
    precision: DType | None = None,
    time_limit: float = 10.0,
    progress: Progress | None = None,
) -> Placement:
    """The smallest arena found, in the graph's own order where no other is better.

    Each search ends after `time_limit` seconds. Raises Incomplete where a tensor's size depends on data.
    """
    given = usage(graph, precision=precision)
    _demand_sizes(graph, given)

    def packed(found: Usage) -> Packing:
        tell = telling(progress, "arena")
        buffers = found.buffers if graph.ops else _at_once(found.buffers)
        packing = pack(buffers, alignment=alignment, time_limit=time_limit, progress=tell)
        check_offsets(buffers, packing.offsets, capacity=packing.height, alignment=alignment)
        return packing

    own = tuple(range(len(graph.ops)))
    if not reorder or not graph.ops:
        packing = packed(given)
        return Placement(own, given, given, packing, None, _bound(graph, given, packing.lower_bound))
    ordering = find_order(
        graph, views=True, time_limit=time_limit, progress=progress, precision=precision, alignment=alignment
    )
    peak = _aligned_peak(given, alignment)
    bound = _bound(graph, given, ordering.lower_bound_bytes)
    if ordering.peak_bytes < peak:
        found = usage(reordered(graph, ordering.order), precision=precision)
        packing = packed(found)
        # A lower peak may be harder to pack; only then is the order that is there worth packing as well.
        if packing.height <= peak or packing.height < (instead := packed(given)).height:
            return Placement(ordering.order, given, found, packing, ordering, bound)
        return Placement(own, given, given, instead, ordering, bound)
    return Placement(own, given, given, packed(given), ordering, bound)


def _bound(graph: Graph, found: Usage, bound: int) -> int:
    """The bound, which proves nothing where an operator's scratch may hold its inputs and outputs, too.

    Only the largest buffer is then certain to be needed.
    """
    if any(map(is_scratch, graph.tensors)):
        return min(bound, int(found.buffers.size.max()))
    return bound


def _demand_sizes(graph: Graph, found: Usage) -> None:
    if found.unknown:
        names = [repr(each.name) for each in graph.tensors if each.shape is None and each.data is None]
        listed = ", ".join(names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
        raise Incomplete(f"{graph.name or 'graph'}: no plan can be made, because {found.missing}: {listed}")


def _at_once(buffers: Buffers) -> Buffers:
    """The buffers of a graph without operators, whose inputs are its outputs: all are there together."""
    return replace(buffers, first=0 * buffers.first, last=0 * buffers.last, steps=1)


def _aligned_peak(found: Usage, alignment: int) -> int:
    """The peak with every size rounded up, as it counts in an arena."""
    rounded = replace(found.buffers, size=-(-found.buffers.size // alignment) * alignment).live_bytes()
    return int(rounded.max()) if len(rounded) else 0
