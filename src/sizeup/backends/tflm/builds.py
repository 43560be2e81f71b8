"""The arena of a file with the kernels of a target, or with those that firmware most often has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sizeup.backends.backend import backend_of
from sizeup.backends.tflm import FIRMWARE, Build, MicroArena, arena, chip_of, firmwares
from sizeup.backends.tflm.file_arena import tflm_arena, unsupported_reason
from sizeup.errors import Incomplete, InvalidPlan, WriteError
from sizeup.graph import Graph
from sizeup.targets import Target, word_bits_of

# Arm architectures without vector instructions, with DSP instructions and with Helium.
_ARM_CORES = ("Armv7-M", "Armv7E-M", "Armv8.1-M")


def builds_of(target: Target) -> tuple[Build, ...]:
    """The possible builds of TFLite Micro on a target that runs it."""
    kernels, core = target.runtime.micro, target.units[0].core
    builds = firmwares(target.architectures, kernels)
    if kernels != "esp-nn":
        return builds
    chip = chip_of("" if core is None else core.name)
    return tuple(replace(build, kernels="esp-nn", chip=chip) for build in builds)


@dataclass(frozen=True, slots=True)
class TargetArena:
    """The smallest arena of files on a target, in each of its possible builds."""

    builds: tuple[Build, ...]
    word_bits: int = 32

    def sizes(
        self, graph: Graph, offsets: Sequence[int] | None = None, *, overlap: bool = False
    ) -> tuple[int, ...] | None:
        """The arena per build with a memory plan, or that of the interpreter's planner; None if unknown."""
        sizes = []
        for build in self.builds:
            try:
                size = arena(graph, offsets=offsets, overlap=overlap, firmware=build).arena_bytes(
                    self.word_bits
                )
            except (Incomplete, InvalidPlan):
                return None
            if size is None:
                return None
            sizes.append(size)
        return tuple(sizes)

    def file_sizes(self, graph: Graph) -> tuple[int | None, ...]:
        """The arena of a file per build, with the plan stored in it; None if it does not run correctly."""
        return tuple(self._file_size(graph, build) for build in self.builds)

    def file_head(self, graph: Graph) -> int | None:
        """The largest arena head of a file in any build; None if it does not run correctly in one."""
        arenas = [_file_arena(graph, build) for build in self.builds]
        heads = [arena.head_bytes for arena in arenas if arena is not None]
        return max(heads) if heads and len(heads) == len(arenas) else None

    def _file_size(self, graph: Graph, build: Build) -> int | None:
        shipped = _file_arena(graph, build)
        return None if shipped is None else shipped.arena_bytes(self.word_bits)


def _file_arena(graph: Graph, build: Build) -> MicroArena | None:
    """The arena of a file with the plan stored in it; None if it does not run correctly."""
    shipped = tflm_arena(graph, build)
    if shipped is None or shipped.unsupported_reason:
        return None
    return shipped if build.kernels == "reference" or not shipped.overlapping_tensors else None


def arena_of(target: Target | None) -> TargetArena:
    """The arena in the builds of a target, of which there are none with another runtime.

    Without a target: one with the reference kernels, and one with CMSIS-NN per kind of vector instructions.
    """
    builds = (FIRMWARE, *firmwares(_ARM_CORES, "cmsis-nn")) if target is None else backend_of(target).builds()
    return TargetArena(builds, word_bits_of(target))


def check_runs(graph: Graph, target: Target) -> None:
    """Raise WriteError if TFLite Micro on a target does not run a file, or if its memory is not known."""
    kernels, build = target.runtime.micro, builds_of(target)[-1]
    shipped = tflm_arena(graph, build)
    reason = unsupported_reason(graph, shipped, build)
    if reason is not None:
        raise WriteError(f"{target.name}: TFLite Micro cannot run this file: {reason}")
    if shipped is not None and shipped.overlapping_tensors and kernels != "reference":
        raise WriteError(
            f"{target.name}: in the memory plan stored in the file outputs overlap inputs, and {kernels}"
            " kernels may compute wrong outputs with it; start from the original file"
        )
