"""What would make a model fit: every remedy is carried out, and judged by the same limits again."""

from __future__ import annotations

from sizeup.checks.case import Case, Remedy
from sizeup.checks.narrower import narrowed
from sizeup.checks.rewritten import rewritten
from sizeup.checks.smaller import shrunk

SECONDS = 5.0  # for each search


def remedies(case: Case, time_limit: float = SECONDS) -> tuple[Remedy, ...]:
    """Whatever helps, those that make it fit first; empty where nothing is wanting."""
    if not case.wanting:
        return ()
    found = [*rewritten(case, time_limit), *narrowed(case), *shrunk(case)]
    return tuple(sorted(found, key=lambda each: each.fits is not True))
