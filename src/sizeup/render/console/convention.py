"""What another tool says of the same model, beside our numbers, and where the two part."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from sizeup import units

if TYPE_CHECKING:
    from sizeup.conventions import Counted

_MOST_KINDS = 5


def differences_by_kind(counted: Counted) -> dict[str, int | float]:
    """Its count less our MACs, by kind of operator, the largest first, without kinds on which both agree."""
    found: Counter[str] = Counter()
    ops, macs = counted.cost.graph.ops, counted.cost.macs
    for op, theirs, ours in zip(ops, counted.counts.tolist(), macs.tolist(), strict=True):
        if not np.isnan(theirs):
            found[op.kind] += theirs - ours
    parts = sorted(found.items(), key=lambda pair: -abs(pair[1]))
    return {kind: _whole(value) for kind, value in parts if value}


def lines(counted: Counted) -> list[tuple[str, str]]:
    """Labels and texts: its total in its own unit, and the kinds of operators that make the difference."""
    convention, total = counted.convention, _whole(counted.total)
    text = f"{units.count(total)} ({total:,}) {convention.unit} as {convention.title} counts"
    ours = counted.cost.total_macs
    if ours:
        text += f", {100 * total / ours:.1f} % of our MACs"
    found = [("elsewhere", text)]
    parts = differences_by_kind(counted)
    named = [f"{kind} {_signed(value)}" for kind, value in list(parts.items())[:_MOST_KINDS]]
    if len(parts) > _MOST_KINDS:
        named.append(f"{len(parts) - _MOST_KINDS} more kinds")
    found.append(("", f"against our MACs: {', '.join(named)}" if named else "the same for every kind"))
    if counted.untold:
        found.append(
            ("", f"without {counted.untold:,} operators that it counts in a way not reproduced here")
        )
    return found


def sentence(counted: Counted, index: int) -> str:
    """Its number for one operator, and why that is so."""
    convention, value = counted.convention, counted.counts[index]
    why = counted.why(index)
    if np.isnan(value):
        return f"{convention.title}: {why}"
    return f"{convention.title}: {_whole(value):,} {convention.unit}. {why}"


def to_dict(counted: Counted) -> dict[str, Any]:
    """The same as plain data."""
    convention = counted.convention
    return {
        "name": convention.name,
        "title": convention.title,
        "unit": convention.unit,
        "total": _whole(counted.total),
        "not_reproduced_ops": counted.untold,
        "less_macs_by_kind": differences_by_kind(counted),
    }


def _whole(value: float) -> int | float:
    """An int where it is one, which it is for all that do not divide by strides."""
    return int(value) if float(value).is_integer() else float(value)


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-'}{units.count(abs(value))}"
