"""What a model needs of a target's memory: computed once, for any number of targets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.backends.tflm import FIRMWARE, Build, MicroArena, chip_of, firmwares, largest_scratch_bytes
from sizeup.backends.tflm.file_arena import tflm_arena, unsupported_reason
from sizeup.backends.tflm.layout import Chip
from sizeup.checks.npu import NpuFit, fit_npu
from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.errors import Incomplete
from sizeup.graph import ABSENT, Graph, is_precomputed
from sizeup.memory import Usage, tensor_bytes, usage
from sizeup.targets import Runtime, Target, word_bits_of

if TYPE_CHECKING:
    from sizeup.backends.tflm import Conversion, Conversions, ConvertedArena
    from sizeup.memory import ActivationBounds, DeviceMemory

_OTHER_CONSTANTS = ("buffer", "constant")
# Bytes of quantization parameters per quantized input and output.
_DESCRIPTION = 32
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
    def activation_bounds(self) -> ActivationBounds:
        """Bounds of activation memory for runtimes whose memory planner is not published."""
        from sizeup.memory import activation_bounds

        return activation_bounds(self.graph, self.precision)

    @cached_property
    def usage_as_run(self) -> Usage:
        """Activation memory as in PyTorch if the graph was traced from a run, else `usage`."""
        if self.graph.recorded_run is None:
            return self.usage
        return usage(self.graph, precision=self.precision, use_recorded_run=True)

    @cached_property
    def usage_on_gpu(self) -> Usage:
        """Activation memory as in PyTorch on a GPU if the graph was traced from a run, else `usage`."""
        if self.graph.recorded_run is None:
            return self.usage
        return usage(self.graph, precision=self.precision, use_recorded_run=True, on_gpu=True)

    def usage_on(self, target: Target) -> Usage:
        """Activation memory in the runtime of a target."""
        if target.has_no_system:
            return self.converted.usage
        if not is_run_by_torch(target):
            return self.usage
        return self.usage_as_run if target.is_cpu else self.usage_on_gpu

    def device_memory(self, target: Target) -> DeviceMemory:
        """Memory of PyTorch's caching allocator on a GPU, without tensors whose size depends on data."""
        from sizeup.memory import device_memory

        size = target.blas_workspace_bytes
        if size not in self._device_memory:
            self._device_memory[size] = device_memory(
                self.graph,
                self.usage_on(target).buffers,
                precision=self.precision,
                blas_workspace_bytes=size,
            )
        return self._device_memory[size]

    @cached_property
    def _device_memory(self) -> dict[int, DeviceMemory]:
        return {}

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

    @cached_property
    def converted_file_bytes(self) -> tuple[int, int]:
        """Bounds of the size of the .tflite file after a conversion; of a .tflite file, `stored_bytes`."""
        least, most = self.stored_bytes
        if self.graph.format == "tflite":
            return least, most
        with suppress(Incomplete):
            low, high = self._conversions.file_bytes()
            least, most = min(least, low), max(most, high)
        return least, most

    @cached_property
    def _conversions(self) -> Conversions:
        from sizeup.backends.tflm import Conversions

        least, most = self.converted.in_integers.graph, self.converted.graph
        return Conversions(least, (most,) if least is most else (most, least), self.precision)

    @property
    def _channels(self) -> int:
        """An upper bound of the output channels of all layers: which axis they are depends on the format."""
        from sizeup.mixed_precision import layers

        graph = self.graph
        outputs = (graph.tensors[graph.ops[layer.op].outputs[0]] for layer in layers(graph))
        return sum(max(tensor.shape or (1,)) for tensor in outputs)

    @cached_property
    def micro_graph(self) -> Graph:
        """The graph for TFLite Micro: every layer at the precision."""
        if self.precision is None:
            # A memory plan in the file is valid only for the tensors of the file.
            return self.graph if self.original_cost is None else replace(self.graph, offsets=())
        from sizeup.mixed_precision import assign, layers

        chosen = {layer.op: self.precision for layer in layers(self.graph)}
        return replace(assign(self.graph, chosen), offsets=(), name=self.graph.name)

    def arena(self, target: Target | None = None) -> MicroArena | None:
        """TFLite Micro's arena in the firmware of a target; None if it does not apply or cannot be planned.

        If the core is not known, it is that of the firmware with the largest arena.
        """
        arenas = [self._arena_of(build) for build in _firmwares(target)]
        known = [arena for arena in arenas if arena is not None]
        return max(known, key=lambda arena: arena.arena_bytes_32 or 0, default=None)

    def arena_bounds(self, target: Target | None = None) -> tuple[int, int] | None:
        """Bounds of the smallest arena on a target; None if it is not known."""
        word_bits = word_bits_of(target)
        sizes = []
        for build in _firmwares(target):
            arena = self._arena_of(build)
            size = None if arena is None else arena.arena_bytes(word_bits)
            if size is None:
                return None
            sizes.append(size)
        return min(sizes), max(sizes) + self.quantization_bytes

    def converted_arena(self, target: Target | None = None) -> ConvertedArena | None:
        """Bounds of the arena of the .tflite files that converters may write; None if they are not known."""
        bounds = [self._converted_arena_of(build) for build in _firmwares(target)]
        known = [each for each in bounds if each is not None]
        return reduce(or_, known) if len(known) == len(bounds) else None

    @cached_property
    def written(self) -> tuple[Graph, ...]:
        """The graphs of .tflite files that converters may write of one in another format."""
        if self.graph.format == "tflite":
            return ()
        with suppress(Incomplete):
            return self._conversions.written(FIRMWARE)
        return ()

    def _converted_arena_of(self, build: Build) -> ConvertedArena | None:
        if build not in self._converted_arenas:
            with suppress(Incomplete):
                self._converted_arenas[build] = self._conversions.arena(build)
        return self._converted_arenas.setdefault(build, None)

    @cached_property
    def _converted_arenas(self) -> dict[Build, ConvertedArena | None]:
        return {}

    def unsupported_reason(self, target: Target | None = None) -> str | None:
        """Why TFLite Micro cannot run the file; None if no reason is known."""
        build = _firmwares(target)[-1]
        is_file = not self.is_converted
        return unsupported_reason(self.micro_graph, self._arena_of(build), build, is_file=is_file)

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

    @cached_property
    def conversion(self) -> Conversion:
        """What a conversion to .tflite does with op kinds for which TFLite Micro has no kernel."""
        from sizeup.backends.tflm import Conversion, conversion_of

        return Conversion() if self.graph.format == "tflite" else conversion_of(self.graph, self.precision)

    def missing_operators(self, runtime: Runtime) -> tuple[str, ...]:
        """The op kinds that a runtime for microcontrollers is not known to run.

        Without a list of its operators, it is assumed to run those of TFLite Micro that others have too.
        """
        if runtime.micro:
            return self.conversion.missing
        if runtime.name not in self._missing:
            from sizeup.backends.tflm import unlisted_operators

            listed = runtime.operators
            names = () if listed is None else (listed.format, listed.names, listed.excluded)
            self._missing[runtime.name] = unlisted_operators(self.graph, *names)
        return self._missing[runtime.name]

    @cached_property
    def _missing(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _arena_of(self, build: Build) -> MicroArena | None:
        if build not in self._arenas:
            self._arenas[build] = tflm_arena(self.micro_graph, build, is_file=not self.is_converted)
        return self._arenas[build]

    @cached_property
    def _arenas(self) -> dict[Build, MicroArena | None]:
        return {}

    @cached_property
    def quantization_bytes(self) -> int:
        """Bytes that a converted file may add to the arena of a graph at an assumed precision."""
        ports = len(self.graph.inputs) + len(self.graph.outputs)
        return _DESCRIPTION * ports if self.is_converted else 0

    def scratch_bytes(self, target: Target) -> int | None:
        """An upper bound of the largest scratch buffer of a target's kernels; None if it is not known.

        For ESP-NN and a .tflite file, it is the scratch that its functions request.
        """
        if target.runtime.micro != "esp-nn":
            return None
        core = target.units[0].core
        chip = chip_of("" if core is None else core.name)
        if chip not in self._scratch:
            graph = self.micro_graph
            if graph.format != "tflite":
                self._scratch[chip] = self._converted_esp_nn_bytes(chip)
            elif graph.other_graphs is not None:
                self._scratch[chip] = self._esp_nn_bytes(chip, (graph, *graph.other_graphs))
            else:
                self._scratch[chip] = None
        return self._scratch[chip]

    def _converted_esp_nn_bytes(self, chip: Chip) -> int | None:
        """As `_esp_nn_bytes`, of the .tflite files that converters may write."""
        plain = self._converted_arena_of(FIRMWARE)
        if plain is None:
            return None
        with suppress(Incomplete):
            build = replace(FIRMWARE, kernels="esp-nn", chip=chip)
            planned = self._conversions.largest(build, plain.head[0])
            return max(planned.scratch, planned.arena - plain.arena[1])
        return None

    def _esp_nn_bytes(self, chip: Chip, graphs: tuple[Graph, ...]) -> int:
        """The scratch of ESP-NN, or what the arena grows by if that is more: requests take space too."""
        builds = (FIRMWARE, replace(FIRMWARE, kernels="esp-nn", chip=chip))
        arenas = map(self._arena_of, builds)
        plain, planned = (None if arena is None else arena.arena_bytes(32) for arena in arenas)
        grown = 0 if plain is None or planned is None else planned - plain
        return max(largest_scratch_bytes(graphs, chip), grown)

    def npu(self, target: Target) -> NpuFit:
        """The model compiled for the Ethos-U of a target."""
        if target.name not in self._npus:
            self._npus[target.name] = fit_npu(
                self.graph, target, self.file, self.file_bytes, is_converted=self.is_converted
            )
        return self._npus[target.name]

    @cached_property
    def _npus(self) -> dict[str, NpuFit]:
        return {}

    @cached_property
    def _scratch(self) -> dict[Chip, int | None]:
        return {}


def is_run_by_torch(target: Target) -> bool:
    """Whether PyTorch's own allocator and kernels determine the memory use."""
    return target.runtime.name == "torch-eager"


def _firmwares(target: Target | None) -> tuple[Build, ...]:
    return firmwares((), "") if target is None else firmwares(target.architectures, target.runtime.micro)
