"""What TFLite Micro needs for a model: computed once, for any number of targets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from sizeup.backends.memory_need import MemoryPart
from sizeup.backends.needs import Needs
from sizeup.backends.tflm import FIRMWARE, Build, MicroArena, chip_of, firmwares, largest_scratch_bytes
from sizeup.backends.tflm.file_arena import tflm_arena, unsupported_reason
from sizeup.backends.tflm.layout import Chip
from sizeup.errors import Incomplete
from sizeup.graph import Graph
from sizeup.targets import Runtime, Target, word_bits_of

if TYPE_CHECKING:
    from sizeup.backends.tflm import Conversion, Conversions, ConvertedArena

# Bytes of quantization parameters per quantized input and output.
_DESCRIPTION = 32


def firmwares_of(target: Target | None) -> tuple[Build, ...]:
    """The builds of TFLite Micro for the cores of a target, whatever its runtime is."""
    return firmwares((), "") if target is None else firmwares(target.architectures, target.runtime.micro)


class TflmNeeds:
    """What TFLite Micro needs for a model at its precision, in its own schedule."""

    def __init__(self, needs: Needs) -> None:
        self._needs, self._graph, self._precision = needs, needs.graph, needs.precision

    @cached_property
    def converted_file_bytes(self) -> tuple[int, int]:
        """Bounds of the size of the .tflite file after a conversion; of a .tflite file, `stored_bytes`."""
        least, most = self._needs.stored_bytes
        if self._graph.format == "tflite":
            return least, most
        with suppress(Incomplete):
            low, high = self._conversions.file_bytes()
            least, most = min(least, low), max(most, high)
        return least, most

    @cached_property
    def _conversions(self) -> Conversions:
        from sizeup.backends.tflm import Conversions

        least, most = self._needs.converted.in_integers.graph, self._needs.converted.graph
        return Conversions(least, (most,) if least is most else (most, least), self._precision)

    @cached_property
    def micro_graph(self) -> Graph:
        """The graph for TFLite Micro: every layer at the precision."""
        if self._precision is None:
            # A memory plan in the file is valid only for the tensors of the file.
            return self._graph if self._needs.original_cost is None else replace(self._graph, offsets=())
        from sizeup.mixed_precision import assign, layers

        chosen = {layer.op: self._precision for layer in layers(self._graph)}
        return replace(assign(self._graph, chosen), offsets=(), name=self._graph.name)

    def arena(self, target: Target | None = None) -> MicroArena | None:
        """TFLite Micro's arena in the firmware of a target; None if it does not apply or cannot be planned.

        If the core is not known, it is that of the firmware with the largest arena.
        """
        arenas = [self._arena_of(build) for build in firmwares_of(target)]
        known = [arena for arena in arenas if arena is not None]
        return max(known, key=lambda arena: arena.arena_bytes_32 or 0, default=None)

    def arena_bounds(self, target: Target | None = None) -> tuple[int, int] | None:
        """Bounds of the smallest arena on a target; None if it is not known."""
        word_bits = word_bits_of(target)
        sizes = []
        for build in firmwares_of(target):
            arena = self._arena_of(build)
            size = None if arena is None else arena.arena_bytes(word_bits)
            if size is None:
                return None
            sizes.append(size)
        return min(sizes), max(sizes) + self.quantization_bytes

    def converted_arena(self, target: Target | None = None) -> ConvertedArena | None:
        """Bounds of the arena of the .tflite files that converters may write; None if they are not known."""
        bounds = [self._converted_arena_of(build) for build in firmwares_of(target)]
        known = [each for each in bounds if each is not None]
        return reduce(or_, known) if len(known) == len(bounds) else None

    @cached_property
    def written(self) -> tuple[Graph, ...]:
        """The graphs of .tflite files that converters may write of one in another format."""
        if self._graph.format == "tflite":
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
        build = firmwares_of(target)[-1]
        is_file = not self._needs.is_converted
        return unsupported_reason(self.micro_graph, self._arena_of(build), build, is_file=is_file)

    @cached_property
    def conversion(self) -> Conversion:
        """What a conversion to .tflite does with op kinds for which TFLite Micro has no kernel."""
        from sizeup.backends.tflm import Conversion, conversion_of

        return Conversion() if self._graph.format == "tflite" else conversion_of(self._graph, self._precision)

    def missing_operators(self, runtime: Runtime) -> tuple[str, ...]:
        """The op kinds that another runtime for microcontrollers is not known to run.

        Without a list of its operators, it is assumed to run those of TFLite Micro that others have too.
        """
        if runtime.name not in self._missing:
            from sizeup.backends.tflm import unlisted_operators

            listed = runtime.operators
            names = () if listed is None else (listed.format, listed.names, listed.excluded)
            self._missing[runtime.name] = unlisted_operators(self._graph, *names)
        return self._missing[runtime.name]

    @cached_property
    def _missing(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _arena_of(self, build: Build) -> MicroArena | None:
        if build not in self._arenas:
            self._arenas[build] = tflm_arena(self.micro_graph, build, is_file=not self._needs.is_converted)
        return self._arenas[build]

    @cached_property
    def _arenas(self) -> dict[Build, MicroArena | None]:
        return {}

    @cached_property
    def quantization_bytes(self) -> int:
        """Bytes that a converted file may add to the arena of a graph at an assumed precision."""
        ports = len(self._graph.inputs) + len(self._graph.outputs)
        return _DESCRIPTION * ports if self._needs.is_converted else 0

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

    @cached_property
    def _scratch(self) -> dict[Chip, int | None]:
        return {}


def converted_parts(needs: Needs, target: Target | None) -> list[MemoryPart]:
    """The arena of the .tflite files that converters may write of a model in another format."""
    bounds = None if needs.graph.format == "tflite" else needs.part(TflmNeeds).converted_arena(target)
    if bounds is None:
        reason = ""
        if needs.graph.format == "tflite":
            # Of a file that runs and whose sizes are known, only the number of steps leaves the plan open.
            refusal = needs.part(TflmNeeds).unsupported_reason(target)
            reason = refusal or "TFLite Micro's planner takes too many steps"
        basis = ": ".join(filter(None, ("the arena is not known", reason)))
        return [MemoryPart("tensors", needs.usage.peak_bytes, None, basis)]
    (low_head, high_head), (low, high) = bounds.head, bounds.arena
    parts = [
        MemoryPart("arena", low_head, high_head, "tensors and scratch as placed by TFLite Micro's planner"),
        MemoryPart(
            "interpreter", low - low_head, high - high_head, "of the operators that a converter may write"
        ),
    ]
    if bounds.composed_bytes:
        names = ", ".join(needs.part(TflmNeeds).conversion.composed) or "recurrent cells"
        basis = f"assumed for the operators that replace {names}"
        parts.append(MemoryPart("conversion", 0, bounds.composed_bytes, basis))
    return parts
