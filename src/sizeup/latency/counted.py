"""Latencies by the instructions of a network, as a backend counts them."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.latency.model import Kernels


@dataclass(frozen=True, slots=True)
class CyclesPerInstruction:
    """Measured cycles per instruction of a core with a kernel library.

    `low` and `high` are the 90 % interval of the true value divided by `cycles`.
    """

    core: str
    kernels: str
    cycles: float
    low: float
    high: float
    measurements: int
    boards: int


@dataclass(frozen=True, slots=True)
class InstructionsPrediction:
    """Latency of one inference by its instructions."""

    instructions: float  # of the operators with a formula
    rate: CyclesPerInstruction
    kernels: Kernels
    seconds: float
    low: float
    high: float | None  # None if the cycles of a part were not measured: operators on real numbers
    overhead_seconds: float  # of operators that are no kernels elsewhere, such as reshapes
    unknown: tuple[str, ...]  # operators without a formula


@dataclass(frozen=True, slots=True)
class LeastInstructions:
    """The least time of a network by its instructions, at the fewest cycles that are known for each."""

    instructions: float  # at least, by the errors of the formulas
    cycles: float  # per instruction, at least
    kernels: Kernels
    seconds: float
    overhead_seconds: float  # of operators that are no kernels elsewhere, such as reshapes
