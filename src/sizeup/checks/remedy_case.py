"""A model that exceeds or nearly exceeds limits, and the effect of changes to it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sizeup.backends import Needs
from sizeup.checks.limits import Limit, Unit, verdict
from sizeup.checks.measures import Subject
from sizeup.cost import count
from sizeup.graph import Graph, Shape

# Names of limits, grouped by the remedies that help.
MEMORY = ("ram", "arena", "peak")
STORED = ("flash", "weights")
TIMED = ("latency", "energy")
MAX_OPERATORS = 2_000
"""The most operators of a model for which remedies are searched: each is checked as the model itself is."""


@dataclass(frozen=True, slots=True)
class Change:
    """The need of a limit before and after a change."""

    name: str
    unit: Unit
    before: float
    after: float
    fits: bool | None


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change to the model, its verified effect on the limits, and the command that applies it."""

    description: str
    command: str
    changes: tuple[Change, ...]
    fits: bool | None  # the fit verdict with this change alone
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: its name, its file if there is one, and how to load it at another shape."""

    argument: str
    file: Path | None = None
    reload: Callable[[Path], Graph] | None = None  # loads a rewritten file
    load_at: Callable[[Shape], Graph] | None = None
    bind: Mapping[str, int] | None = None
    bind_options: str = ""  # `bind` as command-line options
    limit_options: str = ""  # the limits as command-line options
    input_options: tuple[str, ...] = ()  # requested inputs as [NAME:]SHAPE[:TYPE]


def as_options(shapes: Sequence[str]) -> list[str]:
    """Inputs as command-line options."""
    return [f"--input {shlex.quote(shape)}" for shape in shapes]


LimitsOf = Callable[[Subject], tuple[Limit, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """A model, its limits, and how to check a changed model."""

    subject: Subject
    limits: tuple[Limit, ...]
    origin: Origin
    limits_of: LimitsOf

    @property
    def tight_limits(self) -> tuple[Limit, ...]:
        """The limits that are exceeded or undetermined; if there are none, those nearly exceeded."""
        known = [limit for limit in self.limits if limit.maximum is not None and limit.need is not None]
        unmet = tuple(limit for limit in known if limit.fits is not True)
        return unmet or tuple(limit for limit in known if limit.is_near)

    def needs_remedy(self, names: Sequence[str]) -> bool:
        """Whether one of the tight limits has one of these names."""
        return any(limit.name in names for limit in self.tight_limits)

    def remedy(
        self, description: str, command: Sequence[str], changed: Subject, notes: Sequence[str] = ()
    ) -> Remedy | None:
        """A remedy with its effect; None if it improves none of the tight limits, or if it cannot run."""
        if changed.memory_fit is not None and changed.memory_fit.unsupported_reason:
            return None
        after = self.limits_of(changed)
        limits_after = {limit.name: limit for limit in after}
        changes = tuple(
            Change(old.name, old.unit, old.need, new.need, new.fits)
            for old in self.limits
            if (new := limits_after.get(old.name)) is not None
            if old.need is not None and new.need is not None and old.format(new.need) != old.format(old.need)
        )
        tight = {limit.name for limit in self.tight_limits}
        # What was only bounded from below, such as a latency by the data sheet, may be known afterwards.
        undecided = {limit.name for limit in self.limits if limit.fits is None}
        if not any(
            change.name in tight
            and (change.after < change.before or (change.fits and change.name in undecided))
            for change in changes
        ):
            return None
        text = " ".join(part for part in command if part)
        return Remedy(description, text, changes, verdict(after), tuple(notes))

    def changed(self, graph: Graph, file_bytes: int | None) -> Subject:
        """The subject with another graph."""
        needs = Needs(graph, count(graph), self.subject.precision, file_bytes)
        return replace(self.subject, needs=needs)

    @property
    def check(self) -> list[str]:
        """The command that repeats this check."""
        return self.check_with(self.origin.input_options)

    def check_with(self, shapes: Sequence[str]) -> list[str]:
        """The command with other inputs: `sizeup analyze` if the limits are not options of `sizeup check`."""
        subject, origin = self.subject, self.origin
        target = "" if subject.target is None else f"-d {subject.target.name}"
        command = "sizeup check" if target or origin.limit_options else "sizeup analyze"
        return [
            command,
            origin.argument,
            target,
            origin.limit_options,
            origin.bind_options,
            *as_options(shapes),
        ]
