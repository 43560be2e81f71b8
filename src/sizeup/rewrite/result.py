"""What to do to a model file, and what came of it: sizes before and after, and how it was verified."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup.memory.schedule import Progress
from sizeup.memory.tflm.overlap import LABEL as REFERENCE_KERNELS
from sizeup.runtimes import Arena


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a file needs.

    `arena_bytes` is the predicted smallest arena that TFLite Micro accepts on a 32-bit processor; `used` is
    what its 64-bit interpreter used, measured or predicted.
    """

    peak_bytes: int  # in use at once, weights excluded, in the file's own order
    file_bytes: int
    gzip_bytes: int | None = None  # None: too large to be worth the time
    used: Arena | None = None
    arena_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far outputs moved when weights were clustered, in the outputs' own units."""

    largest: float
    mean: float
    span: float  # of the original outputs, from the least to the greatest


@dataclass(frozen=True, slots=True)
class Verification:
    """The result run against the original in a real runtime."""

    runtime: str
    samples: int
    distinct_outputs: int
    deviation: Deviation | None = None  # None: every output is equal, bit for bit
    distinct_with_random_weights: int | None = None  # tried where there is one output otherwise; equal too

    @property
    def is_weak(self) -> bool:
        """Whether all runs gave one and the same output, so that equal outputs prove little."""
        return max(self.distinct_outputs, self.distinct_with_random_weights or 0) < 2


@dataclass(frozen=True, slots=True)
class Optimization:
    """A rewritten model. Where nothing was gained the file is the original, and `changed` is false."""

    name: str
    format: str
    path: Path
    before: Footprint
    after: Footprint
    changed: bool
    moved_ops: int = 0
    ops: int = 0
    order_status: str | None = None  # optimal, feasible; None where no other order was looked for
    lower_bound_bytes: int | None = None  # no order has a lower peak
    planned: bool = False
    plan_status: str | None = None
    overlaps: int = 0  # tensors that the plan lays over others in use at once, as a rule over dying inputs
    kernels: str | None = None  # that the plan holds for, where it does not hold for all
    clustered_weights: int = 0
    cluster_values: int | None = None
    packed_weights: int = 0
    arena_is_measured: bool = False
    verification: Verification | None = None
    notes: tuple[str, ...] = ()
    is_verifiable: bool = True  # False: no runtime runs the original, so nothing was changed

    @property
    def overlaps_dying_inputs(self) -> bool:
        """Whether the tensors that overlap are outputs over inputs of the same operator, which die there."""
        return self.kernels == REFERENCE_KERNELS

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the unit in every key."""
        return {
            "schema_version": 1,
            "model": {"name": self.name, "format": self.format},
            "output": str(self.path),
            "changed": self.changed,
            "before": _footprint(self.before),
            "after": _footprint(self.after),
            "order": {
                "moved_ops": self.moved_ops,
                "ops": self.ops,
                "status": self.order_status,
                "lower_bound_bytes": self.lower_bound_bytes,
            },
            "plan": {
                "written": self.planned,
                "status": self.plan_status,
                "overlaps": self.overlaps,
                "kernels": self.kernels,
            },
            "cluster": {"weights": self.clustered_weights, "values": self.cluster_values},
            "pack": {"weights": self.packed_weights},
            "arena_is_measured": self.arena_is_measured,
            "verification": _verification(self.verification),
            "notes": list(self.notes),
        }


def _footprint(footprint: Footprint) -> dict[str, Any]:
    used = footprint.used
    return {
        "peak_bytes": footprint.peak_bytes,
        "arena_bytes": footprint.arena_bytes,
        "arena_head_bytes": None if used is None else used.head_bytes,
        "arena_tail_bytes_64": None if used is None else used.tail_bytes,
        "arena_used_bytes_64": None if used is None else used.total_bytes,
        "file_bytes": footprint.file_bytes,
        "gzip_bytes": footprint.gzip_bytes,
    }


def _verification(verification: Verification | None) -> dict[str, Any] | None:
    if verification is None:
        return None
    deviation = verification.deviation
    return {
        "runtime": verification.runtime,
        "samples": verification.samples,
        "distinct_outputs": verification.distinct_outputs,
        "distinct_with_random_weights": verification.distinct_with_random_weights,
        "equal": deviation is None,
        "largest_deviation": None if deviation is None else deviation.largest,
        "mean_deviation": None if deviation is None else deviation.mean,
        "output_span": None if deviation is None else deviation.span,
    }


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """Which changes to try, and how long to search for each."""

    reorder: bool = True
    plan: bool = True
    cluster: int | None = None
    pack: bool = False
    verify: bool = True
    time_limit: float = 10.0
    progress: Progress | None = None
    overlap: bool = False  # outputs over dying inputs, as TFLite Micro's reference kernels bear it
