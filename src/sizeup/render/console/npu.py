"""What Vela reports about a model on an Ethos-U, as labeled lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizeup import units

if TYPE_CHECKING:
    from sizeup.results.parts import Compilation, NpuFit

MEMORY_NAMES = {
    "sram": "SRAM",
    "dram": "DRAM",
    "on_chip_flash": "on-chip flash",
    "off_chip_flash": "off-chip flash",
}
_MOST_REASONS = 5


def npu_lines(npu: NpuFit) -> Iterator[tuple[str, str]]:
    """Yields labels and texts: Vela's configuration, operators, memory and cycles, or why there are none."""
    if npu.compilation is None:
        yield "Vela", npu.reason
    else:
        yield from compilation_lines(npu.compilation)


def compilation_lines(compilation: Compilation) -> Iterator[tuple[str, str]]:
    """Yields labels and texts on a compiled model."""
    yield "Vela", f"{compilation.version} for {configuration_text(compilation)}"
    yield "operators", operators_text(compilation)
    yield from (("on the CPU", text) for text in cpu_texts(compilation))
    if not compilation.npu_ops:
        return
    yield "NPU memory", f"{memory_text(compilation)}; compiled file {len(compilation.content):,} B"
    yield "NPU cycles", f"{cycles_text(compilation)} ({units.duration(compilation.seconds)})"


def configuration_text(compilation: Compilation) -> str:
    """Returns the accelerator and Vela's configuration: `ethos-u55-128, Shared_Sram, ... at 500 MHz`."""
    clock = units.count(compilation.clock_hz)
    return f"{compilation.accelerator}, {compilation.memory_mode}, {compilation.system_config} at {clock}Hz"


def memory_text(compilation: Compilation) -> str:
    """Returns the bytes by memory, without memories that are not used."""
    used = compilation.memory_bytes.items()
    return ", ".join(f"{MEMORY_NAMES[name]} {size:,} B" for name, size in used if size) or "none"


def cycles_text(compilation: Compilation) -> str:
    """Returns the cycles in total and by memory, without memories that are not used."""
    used = compilation.memory_cycles.items()
    parts = [f"arithmetic {compilation.npu_cycles:,}"]
    parts += [f"{MEMORY_NAMES[name]} {cycles:,}" for name, cycles in used if cycles]
    return f"{compilation.total_cycles:,}; overlapping: {', '.join(parts)}"


def operators_text(compilation: Compilation) -> str:
    """Returns where the operators run, and how many of them are in cascades."""
    text = f"{compilation.npu_ops:,} on the NPU, {compilation.cpu_ops:,} on the CPU"
    if not compilation.cascades:
        return f"{text}; no cascades"
    cascades = units.plural(compilation.cascades, "cascade")
    return f"{text}; {cascades} of {compilation.cascaded_ops:,} operators"


def cpu_texts(compilation: Compilation) -> Iterator[str]:
    """Yields the operators on the CPU by reason, the most frequent first: `2 MEAN, 1 ADD: ...`."""
    operators: dict[str, Counter[str]] = {}
    for each in compilation.cpu_operators:
        operators.setdefault(each.reason, Counter())[each.operator] += 1
    ranked = sorted(operators.items(), key=lambda item: -item[1].total())
    for reason, counts in ranked[:_MOST_REASONS]:
        names = ", ".join(f"{count:,} {operator}" for operator, count in counts.most_common())
        yield f"{names}: {reason}"
    rest = len(ranked) - _MOST_REASONS
    if rest > 0:
        yield f"and {rest:,} more reason{'s' * (rest != 1)}"
