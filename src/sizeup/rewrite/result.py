"""Options and result of rewriting a model file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sizeup.backends import backend_of
from sizeup.backends.tflm.overlap import LABEL as REFERENCE_KERNELS
from sizeup.graph import Graph
from sizeup.memory.schedule import Progress
from sizeup.memory.usage import usage
from sizeup.rewrite.split import StripSegment
from sizeup.runtimes import Arena, Compilation
from sizeup.targets import Target


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory and size of a file.

    `arena_bytes` is the predicted smallest arena that TFLite Micro accepts on the target, or on a 32-bit
    processor with reference kernels, and `head_bytes` its arena head. `used` is the arena that the 64-bit
    interpreter with reference kernels uses, measured or predicted; None with a target.
    """

    peak_bytes: int | None  # peak activation memory in file order; None if unknown, or an NPU runs the file
    file_bytes: int
    gzip_bytes: int | None = None  # None: too large to compress
    used: Arena | None = None
    arena_bytes: int | None = None
    head_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KernelArena:
    """The predicted smallest arena of original and result with one kernel library of TFLite Micro."""

    kernels: str
    vectors: str  # vector instructions that CMSIS-NN uses: none, `dsp` or `mve` (Helium)
    before_bytes: int
    after_bytes: int

    @property
    def growth(self) -> float:
        """The relative change: -0.1 is 10 % less."""
        return self.after_bytes / self.before_bytes - 1


@dataclass(frozen=True, slots=True)
class Deviation:
    """Absolute deviation of the outputs caused by weight clustering."""

    largest: float
    mean: float
    span: float  # maximum minus minimum of the original outputs


@dataclass(frozen=True, slots=True)
class Verification:
    """Comparison of the result with the original in a real runtime."""

    runtime: str
    samples: int
    distinct_outputs: int
    deviation: Deviation | None = None  # None: all outputs are bit-identical
    distinct_with_random_weights: int | None = None  # run if there is only one distinct output; also equal

    @property
    def is_weak(self) -> bool:
        """Whether all samples have the same output, so that equality proves little."""
        return max(self.distinct_outputs, self.distinct_with_random_weights or 0) < 2


@dataclass(frozen=True, slots=True)
class LatencyChange:
    """The predicted latency on the target before and after, and where the prediction comes from."""

    before_seconds: float
    after_seconds: float
    basis: str
    standing: str  # of the target at the precision of most MACs; empty if not known


@dataclass(frozen=True, slots=True)
class StripExecution:
    """Segments that run in strips, and what that costs."""

    segments: tuple[StripSegment, ...]
    macs: int  # of the original
    extra_macs: int
    added_ops: int
    new_operators: tuple[str, ...]  # which the original does not have, so firmware must register them
    status: str  # optimal over the splits searched, or feasible
    bound_bytes: int | None  # lower bound of the arena over the splits searched
    latency: LatencyChange | None = None  # None without a target, or if it is not known

    @property
    def extra_macs_share(self) -> float:
        """The added MACs relative to those of the original."""
        return self.extra_macs / self.macs if self.macs else 0.0


