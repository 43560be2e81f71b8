"""Whether a model fits the RAM and flash of a target, with lower and upper bounds of its needs.

Nothing is searched for: `Needs` computes its values once, and checking many targets is arithmetic on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sizeup import units
from sizeup.checks.banks import flash_memory, ram_bank
from sizeup.checks.code_size import code_part
from sizeup.checks.limits import MemoryNeed, MemoryPart
from sizeup.checks.needs import Needs
from sizeup.checks.npu import NpuFit, dram_note, is_npu_target, npu_ram_parts
from sizeup.checks.npu_support import ai8x_memories, npu_support
from sizeup.checks.onnx_support import onnx_support
from sizeup.checks.unpublished_planners import activation_parts, over_all_banks, stored_weights
from sizeup.dtypes import precision_name
from sizeup.formats.names import file_words, is_unreadable
from sizeup.targets import GpuProcess, Runtime, Target

# RAM reserved for the runtime and other software on an operating system: 1/10 of it, at least 128 MiB.
_RESERVE_SHARE, _RESERVE_LEAST = 10, 128 << 20
_CUDNN = ("conv", "conv_transpose")
_LAYERS = (*_CUDNN, "matmul")
EXTERNAL_RAM = "the arena does not fit on chip: in external RAM, the latency of on-chip RAM is a lower bound"
_FLOATS = (
    "the upper end of the RAM is that of a converter that keeps floats between DequantizeLinear and"
    " QuantizeLinear"
)
# Kernel libraries whose memory is part of the arena.
_EXACT = ("reference", "cmsis-nn")


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """The fit of a model in the memories of a target, and why the runtime cannot run it, if so."""

    ram: MemoryNeed
    flash: MemoryNeed | None  # None if weights are loaded into RAM, so that flash does not limit
    unsupported_reason: str | None = None
    # That the runtime does not read the file, or does not run it as its reference kernels do.
    caveats: tuple[str, ...] = ()
    weight_memory: MemoryNeed | None = None  # of an NPU that has one for weights alone
    npu: NpuFit | None = None  # on an Ethos-U: the compiled model, or why there is none
    missing_operators: tuple[str, ...] = ()  # op kinds or operators that the runtime may not run

    @property
    def memories(self) -> tuple[MemoryNeed, ...]:
        """The memories that limit the model."""
        return tuple(space for space in (self.ram, self.flash, self.weight_memory) if space is not None)

    @property
    def fits(self) -> bool | None:
        """Whether the model fits and the runtime can run it; None if undetermined."""
        answers = [space.fits for space in self.memories]
        if self.unsupported_reason or False in answers:
            return False
        return None if None in answers else True


def fit_memory(
    needs: Needs,
    target: Target,
    *,
    ram: int | None = None,
    flash: int | None = None,
    npu: NpuFit | None = None,
) -> MemoryFit:
    """Compare the needs of a graph with a target; `ram` and `flash` override the target's sizes in bytes.

    For an Ethos-U, the model is compiled by Vela, unless `npu` is the outcome of that.
    """
    if is_npu_target(target):
        return _npu_fit(npu or needs.npu(target), target, ram, flash)
    is_bare = target.has_no_system
    needs = needs.converted if is_bare else needs
    weight_memory: MemoryNeed | None = None
    missing: tuple[str, ...] = ()
    refusal = _refusal(needs, target)
    if target.runtime.name == "ai8x":
        memory, weight_memory = ai8x_memories(needs, target)
    elif is_bare:
        memory = _micro_ram(needs, target, ram)
        memory = memory if ram is not None or target.board is not None else over_all_banks(memory, target)
        missing = needs.missing_operators(target.runtime)
        refusal = refusal or _dtype_refusal(needs, target.runtime)
    elif target.gpu_process is not None:
        memory = _gpu_memory(needs, target, target.gpu_process, ram)
    else:
        memory = _system_ram(needs, target, ram)
    memory = _without_size(memory, needs.graph.open_sizes(uses_record=target.uses_recorded_shapes))
    flash_need = None
    if is_bare:
        code = code_part(needs, target)
        count = max(len(graph.ops) for graph in (needs.graph, *needs.written))
        flash_need = flash_memory(target, flash, [_stored(needs, target)], code, count)
    support = npu_support(needs, target)
    if support.undetermined_reason:
        memory = _undetermined(memory, "host", support.undetermined_reason)
    if missing:
        memory = _undetermined(memory, "missing operators", _missing_operators(missing, target.runtime))
    if needs.graph.missing_files and not is_unreadable(needs.graph.format, target.runtime.formats):
        reason = (
            f"weights file {units.quoted(needs.graph.missing_files[0])} is missing, or cannot be read in full"
        )
        memory = _undetermined(memory, "weights file", reason)
    onnx = onnx_support(needs, target)
    if onnx.undetermined_reason:
        memory = _undetermined(memory, "operators", onnx.undetermined_reason)
    return MemoryFit(
        memory,
        flash_need,
        refusal or support.refusal or onnx.refusal,
        (*_caveats(needs, target), *support.caveats, *((EXTERNAL_RAM,) if memory.is_external else ())),
        weight_memory,
        missing_operators=missing or onnx.unknown_operators,
    )


def _undetermined(memory: MemoryNeed, name: str, reason: str) -> MemoryNeed:
    """The need with a part of unknown size."""
    part = MemoryPart(name, 0, None, reason)
    return replace(memory, parts=(*memory.parts, part), unknown=(*memory.unknown, reason))


def _npu_fit(npu: NpuFit, target: Target, ram: int | None, flash: int | None) -> MemoryFit:
    """The fit on an Ethos-U: memory as Vela reports it, with what TFLite Micro needs to run the file."""
    ram_need = ram_bank(target, ram, npu_ram_parts(npu))
    size = npu.file_bytes
    stored = [] if size is None else [MemoryPart("model", size, size, "size of the file compiled by Vela")]
    flash_need = flash_memory(target, flash, stored)
    if not npu.is_known or size is None:
        reasons = (npu.reason,)
        flash_need = replace(flash_need, parts=(), unknown=reasons)
        ram_need = ram_need if npu.is_known else replace(ram_need, unknown=reasons, assumptions=())
    notes = tuple(filter(None, (target.units[0].note, dram_note(npu))))
    ram_need = replace(ram_need, assumptions=(*ram_need.assumptions, *notes))
    return MemoryFit(ram_need, flash_need, npu.unsupported_reason, npu=npu)


def _without_size(memory: MemoryNeed, reasons: tuple[str, ...]) -> MemoryNeed:
    """The need without an upper bound, for these reasons."""
    if not reasons:
        return memory
    parts = tuple(replace(part, high_bytes=None) for part in memory.parts)
    return replace(memory, parts=parts, unknown=(*memory.unknown, *reasons))


def _caveats(needs: Needs, target: Target) -> tuple[str, ...]:
    runtime, format = target.runtime, needs.graph.format
    arena = needs.arena(target) if runtime.micro else None
    caveats = () if arena is None else arena.caveats
    if target.has_no_system and needs.in_integers is not needs:
        caveats += (_FLOATS,)
    if runtime.micro and needs.conversion.composed:
        names = ", ".join(needs.conversion.composed)
        text = "a converter uses several operators instead, whose memory is an assumed upper bound"
        caveats += (f"TFLite Micro has no kernel for {names}: {text}",)
    # Exporters of PyTorch keep the operators for other runtimes; TFLite Micro has the fewest kernels.
    is_exported = bool(runtime.micro) and format.startswith("torch")
    if not is_exported and not is_unreadable(format, runtime.formats):
        return caveats
    return (
        f"{runtime.name} does not read {file_words(format)}: the verdict is for the same operators",
        *caveats,
    )


def _missing_operators(missing: tuple[str, ...], runtime: Runtime) -> str:
    names = ", ".join(missing)
    if runtime.micro:
        return f"TFLite Micro has no kernel for {names}: undetermined until the model is converted to .tflite"
    if runtime.operators is None:
        return f"whether {runtime.title} runs {names} is not known"
    return f"{names} {'is' if len(missing) == 1 else 'are'} not in the list of operators of {runtime.title}"


def _refusal(needs: Needs, target: Target) -> str | None:
    runtime = target.runtime
    if needs.precision is not None and precision_name(needs.precision) not in runtime.dtypes:
        return f"{runtime.name} has no kernels for {precision_name(needs.precision)}"
    if not runtime.micro:
        return None
    reason = needs.unsupported_reason(target)
    if reason is not None:
        return f"TFLite Micro cannot run this file: {reason}"
    arena = needs.arena(target)
    if arena is not None and arena.overlapping_tensors and runtime.micro != "reference":
        return (
            "in the memory plan stored in the file outputs overlap inputs, which only TFLite Micro's"
            f" reference kernels allow: {runtime.micro} kernels may compute wrong outputs without an error;"
            " store a plan without --overlap"
        )
    return None


def _dtype_refusal(needs: Needs, runtime: Runtime) -> str | None:
    """That the layers are in floats that a runtime has no kernels for; None for a file that it reads."""
    if needs.is_converted or (runtime.formats and needs.graph.format in runtime.formats):
        return None
    graph = needs.in_integers.graph
    dtypes = {graph.tensors[op.outputs[0]].dtype for op in graph.ops if op.kind in _LAYERS and op.outputs}
    names = {precision_name(dtype) for dtype in dtypes if dtype.family == "float"}
    foreign = sorted(names.difference(runtime.dtypes))
    if not foreign:
        return None
    other = "fp32" if "fp32" in runtime.dtypes else "int8"
    return f"{runtime.name} has no kernels for {', '.join(foreign)}: --precision {other} converts the model"


def _micro_ram(needs: Needs, target: Target, available: int | None) -> MemoryNeed:
    reason = needs.usage.unavailable_reason
    return ram_bank(target, available, _arena_parts(needs, target), [reason] if reason else [])


def _arena_parts(needs: Needs, target: Target) -> list[MemoryPart]:
    """The arena that the runtime plans, and scratch buffers of its kernels."""
    kernels, usage = target.runtime.micro, needs.usage
    if usage.unknown_sizes:
        return [MemoryPart("tensors", usage.peak_bytes, None, "without tensors whose size depends on data")]
    if not kernels:
        return _with_unmodeled(activation_parts(needs, target), needs)
    arena, bounds = needs.arena(target), needs.arena_bounds(target)
    if bounds is not None:
        basis = f"needed by TFLite Micro's AllocateTensors with {kernels} kernels"
        if needs.precision is not None:
            basis += f" and every layer at {precision_name(needs.precision)}"
        parts = [MemoryPart("arena", *bounds, basis)]
    elif arena is not None:
        parts = [MemoryPart("arena", arena.head_bytes, None, arena.tail_unknown_reason)]
    else:
        parts = _with_unmodeled(converted_parts(needs, target), needs)
    if kernels in _EXACT:
        return parts
    most = needs.scratch_bytes(target)
    if most is None:
        parts.append(MemoryPart("scratch", 0, None, f"scratch buffers of {kernels} kernels are not known"))
    elif most:
        parts.append(MemoryPart("scratch", 0, most, f"largest scratch buffer of {kernels} kernels"))
    return parts


def converted_parts(needs: Needs, target: Target | None) -> list[MemoryPart]:
    """The arena of the .tflite files that converters may write of a model in another format."""
    bounds = None if needs.graph.format == "tflite" else needs.converted_arena(target)
    if bounds is None:
        reason = ""
        if needs.graph.format == "tflite":
            # Of a file that runs and whose sizes are known, only the number of steps leaves the plan open.
            reason = needs.unsupported_reason(target) or "TFLite Micro's planner takes too many steps"
        basis = ": ".join(filter(None, ("the arena is not known", reason)))
        return [MemoryPart("tensors", needs.usage.peak_bytes, None, basis)]
    (low_head, high_head), (low, high) = bounds.head, bounds.arena
    parts = [
        MemoryPart("arena", low_head, high_head, "tensors and scratch as placed by TFLite Micro's planner"),
        MemoryPart(
            "interpreter", low - low_head, high - high_head, "of the operators that a converter may write"
        ),
    ]
    if bounds.composed_bytes:
        names = ", ".join(needs.conversion.composed) or "recurrent cells"
        basis = f"assumed for the operators that replace {names}"
        parts.append(MemoryPart("conversion", 0, bounds.composed_bytes, basis))
    return parts


def _with_unmodeled(parts: list[MemoryPart], needs: Needs) -> list[MemoryPart]:
    """The parts; without an upper end if the memory inside control flow or of an operator is not known."""
    reason = needs.usage.unmodeled_reason
    return [*parts, MemoryPart("operators", 0, None, reason)] if reason else parts


def _system_ram(needs: Needs, target: Target, available: int | None) -> MemoryNeed:
    """RAM of a device with an operating system: weights, activations and a reserve."""
    device, runtime = target.device, target.runtime
    usage = needs.usage_on(target)
    limit = device.ram_bytes if available is None else available
    weights, unknown = needs.weight_bytes, []
    copies = 2 if runtime.packs_weights else 1
    basis = (
        f"{runtime.name} may also store a packed copy for its kernels"
        if runtime.packs_weights
        else "loaded once"
    )
    loaded = (copies - 1) * weights + needs.most_loaded_bytes
    parts = [MemoryPart("weights", 0 if _is_bound(needs) else weights, loaded, basis)]
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
    reserve, assumptions = _reserve(limit, available)
    assumptions = (*_fit_notes(needs), *assumptions)
    source = target.title if available is None else "--ram"
    return MemoryNeed("ram", limit, tuple(parts), reserve, source, tuple(unknown), assumptions)


def _is_bound(needs: Needs) -> bool:
    """Whether the weights are only known to be at most so large."""
    return needs.graph.weights_are_upper_bound and not needs.is_converted


def _fit_notes(needs: Needs) -> tuple[str, ...]:
    """The input that was assumed, and how the weights are stored according to the model's configuration."""
    return needs.graph.fit_notes


