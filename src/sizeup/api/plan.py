"""Plans of a model's memory, and files that need less of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.api.analyze import check_precision
from sizeup.api.models import Source, load
from sizeup.errors import SizeupError
from sizeup.formats import Inputs
from sizeup.results.plan import Plan

if TYPE_CHECKING:
    from sizeup.memory import Progress
    from sizeup.mixed_precision.mixing import Wish
    from sizeup.rewrite import Optimization


def plan(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    reorder: bool = True,
    alignment: int = 1,
    time_limit: float = 10.0,
    progress: Progress | None = None,
) -> Plan:
    """Find the order and the places of tensors that need the least memory, and how low any plan can go.

    Without `reorder` operators keep their order; every offset is a multiple of `alignment`. Each search ends
    after `time_limit` seconds. Raises Incomplete where the size of a tensor depends on data.
    """
    from sizeup import memory
    from sizeup.mixed_precision.mixing import as_wished

    if not 1 <= alignment <= 1 << 30:
        raise SizeupError(f"an alignment of {alignment} makes no sense; 1 leaves every byte free to be used")
    check_precision(precision)
    given = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    graph, asked = as_wished(given, precision)
    placement = memory.best_placement(
        graph,
        reorder=reorder,
        alignment=alignment,
        precision=asked,
        time_limit=time_limit,
        progress=progress,
    )
    shipped = memory.as_shipped(graph) if precision is None else None
    return Plan(graph, placement, asked, alignment, shipped)


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
) -> Optimization:
    """Write a .tflite or .onnx file that needs less, proven in a real runtime; the original if nothing helps.

    `reorder` runs operators in the order with the least peak, `plan` stores places of tensors that TFLite
    Micro follows, `cluster` leaves at most so many values in each weight, `pack` stores such weights as
    code-books that TFLite Micro decodes. `overlap` lets the plan put outputs over inputs that die, which
    holds for TFLite Micro's reference kernels only, not for CMSIS-NN or other optimised ones. Each search
    ends after `time_limit` seconds.
    """
    from sizeup import rewrite

    wishes = rewrite.OptimizeOptions(reorder, plan, cluster, pack, verify, time_limit, progress, overlap)
    return rewrite.optimize(Path(source), Path(out), wishes, bind)
