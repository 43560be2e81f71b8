"""Growth against a baseline: a report that was kept as JSON, and what may have become more since."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizeup.checks.limits import Limit, amount
from sizeup.checks.measures import MEASURES, Measure
from sizeup.checks.subject import Subject
from sizeup.dtypes import precision_name
from sizeup.errors import BudgetError

SCHEMA_VERSIONS = (1,)
_LEAST, _MOST = 1e-30, 1e30  # of whatever a model has, in any unit


def read_baseline(path: Path, model: str) -> dict[str, Any]:
    """A report as `sizeup analyze -o FILE.json` wrote it."""
    try:
        if path.exists() and not path.is_file():
            raise BudgetError(f"{path}: a baseline is a file: sizeup analyze {model} -o FILE.json")
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise BudgetError(f"{path}: there is no such baseline: sizeup analyze {model} -o {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BudgetError(f"{path}: cannot be read as a baseline: {error}") from error
    if not isinstance(found, dict) or found.get("schema_version") not in SCHEMA_VERSIONS:
        raise BudgetError(f"{path}: not a report of sizeup: sizeup analyze {model} -o {path}")
    if not isinstance(found.get("totals"), dict):
        raise BudgetError(f"{path}: a report without totals: sizeup analyze {model} -o {path}")
    return found


def grown(
    subject: Subject, baseline: Mapping[str, Any], allowed: Mapping[str, float], of: str
) -> tuple[Limit, ...]:
    """Every growth that is limited, as a share of what was there."""
    return tuple(_grown(MEASURES[name], subject, baseline, most, of) for name, most in allowed.items())


def _grown(measure: Measure, subject: Subject, baseline: Mapping[str, Any], most: float, of: str) -> Limit:
    name = f"growth of {measure.name}"
    before, why = _before(measure, subject, baseline)
    found = measure.find(subject)
    # Two estimates of one kind are compared as such: their ranges say how far both are off alike.
    low, high = (found.least, found.most) if found.expected is None else (found.expected, found.expected)
    if before is None or low is None:
        return Limit(name, "share", most, None, None, None, of, (why or found.why,))
    if before == 0 and low > 0:
        why = f"the baseline has none, and now there are {amount(measure.unit, low)}"
        return Limit(name, "share", most, math.inf, None, None, of, (why,))
    # The difference first: it is exact, and the quotient then rounds as that of a budget does.
    share = [None if each is None else (each - before) / (before or 1) for each in (low, high)]
    unknown = (found.why,) if share[1] is None else ()
    return Limit(name, "share", most, share[0], share[1], None, of, unknown, largest=())


def _before(measure: Measure, subject: Subject, baseline: Mapping[str, Any]) -> tuple[float | None, str]:
    """The figure of the baseline, or why it says nothing."""
    reason = _differs(measure, subject, baseline)
    if reason:
        return None, reason
    found: Any = baseline
    for key in measure.baseline:
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, bool) or not isinstance(found, int | float) or not _is_amount(found):
        return None, f"the baseline does not tell its {measure.name}"
    return found * measure.scale, ""


def _is_amount(found: float) -> bool:
    """Whether a report may hold it: JSON as Python reads it has infinities and integers beyond floats."""
    return found == 0 or _LEAST <= found <= _MOST


def _differs(measure: Measure, subject: Subject, baseline: Mapping[str, Any]) -> str:
    asked = None if subject.precision is None else precision_name(subject.precision)
    if baseline.get("precision") != asked:
        return f"the baseline was taken at {baseline.get('precision') or 'its own types'}"
    if measure.name == "macs" and baseline["totals"].get("complete") is False:
        return "the baseline counted its operators only in part"
    if measure.needs_target and subject.target is not None:
        there = baseline.get("latency")
        named = there.get("target") if isinstance(there, Mapping) else None
        if named != subject.target.name:
            return f"the baseline was taken on {named or 'no target'}, not on {subject.target.name}"
    return ""
