"""A check: whether a model fits, every limit with what was found, and what would help."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args, overload

from sizeup.checks import Large, Limit, verdict
from sizeup.checks.limits import Growth
from sizeup.checks.measures import MEASURES
from sizeup.results.result import Result

if TYPE_CHECKING:
    from sizeup.checks import Remedy

__all__ = [
    "ANSWERS",
    "MEASURE_UNITS",
    "Check",
    "Checks",
    "Growth",
    "Status",
    "by_path",
    "counts",
    "fits",
]

MEASURE_UNITS = {name: measure.unit for name, measure in MEASURES.items()}
"""The unit of everything that can be limited."""
Status = Literal["fits", "does not fit", "undetermined", "error", "removed"]
ANSWERS: dict[bool | None, Status] = {True: "fits", False: "does not fit", None: "undetermined"}


@dataclass(frozen=True, slots=True, repr=False)
class Check(Result):
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

    def save(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
        """Write it as its ending says: .json, .md, .xml (JUnit), .codequality.json (GitLab)."""
        Checks((self,)).save(path, raw_csv=raw_csv)

    def _repr_html_(self) -> str:
        return self._page()


@dataclass(frozen=True, slots=True)
class Checks(Result, Sequence[Check]):
    """Several checks under one verdict."""

    checks: tuple[Check, ...]

    @overload
    def __getitem__(self, index: int) -> Check: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Check, ...]: ...
    def __getitem__(self, index: int | slice) -> Check | tuple[Check, ...]:
        return self.checks[index]

    def __len__(self) -> int:
        return len(self.checks)

    @property
    def fits(self) -> bool | None:
        """The verdict of all together: a NO or an error decides, then one that is undetermined."""
        return fits(self.checks)


def by_path(checks: Sequence[Check]) -> Sequence[Check]:
    """The checks, named by the paths of their models if there are several: file names may repeat."""
    if len({each.model for each in checks}) <= 1:
        return checks
    return [replace(each, name=each.model) for each in checks]


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
