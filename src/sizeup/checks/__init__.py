"""Whether a model fits: what it needs against what a target has, and budgets that a team sets."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sizeup.checks.limits import Large, Limit, Part, Space, verdict
from sizeup.checks.room import Needs, Room, room

if TYPE_CHECKING:
    from sizeup.checks.baselines import Baselines, read_baselines
    from sizeup.checks.budgets import Budget, Budgets, read_budgets
    from sizeup.checks.case import Case, Change, Origin, Remedy
    from sizeup.checks.helping import remedies
    from sizeup.checks.judging import LimitSpec, Reference, judge
    from sizeup.checks.measures import MEASURES, Subject

__all__ = [
    "MEASURES",
    "Baselines",
    "Budget",
    "Budgets",
    "Case",
    "Change",
    "Large",
    "Limit",
    "LimitSpec",
    "Needs",
    "Origin",
    "Part",
    "Reference",
    "Remedy",
    "Room",
    "Space",
    "Subject",
    "judge",
    "read_baselines",
    "read_budgets",
    "remedies",
    "room",
    "verdict",
]

# Where the names live that only a check needs: a report and a sweep ask for the room alone.
_HOMES = {
    "baselines": ("Baselines", "read_baselines"),
    "budgets": ("Budget", "Budgets", "read_budgets"),
    "case": ("Case", "Change", "Origin", "Remedy"),
    "judging": ("Reference", "LimitSpec", "judge"),
    "measures": ("MEASURES", "Subject"),
    "helping": ("remedies",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
