"""The frozen rows of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sizeup.graph import Graph, Op, Shape
from sizeup.ops.conv import is_depthwise
from sizeup.units import FLOPS_PER_MAC

if TYPE_CHECKING:
    from sizeup.memory import LiveTensor

NO_TARGET = "no target device was given"
BOUND_LABELS = {"compute": "compute", "traffic": "memory", "launch": "launch", "nothing": "-"}
"""What bounds an op, as text: memory-bound is `traffic` in data."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of the model."""

    name: str
    shape: Shape | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Totals:
    """The cost of one inference of the model, without unknown ops."""

    macs: int
    elementwise_ops: int
    params: int
    weight_bytes: int
    read_bytes: int
    written_bytes: int

    @property
    def flops(self) -> int:
        """Two per MAC."""
        return FLOPS_PER_MAC * self.macs


@dataclass(frozen=True, slots=True)
class Unknown:
    """Ops of one kind that could not be counted, and why."""

    op_kind: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op. A quantity is None if unknown, never 0 instead."""

    index: int
    name: str
    op_kind: str
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
    live_bytes: int | None  # live while it runs, excluding weights; None if one size depends on data
    ms: float | None  # estimated on the target; 0 if fused into another op
    bound_by: str | None
    reason: str | None
    depthwise: bool  # depthwise convolution
    live_tensors: tuple[LiveTensor, ...]  # live while it runs, largest first, at most MOST_LISTED
    live_tensor_count: int  # of all live tensors, also those not listed

    @property
    def known(self) -> bool:
        """Whether all its quantities could be counted."""
        return self.reason is None

    @property
    def flops(self) -> int | None:
        """Two per MAC."""
        return None if self.macs is None else FLOPS_PER_MAC * self.macs

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved; None if nothing is moved or something is unknown."""
        return None if not self.known else intensity(self.macs, self.read_bytes, self.written_bytes)


@dataclass(frozen=True, slots=True)
class Group:
    """Ops taken together: those of a module, of an op kind, or of both."""

    module: str | None
    op_kind: str | None
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
        """Two per MAC."""
        return FLOPS_PER_MAC * self.macs

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved; None if nothing is moved or something is unknown."""
        return None if self.unknown_ops else intensity(self.macs, self.read_bytes, self.written_bytes)


def op_label(graph: Graph, op: Op) -> str:
    """Returns the op kind as text: a depthwise convolution is `depthwise`."""
    return "depthwise" if is_depthwise(graph, op) else op.kind


def intensity(macs: int | None, read_bytes: int | None, written_bytes: int | None) -> float | None:
    """Returns FLOPs per byte moved; None if one number is unknown or no byte moves."""
    if macs is None or read_bytes is None or written_bytes is None:
        return None
    moved = read_bytes + written_bytes
    return FLOPS_PER_MAC * macs / moved if moved else None
