"""A check: the fit verdict of a model, every limit with its amount, and remedies."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args, overload

from sizeup.checks import Contribution, Limit, verdict
from sizeup.checks.evaluate import NEW_GROWTH
from sizeup.checks.limits import Growth
from sizeup.checks.measures import MEASURES
from sizeup.results.result import Result

if TYPE_CHECKING:
    from sizeup.backends.backend import HostRun
    from sizeup.backends.compiled import NpuFit
    from sizeup.checks import Remedy

__all__ = [
    "MEASURE_UNITS",
    "NEW_GROWTH",
    "STATUS_BY_FIT",
    "Check",
    "Checks",
    "Growth",
    "Status",
    "by_path",
    "counts",
    "fits",
    "status",
]

MEASURE_UNITS = {name: measure.unit for name, measure in MEASURES.items()}
"""The unit of every measure that can be limited."""
Status = Literal["fits", "does not fit", "undetermined", "error", "removed", "edited"]
STATUS_BY_FIT: dict[bool | None, Status] = {True: "fits", False: "does not fit", None: "undetermined"}


@dataclass(frozen=True, slots=True, repr=False)
class Check(Result):
    """A model checked against its limits; `fits` is None if undetermined.

    `error` is the reason if the model could not be checked: it then has no limits.
    """

    model: str  # as the user named it
    name: str  # the model's name, or `model` if it has none
    format: str = ""
    target: str | None = None
    limits: tuple[Limit, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    budgets: tuple[str, ...] = ()  # names of the budgets that apply
    is_file: bool = False
    strict: bool = False  # whether uncounted ops make the verdict undetermined
    has_searched_remedies: bool = False  # whether remedies were searched for
    unsupported_reason: str | None = None  # why the runtime cannot run the model
    # That the runtime does not read the file, or does not run it as its reference kernels do; of the latency.
    caveats: tuple[str, ...] = ()
    host_run: HostRun | None = None  # one inference on this machine; None if there was none
    npu: NpuFit | None = None  # for an Ethos-U: what Vela reports, or why it reports nothing
    unknown_ops: int = 0  # ops that are not counted
    other_entries: tuple[str, ...] = ()  # signatures of the file that are not counted
    peak_tensors: tuple[Contribution, ...] = ()  # live at the peak, the largest first
    error: str = ""
    no_baseline_reason: str = ""  # why there is no baseline for growth limits
    base_revision: str = ""  # the git revision compared with
    changes: tuple[tuple[str, Growth], ...] = ()  # measures with another amount at that revision
    boards_command: str = ""  # command that lists the boards that fit, if no remedy is enough
    update_command: str = ""  # command that writes the current amounts as baselines
    is_removed: bool = False  # existed at that revision, but no longer
    base_commit: str = ""  # the commit of that revision
    renamed_from: str = ""  # path of the model that it is compared with, if another one
    # Of a settings file instead of a model: the settings that differ from those of the revision.
    edits: tuple[str, ...] = ()
    undetermined_reasons: tuple[str, ...] = ()  # why a yes would be undetermined, besides limits and coverage

    @property
    def has_verdict(self) -> bool:
        """Whether there is a verdict: a model was read and still exists, or an edit needs a decision."""
        return not (self.error or self.is_removed or (self.edits and not self.undetermined_reasons))

    @property
    def is_model(self) -> bool:
        """Whether it is about a model that exists, not an edited settings file."""
        return not self.is_removed and not self.edits

    @property
    def fits(self) -> bool | None:
        """Whether all limits are met and the runtime can run the model; None if undetermined."""
        if not self.has_verdict:
            return None
        is_met = verdict(self.limits, self.unsupported_reason)
        is_doubtful = (
            (self.strict and not self.is_complete) or self.is_run_undetermined or self.undetermined_reasons
        )
        return None if is_met is True and is_doubtful else is_met

    @property
    def is_run_undetermined(self) -> bool:
        """Whether an inference on the host was started and neither ran nor was refused."""
        return self.host_run is not None and self.host_run.outcome == "undetermined"

    @property
    def is_complete(self) -> bool:
        """Whether everything that the file can run is counted."""
        return not self.unknown_ops and not self.other_entries

    @property
    def status(self) -> Status:
        """The verdict as text, or why there is none."""
        if self.has_verdict:
            return STATUS_BY_FIT[self.fits]
        return "error" if self.error else "removed" if self.is_removed else "edited"

    def __repr__(self) -> str:
        target = f" on {self.target}" if self.target else ""
        met = sum(limit.fits is True for limit in self.limits)
        return f"<{self.name}{target}: {self.status}; {met} of {len(self.limits)} limits met>"

    def save(self, path: str | os.PathLike[str], *, raw_csv: bool = False) -> None:
        """Writes the check by the file's ending: .json, .md, .xml (JUnit), .codequality.json (GitLab)."""
        Checks((self,)).save(path, raw_csv=raw_csv)

    def _repr_html_(self) -> str:
        return self._page()


@dataclass(frozen=True, slots=True)
class Checks(Result, Sequence[Check]):
    """Several checks with one verdict."""

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
        """The verdict of all: False if one fails or has an error, else None if one is undetermined."""
        return fits(self.checks)


def by_path(checks: Sequence[Check]) -> Sequence[Check]:
    """Returns the checks, named by the paths of their models if there are several: file names may repeat."""
    if len({check.model for check in checks}) <= 1:
        return checks
    return [replace(check, name=check.model) for check in checks]


def counts(checks: Sequence[Check]) -> dict[str, int]:
    """Returns the number of checks per status, and the number of new models."""
    statuses = Counter(check.status for check in checks)
    return {
        **{name: statuses[name] for name in get_args(Status)},
        "new": sum(bool(c.no_baseline_reason) for c in checks),
    }


def status(checks: Sequence[Check]) -> Status:
    """Returns the status of all: an error, unless another model does not fit, else the verdict."""
    statuses = {check.status for check in checks}
    if "error" in statuses and "does not fit" not in statuses:
        return "error"
    return STATUS_BY_FIT[fits(checks)]


def fits(checks: Sequence[Check]) -> bool | None:
    """Returns the verdict of all: False if one fails or has an error, else None if one is undetermined.

    It is None if nothing was judged.
    """
    if any(check.error for check in checks):
        return False
    verdicts = [check.fits for check in checks if check.has_verdict]
    return False if False in verdicts else None if None in verdicts or not verdicts else True
