"""A measured latency compared with counted work: rates of the device."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup import targets, units
from sizeup.cost import Cost, total
from sizeup.latency import Throughput, execution_of, throughput
from sizeup.results.result import Result
from sizeup.runtimes import Timing
from sizeup.runtimes.profiles import AttributedKernel, ModuleTime, attribute, by_module, macs_of
from sizeup.targets import Target


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Result):
    """Measured latencies of a model in a runtime on this device, with the work it did."""

    name: str
    format: str
    timing: Timing
    cost: Cost
    target: Target | None = None  # this device, if the user named it
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        timing = self.timing
        least, median = units.duration(timing.minimum), units.duration(timing.median)
        return f"<{self.name} in {timing.title}: min {least}, median {median} of {len(timing.seconds)} runs>"

    @property
    def ms(self) -> float:
        """The fastest run in milliseconds."""
        return 1e3 * self.timing.minimum

    @property
    def median_ms(self) -> float:
        """The median run in milliseconds."""
        return 1e3 * self.timing.median

    @property
    def macs_per_second(self) -> float | None:
        """Counted MACs over the fastest run; None if not all ops are known."""
        return self.cost.total_macs / self.timing.minimum if self.cost.known.all() else None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes that ops read and write over the fastest run; None if not all ops are known."""
        moved = self.cost.bytes_at()
        return (
            (total(moved.read) + total(moved.written)) / self.timing.minimum
            if self.cost.known.all()
            else None
        )

    @property
    def throughput(self) -> Throughput | None:
        """Utilization of the target in the fastest run, with its runtime's fusion; None without a target."""
        if self.target is None or not self.cost.known.all():
            return None
        work = execution_of(self.cost, None, self.target.runtime.fusions or ()).work
        inside = sum(kernel.seconds for kernel in self.timing.kernels)
        overhead = max(self.timing.minimum - inside, 0.0) if self.timing.kernels else None
        return throughput(work, self.timing.minimum, self.target, overhead)

    @property
    def kernels(self) -> tuple[AttributedKernel, ...]:
        """The kernels of the profile with their modules; empty without a profile."""
        return attribute(self.cost, self.timing.kernels, self._fuses)

    def macs_of(self, kernel: AttributedKernel) -> int | None:
        """Returns the MACs of a kernel; None if it could not be matched with ops."""
        return None if kernel.ops is None else macs_of(self.cost, kernel.ops)

    @property
    def modules(self) -> tuple[ModuleTime, ...]:
        """Latency and MACs by module, the slowest first; rows add up to the profile's total."""
        return by_module(self.cost, self.kernels, self.target, self._fuses)

    @property
    def _fuses(self) -> tuple[str, ...]:
        return targets.runtime(self.timing.runtime).fusions or ()
