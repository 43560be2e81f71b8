"""What another tool says of the same model, beside our numbers, and where the two part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizeup import units

if TYPE_CHECKING:
    from sizeup.results.parts import Counted

_MOST_KINDS = 5


def lines(counted: Counted) -> list[tuple[str, str]]:
    """Labels and texts: its total in its own unit, and the kinds of operators that make the difference."""
    convention, total = counted.convention, counted.whole_total
    text = f"{units.count(total)} ({total:,}) {convention.unit} as {convention.title} counts"
    ours = counted.cost.total_macs
    if ours:
        text += f", {100 * total / ours:.1f} % of our MACs"
    found = [("elsewhere", text)]
    parts = counted.differences_by_kind()
    named = [f"{kind} {_signed(value)}" for kind, value in list(parts.items())[:_MOST_KINDS]]
    if len(parts) > _MOST_KINDS:
        named.append(f"{len(parts) - _MOST_KINDS} more kinds")
    found.append(("", f"against our MACs: {', '.join(named)}" if named else "the same for every kind"))
    if counted.untold:
        found.append(
            ("", f"without {counted.untold:,} operators that it counts in a way not reproduced here")
        )
    return found


def to_dict(counted: Counted) -> dict[str, Any]:
    """The same as plain data."""
    convention = counted.convention
    return {
        "name": convention.name,
        "title": convention.title,
        "unit": convention.unit,
        "total": counted.whole_total,
        "not_reproduced_ops": counted.untold,
        "less_macs_by_kind": counted.differences_by_kind(),
    }


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-'}{units.count(abs(value))}"
