"""Rewriting ONNX files: their operators in the order with the least peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sizeup.errors import RunFailed, WriteError
from sizeup.files import replacing
from sizeup.formats import files, onnx
from sizeup.graph import Graph
from sizeup.memory.schedule import find_order, moved, peak_bytes, reordered
from sizeup.memory.schedule_problem import Ordering
from sizeup.rewrite.result import Footprint, Optimization, OptimizeOptions, Verification
from sizeup.rewrite.verify import Judge, is_equal, judge_of

_OWN_ORDER = "ONNX Runtime arranges operators by itself; runtimes that follow the file's order have the gain"


def optimize(
    source: Path, out: Path, wishes: OptimizeOptions, bind: Mapping[str, int] | None = None
) -> Optimization:
    """Write the file with the least peak; the original where nothing is gained."""
    if wishes.cluster is not None or wishes.pack:
        raise WriteError(f"{source}: weights are clustered and packed in .tflite files only")
    if wishes.overlap:
        raise WriteError(
            f"{source}: only TFLite Micro, which runs .tflite files, lets outputs overlap inputs"
        )
    graph = onnx.load(source, bind=bind)
    from sizeup.formats.onnx.write import external_files, write

    along = files.companions(external_files(source), source, out)
    judge, notes = _judge(graph, source, wishes)
    before = Footprint(peak_bytes(graph), source.stat().st_size, files.gzip_bytes_of(source))
    ordering, order = None, None
    if wishes.reorder and (judge is not None or not wishes.verify):
        ordering = find_order(graph, views=True, time_limit=wishes.time_limit, progress=wishes.progress)
        order = ordering.order if ordering.peak_bytes < before.peak_bytes else None
    notes += files.copy_along(along)
    with replacing(out, like=source) as temporary:
        write(source, temporary, graph, None)
        verification = None if judge is None else judge.verdict(judge.original)
        if order is not None:
            order, verification = _reorder(source, temporary, graph, order, judge, notes)
    found = _result(graph, out, before, ordering, order, verification, notes)
    return replace(found, is_verifiable=judge is not None or not wishes.verify)


def _judge(graph: Graph, source: Path, wishes: OptimizeOptions) -> tuple[Judge | None, list[str]]:
    if not wishes.verify:
        return None, ["nothing was verified: --verify runs the result"]
    judge, reasons = judge_of(graph, source, ("ort",))
    if judge is None:
        reasons.append("nothing can be verified, so nothing was changed; --no-verify changes it all the same")
    return judge, reasons


def _reorder(
    source: Path,
    target: Path,
    graph: Graph,
    order: tuple[int, ...],
    judge: Judge | None,
    notes: list[str],
) -> tuple[tuple[int, ...] | None, Verification | None]:
    """Write the new order, and take it back where it cannot be written or computes something else."""
    from sizeup.formats.onnx.write import write

    kept = None if judge is None else judge.verdict(judge.original)
    try:
        write(source, target, graph, order)
        run = None if judge is None else judge.outputs(target)
    except (RunFailed, WriteError) as error:
        notes.append(f"the new order was taken back: {error}")
        write(source, target, graph, None)
        return None, kept
    if judge is None or run is None:
        return order, None
    if not is_equal(judge.original, run):
        notes.append(f"the new order was taken back: its outputs differ in {judge.title}")
        write(source, target, graph, None)
        return None, kept
    return order, judge.verdict(run)


def _result(
    graph: Graph,
    out: Path,
    before: Footprint,
    ordering: Ordering | None,
    order: tuple[int, ...] | None,
    verification: Verification | None,
    notes: list[str],
) -> Optimization:
    after = Footprint(peak_bytes(reordered(graph, order)), out.stat().st_size, files.gzip_bytes_of(out))
    return Optimization(
        graph.name, graph.format, out, before, after, order is not None,
        moved_ops=0 if order is None else moved(order),
        ops=len(graph.ops),
        order_status=None if ordering is None else ordering.status,
        lower_bound_bytes=None if ordering is None else ordering.lower_bound_bytes,
        verification=verification,
        notes=(*notes, *([_OWN_ORDER] if order is not None else [])),
    )  # fmt: skip
