"""A measurement beside what was counted: how long a model took, and how fast that makes the machine."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup import targets, units
from sizeup.cost import Cost, total
from sizeup.latency import Hardware, executed, hardware
from sizeup.results.result import Result
from sizeup.runtimes import Timing
from sizeup.runtimes.profiles import AttributedKernel, ModuleTime, attribute, by_module, macs_of
from sizeup.targets import Target


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Result):
    """Times of a model in a real runtime on this machine, and what it computed and moved in them."""

    name: str
    format: str
    timing: Timing
    cost: Cost
    target: Target | None = None  # what this machine is, where that was said
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        timing = self.timing
        least, median = units.duration(timing.least), units.duration(timing.median)
        return (
            f"<{self.name} in {timing.title}: {least} least, {median} median of {len(timing.seconds)} runs>"
        )

    @property
    def ms(self) -> float:
        """Milliseconds of the fastest run."""
        return 1e3 * self.timing.least

    @property
    def median_ms(self) -> float:
        """Milliseconds of the run in the middle."""
        return 1e3 * self.timing.median

    @property
    def macs_per_second(self) -> float | None:
        """MACs counted over the fastest run; None where not every operator is known."""
        return self.cost.total_macs / self.timing.least if self.cost.known.all() else None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes that operators read and write, one by one, over the fastest run."""
        moved = self.cost.bytes_at()
        return (
            (total(moved.read) + total(moved.written)) / self.timing.least if self.cost.known.all() else None
        )

    @property
    def hardware(self) -> Hardware | None:
        """What the fastest run attains of the target, its kernels merged as it does; None without one."""
        if self.target is None or not self.cost.known.all():
            return None
        work = executed(self.cost, None, self.target.runtime.fuses or ()).work
        inside = sum(each.seconds for each in self.timing.kernels)
        overhead = max(self.timing.least - inside, 0.0) if self.timing.kernels else None
        return hardware(work, self.timing.least, self.target, overhead)

    @property
    def kernels(self) -> tuple[AttributedKernel, ...]:
        """The kernels of the profile with their modules; empty without a profile."""
        return attribute(self.cost, self.timing.kernels, self._fuses)

    def macs_of(self, kernel: AttributedKernel) -> int | None:
        """MACs of a kernel; None if it could not be matched with operators."""
        return None if kernel.ops is None else macs_of(self.cost, kernel.ops)

    @property
    def modules(self) -> tuple[ModuleTime, ...]:
        """Times and MACs by module, the slowest first; rows add up to the profile's total."""
        return by_module(self.cost, self.kernels, self.target, self._fuses)

    @property
    def _fuses(self) -> tuple[str, ...]:
        return targets.runtime(self.timing.runtime).fuses or ()
