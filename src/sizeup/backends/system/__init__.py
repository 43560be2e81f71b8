"""A runtime on an operating system: weights are loaded into RAM, next to the activations."""

from __future__ import annotations

from sizeup import units
from sizeup.backends.backend import Backend
from sizeup.backends.memory_need import MemoryNeed, MemoryPart
from sizeup.backends.needs import Needs
from sizeup.memory import Usage
from sizeup.targets import Target

# RAM reserved for the runtime and other software on an operating system: 1/10 of it, at least 128 MiB.
_RESERVE_SHARE, _RESERVE_LEAST = 10, 128 << 20


class System(Backend):
    """ONNX Runtime, LiteRT, OpenVINO, ncnn and others, of which the memory planner is not modeled."""

    def ram(self, needs: Needs, available: int | None) -> MemoryNeed:
        """Weights, activations and a reserve."""
        return system_ram(needs, self.usage(needs), self.target, available)


BACKEND = System


def system_ram(needs: Needs, usage: Usage, target: Target, available: int | None) -> MemoryNeed:
    """RAM of a device with an operating system: weights, activations and a reserve."""
    device, runtime = target.device, target.runtime
    limit = device.ram_bytes if available is None else available
    weights, unknown = needs.weight_bytes, []
    copies = 2 if runtime.packs_weights else 1
    basis = (
        f"{runtime.name} may also store a packed copy for its kernels"
        if runtime.packs_weights
        else "loaded once"
    )
    loaded = (copies - 1) * weights + needs.most_loaded_bytes
    parts = [MemoryPart("weights", 0 if is_bound(needs) else weights, loaded, basis)]
    if usage.unknown_sizes:
        unknown.append(usage.unavailable_reason)
        parts.append(
            MemoryPart("tensors", usage.peak_bytes, None, "without tensors whose size depends on data")
        )
    else:
        peak_high = None if usage.unmodeled else usage.peak_bytes
        more = f"; {usage.unmodeled_reason}" if usage.unmodeled else ""
        parts.append(
            MemoryPart("tensors", usage.peak_bytes, peak_high, f"peak of the original schedule{more}")
        )
    if limit is None:
        unknown.append(f"the RAM size of {device.title} is not known; give it with --ram")
    reserve, assumptions = reserved(limit, available)
    assumptions = (*needs.graph.fit_notes, *assumptions)
    source = target.title if available is None else "--ram"
    return MemoryNeed("ram", limit, tuple(parts), reserve, source, tuple(unknown), assumptions)


def is_bound(needs: Needs) -> bool:
    """Whether the weights are only known to be at most so large."""
    return needs.graph.weights_are_upper_bound and not needs.is_converted


def reserved(limit: int | None, available: int | None) -> tuple[int, tuple[str, ...]]:
    """The RAM that is assumed to be in use by other software, and the assumption as text."""
    if limit is None or available is not None:
        return 0, ()
    reserve = min(max(limit // _RESERVE_SHARE, _RESERVE_LEAST), limit // 2)
    text = f"{units.size(reserve)} of RAM are reserved for the runtime and other software"
    return reserve, (f"{text}: set --ram to what is available",)
