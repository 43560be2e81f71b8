"""All limits of one model, held against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sizeup.checks.growth import Reference, grown
from sizeup.checks.layers import layer_limits
from sizeup.checks.limits import Limit
from sizeup.checks.measures import MEASURES, judged, rooms
from sizeup.checks.subject import Subject


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a model beside the room of its target; `of` says who asks."""

    limits: Mapping[str, float] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reference: Reference | None = None
    of: str = ""
    expected: bool = False  # times are judged by what is expected, not by their range


def judge(subject: Subject, wanted: Wanted) -> tuple[Limit, ...]:
    """Every limit, those of the target first."""
    found = list(rooms(subject))
    covered = {each.name for each in found}
    found += [
        judged(MEASURES[name], subject, most, wanted.of, wanted.expected)
        for name, most in wanted.limits.items()
        if name not in covered
    ]
    found += grown(subject, wanted.reference, wanted.growth, wanted.of)
    found += layer_limits(subject, wanted.layers, wanted.of)
    return tuple(found)
