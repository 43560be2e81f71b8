"""Models on an Arm Ethos-U: compiled by Vela, or files that Vela compiled.

Every figure of the NPU is Vela's. Without one, the verdict is undetermined: nothing else estimates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sizeup import units
from sizeup.backends.compiled import NpuFit
from sizeup.backends.memory_need import MemoryPart
from sizeup.backends.tflm import Build, firmwares
from sizeup.backends.tflm.file_arena import tflm_arena
from sizeup.backends.tflm.kernels import ETHOS_U
from sizeup.backends.tflm.subgraphs import subgraphs
from sizeup.cost import Cost
from sizeup.errors import MissingLibrary, NoLatency, RunFailed, SizeupError
from sizeup.formats import tflite
from sizeup.graph import ABSENT, Graph
from sizeup.targets import Target

if TYPE_CHECKING:
    from sizeup.latency import Estimate, Kernels
    from sizeup.latency.work import Codes
    from sizeup.runtimes.vela import Compilation, VelaOptions

_KERNELS = ("reference", "cmsis-nn")  # that may run the operators that stay on the CPU
_PRODUCTS = ("ethos-u55", "ethos-u65", "ethos-u85")
_MAGIC, _HEADER = b"COP1", 12  # bytes until the configuration of the NPU


def fit_npu(
    graph: Graph, target: Target, file: Path | None, file_bytes: int | None, *, is_converted: bool
) -> NpuFit:
    """Compile a model for the NPU of a target, or read what Vela compiled.

    `file` is the model's file; None if the graph is not that of the file as it is. `is_converted`: the graph
    has another precision than the file.
    """
    from sizeup.runtimes.vela import options_for

    options = options_for(target)
    if options is None:
        name = target.units[0].name
        return NpuFit(name, reason=f"Vela has no accelerator {name}")
    if graph.format == "tflite" and not is_converted and any(op.source == ETHOS_U for op in graph.ops):
        return _compiled_file(graph, target, options, file_bytes)
    if graph.format != "tflite":
        reason = "Vela compiles .tflite files: convert the model to an int8 .tflite file"
    elif is_converted:
        reason = "Vela compiles a file at its own dtypes: quantize it, and give the quantized .tflite file"
    elif file is None:
        reason = "Vela compiles a .tflite file as it is: use check or analyze on the file"
    else:
        return _compiled(file, target, options)
    return NpuFit(options.accelerator, reason=reason)


def _compiled(file: Path, target: Target, options: VelaOptions) -> NpuFit:
    from sizeup.runtimes.vela import compile_for_npu

    try:
        compilation = compile_for_npu(file, options)
    except MissingLibrary as error:
        reason = f"undetermined without Arm's compiler Vela; pip install 'sizeup[{error.extra}]'"
        return NpuFit(options.accelerator, reason=reason)
    except (RunFailed, OSError) as error:
        return NpuFit(options.accelerator, reason=str(error))
    fit = NpuFit(options.accelerator, compilation, file_bytes=len(compilation.content))
    if not compilation.npu_ops:
        reason = "not an NPU model: Vela reports no memory of the NPU"
        return replace(fit, reason=reason, unsupported_reason=_not_for_npu(compilation))
    try:
        graph = tflite.load(compilation.content)
    except SizeupError as error:
        return replace(fit, arena_unknown_reason=f"the compiled file cannot be read: {error}")
    return _with_arena(fit, graph, target)


def _not_for_npu(compilation: Compilation) -> str:
    first = compilation.cpu_operators[0].reason if compilation.cpu_operators else ""
    reason = f" ({first})" if first else ""
    count = units.plural(compilation.cpu_ops, "operator")
    return (
        f"not an NPU model: Vela leaves all {count} to the CPU{reason}; quantize it to int8, or choose a"
        " runtime for the CPU"
    )


def _compiled_file(graph: Graph, target: Target, options: VelaOptions, file_bytes: int | None) -> NpuFit:
    reason = "the file is compiled already: Vela's report on the original file has its cycles"
    fit = NpuFit(options.accelerator, reason=reason, is_compiled_file=True, file_bytes=file_bytes)
    for compiled_for in accelerators_of(graph):
        if compiled_for is None:
            reason = "the driver of the NPU refuses the file: a command stream has no header of an Ethos-U"
        elif compiled_for != options.accelerator:
            reason = f"the file was compiled for {compiled_for}, and the driver of another NPU refuses it"
        else:
            continue
        return _with_arena(replace(fit, unsupported_reason=reason), graph, target)
    return _with_arena(fit, graph, target)


def accelerators_of(graph: Graph) -> Iterator[str | None]:
    """The accelerator that each command stream of a compiled file is for; None if it has no such header.

    A command stream starts with a magic number, an action and the configuration register of the NPU: the
    logarithm of MACs per cycle in its lowest 4 bits, the product in its highest 4. The driver compares the
    magic number and the configuration before it runs the stream.
    """
    for op in graph.ops:
        if op.source != ETHOS_U:
            continue
        is_present = op.inputs and op.inputs[0] != ABSENT
        data = graph.tensors[op.inputs[0]].data if is_present else None
        content = np.empty(0, np.uint8) if data is None or data.read is None else np.ravel(data.read())
        start = content[:_HEADER].tobytes()[:_HEADER]
        word = int.from_bytes(start[8:], "little")
        product = word >> 28
        is_header = len(start) == _HEADER and start.startswith(_MAGIC) and product < len(_PRODUCTS)
        yield f"{_PRODUCTS[product]}-{1 << (word & 15)}" if is_header else None


def _with_arena(fit: NpuFit, graph: Graph, target: Target) -> NpuFit:
    """The fit with the arena of the compiled file, and why TFLite Micro refuses it, if so."""
    sizes: list[int] = []
    if fit.compilation is not None and fit.compilation.has_dedicated_sram:
        return replace(fit, arena_unknown_reason="the arena is in DRAM, and not known")
    for build in _builds(target):
        arena = tflm_arena(graph, build)
        size = None if arena is None else arena.arena_bytes(target.device.word_bits)
        if arena is not None and arena.unsupported_reason and fit.unsupported_reason is None:
            refusal = f"TFLite Micro cannot run the compiled file: {arena.unsupported_reason}"
            fit = replace(fit, unsupported_reason=refusal)
        if size is None:
            unknown = "" if arena is None else arena.tail_unknown_reason
            return replace(fit, arena_unknown_reason=unknown or "the arena of the compiled file is not known")
        sizes.append(size)
    return replace(fit, arena=(min(sizes), max(sizes)))


def _builds(target: Target) -> Iterable[Build]:
    """The possible builds of TFLite Micro on the CPU next to the NPU."""
    cores = [unit.core for unit in target.device.units if unit.unit_class == "cpu"]
    architectures = tuple("" if core is None else core.architecture for core in cores) or ("",)
    for kernels in _KERNELS:
        yield from (replace(build, has_ethos_u=True) for build in firmwares(architectures, kernels))


def npu_estimate(cost: Cost, target: Target, fit: NpuFit) -> Estimate:
    """The latency that Vela estimates; raises NoLatency if there is none of the whole model.

    Vela gives no prediction interval, and no time of operators that stay on the CPU.
    """
    from sizeup.latency import Estimate, execution_of, standing_of

    compilation = fit.compilation
    if compilation is None or fit.unsupported_reason:
        raise NoLatency(fit.unsupported_reason or fit.reason)
    if compilation.cpu_ops:
        duration = units.duration(compilation.seconds)
        count = units.plural(compilation.cpu_ops, "operator")
        raise NoLatency(
            f"Vela estimates {duration} on the NPU; {count} of the model run on the CPU, whose time is not"
            " known"
        )
    executed = execution_of(cost)
    return Estimate(
        target,
        "vela",
        compilation.seconds,
        None,
        None,
        0.0,
        executed,
        _kernels(cost, compilation, executed.main_op),
        f"{compilation.total_cycles:,} cycles estimated by Vela {compilation.version} at"
        f" {units.count(compilation.clock_hz)}Hz ({compilation.system_config}, {compilation.memory_mode})",
        ("no prediction interval: Vela's estimate was not compared with measurements",),
        standing=standing_of(target),
    )


def _kernels(cost: Cost, compilation: Compilation, main_op: Codes) -> Kernels:
    """The time of each operator; all 0 if the operators of the file are not those of the graph."""
    from sizeup.latency import Kernels

    columns = np.zeros((3, len(cost.graph.ops)))
    if len(subgraphs(cost.graph)) == 1:
        for operator in compilation.operators:
            if 0 <= operator.index < len(cost.graph.ops):
                cycles = (operator.npu_cycles, operator.memory_cycles, operator.cycles)
                columns[:, operator.index] = np.array(cycles) / compilation.clock_hz
    kernels = np.zeros((3, len(main_op)))
    _, first = np.unique(main_op, return_index=True)
    kernels[:, first] = columns[:, main_op[first]]
    compute, traffic, seconds = kernels
    return Kernels(compute, traffic, np.zeros(len(seconds)), seconds)


def npu_ram_parts(npu: NpuFit) -> list[MemoryPart]:
    """The SRAM that Vela reports, and what TFLite Micro's arena needs in addition; none if not compiled."""
    compilation, arena = npu.compilation, npu.arena
    if not npu.is_known:
        return []
    basis = "needed by TFLite Micro for the compiled file"
    if compilation is None:
        low, high = (0, None) if arena is None else arena
        return [MemoryPart("arena", low, high, npu.arena_unknown_reason or basis)]
    sram = compilation.memory_bytes["sram"]
    parts = [MemoryPart("SRAM", sram, sram, "as reported by Vela")]
    if compilation.has_dedicated_sram:
        return parts
    if arena is None:
        parts.append(MemoryPart("interpreter", 0, None, npu.arena_unknown_reason))
    else:
        low, high = (max(size - sram, 0) for size in arena)
        parts.append(MemoryPart("interpreter", low, high, f"further arena {basis}"))
    return parts


def dram_note(npu: NpuFit) -> str:
    """What the DRAM of a system with dedicated SRAM holds; empty if there is none."""
    if npu.compilation is None or not npu.compilation.has_dedicated_sram:
        return ""
    size = units.size(npu.compilation.memory_bytes["dram"])
    return f"the SRAM is only for the NPU; weights and arena are in DRAM, which is not checked: {size} (Vela)"
