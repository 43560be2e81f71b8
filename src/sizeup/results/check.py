"""A check: whether a model fits, every limit with what was found, and what would help."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, get_args

from sizeup.checks import Large, Limit, verdict
from sizeup.checks.limits import Growth
from sizeup.files import write_text
from sizeup.render.files import check_ending

if TYPE_CHECKING:
    from sizeup.checks import Change, Remedy

SCHEMA_VERSION = 1
Status = Literal["fits", "does not fit", "undetermined", "error", "removed"]
ANSWERS: dict[bool | None, Status] = {True: "fits", False: "does not fit", None: "undetermined"}
CODE_QUALITY = ".codequality.json"
_ENDINGS = (".json", ".md", ".xml")


@dataclass(frozen=True, slots=True, repr=False)
class Check:
    """A model held against its limits; `fits` is None if undetermined.

    `error` says why a model could not be judged at all: it then has no limits.
    """

    model: str  # as it was named
    name: str  # the model's own name, or what it was called
    format: str = ""
    target: str | None = None
    limits: tuple[Limit, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    budgets: tuple[str, ...] = ()  # the names of those that asked
    is_file: bool = False
    strict: bool = False  # whether what is not counted leaves the answer open
    sought: bool = False  # whether remedies were looked for
    refused: str | None = None  # why the runtime does not take the model at all
    unknown_ops: int = 0  # operators that are not counted
    other_entries: tuple[str, ...] = ()  # signatures of the file that are not counted
    peak_tensors: tuple[Large, ...] = ()  # the tensors in memory at the peak, the largest first
    error: str = ""
    new: str = ""  # why there is nothing that its growth could be judged against
    against: str = ""  # the git revision that it was compared with
    changes: tuple[tuple[str, Growth], ...] = ()  # measures that have another amount there
    update_command: str = ""  # what writes the present amounts as baselines
    is_removed: bool = False  # there at that revision, but not any more

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict: the model could be read, and is still there."""
        return not self.error and not self.is_removed

    @property
    def fits(self) -> bool | None:
        """Whether all limits are kept and the runtime takes the model; None if undetermined."""
        if not self.is_judged:
            return None
        found = verdict(self.limits, self.refused)
        return None if found is True and self.strict and not self.is_complete else found

    @property
    def is_complete(self) -> bool:
        """Whether all that the file can run is counted."""
        return not self.unknown_ops and not self.other_entries

    @property
    def status(self) -> Status:
        """The verdict in words, or why there is none."""
        if self.is_judged:
            return ANSWERS[self.fits]
        return "error" if self.error else "removed"

    def __repr__(self) -> str:
        where = f" on {self.target}" if self.target else ""
        kept = sum(each.fits is True for each in self.limits)
        return f"<{self.name}{where}: {self.status}; {kept} of {len(self.limits)} limits kept>"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the unit in every limit."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.name, "format": self.format, "source": self.model},
            "target": self.target,
            "budgets": list(self.budgets),
            "fits": self.fits,
            "answer": self.status,
            "error": self.error or None,
            "new": self.new or None,
            "refused": self.refused,
            "unknown_ops": self.unknown_ops,
            "other_entries": list(self.other_entries),
            "limits": [_limit(each) for each in self.limits],
            "against": self.against or None,
            "changes": [{"name": name, **_growth(each)} for name, each in self.changes],
            "peak_tensors": [{"name": each.name, "bytes": each.amount} for each in self.peak_tensors],
            "remedies": [_remedy(each) for each in self.remedies],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as its ending says: .json, .md, .xml (JUnit), .codequality.json (GitLab)."""
        save([self], path)

    def _repr_html_(self) -> str:
        from sizeup.render.console import check_page as checked_pages

        return checked_pages.html(self)


def by_path(checks: Sequence[Check]) -> Sequence[Check]:
    """The checks, named by the paths of their models if there are several: file names may repeat."""
    if len({each.model for each in checks}) <= 1:
        return checks
    return [replace(each, name=each.model) for each in checks]


def to_dict(checks: Sequence[Check]) -> dict[str, Any]:
    """Several checks under one answer."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "sizeup", "version": version("sizeup")},
        "fits": fits(checks),
        "counts": counts(checks),
        "checks": [each.to_dict() for each in checks],
    }


def counts(checks: Sequence[Check]) -> dict[str, int]:
    """How many checks have each status, and how many models are new."""
    statuses = Counter(each.status for each in checks)
    return {**{name: statuses[name] for name in get_args(Status)}, "new": sum(bool(c.new) for c in checks)}


def fits(checks: Sequence[Check]) -> bool | None:
    """The answer of all together: a NO or an error decides, then one that is undetermined."""
    if any(each.error for each in checks):
        return False
    answers = [each.fits for each in checks if each.is_judged]
    return False if False in answers else None if None in answers else True


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that a check is not written as."""
    from sizeup.render.files import check_folder

    check_ending(path, "a check is", *_ENDINGS)
    check_folder(path)


def save(checks: Sequence[Check], path: str | os.PathLike[str]) -> None:
    """Write checks to a file as its ending says."""
    check_path(path)
    write_text(path, _lines(checks, os.fspath(path).lower()))


def _lines(checks: Sequence[Check], name: str) -> Iterable[str]:
    from sizeup.render import check_comment
    from sizeup.render.data import ci as checked_ci
    from sizeup.render.data import code_quality

    if name.endswith(CODE_QUALITY):
        return [json.dumps(code_quality.issues(checks), indent=2), "\n"]
    if name.endswith(".json"):
        content = checks[0].to_dict() if len(checks) == 1 else to_dict(checks)
        return [json.dumps(content, indent=2, allow_nan=False), "\n"]
    return [checked_ci.junit(checks)] if name.endswith(".xml") else check_comment.markdown(checks)


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
