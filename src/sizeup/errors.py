"""Everything that can go wrong, as one tree.

SizeupError
├── LoadError
│   ├── UnknownFormat
│   ├── CorruptModel
│   ├── LfsPointer
│   ├── UnboundDimension
│   └── NumbersMissing
├── MissingLibrary
├── InvalidGraph
├── InvalidPlan
├── DoesNotFit
├── NoChoice
├── WriteError
├── RunFailed
├── WorkerFailed
├── CorruptStore
├── NotTrusted
├── RuleError
├── TargetError
├── BudgetError
├── RevisionError
└── Incomplete

A message says where, what, and what to do. The command line shows none of them as a traceback.
"""

from __future__ import annotations

from typing import NamedTuple


class SizeupError(Exception):
    """Any error that sizeup raises on purpose."""


class LoadError(SizeupError):
    """A model could not be read."""

    def within(self, where: str) -> LoadError:
        """The same error with the place in front of its message."""
        return type(self)(f"{where}: {self}", *self.args[1:])


class UnknownFormat(LoadError):
    """What was given is none of the model formats that sizeup reads."""


class CorruptModel(LoadError):
    """The file claims a format but its content breaks that format's rules."""


class LfsPointer(LoadError):
    """The file is a Git LFS pointer instead of the model; the message holds the command that fetches it."""


class SymbolicDimension(NamedTuple):
    """A dimension of an input that has a name or nothing instead of a size; `name` is what binds it."""

    name: str  # empty for an input without any shape
    input: str
    axis: int
    rank: int


class UnboundDimension(LoadError):
    """The model has dimensions without a size; the message names them and how to bind them."""

    def __init__(self, message: str, dimensions: tuple[SymbolicDimension, ...] = ()) -> None:
        super().__init__(message, dimensions)
        self.dimensions = dimensions

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def names(self) -> tuple[str, ...]:
        """What binds the dimensions, each name once."""
        return tuple(dict.fromkeys(each.name for each in self.dimensions if each.name))

    @property
    def places(self) -> str:
        """Every dimension with the inputs and axes that have it."""
        places: dict[str, list[str]] = {}
        for each in self.dimensions:
            place = f"{each.input} axis {each.axis}" if each.name else "all of it"
            places.setdefault(each.name or each.input, []).append(place)
        return "; ".join(f"{name} ({', '.join(where)})" for name, where in places.items())


class NumbersMissing(LoadError):
    """A model without weights asks for numbers while it runs."""


class MissingLibrary(SizeupError):
    """The environment lacks a library, which is no fault of the model; the message holds the pip line."""

    def __init__(self, purpose: str, library: str, extra: str | None = None) -> None:
        super().__init__(purpose, library, extra)  # all of them, so that another process can build it again
        self.library = library
        self.extra = extra

    def __str__(self) -> str:
        package = self.library if self.extra is None else f"'sizeup[{self.extra}]'"
        return f"{self.args[0]} needs {self.library}: pip install {package}"


class InvalidGraph(SizeupError):
    """A graph breaks one of its invariants (see `sizeup.graph.check`)."""


class InvalidPlan(SizeupError):
    """An order or an arena breaks what it promises; the message names the operators or buffers."""


class DoesNotFit(SizeupError):
    """A capacity was asked for that no plan found keeps to."""

    def __init__(self, asked: int, best: int, lower_bound: int) -> None:
        proof = "no plan can" if lower_bound > asked else f"none goes below {lower_bound:,} B"
        super().__init__(f"does not fit in {asked:,} B: the best plan takes {best:,} B, and {proof}")
        self.asked = asked
        self.best = best
        self.lower_bound = lower_bound


class NoChoice(SizeupError):
    """No number types of the layers keep to the budgets."""


class WriteError(SizeupError):
    """A file could not be written, or a model file could not be changed as asked."""


class RunFailed(SizeupError):
    """A real runtime refused a model, or ended with a crash; the message says which and how."""


class WorkerFailed(SizeupError):
    """A worker process gave no answer: `kind` names the failure, `reason` describes it after a name.

    `code` is the exit code of the process, 0 if it did not end by itself.
    """

    def __init__(self, kind: str, reason: str, code: int = 0) -> None:
        super().__init__(kind, reason, code)  # all of them, so that another process can build it again
        self.kind, self.reason, self.code = kind, reason, code

    def __str__(self) -> str:
        return self.reason


class CorruptStore(SizeupError):
    """A file of a sweep's store is not a table of a sweep, or is cut off."""


class NotTrusted(SizeupError):
    """A model file would have to run, and such files can run any code that they hold."""


class RuleError(SizeupError):
    """An operator's rule could not be registered, or failed on an operator that it claims."""


class TargetError(SizeupError):
    """A device or a runtime is not known, or a file that describes one breaks the rules for such files."""


class BudgetError(SizeupError):
    """A file of budgets, or a baseline that it names, breaks the rules for such files."""


class RevisionError(SizeupError):
    """A git revision, or a model file in it, cannot be read."""


class Incomplete(SizeupError):
    """All was to be known (`strict`, a plan), and some operators have no rule or no known shape."""
