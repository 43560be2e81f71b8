"""Two models side by side: which operator is which, what changed, and what the differences add up to."""

from sizeup.comparison.accounting import Differences, compare
from sizeup.comparison.rows import STATUSES, Change, Figures, Priced, Row, Status

__all__ = ["STATUSES", "Change", "Differences", "Figures", "Priced", "Row", "Status", "compare"]
