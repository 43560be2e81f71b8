"""Rewrites ONNX files: writes the schedule with the lowest peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sizeup.errors import RunFailed, WriteError
from sizeup.files import atomic_path
from sizeup.formats import files, onnx
from sizeup.graph import Graph
from sizeup.memory.schedule import count_moved_ops, find_schedule, peak_bytes, with_schedule
from sizeup.memory.schedule_problem import Schedule
from sizeup.rewrite.result import (
    Footprint,
    Optimization,
    OptimizeOptions,
    Verification,
    without_unknown_peaks,
)
from sizeup.rewrite.verify import NOT_VERIFIABLE, NOT_VERIFIED, Verifier, find_verifier, is_equal

_OWN_SCHEDULE = "ONNX Runtime uses its own schedule; only runtimes that follow file order benefit"


def optimize(
    source: Path, out: Path, options: OptimizeOptions, bind: Mapping[str, int] | None = None
) -> Optimization:
    """Write the schedule with the lowest peak, or a copy of the original if nothing is gained."""
    if options.cluster is not None or options.pack:
        raise WriteError(f"{source}: --cluster and --pack support .tflite files only")
    if options.overlap:
        raise WriteError(f"{source}: --overlap supports .tflite files only")
    graph = onnx.load(source, bind=bind)
    from sizeup.formats.onnx.write import external_files, write

    companions = files.external_copies(external_files(source), source, out)
    verifier, notes = _find_verifier(graph, source, options)
    target = options.target
    if target is not None and target.runtime.formats is not None and options.reorder:
        options = replace(options, reorder=False)
        notes.append(f"the schedule was not changed: {target.runtime.name} uses its own")
    unknown, options = without_unknown_peaks(graph, options, notes)
    file_peak = peak_bytes(graph)
    before = Footprint(None if unknown else file_peak, source.stat().st_size, files.gzip_bytes_of(source))
    best_schedule, schedule = None, None
    if options.reorder and (verifier is not None or not options.verify):
        best_schedule = find_schedule(
            graph, aliases=True, time_limit=options.time_limit, progress=options.progress
        )
        schedule = best_schedule.ops if best_schedule.peak_bytes < file_peak else None
    notes += files.copy_external_files(companions)
    with atomic_path(out, like=source) as temporary:
        write(source, temporary, graph, None)
        verification = None if verifier is None else verifier.compare(verifier.original)
        if schedule is not None:
            schedule, verification = _reorder(source, temporary, graph, schedule, verifier, notes)
    optimization = _result(graph, out, before, best_schedule, schedule, verification, notes)
    is_verifiable = verifier is not None or not options.verify
    return replace(optimization, is_verifiable=is_verifiable, target=target)


def _find_verifier(graph: Graph, source: Path, options: OptimizeOptions) -> tuple[Verifier | None, list[str]]:
    if not options.verify:
        return None, [NOT_VERIFIED]
    verifier, reasons = find_verifier(graph, source, ("ort",), options.run_limit)
    if verifier is None:
        reasons.append(NOT_VERIFIABLE)
    return verifier, reasons


def _reorder(
    source: Path,
    target: Path,
    graph: Graph,
    schedule: tuple[int, ...],
    verifier: Verifier | None,
    notes: list[str],
) -> tuple[tuple[int, ...] | None, Verification | None]:
    """Write the new schedule; revert it if it cannot be written or its outputs differ."""
    from sizeup.formats.onnx.write import write

    unchanged = None if verifier is None else verifier.compare(verifier.original)
    try:
        write(source, target, graph, schedule)
        run = None if verifier is None else verifier.outputs(target)
    except (RunFailed, WriteError) as error:
        notes.append(f"the new schedule was reverted: {error}")
        write(source, target, graph, None)
        return None, unchanged
    if verifier is None or run is None:
        return schedule, None
    if not is_equal(verifier.original, run):
        notes.append(f"the new schedule was reverted: its outputs differ in {verifier.title}")
        write(source, target, graph, None)
        return None, unchanged
    return schedule, verifier.compare(run)


def _result(
    graph: Graph,
    out: Path,
    before: Footprint,
    best_schedule: Schedule | None,
    schedule: tuple[int, ...] | None,
    verification: Verification | None,
    notes: list[str],
) -> Optimization:
    peak = None if before.peak_bytes is None else peak_bytes(with_schedule(graph, schedule))
    after = Footprint(peak, out.stat().st_size, files.gzip_bytes_of(out))
    return Optimization(
        graph.name, graph.format, out, before, after, schedule is not None,
        moved_ops=0 if schedule is None else count_moved_ops(schedule),
        ops=len(graph.ops),
        schedule_status=None if best_schedule is None else best_schedule.status,
        lower_bound_bytes=None if best_schedule is None else best_schedule.lower_bound_bytes,
        verification=verification,
        notes=(*notes, *([_OWN_SCHEDULE] if schedule is not None else [])),
    )  # fmt: skip
