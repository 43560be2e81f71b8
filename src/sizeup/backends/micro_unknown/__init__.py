"""Microcontroller runtimes whose memory planner is not published: bounds instead of one number."""

from __future__ import annotations

from dataclasses import replace

from sizeup.backends.banks import ONE_BANK
from sizeup.backends.memory_need import MemoryNeed, MemoryPart
from sizeup.backends.microcontroller import Microcontroller, with_unmodeled
from sizeup.backends.needs import Needs
from sizeup.backends.tflm.needs import TflmNeeds
from sizeup.targets import Target

# Assumed upper bound per op of the structures that describe ops and tensors to a runtime, in bytes.
_DESCRIPTION_BYTES = 1024
_LOW = "between two operators, with every output in place"
_HIGH = "without in-place outputs, with copies that kernels may make"
_UNKNOWN_POOLS = "how the compiler for its NPU fills the memory pools is not modeled: a lower bound"


class MicroUnknown(Microcontroller):
    """ST Edge AI, TinyEngine, microTVM, ESP-DL and others; some have memory pools, or an NPU."""

    def ram(self, needs: Needs, available: int | None) -> MemoryNeed:
        """The need of the largest bank of RAM, or of all if the runtime can split activations."""
        memory = super().ram(needs, available)
        is_given = available is not None or self.target.board is not None
        return memory if is_given else _over_all_banks(memory, self.target)

    def arena_parts(self, needs: Needs) -> list[MemoryPart]:
        """The activations, from every output in place to none, and the runtime's own RAM."""
        from sizeup.memory import activation_bounds

        low, high = needs.in_integers.activation_bounds.low_bytes, needs.activation_bounds.high_bytes
        if not self.target.is_cpu:
            return with_unmodeled([MemoryPart("tensors", low, None, _UNKNOWN_POOLS)], needs)
        written = needs.part(TflmNeeds).written
        high = max([high, *(activation_bounds(graph).high_bytes for graph in written)])
        most = _DESCRIPTION_BYTES * (max(len(graph.ops) for graph in (needs.graph, *written)) + 1)
        basis = f"{self.target.runtime.name}: from {_LOW} to {_HIGH}"
        parts = [
            MemoryPart("tensors", low, high, basis),
            MemoryPart("runtime", 0, most, "assumed: at most 1 KiB per operator that describes it"),
        ]
        return with_unmodeled(parts, needs)

    def stored(self, needs: Needs) -> MemoryPart:
        """The model in flash: a compiler stores the weights without the rest of the file."""
        if not self.target.is_cpu:
            basis = "weights, which the compiler for its NPU may align or compress"
            return MemoryPart("model", 0, None, basis)
        least, most = needs.part(TflmNeeds).converted_file_bytes
        low = min(needs.weight_bytes, least)
        return MemoryPart("model", low, most, "weights, at most the size of the file")


BACKEND = MicroUnknown


def _over_all_banks(memory: MemoryNeed, target: Target) -> MemoryNeed:
    """The need compared with all RAM banks together, if the runtime can split it and one may be too small."""
    device, most = target.device, memory.high_bytes
    total = device.ram_bytes
    if not target.runtime.has_memory_pools or memory.limit_bytes is None or total is None:
        return memory
    if total <= memory.limit_bytes or (most is not None and most <= memory.limit_bytes):
        return memory
    reason = "which tensors the memory pools hold is not modeled"
    split = MemoryPart("placement", 0, None, reason)
    assumptions = tuple(text for text in memory.assumptions if text != ONE_BANK)
    pools = f"{target.runtime.name} spreads activations over all RAM banks; external RAM is not counted"
    return replace(
        memory,
        limit_bytes=total,
        parts=(*memory.parts, split),
        source=f"all banks of {device.title}",
        unknown=(*memory.unknown, f"it may need more than one RAM bank: {reason}"),
        assumptions=(*assumptions, pools),
    )
