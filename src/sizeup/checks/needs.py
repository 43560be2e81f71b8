"""What a graph takes at a precision, whatever the device: found once, then held against many targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory import Usage, as_shipped, refusal_of, usage
from sizeup.memory.tflm import MicroArena, most_scratch
from sizeup.memory.tflm.greedy import place
from sizeup.mixed_precision import assign, layers

_ALIGNMENT = 16  # of whatever TFLite Micro places
# What quantised inputs and outputs are described by beside real ones.
_DESCRIPTION = 32
# What a file grows by where numbers become integers: scales and zero points of weight and bias by channel,
# and those of every tensor. Four networks that exist both ways grew by 6 to 37 B a channel.
_BY_CHANNEL, _BY_TENSOR = 48, 128


@dataclass(frozen=True, eq=False)
class Needs:
    """The demand of one graph at one precision; `file_bytes` is the size of the file that it was read from.

    `given` is what the file holds where the graph is a mixture of precisions made of it. Nothing is searched
    for: the order is the graph's own, and places are found greedily.
    """

    graph: Graph
    cost: Cost
    precision: DType | None = None
    file_bytes: int | None = None
    given: Cost | None = None

    @cached_property
    def usage(self) -> Usage:
        """Memory beside the weights, operator by operator, in the order as given."""
        return usage(self.graph, precision=self.precision)

    @cached_property
    def usage_as_run(self) -> Usage:
        """The same as PyTorch held it where the graph was recorded from a run, which others do not repeat."""
        if self.graph.run is None:
            return self.usage
        return usage(self.graph, precision=self.precision, as_run=True)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all parameters, as the model keeps them or at the precision."""
        return self.cost.bytes_at(self.precision).weights

    @property
    def is_converted(self) -> bool:
        """Whether the numbers have other types than in the file."""
        return self.precision is not None or self.given is not None

    @cached_property
    def stored_bytes(self) -> tuple[int, int]:
        """What a file takes at least and at most: its size where it is there, its weights and more if not."""
        if self.file_bytes is not None and not self.is_converted:
            return self.file_bytes, self.file_bytes
        held = (self.given or self.cost).stored_bytes
        tensors = _BY_TENSOR * len(self.graph.tensors)
        beside = tensors if self.file_bytes is None else max(self.file_bytes - held, 0)
        if self.is_converted:
            beside += tensors + _BY_CHANNEL * self._channels
        return self.weight_bytes, self.weight_bytes + beside

    @property
    def _channels(self) -> int:
        """Output channels of all layers, or more: which axis they are is the format's to know."""
        graph = self.graph
        outputs = (graph.tensors[graph.ops[each.op].outputs[0]] for each in layers(graph))
        return sum(max(each.shape or (1,)) for each in outputs)

    @cached_property
    def micro_graph(self) -> Graph:
        """The graph as TFLite Micro would see it: every layer at the precision that was asked for."""
        if self.precision is None:
            # A plan for the arena is one for the tensors of the file.
            return self.graph if self.given is None else replace(self.graph, offsets=())
        chosen = {layer.op: self.precision for layer in layers(self.graph)}
        return replace(assign(self.graph, chosen), offsets=(), name=self.graph.name)

    @cached_property
    def arena(self) -> MicroArena | None:
        """TFLite Micro's arena; None for other formats than its own, and where it cannot run the model."""
        return as_shipped(self.micro_graph)

    @cached_property
    def refused(self) -> str | None:
        """Why TFLite Micro does not take the file; None where no reason is known."""
        return refusal_of(self.micro_graph, self.arena)

    @cached_property
    def description_bytes(self) -> int:
        """What a real file may add to the arena of a graph that was only priced at a precision."""
        ports = len(self.graph.inputs) + len(self.graph.outputs)
        return _DESCRIPTION * ports if self.is_converted else 0

    @cached_property
    def packed_bytes(self) -> int:
        """The arena that TFLite Micro's planner makes of the tensors of any graph."""
        buffers = self.usage.buffers
        sizes = [math.ceil(size / _ALIGNMENT) * _ALIGNMENT for size in buffers.size.tolist()]
        found = place(sizes, buffers.first.tolist(), buffers.last.tolist())
        return max(map(sum, zip(found, sizes, strict=True)), default=0)

    def scratch_bytes(self, kernels: str) -> int | None:
        """The most that one kernel asks for beside its tensors; None where that is not known."""
        return self._scratch.setdefault(kernels, most_scratch(self.micro_graph, kernels))

    @cached_property
    def _scratch(self) -> dict[str, int | None]:
        return {}
