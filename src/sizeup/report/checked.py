"""A check: whether a model fits, every limit with what was found, and what would help."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.checks import Limit, verdict
from sizeup.files import write_text
from sizeup.report.files import check_ending

if TYPE_CHECKING:
    from sizeup.checks import Change, Remedy, Subject

SCHEMA_VERSION = 1
ANSWERS = {True: "fits", False: "does not fit", None: "cannot tell"}


@dataclass(frozen=True, slots=True, repr=False)
class Check:
    """A model held against its limits; `fits` is None where nobody can tell."""

    model: str  # as it was named
    subject: Subject
    limits: tuple[Limit, ...]
    remedies: tuple[Remedy, ...] = ()
    budgets: tuple[str, ...] = ()  # the names of those that asked
    is_file: bool = False
    strict: bool = False  # whether an operator that is not counted leaves the answer open
    sought: bool = False  # whether remedies were looked for

    @property
    def refused(self) -> str | None:
        """Why the runtime does not take the model at all; None where no reason is known."""
        return None if self.subject.room is None else self.subject.room.refused

    @property
    def unknown_ops(self) -> int:
        """Operators that are not counted."""
        return len(self.subject.cost.reasons)

    @property
    def fits(self) -> bool | None:
        """Whether all limits are kept and the runtime takes the model; None where that cannot be told."""
        found = verdict(self.limits, self.refused)
        return None if found is True and self.strict and self.unknown_ops else found

    @property
    def name(self) -> str:
        """The model's own name, or what it was called."""
        return self.subject.graph.name or Path(self.model).name

    @property
    def target(self) -> str | None:
        """The target that it is to run on."""
        return None if self.subject.target is None else self.subject.target.name

    def __repr__(self) -> str:
        where = f" on {self.target}" if self.target else ""
        kept = sum(each.fits is True for each in self.limits)
        return f"<{self.name}{where}: {ANSWERS[self.fits]}; {kept} of {len(self.limits)} limits kept>"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the unit in every limit."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "sizeup", "version": version("sizeup")},
            "model": {"name": self.name, "format": self.subject.graph.format, "source": self.model},
            "target": self.target,
            "budgets": list(self.budgets),
            "fits": self.fits,
            "answer": ANSWERS[self.fits],
            "refused": self.refused,
            "unknown_ops": self.unknown_ops,
            "limits": [_limit(each) for each in self.limits],
            "peak_tensors": [{"name": each.name, "bytes": each.amount} for each in self.subject.held],
            "remedies": [_remedy(each) for each in self.remedies],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as its ending says: .json, .md, or .xml as JUnit has it."""
        save([self], path)

    def _repr_html_(self) -> str:
        from sizeup.report import checked_pages

        return checked_pages.html(self)


def to_dict(checks: Sequence[Check]) -> dict[str, Any]:
    """Several checks under one answer."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "sizeup", "version": version("sizeup")},
        "fits": fits(checks),
        "checks": [each.to_dict() for each in checks],
    }


def fits(checks: Sequence[Check]) -> bool | None:
    """The answer of all together: one that does not fit decides, then one of which nobody can tell."""
    answers = [each.fits for each in checks]
    return False if False in answers else None if None in answers else True


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that a check is not written as."""
    from sizeup.report.files import check_folder

    check_ending(path, "a check is", ".json", ".md", ".xml")
    check_folder(path)


def save(checks: Sequence[Check], path: str | os.PathLike[str]) -> None:
    """Write checks to a file as its ending says."""
    check_path(path)
    write_text(path, _lines(checks, Path(path).suffix.lower()))


def _lines(checks: Sequence[Check], ending: str) -> Iterable[str]:
    from sizeup.report import checked_ci, checked_pages

    if ending == ".json":
        content = checks[0].to_dict() if len(checks) == 1 else to_dict(checks)
        return [json.dumps(content, indent=2, allow_nan=False), "\n"]
    return [checked_ci.junit(checks)] if ending == ".xml" else checked_pages.markdown(checks)


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
    }


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
