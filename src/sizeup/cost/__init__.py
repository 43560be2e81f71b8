"""The cost of every op, as columns."""

from sizeup.cost.columns import Accesses, Bytes, Column, Cost, Flags, total
from sizeup.cost.counting import count, recount

__all__ = ["Accesses", "Bytes", "Column", "Cost", "Flags", "count", "recount", "total"]
