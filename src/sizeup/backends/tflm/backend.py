"""TFLite Micro with its reference kernels, CMSIS-NN or ESP-NN."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.backends.backend import Support
from sizeup.backends.memory_need import MemoryPart
from sizeup.backends.microcontroller import Microcontroller, with_unmodeled
from sizeup.backends.needs import Needs
from sizeup.backends.tflm.code_size import code_part, range_basis
from sizeup.backends.tflm.needs import TflmNeeds, converted_parts
from sizeup.cost import Cost
from sizeup.dtypes import DType, precision_name
from sizeup.errors import WriteError
from sizeup.graph import Graph

if TYPE_CHECKING:
    from sizeup.backends.backend import HostRun
    from sizeup.backends.tflm.layout import Build
    from sizeup.latency.counted import InstructionsPrediction, LeastInstructions
    from sizeup.latency.execution import Execution

# Kernel libraries whose memory is part of the arena.
_EXACT = ("reference", "cmsis-nn")
# The fewest cycles per result of the reference kernels: ELU of int8 at half a cycle.
_REFERENCE_CYCLES = 8.67 * 0.5


class Tflm(Microcontroller):
    """TFLite Micro, whose arena is known to the byte."""

    def arena_parts(self, needs: Needs) -> list[MemoryPart]:
        """The arena that the interpreter plans, and scratch buffers of its kernels."""
        micro, kernels = needs.part(TflmNeeds), self.kernel_library
        arena, bounds = micro.arena(self.target), micro.arena_bounds(self.target)
        if bounds is not None:
            basis = f"needed by TFLite Micro's AllocateTensors with {kernels} kernels"
            if needs.precision is not None:
                basis += f" and every layer at {precision_name(needs.precision)}"
            parts = [MemoryPart("arena", *bounds, basis)]
        elif arena is not None:
            parts = [MemoryPart("arena", arena.head_bytes, None, arena.tail_unknown_reason)]
        else:
            parts = with_unmodeled(converted_parts(needs, self.target), needs)
        if kernels in _EXACT:
            return parts
        most = micro.scratch_bytes(self.target)
        if most is None:
            parts.append(
                MemoryPart("scratch", 0, None, f"scratch buffers of {kernels} kernels are not known")
            )
        elif most:
            parts.append(MemoryPart("scratch", 0, most, f"largest scratch buffer of {kernels} kernels"))
        return parts

    def stored(self, needs: Needs) -> MemoryPart:
        """The size of the file, or its bounds after a conversion."""
        least, most = needs.part(TflmNeeds).converted_file_bytes
        if least == most:
            return MemoryPart("model", least, most, "size of the file")
        return MemoryPart("model", least, most, "weights, plus the other content of such a file")

    def code(self, needs: Needs) -> MemoryPart | None:
        """The code size for the operators of a file; None if only the range of the runtime is known."""
        return code_part(needs, self.target)

    @property
    def code_range_basis(self) -> str:
        """Why the code size is the range of the runtime."""
        return range_basis(self.target)

    def support(self, needs: Needs) -> Support:
        """What the kernels take, by the rules of their source."""
        other = super().support(needs)
        return Support(
            self._refusal(needs) or other.refusal, other.gaps, other.caveats, other.missing_operators
        )

    def missing_operators(self, needs: Needs) -> tuple[str, ...]:
        """The op kinds for which there is no kernel, nor others that a converter uses in their place."""
        return needs.part(TflmNeeds).conversion.missing

    def missing_text(self, missing: tuple[str, ...]) -> str:
        """Why missing operators leave the verdict undetermined."""
        names = ", ".join(missing)
        return f"TFLite Micro has no kernel for {names}: undetermined until the model is converted to .tflite"

    def conversion_caveats(self, needs: Needs) -> tuple[str, ...]:
        """Where its kernels compute something else, and what a converter decides about the memory."""
        micro = needs.part(TflmNeeds)
        arena, composed = micro.arena(self.target), micro.conversion.composed
        caveats = () if arena is None else arena.caveats
        caveats += super().conversion_caveats(needs)
        if composed:
            text = "a converter uses several operators instead, whose memory is an assumed upper bound"
            caveats += (f"TFLite Micro has no kernel for {', '.join(composed)}: {text}",)
        return caveats

    def converted_graphs(self, needs: Needs) -> tuple[Graph, ...]:
        """The graphs of .tflite files that converters may write of a model in another format."""
        return needs.part(TflmNeeds).written

    def reads(self, format: str) -> bool:
        """Whether it takes the operators of a format; it has fewer kernels than exporters of PyTorch."""
        return not format.startswith("torch") and super().reads(format)

    @property
    def honors_plans(self) -> bool:
        """Offsets in a file replace those of its planner."""
        return True

    @property
    def allows_overlap(self) -> bool:
        """Its reference kernels alone read each element before they write it."""
        return self.kernel_library == "reference"

    def check_overlap(self) -> None:
        """Raise WriteError for other kernels than the reference ones."""
        if not self.allows_overlap:
            raise WriteError(
                f"--overlap is not possible on {self.target.name}: with overlaps {self.kernel_library}"
                " kernels may compute wrong outputs; only TFLite Micro's reference kernels allow them"
            )

    def check_runs(self, graph: Graph) -> None:
        """Raise WriteError if its kernels do not run a file, or if the memory is not known."""
        from sizeup.backends.tflm.builds import check_runs

        check_runs(graph, self.target)

    def builds(self) -> tuple[Build, ...]:
        """The possible builds for the cores of the target, with its kernels."""
        from sizeup.backends.tflm.builds import builds_of

        return builds_of(self.target)

    @property
    def counts_instructions(self) -> bool:
        """The instructions of the reference kernels and of CMSIS-NN are known on Arm Cortex-M."""
        return True

    def is_counted_at(self, precision: str) -> bool:
        """Whether cycles per instruction were measured on the core."""
        from sizeup.backends.tflm.cycles import INSTRUCTION_PRECISIONS, cycles_per_instruction

        return precision in INSTRUCTION_PRECISIONS and cycles_per_instruction(self.target) is not None

    def counted(
        self, cost: Cost, precision: DType | None, executed: Execution
    ) -> InstructionsPrediction | None:
        """The latency of a file by its instructions."""
        from sizeup.backends.tflm.cycles import predict_instructions

        return predict_instructions(cost, self.target, precision, executed)

    def least_counted(
        self, cost: Cost, precision: DType | None, executed: Execution
    ) -> LeastInstructions | None:
        """The least latency by the instructions of its products of matrices."""
        from sizeup.backends.tflm.cycles import least_instructions

        return least_instructions(cost, self.target, precision, executed)

    @property
    def least_cycles_per_result(self) -> float:
        """The fewest cycles that a kernel takes per number it computes."""
        return _REFERENCE_CYCLES if self.has_plain_kernels else super().least_cycles_per_result

    @property
    def has_plain_kernels(self) -> bool:
        """The reference kernels are not optimized."""
        return self.kernel_library == "reference"

    @property
    def offered_precisions(self) -> tuple[str, ...]:
        """It has kernels for 4-bit weights, but no activations below 8 bits."""
        return ("fp32", "int8")

    def require_interpreter(self) -> None:
        """Raise MissingLibrary if its interpreter is not installed on the host."""
        from sizeup.backends.tflm.host_run import require_interpreter

        require_interpreter()

    def host_run(
        self, needs: Needs, file: Path | None, run: bool | None, *, is_over: bool, is_unsupported: bool
    ) -> HostRun | None:
        """One inference of a .tflite file with the reference kernels on the host."""
        if run is False or (run is None and is_over):
            return None
        from sizeup.backends.tflm.host_run import run_on_host

        kernels = "reference" if is_unsupported else self.kernel_library
        return run_on_host(needs, kernels, file, run)

    def _refusal(self, needs: Needs) -> str | None:
        micro = needs.part(TflmNeeds)
        reason = micro.unsupported_reason(self.target)
        if reason is not None:
            return f"TFLite Micro cannot run this file: {reason}"
        arena = micro.arena(self.target)
        if arena is None or not arena.overlapping_tensors or self.allows_overlap:
            return None
        return (
            "in the memory plan stored in the file outputs overlap inputs, which only TFLite Micro's"
            f" reference kernels allow: {self.kernel_library} kernels may compute wrong outputs without an"
            " error; store a plan without --overlap"
        )


BACKEND = Tflm
