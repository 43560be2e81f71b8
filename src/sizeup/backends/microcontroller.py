"""Runtimes without an operating system: weights stay in flash, and models are converted for them."""

from __future__ import annotations

from sizeup.backends.backend import Backend, Support
from sizeup.backends.banks import flash_memory, ram_bank
from sizeup.backends.memory_need import MemoryNeed, MemoryPart
from sizeup.backends.needs import Needs
from sizeup.backends.tflm.needs import TflmNeeds
from sizeup.dtypes import precision_name
from sizeup.memory import Usage

_LAYERS = ("conv", "conv_transpose", "matmul")
_FLOATS = (
    "the upper end of the RAM is that of a converter that keeps floats between DequantizeLinear and"
    " QuantizeLinear"
)


class Microcontroller(Backend):
    """What all such runtimes have in common."""

    def ram(self, needs: Needs, available: int | None) -> MemoryNeed:
        """The need of the largest bank of RAM."""
        reason = needs.usage.unavailable_reason
        return ram_bank(self.target, available, self._ram_parts(needs), [reason] if reason else [])

    def flash(self, needs: Needs, available: int | None) -> MemoryNeed:
        """The need of flash: the model, and the code of its operators if known."""
        graphs = (needs.graph, *needs.part(TflmNeeds).written)
        count = max(len(graph.ops) for graph in graphs)
        stored, code = [self.stored(needs)], self.code(needs)
        return flash_memory(self.target, available, stored, code, count, self.code_range_basis)

    def support(self, needs: Needs) -> Support:
        """The operators that the runtime is not known to run, and dtypes that it has no kernels for."""
        missing = self.missing_operators(needs)
        gaps = (("missing operators", self.missing_text(missing)),) if missing else ()
        return Support(self._float_refusal(needs), gaps, self.conversion_caveats(needs), missing)

    def converted(self, needs: Needs) -> Needs:
        """The needs of the graph as converters for microcontrollers write it."""
        return needs.converted

    def usage(self, needs: Needs) -> Usage:
        """Activation memory per operator of that graph."""
        return needs.converted.usage

    @property
    def uses_recorded_shapes(self) -> bool:
        """What a file records counts, as in TFLite Micro."""
        return True

    def arena_parts(self, needs: Needs) -> list[MemoryPart]:
        """The activations, and the memory of the runtime itself."""
        raise NotImplementedError

    def stored(self, needs: Needs) -> MemoryPart:
        """The model in flash."""
        raise NotImplementedError

    def code(self, needs: Needs) -> MemoryPart | None:
        """The code size for the operators of a model; None if only the range of the runtime is known."""
        return None

    @property
    def code_range_basis(self) -> str:
        """Why the code size is the range of the runtime."""
        return f"of {self.target.runtime.name}"

    def missing_operators(self, needs: Needs) -> tuple[str, ...]:
        """The op kinds that the runtime is not known to run."""
        return needs.part(TflmNeeds).missing_operators(self.target.runtime)

    def missing_text(self, missing: tuple[str, ...]) -> str:
        """Why missing operators leave the verdict undetermined."""
        names, runtime = ", ".join(missing), self.target.runtime
        if runtime.operators is None:
            return f"whether {runtime.title} runs {names} is not known"
        verb = "is" if len(missing) == 1 else "are"
        return f"{names} {verb} not in the list of operators of {runtime.title}"

    def conversion_caveats(self, needs: Needs) -> tuple[str, ...]:
        """What a converter decides about the memory."""
        return () if needs.in_integers is needs else (_FLOATS,)

    def _ram_parts(self, needs: Needs) -> list[MemoryPart]:
        if needs.usage.unknown_sizes:
            basis = "without tensors whose size depends on data"
            return [MemoryPart("tensors", needs.usage.peak_bytes, None, basis)]
        return self.arena_parts(needs)

    def _float_refusal(self, needs: Needs) -> str | None:
        """That the layers are in floats without kernels; None for a file that the runtime reads."""
        runtime = self.target.runtime
        if needs.is_converted or (runtime.formats and needs.graph.format in runtime.formats):
            return None
        graph = needs.in_integers.graph
        dtypes = {graph.tensors[op.outputs[0]].dtype for op in graph.ops if op.kind in _LAYERS and op.outputs}
        names = {precision_name(dtype) for dtype in dtypes if dtype.family == "float"}
        foreign = sorted(names.difference(runtime.dtypes))
        if not foreign:
            return None
        other = "fp32" if "fp32" in runtime.dtypes else "int8"
        return (
            f"{runtime.name} has no kernels for {', '.join(foreign)}: --precision {other} converts the model"
        )


def with_unmodeled(parts: list[MemoryPart], needs: Needs) -> list[MemoryPart]:
    """The parts; without an upper end if the memory inside control flow or of an operator is not known."""
    reason = needs.usage.unmodeled_reason
    return [*parts, MemoryPart("operators", 0, None, reason)] if reason else parts
