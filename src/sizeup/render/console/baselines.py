"""The changes of a baselines file as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sizeup.render.console.check import both_amounts
from sizeup.render.vocabulary import quantity_title
from sizeup.results.check import MEASURE_UNITS, Growth
from sizeup.units import quantity

if TYPE_CHECKING:
    from sizeup.results.parts import Update

_MOST_UPDATED = 20


def update_lines(update: Update) -> Iterator[str]:
    """Yields the number of changed lines of a baselines file, and the first with both amounts."""
    changes = update.changes
    yield f"{update.path}: {update.added:,} added, {len(changes):,} changed, {update.removed:,} removed"
    for key, before, after in changes[:_MOST_UPDATED]:
        settings = [f" on {key.target}"] * bool(key.target) + [f" at {key.precision}"] * bool(key.precision)
        sizes = [f", {name}={size}" for name, size in key.bind]
        names = [name for name in MEASURE_UNITS if before.get(name) != after.get(name)]
        texts = [f"{quantity_title(name)} {_replaced(name, before, after)}" for name in names]
        yield f"  {key.model}{''.join((*settings, *sizes))}: {', '.join(texts)}"
    if len(changes) > _MOST_UPDATED:
        yield f"  and {len(changes) - _MOST_UPDATED:,} more"


def _replaced(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Returns both amounts of a measure; `none` if missing."""
    unit = MEASURE_UNITS[name]
    if name in before and name in after:
        return " -> ".join(both_amounts(Growth(unit, before[name], after[name])))
    return " -> ".join(
        quantity(unit, amounts[name]) if name in amounts else "none" for amounts in (before, after)
    )
