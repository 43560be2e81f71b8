"""Growth: how much more a model takes than it did in a baselines file or at a git revision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sizeup import units
from sizeup.checks.limits import Growth, Limit
from sizeup.checks.measures import MEASURES, Found, Measure
from sizeup.checks.subject import Subject

GROWING = tuple(name for name, measure in MEASURES.items() if measure.has_growth)


@dataclass(frozen=True, slots=True)
class Reference:
    """The amounts of a model in a baselines file or at a git revision; `amounts` is None for a new model."""

    source: str  # the file or the revision
    amounts: Mapping[str, float] | None = None
    new_because: str = ""
    is_revision: bool = False


def measured(subject: Subject, names: Iterable[str] = GROWING) -> dict[str, float]:
    """The amounts that a later growth can be compared with; a measure without a definite one is left out."""
    amounts = {}
    for name in names:
        measure = MEASURES[name]
        now, highest = _range(measure.find(subject))
        if now is not None and now == highest:
            amounts[name] = round(now) if measure.unit in ("count", "bytes") else now
    return amounts


def grown(
    subject: Subject, reference: Reference | None, allowed: Mapping[str, float], of: str
) -> tuple[Limit, ...]:
    """Every growth limit, as a share of the reference; none for a new model."""
    if reference is None or reference.amounts is None:
        return ()
    return tuple(_grown(MEASURES[name], subject, reference, most, of) for name, most in allowed.items())


def _grown(measure: Measure, subject: Subject, reference: Reference, most: float, of: str) -> Limit:
    name = f"growth of {measure.name}"
    before = (reference.amounts or {}).get(measure.name)
    amounts = measure.find(subject)
    low, high = _range(amounts)
    why = amounts.why
    if before is None:
        missing = f"{reference.source} has no {measure.name} of this model"
        hint = "" if reference.is_revision or why else "; check --update-baselines adds it"
        return Limit(name, "share", most, None, None, None, of, (why or f"{missing}{hint}",))
    if low is None:
        return Limit(name, "share", most, None, None, None, of, (why,))
    growth = Growth(measure.unit, before, low) if low == high else None
    if before == 0 and low > 0:
        why = f"the baseline has none, and now there are {units.quantity(measure.unit, low)}"
        return Limit(name, "share", most, math.inf, None, None, of, (why,), growth=growth)
    # The difference first: it is exact, and the quotient then rounds as that of a budget does.
    share = [None if each is None else (each - before) / (before or 1) for each in (low, high)]
    unknown = (why,) if share[1] is None else ()
    return Limit(name, "share", most, share[0], share[1], None, of, unknown, growth=growth)


def changes(subject: Subject, reference: Reference) -> Iterator[tuple[str, Growth]]:
    """Every measure whose amount is not that of the reference."""
    before = reference.amounts or {}
    for name, now in measured(subject, before).items():
        if now != before[name]:
            yield name, Growth(MEASURES[name].unit, before[name], now)


def _range(amounts: Found) -> tuple[float | None, float | None]:
    """The least and the most, or twice the expected amount: two estimates are off by the same error."""
    return (amounts.least, amounts.most) if amounts.expected is None else (amounts.expected,) * 2
