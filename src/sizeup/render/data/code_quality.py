"""Checks as a Code Quality report, which GitLab shows in merge requests.

The fields are those of "Code Quality report format" in GitLab's documentation (docs.gitlab.com,
ci/testing/code_quality).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sizeup.render.console.check import Finding, announced
from sizeup.render.console.report import plain
from sizeup.render.data.ci import place
from sizeup.results.check import Check, by_path

_SEVERITIES = {"error": "critical", "warning": "major", "notice": "info"}


def issues(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """One issue per finding; a fingerprint holds no amounts, so that it stays while the finding does."""
    seen: Counter[tuple[str, ...]] = Counter()
    listed = []
    for check in by_path(checks):
        for finding in announced(check):
            identity = (place(check), check.target or "", *check.budgets, finding.label, finding.about)
            seen[identity] += 1
            listed.append(_issue(check, finding, (*identity, str(seen[identity]))))
    return listed


def _issue(check: Check, finding: Finding, identity: tuple[str, ...]) -> dict[str, Any]:
    is_named = finding.text.startswith((f"{check.name}:", f"{check.model}:"))  # as most errors are
    return {
        "description": plain(finding.text if is_named else f"{check.name}: {finding.text}"),
        "check_name": f"sizeup-{finding.label}",
        "fingerprint": hashlib.sha256(repr(identity).encode("utf-8")).hexdigest(),
        "severity": _SEVERITIES[finding.level],
        "location": {"path": plain(place(check)), "lines": {"begin": 1}},
    }
