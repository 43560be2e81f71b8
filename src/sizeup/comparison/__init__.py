"""Compares two models: matches their ops and reports what changed and how the costs differ."""

from sizeup.comparison.accounting import Differences, compare
from sizeup.comparison.rows import STATUSES, Change, Figures, ModelCosts, Row, Status

__all__ = ["STATUSES", "Change", "Differences", "Figures", "ModelCosts", "Row", "Status", "compare"]
