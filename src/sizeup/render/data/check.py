"""Checks as plain data, the unit in every limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.results.check import counts

if TYPE_CHECKING:
    from sizeup.results.check import Check, Checks
    from sizeup.results.parts import Change, Growth, Limit, Remedy


def to_dict(check: Check) -> dict[str, Any]:
    """All of it as plain data, the unit in every limit."""
    return {
        **envelope.head(),
        "model": {"name": check.name, "format": check.format, "source": check.model},
        "target": check.target,
        "budgets": list(check.budgets),
        "fits": check.fits,
        "answer": check.status,
        "error": check.error or None,
        "new": check.new or None,
        "refused": check.refused,
        "unknown_ops": check.unknown_ops,
        "other_entries": list(check.other_entries),
        "limits": [_limit(each) for each in check.limits],
        "against": check.against or None,
        "changes": [{"name": name, **_growth(each)} for name, each in check.changes],
        "peak_tensors": [{"name": each.name, "bytes": each.amount} for each in check.peak_tensors],
        "remedies": [_remedy(each) for each in check.remedies],
    }


def all_to_dict(found: Checks) -> dict[str, Any]:
    """One check as it is, several under one verdict."""
    if len(found.checks) == 1:
        return to_dict(found.checks[0])
    return {
        **envelope.head(),
        "fits": found.fits,
        "counts": counts(found.checks),
        "checks": [to_dict(each) for each in found.checks],
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "name": limit.name,
        "unit": limit.unit,
        "of": limit.of,
        "limit": limit.most,
        "reserve": limit.reserve,
        "need": _finite(limit.need),
        "least_need": _finite(limit.least_need),
        "most_need": _finite(limit.most_need),
        "headroom": _finite(limit.headroom),
        "fits": limit.fits,
        "unknown": list(limit.unknown),
        "parts": [
            {
                "name": part.name,
                "least_bytes": part.least_bytes,
                "most_bytes": part.most_bytes,
                "how": part.how,
            }
            for part in limit.parts
        ],
        "assumptions": list(limit.assumptions),
        "largest": [{"name": each.name, "amount": each.amount} for each in limit.largest],
        "growth": None if limit.growth is None else _growth(limit.growth),
    }


def _growth(growth: Growth) -> dict[str, Any]:
    return {"unit": growth.unit, "before": growth.before, "now": growth.now}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "what": remedy.what,
        "command": remedy.command,
        "fits": remedy.fits,
        "changes": [_change(each) for each in remedy.changes],
        "notes": list(remedy.notes),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "unit": change.unit,
        "before": change.before,
        "after": change.after,
        "fits": change.fits,
    }
