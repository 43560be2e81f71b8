"""Memory results of a report: peak activation memory, the best peak, and TFLite Micro's arena."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sizeup.backends.backend import backend_of
from sizeup.backends.tflm import MicroArena
from sizeup.backends.tflm.file_arena import tflm_arena, unsupported_reason
from sizeup.backends.tflm.needs import firmwares_of
from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory.usage import Usage, usage
from sizeup.targets import Target, word_bits_of

if TYPE_CHECKING:
    from sizeup.memory.cuda_usage import DeviceMemory

# Reports must be deterministic: the search is limited by states, not by time.
_MAX_OPS = 500
_MAX_STATES = 500
_REORDERABLE = ("onnx", "tflite")  # PyTorch code has a fixed schedule


@dataclass(frozen=True, slots=True, repr=False)
class Overview:
    """Memory of an inference; the fields of the best schedule are None if no search was run."""

    usage: Usage
    best_peak_bytes: int | None
    lower_bound_bytes: int | None
    status: str | None  # 'optimal' if the best peak equals the lower bound, otherwise 'feasible'
    arena: MicroArena | None  # for TFLite files at their stored dtypes
    unsupported_reason: str | None  # why TFLite Micro's interpreter does not run the file
    word_bits: int  # word size of the processor, for the arena
    device_memory: DeviceMemory | None  # of PyTorch's caching allocator, on a GPU that it manages

    @property
    def peak_bytes(self) -> int | None:
        """Peak activation memory, excluding weights; None if a tensor size depends on data."""
        return None if self.usage.unknown_sizes else self.usage.peak_bytes

    @property
    def arena_bytes(self) -> int | None:
        """The smallest arena that TFLite Micro accepts; None for other formats or if unknown."""
        return None if self.arena is None else self.arena.arena_bytes(self.word_bits)

    def __repr__(self) -> str:
        figures = {"peak": self.peak_bytes, "best": self.best_peak_bytes, "arena": self.arena_bytes}
        known = [f"{name} {size:,} B" for name, size in figures.items() if size is not None]
        return f"<Memory: {', '.join(known) or self.usage.unavailable_reason}>"


def overview(graph: Graph, precision: DType | None, target: Target | None = None) -> Overview:
    """Memory results with a search limited to the effort of a report; `best_schedule` can search longer.

    TFLite Micro's arena is that on the target; of several possible firmwares, the last needs most.
    """
    on_gpu = target is not None and not target.is_cpu
    memory_usage = usage(graph, precision=precision, use_recorded_run=True, on_gpu=on_gpu)
    allocator = None
    if target is not None and not memory_usage.unknown_sizes:
        allocator = backend_of(target).allocated(graph, memory_usage, precision)
    arena, refused, word_bits = None, None, word_bits_of(target)
    # TFLite Micro runs the file that a compiler makes, not this one.
    if target is None or not backend_of(target).compiles_models:
        firmware = firmwares_of(target)[-1]
        arena = tflm_arena(graph, firmware) if precision is None else None
        refused = unsupported_reason(graph, arena, firmware)
    if graph.format not in _REORDERABLE or len(graph.ops) > _MAX_OPS or memory_usage.unknown_sizes:
        return Overview(memory_usage, None, None, None, arena, refused, word_bits, allocator)
    from sizeup.memory.schedule import best_schedule
    from sizeup.memory.schedule_problem import problem_of

    problem = problem_of(graph, precision=precision)
    schedule = best_schedule(problem, time_limit=math.inf, max_states=_MAX_STATES)
    return Overview(
        memory_usage,
        schedule.peak_bytes,
        schedule.lower_bound_bytes,
        schedule.status,
        arena,
        refused,
        word_bits,
        allocator,
    )
