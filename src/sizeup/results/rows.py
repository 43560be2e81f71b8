"""The frozen rows that a report is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sizeup.graph import Shape
from sizeup.units import FLOPS_PER_MAC

if TYPE_CHECKING:
    from sizeup.memory import LiveTensor

NO_TARGET = "no target device was given"
LIMITS = {"compute": "compute", "traffic": "memory", "launch": "launch"}
"""What limits an operator, in words: memory-bound is `traffic` in data."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of the model."""

    name: str
    shape: Shape | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What one pass of the whole model costs; unknown operators are missing from it."""

    macs: int
    elementwise_ops: int
    params: int
    weight_bytes: int
    read_bytes: int
    written_bytes: int

    @property
    def flops(self) -> int:
        """Two for each multiply-accumulate."""
        return FLOPS_PER_MAC * self.macs


@dataclass(frozen=True, slots=True)
class Unknown:
    """Operators of one kind that could not be counted, and why."""

    kind: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operator. A quantity is None where it is not known; it is never shown as zero instead."""

    index: int
    name: str
    kind: str
    source: str
    scope: str
    input_shapes: tuple[Shape | None, ...]
    output_shapes: tuple[Shape | None, ...]
    precision: str | None
    macs: int | None
    elementwise_ops: int | None
    params: int
    read_bytes: int | None
    written_bytes: int | None
    live_bytes: int | None  # in memory while it runs, excluding weights; None if one size depends on data
    ms: float | None  # estimated on the target; 0 where it is merged into another operator
    bound_by: str | None
    reason: str | None
    depthwise: bool  # a convolution of every input channel alone
    live_tensors: tuple[LiveTensor, ...]  # in memory while it runs, largest first, at most MOST_LISTED
    live_tensor_count: int  # of all that are live, also those that are not listed

    @property
    def known(self) -> bool:
        """Whether everything about it could be counted."""
        return self.reason is None

    @property
    def flops(self) -> int | None:
        """Two for each multiply-accumulate."""
        return None if self.macs is None else FLOPS_PER_MAC * self.macs

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte moved; None where nothing is moved or something is not known."""
        return None if not self.known else intensity(self.macs, self.read_bytes, self.written_bytes)


@dataclass(frozen=True, slots=True)
class Group:
    """Operators taken together: those of a module, of a kind, or of both."""

    module: str | None
    kind: str | None
    ops: int
    unknown_ops: int
    macs: int
    elementwise_ops: int
    params: int
    read_bytes: int
    written_bytes: int
    seconds: float | None = None  # estimated on the target

    @property
    def flops(self) -> int:
        """Two for each multiply-accumulate."""
        return FLOPS_PER_MAC * self.macs

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte moved; None where nothing is moved or something is not known."""
        return None if self.unknown_ops else intensity(self.macs, self.read_bytes, self.written_bytes)


def intensity(macs: int | None, read_bytes: int | None, written_bytes: int | None) -> float | None:
    """FLOPs for each byte moved, where all of them are known and some byte moves."""
    if macs is None or read_bytes is None or written_bytes is None:
        return None
    moved = read_bytes + written_bytes
    return FLOPS_PER_MAC * macs / moved if moved else None
