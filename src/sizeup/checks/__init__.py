"""Fit checks: the need of a model compared with the memory of a target and with budgets."""

from typing import TYPE_CHECKING

from sizeup.backends import EXTERNAL_RAM, MemoryFit, MemoryNeed, MemoryPart, Needs, fit_memory
from sizeup.checks.limits import Contribution, Limit, verdict
from sizeup.lazy import lazy_names

if TYPE_CHECKING:
    from sizeup.checks.baselines import Baselines, read_baselines
    from sizeup.checks.budgets import Budget, Budgets, read_budgets
    from sizeup.checks.evaluate import LimitSpec, Reference, evaluate_limits
    from sizeup.checks.measures import MEASURES, Subject
    from sizeup.checks.remedy_case import Case, Change, Origin, Remedy
    from sizeup.checks.remedy_search import remedies

__all__ = [
    "EXTERNAL_RAM",
    "MEASURES",
    "Baselines",
    "Budget",
    "Budgets",
    "Case",
    "Change",
    "Contribution",
    "Limit",
    "LimitSpec",
    "MemoryFit",
    "MemoryNeed",
    "MemoryPart",
    "Needs",
    "Origin",
    "Reference",
    "Remedy",
    "Subject",
    "evaluate_limits",
    "fit_memory",
    "read_baselines",
    "read_budgets",
    "remedies",
    "verdict",
]

# Modules of the names that only a check needs; loaded on first use, as reports and sweeps do without them.
__getattr__ = lazy_names(
    __name__,
    {
        "baselines": ("Baselines", "read_baselines"),
        "budgets": ("Budget", "Budgets", "read_budgets"),
        "remedy_case": ("Case", "Change", "Origin", "Remedy"),
        "evaluate": ("Reference", "LimitSpec", "evaluate_limits"),
        "measures": ("MEASURES", "Subject"),
        "remedy_search": ("remedies",),
    },
)
