"""Checks as plain data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.render.data.npu import npu_to_dict
from sizeup.results.check import counts

if TYPE_CHECKING:
    from sizeup.results.check import Check, Checks
    from sizeup.results.parts import Change, Growth, HostRun, Limit, Remedy


def to_dict(check: Check) -> dict[str, Any]:
    """Returns a check as plain data; every limit has its unit."""
    return {
        **envelope.head(),
        "model": {"name": check.name, "format": check.format, "source": check.model},
        "target": check.target,
        "budgets": list(check.budgets),
        "fits": check.fits,
        "verdict": check.status,
        "error": check.error or None,
        "no_baseline_reason": check.no_baseline_reason or None,
        "unsupported_reason": check.unsupported_reason,
        "caveats": list(check.caveats),
        "host_run": None if check.host_run is None else _host_run(check.host_run),
        **({} if check.npu is None else {"npu": npu_to_dict(check.npu)}),
        "unknown_ops": check.unknown_ops,
        "other_entries": list(check.other_entries),
        "limits": [_limit(item) for item in check.limits],
        "base_revision": check.base_revision or None,
        "base_commit": check.base_commit or None,
        "renamed_from": check.renamed_from or None,
        "policy_edits": list(check.edits),
        "undetermined_reasons": list(check.undetermined_reasons),
        "changes": [{"name": name, **_growth(item)} for name, item in check.changes],
        "peak_tensors": [{"name": item.name, "bytes": item.amount} for item in check.peak_tensors],
        "remedies": [_remedy(item) for item in check.remedies],
    }


def all_to_dict(checks: Checks) -> dict[str, Any]:
    """Returns one check as it is, several with the verdict of all."""
    if len(checks.checks) == 1:
        return to_dict(checks.checks[0])
    return {
        **envelope.head(),
        "fits": checks.fits,
        "counts": counts(checks.checks),
        "checks": [to_dict(check) for check in checks.checks],
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "name": limit.name,
        "unit": limit.unit,
        "source": limit.source,
        "limit": limit.maximum,
        "reserve": limit.reserve,
        "need": _finite(limit.need),
        "need_low": _finite(limit.need_low),
        "need_high": _finite(limit.need_high),
        "headroom": _finite(limit.headroom),
        "fits": limit.fits,
        "unknown": list(limit.unknown),
        "parts": [
            {
                "name": part.name,
                "low_bytes": part.low_bytes,
                "high_bytes": part.high_bytes,
                "basis": part.basis,
            }
            for part in limit.parts
        ],
        "assumptions": list(limit.assumptions),
        "largest": [{"name": item.name, "amount": item.amount} for item in limit.largest],
        "growth": None if limit.growth is None else _growth(limit.growth),
    }


def _host_run(run: HostRun) -> dict[str, Any]:
    return {"runtime": run.runtime, "outcome": run.outcome, "reason": run.reason or None}


def _growth(growth: Growth) -> dict[str, Any]:
    return {"unit": growth.unit, "before": growth.before, "now": growth.after}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "description": remedy.description,
        "command": remedy.command,
        "fits": remedy.fits,
        "changes": [_change(change) for change in remedy.changes],
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
