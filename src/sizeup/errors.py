"""The exceptions of sizeup.

SizeupError
├── LoadError
│   ├── UnknownFormat
│   ├── CorruptModel
│   ├── LfsPointer
│   ├── UnboundDimension
│   └── WeightsMissing
├── MissingLibrary
├── InvalidGraph
├── InvalidPlan
├── DoesNotFit
├── NoAssignment
├── WriteError
├── RunFailed
├── StateChanged
├── WorkerFailed
├── CorruptStore
├── NotTrusted
├── RuleError
├── TargetError
│   └── NoLatency
├── BudgetError
├── RevisionError
└── Incomplete
    └── LimitReached

A message states where the error is, what is wrong and what to do. The command line prints it without a
traceback.
"""

from __future__ import annotations

from typing import NamedTuple


class SizeupError(Exception):
    """Any error that sizeup raises on purpose."""


class LoadError(SizeupError):
    """A model could not be read."""

    def within(self, location: str) -> LoadError:
        """The same error with a location in front of its message."""
        return type(self)(f"{location}: {self}", *self.args[1:])


class UnknownFormat(LoadError):
    """The source is not in a model format that sizeup reads."""


class CorruptModel(LoadError):
    """The content of a file is invalid for its format."""


class LfsPointer(LoadError):
    """The file is a Git LFS pointer, not the model; the message has the command that fetches it."""


class SymbolicDimension(NamedTuple):
    """A dimension of an input without a size; `name` is the name to bind it by."""

    name: str  # empty if the input has no shape at all
    input: str
    axis: int
    rank: int


class UnboundDimension(LoadError):
    """The model has symbolic dimensions; the message lists them and how to bind them."""

    def __init__(self, message: str, dimensions: tuple[SymbolicDimension, ...] = ()) -> None:
        super().__init__(message, dimensions)
        self.dimensions = dimensions

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct names of the dimensions."""
        return tuple(dict.fromkeys(dim.name for dim in self.dimensions if dim.name))

    @property
    def axes_text(self) -> str:
        """All dimensions as text, each with its inputs and axes."""
        axes: dict[str, list[str]] = {}
        for dim in self.dimensions:
            text = f"{dim.input} axis {dim.axis}" if dim.name else "all axes"
            axes.setdefault(dim.name or dim.input, []).append(text)
        return "; ".join(f"{name} ({', '.join(texts)})" for name, texts in axes.items())


class WeightsMissing(LoadError):
    """A model without weights needs their values during tracing."""


class MissingLibrary(SizeupError):
    """A library is not installed; the message has the pip command that installs it."""

    def __init__(self, purpose: str, library: str, extra: str | None = None) -> None:
        super().__init__(purpose, library, extra)  # all arguments, so that it can be unpickled
        self.library = library
        self.extra = extra

    def __str__(self) -> str:
        package = self.library if self.extra is None else f"'sizeup[{self.extra}]'"
        return f"{self.args[0]} needs {self.library}: pip install {package}"


class InvalidGraph(SizeupError):
    """A graph violates an invariant (see `sizeup.graph.check`)."""


class InvalidPlan(SizeupError):
    """A schedule or a memory plan is invalid; the message names the operators or buffers."""


class DoesNotFit(SizeupError):
    """No memory plan was found for a capacity of `capacity` bytes."""

    def __init__(self, capacity: int, best: int, lower_bound: int) -> None:
        proof = f"no plan needs less than {lower_bound:,} B"
        super().__init__(f"does not fit in {capacity:,} B: the best plan needs {best:,} B, and {proof}")
        self.capacity = capacity
        self.best = best
        self.lower_bound = lower_bound


class NoAssignment(SizeupError):
    """No mixed-precision assignment meets the budgets."""


class WriteError(SizeupError):
    """A file could not be written, or a model file could not be rewritten."""


class RunFailed(SizeupError):
    """A runtime refused a model or crashed; the message has the runtime and the reason."""


class StateChanged(SizeupError):
    """Tracing a model changed state outside of the model and its arguments; the message names the place."""


class WorkerFailed(SizeupError):
    """A worker returned no result: `kind` names the failure, `reason` describes it.

    `code` is the exit code of the worker, 0 if it was ended by the supervisor.
    """

    def __init__(self, kind: str, reason: str, code: int = 0) -> None:
        super().__init__(kind, reason, code)  # all arguments, so that it can be unpickled
        self.kind, self.reason, self.code = kind, reason, code

    def __str__(self) -> str:
        return self.reason


class CorruptStore(SizeupError):
    """A file in the store of a sweep is invalid or truncated."""


class NotTrusted(SizeupError):
    """A model file would have to be run and is not trusted: it can execute any code it contains."""


class RuleError(SizeupError):
    """A cost rule could not be registered, or failed on an operator."""


class TargetError(SizeupError):
    """A device or runtime is unknown, or a file that describes one is invalid."""


class NoLatency(TargetError):
    """No operator of a model has a known latency on a target; the message has the reasons."""


class TargetWarning(UserWarning):
    """A file in a folder of targets is ignored; the message has the file and the reason."""


class BudgetError(SizeupError):
    """A budget file, or a baselines file that it names, is invalid."""


class RevisionError(SizeupError):
    """A git revision, or a model file in it, cannot be read."""


class Incomplete(SizeupError):
    """Operators without a cost rule or a known shape, where `strict` or a memory plan needs all of them."""


class LimitReached(Incomplete):
    """A memory plan or an amount was not computed, because it takes more steps than the limit."""
