"""What a latency leaves out: operators without a cost, and the steps of recurrent operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from sizeup import units
from sizeup.cost import Cost
from sizeup.latency.work import Flags


def is_counted(cost: Cost) -> Flags:
    """Whether each op has a cost; false for those without a cost rule, whose traffic alone is known."""
    return np.asarray(cost.known | (cost.macs > 0) | (cost.elementwise > 0), np.bool_)


def gaps(cost: Cost) -> Iterator[str]:
    """Yields what makes a latency incomplete: ops without a cost, then ops of which a part is counted."""
    counted = is_counted(cost)
    uncounted = sum(not counted[op] for op in cost.reasons)
    if uncounted:
        yield f"incomplete: the time of {units.plural(uncounted, 'unknown operator')} is missing"
    partly = Counter((cost.graph.ops[op].kind, text) for op, text in cost.reasons.items() if counted[op])
    yield from (f"incomplete: {count:,} x {op_kind}: {reason}" for (op_kind, reason), count in partly.items())
