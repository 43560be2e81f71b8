"""Looking for the best order: told step by step to whoever watches, judged before anybody uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory.check import check_order
from sizeup.memory.liveness import lifetimes
from sizeup.memory.order import best_order
from sizeup.memory.ordering import Ordering, problem_of

Progress = Callable[[str, int, int], None]  # what is searched for, proven lower bound, best so far


def find_order(
    graph: Graph,
    *,
    views: bool,
    time_limit: float,
    progress: Progress | None,
    precision: DType | None = None,
    alignment: int = 1,
) -> Ordering:
    """The best order found in time, with the bound proven by then; sizes are rounded up to `alignment`."""
    problem = problem_of(graph, views=views, precision=precision)
    problem = replace(problem, sizes=tuple(-(-size // alignment) * alignment for size in problem.sizes))
    found = best_order(problem, time_limit=time_limit, progress=telling(progress, "order"))
    check_order(graph, found.order)
    return found


def telling(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """What a search reports its bounds to, so that it is known which search that is."""
    return None if progress is None else lambda bound, best: progress(what, bound, best)


def peak_bytes(graph: Graph) -> int:
    """The most bytes in use at once, in the graph's own order."""
    live = lifetimes(graph).live_bytes()
    return int(live.max()) if len(live) else 0


def reordered(graph: Graph, order: Sequence[int] | None) -> Graph:
    """The graph with its operators in another order."""
    return graph if order is None else replace(graph, ops=tuple(graph.ops[index] for index in order))


def moved(order: Sequence[int]) -> int:
    """How many operators stand elsewhere than before."""
    return sum(place != index for place, index in enumerate(order))
