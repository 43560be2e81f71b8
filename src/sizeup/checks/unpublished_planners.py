"""Memory of microcontroller runtimes whose memory planner is not published: bounds instead of one number."""

from __future__ import annotations

from dataclasses import replace

from sizeup.checks.limits import MemoryNeed, MemoryPart
from sizeup.checks.needs import Needs
from sizeup.targets import Target

# Assumed upper bound per op of the structures that describe ops and tensors to a runtime, in bytes.
_DESCRIPTION_BYTES = 1024
_LOW = "between two operators, with every output in place"
_HIGH = "without in-place outputs, with copies that kernels may make"
_UNKNOWN_POOLS = "how the compiler for its NPU fills the memory pools is not modeled: a lower bound"
ONE_BANK = "the arena must be in one bank: the largest bank counts, not the sum"


def activation_parts(needs: Needs, target: Target) -> list[MemoryPart]:
    """The activations and the runtime's own RAM."""
    from sizeup.memory import activation_bounds

    low, high = needs.in_integers.activation_bounds.low_bytes, needs.activation_bounds.high_bytes
    name = target.runtime.name
    if not target.is_cpu:
        return [MemoryPart("tensors", low, None, _UNKNOWN_POOLS)]
    high = max([high, *(activation_bounds(graph).high_bytes for graph in needs.written)])
    most = _DESCRIPTION_BYTES * (max(len(graph.ops) for graph in (needs.graph, *needs.written)) + 1)
    return [
        MemoryPart("tensors", low, high, f"{name}: from {_LOW} to {_HIGH}"),
        MemoryPart("runtime", 0, most, "assumed: at most 1 KiB per operator that describes it"),
    ]


def stored_weights(needs: Needs, target: Target) -> MemoryPart:
    """The model in flash: a compiler stores the weights without the rest of the file."""
    least, most = needs.converted_file_bytes
    if target.is_cpu:
        low = min(needs.weight_bytes, least)
        return MemoryPart("model", low, most, "weights, at most the size of the file")
    return MemoryPart("model", 0, None, "weights, which the compiler for its NPU may align or compress")


def over_all_banks(memory: MemoryNeed, target: Target) -> MemoryNeed:
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