@dataclass(frozen=True, slots=True)
class Optimization:
    """A rewritten model. If nothing was gained, the file is the original and `changed` is false."""

    name: str
    format: str
    path: Path
    before: Footprint
    after: Footprint
    changed: bool
    moved_ops: int = 0
    ops: int = 0
    schedule_status: str | None = None  # optimal or feasible; None if no schedule was searched for
    lower_bound_bytes: int | None = None  # of the peak over all schedules; with a target, of its arena head
    has_new_plan: bool = False
    plan_status: str | None = None
    overlaps: int = 0  # tensors that share bytes with other live tensors in the plan
    valid_kernels: str | None = None  # the kernels that the plan is valid for; None if valid for all
    clustered_weights: int = 0
    cluster_values: int | None = None
    packed_weights: int = 0
    arena_is_measured: bool = False
    verification: Verification | None = None
    notes: tuple[str, ...] = ()
    is_verifiable: bool = True  # False: no runtime runs the original, so nothing was changed
    target: Target | None = None
    strips: StripExecution | None = None
    arenas: tuple[KernelArena, ...] = ()  # on the target, or with reference kernels and with CMSIS-NN
    compilation: Compilation | None = None  # for an Ethos-U, by Vela

    @property
    def largest_growth(self) -> KernelArena | None:
        """The arena that grows most; None if none does."""
        most = max(self.arenas, key=lambda arena: arena.growth, default=None)
        return None if most is None or most.growth <= 0 else most

    @property
    def has_only_input_overlaps(self) -> bool:
        """Whether all overlaps are outputs over inputs of the same op that are not used afterwards."""
        return self.valid_kernels == REFERENCE_KERNELS

    @property
    def _is_bound_of_head(self) -> bool:
        """Whether schedules were searched for with the scratch of a target's kernels."""
        return self.target is not None and backend_of(self.target).honors_plans

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data; keys contain the unit."""
        return {
            "schema_version": 2,
            "model": {"name": self.name, "format": self.format},
            "output": str(self.path),
            "changed": self.changed,
            "target": None if self.target is None else self.target.name,
            "arenas": [_kernel_arena(arena) for arena in self.arenas],
            "before": _footprint(self.before),
            "after": _footprint(self.after),
            "schedule": {
                "moved_ops": self.moved_ops,
                "ops": self.ops,
                "status": self.schedule_status,
                "lower_bound_bytes": None if self._is_bound_of_head else self.lower_bound_bytes,
                "head_lower_bound_bytes": self.lower_bound_bytes if self._is_bound_of_head else None,
            },
            "plan": {
                "written": self.has_new_plan,
                "status": self.plan_status,
                "overlaps": self.overlaps,
                "kernels": self.valid_kernels,
            },
            "split": _strips(self.strips),
            "cluster": {"weights": self.clustered_weights, "values": self.cluster_values},
            "pack": {"weights": self.packed_weights},
            "arena_is_measured": self.arena_is_measured,
            **({} if self.compilation is None else {"vela": self.compilation.to_dict()}),
            "verification": _verification(self.verification),
            "notes": list(self.notes),
        }


def _strips(strips: StripExecution | None) -> dict[str, Any] | None:
    if strips is None:
        return None
    latency = strips.latency
    return {
        "segments": [
            {
                "first_op": segment.first_op,
                "last_op": segment.last_op,
                "first_name": segment.first_name,
                "last_name": segment.last_name,
                "axis": segment.axis,
                "strip_rows": list(segment.strip_rows),
            }
            for segment in strips.segments
        ],
        "macs": strips.macs,
        "extra_macs": strips.extra_macs,
        "added_ops": strips.added_ops,
        "new_operators": list(strips.new_operators),
        "status": strips.status,
        "lower_bound_bytes": strips.bound_bytes,
        "latency_before_s": None if latency is None else latency.before_seconds,
        "latency_after_s": None if latency is None else latency.after_seconds,
        "latency_basis": None if latency is None else latency.basis,
        "latency_standing": None if latency is None else latency.standing,
    }


def _kernel_arena(arena: KernelArena) -> dict[str, Any]:
    return {
        "kernels": arena.kernels,
        "vectors": arena.vectors,
        "before_bytes": arena.before_bytes,
        "after_bytes": arena.after_bytes,
    }


def _footprint(footprint: Footprint) -> dict[str, Any]:
    used = footprint.used
    return {
        "peak_bytes": footprint.peak_bytes,
        "arena_bytes": footprint.arena_bytes,
        "arena_head_bytes": footprint.head_bytes,
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


RUN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """The changes to try, and the time limit of each search."""

    reorder: bool = True
    plan: bool = True
    cluster: int | None = None
    pack: bool = False
    verify: bool = True
    time_limit: float = 10.0
    progress: Progress | None = None
    overlap: bool = False  # outputs over inputs not used afterwards; reference kernels of TFLite Micro only
    split: bool = False  # execute segments in strips
    max_extra_macs: float = 0.05  # that strips may add, relative to the MACs of the file
    target: Target | None = None  # whose arena is to be smaller; None: that of the reference kernels
    run_limit: float = RUN_SECONDS  # of one run of the model


def without_unknown_peaks(
    graph: Graph, options: OptimizeOptions, notes: list[str]
) -> tuple[str, OptimizeOptions]:
    """Why the peak is unknown; then options that keep the schedule, as no other is known to need less."""
    reason = usage(graph).unavailable_reason
    if not reason or not options.reorder:
        return reason, options
    notes.append(f"the schedule was not changed: {reason}")
    return reason, replace(options, reorder=False)
