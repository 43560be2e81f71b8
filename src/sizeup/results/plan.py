"""A memory plan of a model: a schedule, and an offset for every tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sizeup.backends.tflm import MicroArena, leftover_bytes
from sizeup.dtypes import DType, precision_name
from sizeup.graph import Graph, Op, Shape
from sizeup.memory import LiveBreakdown, LiveTensor, MemoryPlan, live_breakdown, tensor_bytes
from sizeup.memory.schedule import with_schedule
from sizeup.results.result import Result
from sizeup.targets import Target

_ORDER_OF_CODE = "PyTorch runs code in the written order; the schedule is for an exported model"
_EAGER_PEAK_DIFFERS = (
    "the plan counts a tensor from the op that writes it to its last use, and an in-place result as a new"
    " tensor; sizeup analyze reports the peak of an eager run, which differs"
)


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """The offset of a tensor, and the first and last step at which it is live; aliases share an offset."""

    tensor: int
    name: str
    shape: Shape | None
    dtype: str
    bytes: int
    offset: int
    first_step: int
    last_step: int
    buffer: int  # tensors of one buffer share bytes


@dataclass(frozen=True, repr=False, eq=False)
class Plan(Result):
    """The smallest memory plan found: its schedule, its offsets, and a lower bound."""

    graph: Graph
    memory_plan: MemoryPlan
    precision: DType | None = None
    alignment: int = 1
    tflm_arena: MicroArena | None = None  # the arena of TFLite Micro for the unchanged file
    target: Target | None = None  # whose kernels the plan is for: it contains their scratch
    unsupported_reason: str | None = None  # why TFLite Micro does not run the file

    @property
    def name(self) -> str:
        """The model's name."""
        return self.graph.name or "model"

    @property
    def schedule(self) -> tuple[int, ...]:
        """The schedule: op indices in execution order."""
        return self.memory_plan.schedule

    @property
    def moved_ops(self) -> int:
        """The number of ops at another position than in the model."""
        return sum(step != index for step, index in enumerate(self.schedule))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The offset of every tensor of the graph; -1 for constants."""
        by_buffer = self.memory_plan.packing.offsets
        return tuple(
            -1 if buffer < 0 else by_buffer[buffer]
            for buffer in self.memory_plan.usage.buffers.buffer_of_tensor
        )

    @property
    def file_schedule_peak_bytes(self) -> int:
        """The peak activation memory in the model's own schedule."""
        return self.memory_plan.file_order_usage.peak_bytes

    @property
    def peak_bytes(self) -> int:
        """The peak activation memory in the plan's schedule."""
        return self.memory_plan.usage.peak_bytes

    @property
    def plan_bytes(self) -> int:
        """The memory for all tensors at their offsets, without TFLite Micro's arena tail."""
        return self.memory_plan.packing.height

    @property
    def lower_bound_bytes(self) -> int:
        """A lower bound for any schedule or, if the schedule was not searched, for this one."""
        return self.memory_plan.lower_bound_bytes

    @property
    def status(self) -> str:
        """'optimal' if the plan is proven to be the smallest, otherwise 'feasible'."""
        return self.memory_plan.status

    @property
    def peak_step(self) -> int | None:
        """The first step at which the peak is reached; None without ops."""
        return self.memory_plan.usage.peak_op

    @property
    def peak_op(self) -> int | None:
        """The op of the graph that runs at the peak."""
        return None if self.peak_step is None else self.schedule[self.peak_step]

    @property
    def peak_tensors(self) -> tuple[LiveTensor, ...]:
        """The tensors live at the peak, largest first."""
        return self.memory_plan.usage.peak_tensors

    @cached_property
    def memory_shares(self) -> LiveBreakdown:
        """Inputs, outputs, workspace and waiting tensors of the live memory per op, in this schedule."""
        return live_breakdown(with_schedule(self.graph, self.schedule), self.memory_plan.usage.buffers)

    @property
    def steps(self) -> tuple[Op, ...]:
        """The ops in the schedule of the plan."""
        return tuple(self.graph.ops[index] for index in self.schedule)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how to read the figures."""
        notes = list(self.graph.notes)
        leftovers = {} if self.tflm_arena is None else leftover_bytes(self.graph)
        if leftovers:
            count, size = len(leftovers), sum(leftovers.values())
            notes.append(
                f"no operator uses {count:,} tensor{'s' * (count != 1)} of {size:,} B:"
                " only the arena of TFLite Micro contains them, not the memory plan"
            )
        if self.memory_plan.packing.note:
            notes.append(self.memory_plan.packing.note)
        if self.graph.recorded_run is not None:
            notes.append(_EAGER_PEAK_DIFFERS)
        if self.moved_ops and self.graph.format == "torch":
            notes.append(_ORDER_OF_CODE)
        if self.tflm_arena is not None and self.tflm_arena.scratch and self.target is None:
            scratch = max(request.size for request in self.tflm_arena.scratch)
            notes.append(
                f"TFLite Micro's kernels need up to {scratch:,} B of scratch memory, not in this plan"
            )
        return tuple(notes)

    def planned_tensors(self) -> Iterator[PlannedTensor]:
        """Yields the offset of every tensor that is not a constant, by its id."""
        buffers = self.memory_plan.usage.buffers
        for identity, buffer in enumerate(buffers.buffer_of_tensor):
            if buffer >= 0:
                tensor = self.graph.tensors[identity]
                follows = self.precision is not None and tensor.follows_precision
                yield PlannedTensor(
                    identity,
                    tensor.name,
                    tensor.shape,
                    self.precision.name if self.precision is not None and follows else tensor.dtype.name,
                    tensor_bytes(tensor, self.precision),
                    self.offsets[identity],
                    int(buffers.first[buffer]),
                    int(buffers.last[buffer]),
                    buffer,
                )

    def __repr__(self) -> str:
        at = "" if self.precision is None else f" at {precision_name(self.precision)}"
        return f"<Plan of {self.name}{at}: {self.plan_bytes:,} B, {self.status}>"
