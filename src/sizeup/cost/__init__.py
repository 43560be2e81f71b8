"""What every operator costs: columns of a bound graph, closed forms of one with free dimensions."""

from sizeup.cost.closed import Counts, FreeCost, closed
from sizeup.cost.columns import Accesses, Bytes, Column, Cost, Flags, count, total
from sizeup.cost.forms import Forms

__all__ = [
    "Accesses",
    "Bytes",
    "Column",
    "Cost",
    "Counts",
    "Flags",
    "Forms",
    "FreeCost",
    "closed",
    "count",
    "total",
]
