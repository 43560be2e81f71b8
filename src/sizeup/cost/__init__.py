"""What every operator costs: columns of a bound graph; `closed` has formulas of one with free dimensions."""

from sizeup.cost.columns import Accesses, Bytes, Column, Cost, Flags, total
from sizeup.cost.counting import count
from sizeup.cost.retyped import recount

__all__ = ["Accesses", "Bytes", "Column", "Cost", "Flags", "count", "recount", "total"]
