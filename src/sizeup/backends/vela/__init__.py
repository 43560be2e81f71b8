"""An Arm Ethos-U: TFLite Micro runs the file that Arm's compiler Vela writes, and every figure is Vela's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from sizeup.backends.banks import flash_memory, ram_bank
from sizeup.backends.memory_need import MemoryFit, MemoryPart
from sizeup.backends.microcontroller import Microcontroller
from sizeup.backends.needs import Needs
from sizeup.backends.tflm.code_size import range_basis
from sizeup.errors import NoLatency, WriteError
from sizeup.graph import Graph

if TYPE_CHECKING:
    from sizeup.backends.compiled import NpuFit
    from sizeup.latency import Basis, Estimate
    from sizeup.latency.execution import Execution


class Vela(Microcontroller):
    """Models compiled by Vela; without a compilation, the verdict is undetermined."""

    def fit(
        self, needs: Needs, ram: int | None = None, flash: int | None = None, npu: NpuFit | None = None
    ) -> MemoryFit:
        """The memory that Vela reports, with what TFLite Micro needs to run the file."""
        from sizeup.backends.vela.compiled import dram_note, npu_ram_parts

        npu, target = npu or self.compiled(needs), self.target
        ram_need = ram_bank(target, ram, npu_ram_parts(npu))
        size = npu.file_bytes
        stored = (
            [] if size is None else [MemoryPart("model", size, size, "size of the file compiled by Vela")]
        )
        flash_need = flash_memory(target, flash, stored, range_basis=range_basis(target))
        if not npu.is_known or size is None:
            reasons = (npu.reason,)
            flash_need = replace(flash_need, parts=(), unknown=reasons)
            ram_need = ram_need if npu.is_known else replace(ram_need, unknown=reasons, assumptions=())
        notes = tuple(filter(None, (target.units[0].note, dram_note(npu))))
        ram_need = replace(ram_need, assumptions=(*ram_need.assumptions, *notes))
        return MemoryFit(ram_need, flash_need, npu.unsupported_reason, npu=npu)

    @property
    def compiles_models(self) -> bool:
        """Vela makes the file that runs."""
        return True

    def compiled(self, needs: Needs) -> NpuFit:
        """The model compiled for the NPU of the target."""
        return needs.part(VelaNeeds).of(self)

    @property
    def honors_plans(self) -> bool:
        """TFLite Micro runs the compiled file, whose plan is that of Vela."""
        return True

    def check_overlap(self) -> NoReturn:
        """Raise WriteError: Vela plans the memory."""
        raise WriteError(
            f"--overlap is not possible on {self.target.name}: with overlaps {self.kernel_library}"
            " kernels may compute wrong outputs; only TFLite Micro's reference kernels allow them"
        )

    def check_runs(self, graph: Graph) -> NoReturn:
        """Raise WriteError: Vela plans the memory."""
        raise WriteError(
            f"{self.target.name}: Vela plans the memory of an Ethos-U; sizeup optimize -d"
            f" {self.target.device.name} writes the compiled file"
        )

    def estimate(
        self, needs: Needs, basis: Basis | None = None, executed: Execution | None = None
    ) -> Estimate:
        """The latency that Vela estimates."""
        if basis not in (None, "vela"):
            return super().estimate(needs, basis, executed)
        from sizeup.backends.vela.compiled import npu_estimate

        return npu_estimate(needs.cost, self.target, self.compiled(needs))

    def check_basis(self, basis: Basis | None) -> NoReturn:
        """Raise NoLatency: there is no latency without a compilation."""
        raise NoLatency(
            f"{self.target.name}: the latency on an Ethos-U is that which Vela estimates for a .tflite file,"
            " in analyze, check and compare"
        )

    @property
    def offered_precisions(self) -> tuple[str, ...]:
        """The precisions that a remedy may propose, of those that the NPU has."""
        return ("fp32", "int8")


BACKEND = Vela


class VelaNeeds:
    """What Vela reports on a model, by target."""

    def __init__(self, needs: Needs) -> None:
        self._needs, self._fits = needs, dict[str, "NpuFit"]()

    def of(self, backend: Vela) -> NpuFit:
        """The model compiled for the NPU of a target."""
        needs, target = self._needs, backend.target
        if target.name not in self._fits:
            from sizeup.backends.vela.compiled import fit_npu

            self._fits[target.name] = fit_npu(
                needs.graph, target, needs.file, needs.file_bytes, is_converted=needs.is_converted
            )
        return self._fits[target.name]
