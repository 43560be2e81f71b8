"""What latencies ask of the backend of a target; `sizeup.backends.backend` has all questions."""

from __future__ import annotations

from typing import Protocol

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.latency.counted import InstructionsPrediction, LeastInstructions
from sizeup.latency.execution import Execution
from sizeup.targets import Target
from sizeup.targets.backends import find_backend


class LatencyBackend(Protocol):
    """The answers of a backend about latencies."""

    @property
    def compiles_models(self) -> bool:
        """Whether a compiler makes the file that runs, and reports its latency."""

    @property
    def uses_recorded_shapes(self) -> bool:
        """Whether outputs have the shapes that a file records; others compute them anew."""

    def check_basis(self, basis: str | None) -> None:
        """Raise NoLatency or TargetError if the latency cannot be computed from the cost on a basis."""

    @property
    def counts_instructions(self) -> bool:
        """Whether the instructions of its kernels are known, on some cores."""

    def is_counted_at(self, precision: str) -> bool:
        """Whether instructions and measured cycles give the latency at a precision."""

    def counted(
        self, cost: Cost, precision: DType | None, executed: Execution
    ) -> InstructionsPrediction | None:
        """The latency by instructions; None if it is not known."""

    def least_counted(
        self, cost: Cost, precision: DType | None, executed: Execution
    ) -> LeastInstructions | None:
        """The least latency by instructions; None if it is not known."""

    @property
    def least_cycles_per_result(self) -> float:
        """The fewest cycles that a kernel takes per number it computes, on a microcontroller."""


def latency_backend(target: Target) -> LatencyBackend:
    """What the runtime of a target does that matters for latencies."""
    backend: LatencyBackend = find_backend(target)
    return backend