def _reserve(limit: int | None, available: int | None) -> tuple[int, tuple[str, ...]]:
    """The RAM that is assumed to be in use by other software, and the assumption as text."""
    if limit is None or available is not None:
        return 0, ()
    reserve = min(max(limit // _RESERVE_SHARE, _RESERVE_LEAST), limit // 2)
    reserved = f"{units.size(reserve)} of RAM are reserved for the runtime and other software"
    return reserve, (f"{reserved}: set --ram to what is available",)


def _gpu_memory(needs: Needs, target: Target, process: GpuProcess, available: int | None) -> MemoryNeed:
    """Memory of a GPU with PyTorch: blocks or segments of its caching allocator, and the CUDA context.

    Segments can exceed the memory without an error: PyTorch then returns those without a block in use.
    """
    device, usage = target.device, needs.usage_on(target)
    limit = device.ram_bytes if available is None else available
    unknown = [usage.unavailable_reason] if usage.unknown_sizes else []
    if limit is None:
        unknown.append(f"the memory size of {device.title} is not known; give it with --ram")
    memory = needs.device_memory(target)
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
        MemoryPart("weights", 0 if _is_bound(needs) else weights, weights, "loaded once, in blocks of 512 B"),
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
    reserve, assumptions = (0, ()) if device.device_class == "gpu" else _reserve(limit, available)
    assumptions = (*_fit_notes(needs), *assumptions)
    if any(op.kind in _CUDNN for op in needs.graph.ops):
        assumptions += (
            "workspaces of cuDNN are not counted: PyTorch uses an algorithm with less if they do not fit",
        )
    source = target.title if available is None else "--ram"
    return MemoryNeed("ram", limit, parts, reserve, source, tuple(unknown), assumptions)


def _stored(needs: Needs, target: Target) -> MemoryPart:
    """The model size: that of the file, or bounds for a file with these weights."""
    if not target.runtime.micro:
        return stored_weights(needs, target)
    least, most = needs.converted_file_bytes
    if least == most:
        return MemoryPart("model", least, most, "size of the file")
    return MemoryPart("model", least, most, "weights, plus the other content of such a file")
