"""A model that does not fit, or hardly does, and what a change to it brings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sizeup.checks.limits import Limit, Unit, verdict
from sizeup.checks.measures import Subject
from sizeup.checks.room import Needs
from sizeup.cost import count
from sizeup.graph import Graph, Shape

# Names of limits by what helps against them.
MEMORY = ("ram", "arena", "peak")
STORED = ("flash", "weights")
TIMED = ("latency", "energy")


@dataclass(frozen=True, slots=True)
class Change:
    """A limit whose need became another; both are the figures that a check shows."""

    name: str
    unit: Unit
    before: float
    after: float
    fits: bool | None


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change to the model, what it brought when it was carried out, and the command that does it."""

    what: str
    command: str
    changes: tuple[Change, ...]
    fits: bool | None  # the whole check, with this change alone
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model is from: how it is typed, its file if it is one, and how to read it at another shape."""

    typed: str
    file: Path | None = None
    reload: Callable[[Path], Graph] | None = None  # a file that was made of it
    load_at: Callable[[Shape], Graph] | None = None
    bind: Mapping[str, int] | None = None
    binding: str = ""  # the same as options of the command line
    limits: str = ""  # what is asked for beside the target, as such options
    shapes: tuple[str, ...] = ()  # the inputs that were asked for, as [NAME:]SHAPE[:TYPE]


def as_options(shapes: Sequence[str]) -> list[str]:
    """Inputs as the command line takes them."""
    return [f"--input {shlex.quote(each)}" for each in shapes]


Judge = Callable[[Subject], tuple[Limit, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """A model that does not fit, or hardly does."""

    subject: Subject
    limits: tuple[Limit, ...]
    origin: Origin
    judge: Judge

    @property
    def wanting(self) -> tuple[Limit, ...]:
        """The limits that something should be done about."""
        return tuple(
            each
            for each in self.limits
            if each.most is not None and each.need is not None and (each.fits is False or each.is_near)
        )

    def wants(self, names: Sequence[str]) -> bool:
        """Whether one of these is among them."""
        return any(each.name in names for each in self.wanting)

    def tried(
        self, what: str, command: Sequence[str], changed: Subject, notes: Sequence[str] = ()
    ) -> Remedy | None:
        """A remedy by its effect; None where it brings nothing to any limit that needs it."""
        after = self.judge(changed)
        found = {each.name: each for each in after}
        changes = tuple(
            Change(each.name, each.unit, each.need, new.need, new.fits)
            for each in self.limits
            if (new := found.get(each.name)) is not None and each.need is not None and new.need is not None
            if each.say(new.need) != each.say(each.need)
        )
        wanting = {each.name for each in self.wanting}
        if not any(each.after < each.before and each.name in wanting for each in changes):
            return None
        refused = None if changed.room is None else changed.room.refused
        typed = " ".join(part for part in command if part)
        return Remedy(what, typed, changes, verdict(after, refused), tuple(notes))

    def changed(self, graph: Graph, file_bytes: int | None) -> Subject:
        """The same check of another graph."""
        needs = Needs(graph, count(graph), self.subject.precision, file_bytes)
        return replace(self.subject, needs=needs)

    @property
    def check(self) -> list[str]:
        """The command that does this check again."""
        return self.check_with(self.origin.shapes)

    def check_with(self, shapes: Sequence[str]) -> list[str]:
        """The same with other inputs; a report where what is limited is no option of a check."""
        subject, origin = self.subject, self.origin
        target = "" if subject.target is None else f"-d {subject.target.name}"
        verb = "sizeup check" if target or origin.limits else "sizeup analyze"
        return [verb, origin.typed, target, origin.limits, origin.binding, *as_options(shapes)]
