"""PyTorch: the tensors of a recorded run, and on GPUs the caching allocator and the process."""

from __future__ import annotations

from functools import cached_property

from sizeup import units
from sizeup.backends.memory_need import MemoryNeed, MemoryPart
from sizeup.backends.needs import Needs
from sizeup.backends.system import System, is_bound, reserved
from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory import DeviceMemory, Usage, device_memory, usage
from sizeup.targets import GpuProcess, Target

_EAGER = "torch-eager"  # of the others, a compiler decides which tensors exist
_CUDNN = ("conv", "conv_transpose")


class Torch(System):
    """PyTorch on a CPU, or in a process on a GPU."""

    def ram(self, needs: Needs, available: int | None) -> MemoryNeed:
        """The need of RAM, or of the memory of a GPU that PyTorch's allocator for CUDA manages."""
        memory, process = self.device_memory(needs), gpu_process(self.target)
        if process is None or memory is None:
            return super().ram(needs, available)
        return gpu_memory(needs, self.usage(needs), memory, self.target, process, available)

    def usage(self, needs: Needs) -> Usage:
        """Activation memory as PyTorch runs the model, if the graph was recorded from a run."""
        if self.target.runtime.name != _EAGER:
            return needs.usage
        return needs.usage_as_run if self.target.is_cpu else needs.part(TorchNeeds).usage_on_gpu

    def device_memory(self, needs: Needs) -> DeviceMemory | None:
        """Memory of PyTorch's caching allocator, without tensors whose size depends on data."""
        return needs.part(TorchNeeds).device_memory(self)

    def allocated(self, graph: Graph, usage: Usage, precision: DType | None) -> DeviceMemory | None:
        """Memory of PyTorch's caching allocator for the buffers of a run."""
        if gpu_process(self.target) is None:
            return None
        size = blas_workspace_bytes(self.target)
        return device_memory(graph, usage.buffers, precision=precision, blas_workspace_bytes=size)


BACKEND = Torch


def gpu_process(target: Target) -> GpuProcess | None:
    """What a process takes of a target's GPU; None if CUDA's caching allocator is not used there."""
    process = target.runtime.gpu_process
    is_used = target.units[0].unit_class == "gpu" and process is not None
    return process if is_used and process and target.device.vendor in process.makers else None


def blas_workspace_bytes(target: Target) -> int:
    """The workspace of the BLAS library in a process on a target's GPU; 0 if not known."""
    process = gpu_process(target)
    sizes = {} if process is None else process.blas_workspaces
    starts = (start for start in sizes if target.units[0].name.startswith(start))
    return sizes.get(next(starts, "other"), 0)


class TorchNeeds:
    """What a model needs in PyTorch on a GPU."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._device_memory: dict[tuple[str, int], DeviceMemory | None] = {}

    @cached_property
    def usage_on_gpu(self) -> Usage:
        """Activation memory as on a GPU if the graph was recorded from a run, else that of the graph."""
        needs = self._needs
        if needs.graph.recorded_run is None:
            return needs.usage
        return usage(needs.graph, precision=needs.precision, use_recorded_run=True, on_gpu=True)

    def device_memory(self, backend: Torch) -> DeviceMemory | None:
        """Memory of the caching allocator, once for all targets with the same runtime and workspace."""
        needs, target = self._needs, backend.target
        key = target.runtime.name if gpu_process(target) else "", blas_workspace_bytes(target)
        if key not in self._device_memory:
            usage = backend.usage(needs)
            self._device_memory[key] = backend.allocated(needs.graph, usage, needs.precision)
        return self._device_memory[key]


def gpu_memory(
    needs: Needs,
    usage: Usage,
    memory: DeviceMemory,
    target: Target,
    process: GpuProcess,
    available: int | None,
) -> MemoryNeed:
    """Memory of a GPU with PyTorch: blocks or segments of its caching allocator, and the CUDA context.

    Segments can exceed the memory without an error: PyTorch then returns those without a block in use.
    """
    device = target.device
    limit = device.ram_bytes if available is None else available
    unknown = [usage.unavailable_reason] if usage.unknown_sizes else []
    if limit is None:
        unknown.append(f"the memory size of {device.title} is not known; give it with --ram")
    weights = memory.weight_bytes
    basis = "allocated at the peak, up to what the caching allocator reserves"
    if memory.blas_workspace_bytes:
        basis += f", with a BLAS workspace of {units.size(memory.blas_workspace_bytes)}"
    if usage.unknown_sizes:
        basis = "without tensors whose size depends on data"
    elif usage.unmodeled:
        basis += f"; {usage.unmodeled_reason}"
    is_bounded = not usage.unknown_sizes and not usage.unmodeled
    parts = (
        MemoryPart("weights", 0 if is_bound(needs) else weights, weights, "loaded once, in blocks of 512 B"),
        MemoryPart(
            "tensors",
            memory.allocated_bytes - weights,
            memory.reserved_bytes - weights if is_bounded else None,
            basis,
        ),
        MemoryPart(
            "context",
            process.context_least_bytes,
            process.context_most_bytes,
            "CUDA context with the kernels of PyTorch and its libraries",
        ),
    )
    # A GPU's own memory is used by this process alone, shared memory by an operating system too.
    reserve, assumptions = (0, ()) if device.device_class == "gpu" else reserved(limit, available)
    assumptions = (*needs.graph.fit_notes, *assumptions)
    if any(op.kind in _CUDNN for op in needs.graph.ops):
        assumptions += (
            "workspaces of cuDNN are not counted: PyTorch uses an algorithm with less if they do not fit",
        )
    source = target.title if available is None else "--ram"
    return MemoryNeed("ram", limit, parts, reserve, source, tuple(unknown), assumptions)
