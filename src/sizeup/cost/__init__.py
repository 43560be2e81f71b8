"""The cost of every op, as columns."""

from sizeup.cost.columns import Accesses, Bytes, Column, Cost, Flags, total
from sizeup.cost.counting import count, count_with_dtypes

__all__ = ["Accesses", "Bytes", "Column", "Cost", "Flags", "count", "count_with_dtypes", "total"]
