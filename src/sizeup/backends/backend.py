"""The questions that a runtime answers, with the answers of a runtime of which nothing special is known.

`backend_of` gives the answers for a target. A backend overrides what differs; see `sizeup.backends`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sizeup.backends.memory_need import EXTERNAL_RAM, MemoryFit, MemoryNeed
from sizeup.backends.needs import Needs
from sizeup.dtypes import precision_name
from sizeup.errors import TargetError, WriteError
from sizeup.formats.names import file_words, is_unreadable
from sizeup.graph import Graph
from sizeup.targets import Target
from sizeup.targets.backends import find_backend
from sizeup.units import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from sizeup.backends.compiled import NpuFit
    from sizeup.backends.tflm.layout import Build
    from sizeup.cost import Cost
    from sizeup.dtypes import DType
    from sizeup.latency import Basis, Estimate
    from sizeup.latency.counted import InstructionsPrediction, LeastInstructions
    from sizeup.latency.execution import Execution
    from sizeup.memory import DeviceMemory, Usage
    from sizeup.runtimes.process import Library

# The fewest instructions per result of a kernel, and the fewest cycles of each: MAXIMUM of int8 with Helium.
_CYCLES_PER_RESULT = 3.42 * 0.431


@dataclass(frozen=True, slots=True)
class Support:
    """Why a runtime cannot run a model, what about that is not known, and caveats."""

    refusal: str | None = None
    gaps: tuple[tuple[str, str], ...] = ()  # name and reason of what leaves the memory undetermined
    caveats: tuple[str, ...] = ()
    missing_operators: tuple[str, ...] = ()  # op kinds or operators that the runtime may not run


def interpreter() -> Library:
    """The interpreter that the host has for microcontrollers."""
    from sizeup.runtimes import RUNTIMES

    return RUNTIMES["tflm"]


@dataclass(frozen=True, slots=True)
class HostRun:
    """The outcome of one inference on the host; `reason` is why it did not run."""

    outcome: Literal["ran", "differs", "refused", "undetermined", "not run"]
    reason: str = ""
    caveat: str = ""  # what follows for the target, unless the verdict does

    @property
    def runtime(self) -> str:
        """The display name of the interpreter and its kernels."""
        return f"{interpreter().title}, reference kernels"

    @property
    def unsupported_reason(self) -> str | None:
        """Why the target cannot run the model; None if that does not follow."""
        if self.outcome == "differs":
            return "its outputs on the host differ from those without the memory plan stored in the file"
        if self.outcome != "refused" or self.caveat:
            return None
        return f"{interpreter().title}'s interpreter refuses this file on the host: {self.reason}"


def not_run(run: bool | None, reason: str = "") -> HostRun | None:
    """No inference, with the reason if one is asked for; by default: the target has another runtime."""
    return HostRun("not run", reason or f"only for targets of {interpreter().title}") if run else None


@dataclass(frozen=True)
class Backend:
    """What the runtime of a target does; the answers here are those of a runtime on an operating system."""

    target: Target

    # Memory

    def fit(
        self, needs: Needs, ram: int | None = None, flash: int | None = None, npu: NpuFit | None = None
    ) -> MemoryFit:
        """The fit in the memories of the target; `npu` is what its compiler made of the model, if known."""
        needs = self.converted(needs)
        support, memory = self.support(needs), self.ram(needs, ram)
        memory = memory.without_upper_bound(needs.graph.open_sizes(uses_record=self.uses_recorded_shapes))
        for name, reason in (*support.gaps, *self._missing_file(needs)):
            memory = memory.undetermined(name, reason)
        return MemoryFit(
            memory,
            self.flash(needs, flash),
            self._dtype_refusal(needs) or support.refusal,
            (
                *self._format_caveats(needs.graph),
                *support.caveats,
                *((EXTERNAL_RAM,) if memory.is_external else ()),
            ),
            self.weight_memory(needs),
            missing_operators=support.missing_operators,
        )

    def ram(self, needs: Needs, available: int | None) -> MemoryNeed:
        """The need of RAM, by part; `available` overrides the size of the target's."""
        raise NotImplementedError

    def flash(self, needs: Needs, available: int | None) -> MemoryNeed | None:
        """The need of flash; None if weights are loaded into RAM, so that flash does not limit."""
        return None

    def weight_memory(self, needs: Needs) -> MemoryNeed | None:
        """The need of a memory for weights alone; None if there is none."""
        return None

    def support(self, needs: Needs) -> Support:
        """Which operators and dtypes of a model the runtime runs."""
        return Support()

    def converted(self, needs: Needs) -> Needs:
        """The needs of the model in the form in which the runtime takes it."""
        return needs

    def converted_graphs(self, needs: Needs) -> tuple[Graph, ...]:
        """The graphs of files that a conversion for the runtime may write; empty if none is needed."""
        return ()

    def usage(self, needs: Needs) -> Usage:
        """Activation memory per operator."""
        return needs.usage

    def allocated(self, graph: Graph, usage: Usage, precision: DType | None) -> DeviceMemory | None:
        """What an allocator of GPU memory reserves for the buffers of a run; None if it is not known."""
        return None

    def device_memory(self, needs: Needs) -> DeviceMemory | None:
        """The same for a model, without tensors whose size depends on data."""
        return None

    @property
    def uses_recorded_shapes(self) -> bool:
        """Whether outputs have the shapes that a file records; others compute them anew."""
        return False

    # Compilers and files

    @property
    def compiles_models(self) -> bool:
        """Whether a compiler makes the file that runs, and reports its memory and its latency."""
        return False

    def compiled(self, needs: Needs) -> NpuFit | None:
        """What the compiler reports on the model; None if there is no such compiler."""
        return None

    def reads(self, format: str) -> bool:
        """Whether the runtime takes the operators of a format as they are."""
        return not is_unreadable(format, self.target.runtime.formats)

    @property
    def honors_plans(self) -> bool:
        """Whether the runtime uses memory plans that are stored in files."""
        return False

    @property
    def allows_overlap(self) -> bool:
        """Whether its kernels compute correct outputs that overlap their inputs, as such a plan has them."""
        return False

    def check_overlap(self) -> None:
        """Raise WriteError if a plan in which outputs overlap inputs has no effect or is not possible."""
        if not self.honors_plans:
            name, runtime = self.target.name, self.target.runtime.name
            raise WriteError(
                f"--overlap has no effect on {name}: {runtime} does not use plans stored in files"
            )

    def check_runs(self, graph: Graph) -> None:
        """Raise WriteError if a file does not run, or if its memory is not known, so that no plan helps."""

    def builds(self) -> tuple[Build, ...]:
        """The possible builds of TFLite Micro, with which it plans the arena of a file; empty without it."""
        return ()

    # Latency

    def estimate(
        self, needs: Needs, basis: Basis | None = None, executed: Execution | None = None
    ) -> Estimate:
        """The latency of a model; raises TargetError or NoLatency without one."""
        from sizeup import latency

        return latency.estimate(needs.cost, self.target, needs.precision, basis=basis, executed=executed)

    def check_basis(self, basis: Basis | None) -> None:
        """Raise NoLatency or TargetError if the latency cannot be computed from the cost on a basis."""
        if basis == "vela":
            raise TargetError(f"{self.target.name}: only targets with an Ethos-U have the basis vela")

    @property
    def counts_instructions(self) -> bool:
        """Whether the instructions of its kernels are known, on some cores."""
        return False

    def is_counted_at(self, precision: str) -> bool:
        """Whether instructions and measured cycles give the latency at a precision."""
        return False

    def counted(
        self, cost: Cost, precision: DType | None, executed: Execution
    ) -> InstructionsPrediction | None:
        """The latency by instructions; None if it is not known."""
        return None

    def least_counted(
        self, cost: Cost, precision: DType | None, executed: Execution
    ) -> LeastInstructions | None:
        """The least latency by instructions; None if it is not known."""
        return None

    @property
    def least_cycles_per_result(self) -> float:
        """The fewest cycles that a kernel takes per number it computes, on a microcontroller."""
        return _CYCLES_PER_RESULT

    @property
    def kernel_library(self) -> str:
        """The name of its kernels, if it has a choice of them; else empty."""
        return self.target.runtime.micro

    @property
    def has_plain_kernels(self) -> bool:
        """Whether its kernels are not optimized, so that it is a last choice."""
        return False

    # Precisions

    @property
    def offered_precisions(self) -> tuple[str, ...]:
        """The precisions that a remedy may propose, from high to low."""
        return ("fp32", "fp16", "int8")

    # Inference on the host

    def require_interpreter(self) -> None:
        """Raise MissingLibrary if models could run on the host, but its interpreter is not installed."""

    def host_run(
        self, needs: Needs, file: Path | None, run: bool | None, *, is_over: bool, is_unsupported: bool
    ) -> HostRun | None:
        """One inference of a file on the host; None if none is asked for, or if it is not possible."""
        return not_run(run)

    def _dtype_refusal(self, needs: Needs) -> str | None:
        runtime = self.target.runtime
        if needs.precision is not None and precision_name(needs.precision) not in runtime.dtypes:
            return f"{runtime.name} has no kernels for {precision_name(needs.precision)}"
        return None

    def _format_caveats(self, graph: Graph) -> tuple[str, ...]:
        if self.reads(graph.format):
            return ()
        name = self.target.runtime.name
        return (f"{name} does not read {file_words(graph.format)}: the verdict is for the same operators",)

    def _missing_file(self, needs: Needs) -> tuple[tuple[str, str], ...]:
        files = needs.graph.missing_files
        if not files or is_unreadable(needs.graph.format, self.target.runtime.formats):
            return ()
        return (("weights file", f"weights file {quoted(files[0])} is missing, or cannot be read in full"),)


def backend_of(target: Target) -> Backend:
    """What the runtime of a target does."""
    backend: Backend = find_backend(target)
    return backend


def fit_memory(
    needs: Needs,
    target: Target,
    *,
    ram: int | None = None,
    flash: int | None = None,
    npu: NpuFit | None = None,
) -> MemoryFit:
    """Compare the needs of a graph with a target; `ram` and `flash` override the target's sizes in bytes.

    `npu` is what the compiler for a target's NPU made of the model, if that is known.
    """
    return backend_of(target).fit(needs, ram, flash, npu)
