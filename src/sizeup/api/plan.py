"""Memory plans, and rewriting model files so that they need less memory."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.api.analyze import check_precision, target_of
from sizeup.api.models import Source, load_at_precision
from sizeup.backends import backend_of
from sizeup.errors import SizeupError
from sizeup.formats import Inputs
from sizeup.results.plan import Plan

if TYPE_CHECKING:
    from sizeup.backends.tflm import MicroArena
    from sizeup.graph import Graph
    from sizeup.memory import Progress
    from sizeup.mixed_precision.precision_map import PrecisionSpec
    from sizeup.rewrite import Optimization
    from sizeup.targets import Target

_TFLM_ALIGNMENT = 16  # of buffers in TFLite Micro's arena, in bytes


def plan(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: PrecisionSpec = None,
    reorder: bool = True,
    alignment: int = 1,
    time_limit: float = 10.0,
    progress: Progress | None = None,
    target: str | Target | None = None,
) -> Plan:
    """Find the schedule and the memory plan with the lowest peak, and a lower bound for any plan.

    Without `reorder` the schedule stays the same; every offset is a multiple of `alignment` bytes. Each
    search ends after `time_limit` seconds. Raises Incomplete if the size of a tensor depends on data.

    With a `target` that runs TFLite Micro, the plan is that of its arena head: offsets are multiples of 16
    bytes, aliases are copies, and the scratch of its kernels is part of the plan.
    """
    from sizeup import memory
    from sizeup.backends.tflm import file_arena

    if not 1 <= alignment <= 1 << 30:
        raise SizeupError(f"alignment is {alignment}, not a number of bytes from 1 to {1 << 30:,}")
    check_precision(precision)
    plan_target = target_of(target)
    graph, dtype, loaded = load_at_precision(source, inputs, kwargs, bind, precision)
    is_as_loaded = dtype is None and graph is loaded
    tflm_arena = file_arena.tflm_arena(graph) if is_as_loaded else None
    reason = file_arena.unsupported_reason(graph, tflm_arena) if is_as_loaded else None
    if plan_target is not None:
        if not is_as_loaded:
            raise SizeupError(f"{plan_target.name}: a plan for a target is at the precision of the file")
        graph, tflm_arena = _as_run(graph, plan_target)
        alignment = math.lcm(alignment, _TFLM_ALIGNMENT)
    placement = memory.best_memory_plan(
        graph,
        reorder=reorder,
        alignment=alignment,
        precision=dtype,
        time_limit=time_limit,
        progress=progress,
        aliases=plan_target is None,
    )
    return Plan(graph, placement, dtype, alignment, tflm_arena, plan_target, reason)


def _as_run(graph: Graph, target: Target) -> tuple[Graph, MicroArena | None]:
    """The graph of a file as the kernels of a target run it, and the arena of the file there."""
    from sizeup.backends.tflm import file_arena
    from sizeup.backends.tflm.as_run import graph_as_run

    if not backend_of(target).honors_plans or graph.format != "tflite":
        raise SizeupError(f"{target.name}: a plan for a target needs TFLite Micro and a .tflite file")
    backend_of(target).check_runs(graph)
    build = backend_of(target).builds()[-1]
    return graph_as_run(graph, build), file_arena.tflm_arena(graph, build)


def optimize(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    reorder: bool = True,
    plan: bool = True,
    cluster: int | None = None,
    pack: bool = False,
    overlap: bool = False,
    verify: bool = True,
    time_limit: float = 10.0,
    bind: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    target: str | Target | None = None,
    split: bool = False,
    max_extra_macs: float = 0.05,
) -> Optimization:
    """Write a .tflite or .onnx file that needs less memory, verified in a real runtime.

    Writes the original if nothing helps. `reorder` stores the schedule with the lowest peak, `plan` a
    memory plan that TFLite Micro uses; `cluster` is the maximum number of distinct values per weight
    tensor, and `pack` stores such weights as lookup tables that TFLite Micro decodes. `overlap` lets
    outputs overlap inputs that are no longer needed, which is valid only for TFLite Micro's reference
    kernels, not for CMSIS-NN or other optimized ones. `split` executes segments of a .tflite file in strips
    if that needs a smaller arena; they may add the share `max_extra_macs` of the file's MACs. Each search
    ends after `time_limit` seconds.

    With a `target`, schedule and memory plan are chosen for its kernels: the arena that `check` reports for
    the target becomes smaller, or nothing is changed. Without one, they are chosen for the reference kernels,
    and `arenas` of the result has the arenas with CMSIS-NN too, which may be larger than before.
    """
    from sizeup import rewrite

    options = rewrite.OptimizeOptions(
        reorder,
        plan,
        cluster,
        pack,
        verify,
        time_limit,
        progress,
        overlap,
        split,
        max_extra_macs,
        target_of(target),
    )
    return rewrite.optimize(Path(source), Path(out), options, bind)
