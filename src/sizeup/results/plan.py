"""A plan of a model's memory: the order to run in, and a place for every tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sizeup.dtypes import DType, precision_name
from sizeup.graph import Graph, Op, Shape
from sizeup.memory import LiveTensor, Placement, Shares, shares, tensor_bytes
from sizeup.memory.schedule import reordered
from sizeup.memory.tflm import MicroArena
from sizeup.results.result import Result

_CODE_KEEPS_ITS_ORDER = (
    "PyTorch runs code in the order in which it is written: the order is for who exports it"
)
_COUNTED_BY_USE = (
    "a plan counts a tensor from the operator that makes it to its last use, and what is written in place"
    " as new; sizeup analyze shows the peak of an eager run, which differs"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is, and from which step of the plan to which; views share their source's place."""

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
    """The smallest memory plan found: its order, its offsets, and what no other plan goes below."""

    graph: Graph
    placement: Placement
    precision: DType | None = None
    alignment: int = 1
    shipped: MicroArena | None = None  # what TFLite Micro takes for the file as it is

    @property
    def name(self) -> str:
        """The model's name."""
        return self.graph.name or "model"

    @property
    def order(self) -> tuple[int, ...]:
        """The operators of the graph as they are to run."""
        return self.placement.order

    @property
    def moved_ops(self) -> int:
        """How many operators stand elsewhere than in the model."""
        return sum(step != index for step, index in enumerate(self.order))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The address of every tensor of the graph; -1 for constants."""
        places = self.placement.packing.offsets
        return tuple(
            -1 if buffer < 0 else places[buffer] for buffer in self.placement.usage.buffers.of_tensor
        )

    @property
    def given_peak_bytes(self) -> int:
        """The most bytes in use at once in the model's own order."""
        return self.placement.given.peak_bytes

    @property
    def peak_bytes(self) -> int:
        """The most bytes in use at once in the plan's order."""
        return self.placement.usage.peak_bytes

    @property
    def plan_bytes(self) -> int:
        """The memory that holds every tensor at its offset, without what TFLite Micro keeps for good."""
        return self.placement.packing.height

    @property
    def lower_bound_bytes(self) -> int:
        """What no plan goes below, in any order or, where no other order was asked for, in this one."""
        return self.placement.lower_bound_bytes

    @property
    def status(self) -> str:
        """'optimal' where the plan is proven to be the smallest, otherwise 'feasible'."""
        return self.placement.status

    @property
    def peak_step(self) -> int | None:
        """The first step at which the peak is reached; None without operators."""
        return self.placement.usage.peak_op

    @property
    def peak_op(self) -> int | None:
        """The operator of the graph that runs then."""
        return None if self.peak_step is None else self.order[self.peak_step]

    @property
    def held(self) -> tuple[LiveTensor, ...]:
        """The tensors in memory at the peak, largest first."""
        return self.placement.usage.held

    @cached_property
    def memory_shares(self) -> Shares:
        """What each operator reads, makes and takes of the live memory in this order, and what waits."""
        return shares(reordered(self.graph, self.order), self.placement.usage.buffers)

    @property
    def steps(self) -> tuple[Op, ...]:
        """The operators in the order of the plan."""
        return tuple(self.graph.ops[index] for index in self.order)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know beside the figures."""
        notes = list(self.graph.notes)
        if self.placement.packing.note:
            notes.append(self.placement.packing.note)
        if self.graph.run is not None:
            notes.append(_COUNTED_BY_USE)
        if self.moved_ops and self.graph.format == "torch":
            notes.append(_CODE_KEEPS_ITS_ORDER)
        if self.shipped is not None and self.shipped.scratch:
            scratch = max(each.size for each in self.shipped.scratch)
            notes.append(
                f"TFLite Micro's kernels ask for scratch of up to {scratch:,} B, which is not in this plan"
            )
        return tuple(notes)

    def places(self) -> Iterator[Place]:
        """Where every tensor is that is no constant, by its id."""
        buffers = self.placement.usage.buffers
        for identity, buffer in enumerate(buffers.of_tensor):
            if buffer >= 0:
                tensor = self.graph.tensors[identity]
                follows = self.precision is not None and tensor.follows_precision
                yield Place(
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
