"""What a model needs of a target's memory: computed once, for any number of targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.graph import ABSENT, Graph, is_precomputed
from sizeup.memory import Usage, tensor_bytes, usage

if TYPE_CHECKING:
    from sizeup.memory import ActivationBounds

PartT = TypeVar("PartT")

_OTHER_CONSTANTS = ("buffer", "constant")
# Growth of a file by quantization, in bytes: scales and zero points of weight and bias per channel, and of
# every tensor. Four networks grew by 6 to 37 B per channel.
_BY_CHANNEL, _BY_TENSOR = 48, 128


@dataclass(frozen=True, eq=False)
class Needs:
    """The needs of a graph at a precision; `file_bytes` is the size of its file.

    `original_cost` is the cost of the graph in the file if `graph` has a mixed-precision assignment. The
    schedule is that of the graph, and buffers are placed greedily.
    """

    graph: Graph
    cost: Cost
    precision: DType | None = None
    file_bytes: int | None = None
    original_cost: Cost | None = None
    file: Path | None = None  # the file, if the graph has its shapes

    @cached_property
    def usage(self) -> Usage:
        """Activation memory per operator, in the original schedule."""
        return usage(self.graph, precision=self.precision)

    @cached_property
    def usage_as_run(self) -> Usage:
        """Activation memory as in PyTorch if the graph was traced from a run, else `usage`."""
        if self.graph.recorded_run is None:
            return self.usage
        return usage(self.graph, precision=self.precision, use_recorded_run=True)

    @cached_property
    def activation_bounds(self) -> ActivationBounds:
        """Bounds of activation memory for runtimes whose memory planner is not published."""
        from sizeup.memory import activation_bounds

        return activation_bounds(self.graph, self.precision)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all weights, as stored or at the precision."""
        return self.cost.bytes_at(self.precision).weights

    @cached_property
    def most_loaded_bytes(self) -> int:
        """An upper bound of what a runtime loads once: dense weights, other constants, and large attributes.

        Constants that are computed from others count as well: runtimes may compute them in advance.
        """
        dense = int(self.cost.parameters.bytes_at(self.precision).sum())
        return max(self.weight_bytes, dense) + self.constant_bytes + self.computed_bytes

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of constants that are no parameters, each once, and of the attributes of operators."""
        sizes: dict[int, int] = {}
        stack = [self.graph]
        while stack:
            graph = stack.pop()
            for tensor in graph.tensors:
                if tensor.data is not None and tensor.data.role in _OTHER_CONSTANTS:
                    size = max(tensor_bytes(tensor, self.precision), tensor.data.stored_bytes or 0)
                    sizes[id(tensor.data)] = size
            stack.extend(body.graph for op in graph.ops for body in op.bodies)
        required = self.graph.requirements
        return sum(sizes.values()) + (0 if required is None else required.other_bytes)

    @property
    def is_converted(self) -> bool:
        """Whether the precision differs from that of the file."""
        return self.precision is not None or self.original_cost is not None

    @cached_property
    def stored_bytes(self) -> tuple[int, int]:
        """Bounds of the model size: the size of the file, or an estimate if there is no such file."""
        if self.file_bytes is not None and not self.is_converted:
            if self.graph.format == "tflite":
                return self.file_bytes, self.file_bytes
            external = self.graph.requirements.external_bytes if self.graph.requirements else 0
            stored = self.file_bytes + external
            return min(self.weight_bytes, stored), stored + self.in_integers.computed_bytes
        stored_weights = (self.original_cost or self.cost).stored_bytes
        tensors = _BY_TENSOR * len(self.graph.tensors)
        other = self.constant_bytes + tensors
        if self.file_bytes is not None:
            other = max(self.file_bytes - stored_weights, self.constant_bytes)
        if self.is_converted:
            other += tensors + _BY_CHANNEL * self._channels
        return self.weight_bytes, self.weight_bytes + other + self.in_integers.computed_bytes

    @property
    def _channels(self) -> int:
        """An upper bound of the output channels of all layers: which axis they are depends on the format."""
        from sizeup.mixed_precision import layers

        graph = self.graph
        outputs = (graph.tensors[graph.ops[layer.op].outputs[0]] for layer in layers(graph))
        return sum(max(tensor.shape or (1,)) for tensor in outputs)

    @cached_property
    def converted(self) -> Needs:
        """The needs of the graph as converters for microcontrollers write it; of a .tflite file, itself."""
        if self.graph.format == "tflite":
            return self
        from sizeup.memory import folded

        graph = folded(self.graph)
        return self if graph is self.graph else replace(self, graph=graph)

    @cached_property
    def in_integers(self) -> Needs:
        """The needs if operators between dequantization and quantization compute in integers."""
        if self.graph.format == "tflite":
            return self
        from sizeup.memory import in_integers

        graph = in_integers(self.graph)
        return self if graph is self.graph else replace(self, graph=graph)

    @cached_property
    def computed_bytes(self) -> int:
        """What constants grow by that are computed from smaller ones, if a converter stores the results."""
        graph, grown = self.graph, 0
        read = {identity for op in graph.ops if not is_precomputed(graph, op) for identity in op.inputs}
        sources: dict[int, int] = {}  # bytes of the largest stored constant behind a computed one
        for op in graph.ops:
            if is_precomputed(graph, op):
                before = (sources.get(each, self._bytes_of(each)) for each in op.inputs if each != ABSENT)
                sources.update(dict.fromkeys(op.outputs, largest := max(before, default=0)))
                if not read.isdisjoint(op.outputs):
                    grown += max(sum(map(self._bytes_of, op.outputs)) - largest, 0)
        return grown

    def _bytes_of(self, identity: int) -> int:
        return tensor_bytes(self.graph.tensors[identity], self.precision)

    def part(self, kind: Callable[[Needs], PartT]) -> PartT:
        """What one backend computes for the model, made by `kind` on first use."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        part: PartT = self._parts[kind]
        return part

    @cached_property
    def _parts(self) -> dict[Callable[[Needs], Any], Any]:
        return {}
