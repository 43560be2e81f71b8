"""Files whose segments run in strips, combined with schedules, memory plans and overlaps."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sizeup.backends import backend_of
from sizeup.backends.tflm import arena
from sizeup.backends.tflm.builds import TargetArena, arena_of
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.cost import count
from sizeup.dtypes import precision_name
from sizeup.errors import Incomplete, TargetError, WriteError
from sizeup.formats import tflite
from sizeup.graph import Graph
from sizeup.latency import estimate
from sizeup.memory.packing import INSTALL_HINT
from sizeup.memory.schedule import peak_bytes
from sizeup.rewrite.candidates import Arrangement, arrangements, measured_arena, predicted, search
from sizeup.rewrite.result import LatencyChange, OptimizeOptions, StripExecution
from sizeup.rewrite.split import SplitModel, no_split, split_model
from sizeup.rewrite.split.search import ArenaOf, PlannedArena
from sizeup.rewrite.target_candidates import plans, target_arrangements
from sizeup.rewrite.verify import Verifier
from sizeup.targets import Target

_PROVEN = (None, "optimal")  # status of plans of which none needs less; None: the interpreter's own


class SplitArrangements(NamedTuple):
    """The split files that need less than the limit, best first, and notes: the reason if there are none."""

    better: list[Arrangement]
    notes: list[str]


def split_arrangements(
    content: bytes, graph: Graph, options: OptimizeOptions, verifier: Verifier | None, limit_bytes: int | None
) -> SplitArrangements:
    """Split files with a smaller arena than the best other arrangement, which needs `limit_bytes`."""
    target = options.target
    if target is not None and not backend_of(target).honors_plans:
        return _none(f"strips lower the arena of TFLite Micro, which {target.name} does not run")
    if verifier is not None and not verifier.honors_plans:
        return _none("TFLite Micro does not run the model")
    target_arena = None if target is None else arena_of(target)
    if limit_bytes is None:
        return _none("the arena is not known")
    try:
        model = split_model(
            content,
            graph,
            PYTHON_PACKAGE if target_arena is None else target_arena.builds[-1],
            _arena_of(graph, options, target_arena),
            limit_bytes,
            overlap=options.overlap,
            max_extra_macs=options.max_extra_macs,
            time_limit=options.time_limit,
        )
    except WriteError as error:
        return _none(str(error))
    if isinstance(model, str):
        return _none(model)
    better, notes = _arranged(model, options, verifier, target)
    below = [entry for entry in better if (entry.total_bytes or 0) < limit_bytes]
    return SplitArrangements(below, notes) if below or not better else _none(no_split(limit_bytes))


def _none(reason: str) -> SplitArrangements:
    return SplitArrangements([], [f"--split had no effect: {reason}"])


def _arena_of(graph: Graph, options: OptimizeOptions, target_arena: TargetArena | None) -> ArenaOf:
    """The function that returns the exact arena of a split graph in its schedule with its best plan."""
    options = replace(options, reorder=False, progress=None)
    if target_arena is None:
        return lambda split: package_arena(split, options)
    current = target_arena.sizes(graph, graph.offsets or None, overlap=True)
    return lambda split: _target_arena(split, options, target_arena, current)


def package_arena(graph: Graph, options: OptimizeOptions) -> PlannedArena | None:
    """The arena of a graph in the interpreter's 64-bit build, with its best plan; None if not known."""
    try:
        tried = search(graph, options).candidates
    except Incomplete:
        return None
    return PlannedArena(
        min(candidate.expected.total_bytes for candidate in tried),
        all(candidate.plan_status in _PROVEN for candidate in tried),
    )


def _target_arena(
    graph: Graph, options: OptimizeOptions, target_arena: TargetArena, current: tuple[int, ...] | None
) -> PlannedArena | None:
    """The largest arena of the builds of a target; None if one of them needs more than before."""
    tried = list(plans(graph, options, target_arena, is_reordered=False))
    sizes = [target_arena.sizes(graph)]
    sizes += [target_arena.sizes(graph, plan.offsets, overlap=plan.overlaps > 0) for plan in tried]
    known = [
        max(entry)
        for entry in sizes
        if entry is not None and current is not None and all(map(int.__le__, entry, current))
    ]
    return PlannedArena(min(known), all(plan.status in _PROVEN for plan in tried)) if known else None


def _arranged(
    model: SplitModel, options: OptimizeOptions, verifier: Verifier | None, target: Target | None
) -> SplitArrangements:
    """The split file as it is, and with its best schedules and memory plans, smallest arena first."""
    graph = tflite.load(model.content)
    if target is None:
        result = arrangements(model.content, graph, options, verifier, None)
        used = predicted(graph) if verifier is None else measured_arena(verifier, model.content, [])
        total = None if used is None else used.total_bytes
    else:
        result = target_arrangements(model.content, graph, options, target)
        sizes = arena_of(target).sizes(graph)
        used, total = None, None if sizes is None else max(sizes)
    plain = Arrangement(model.content, None, None, used, peak_bytes(graph), 0, total)
    known = [entry for entry in (*result.better, plain) if entry.total_bytes is not None]
    known.sort(key=lambda entry: (entry.total_bytes, entry.peak_bytes))
    reason = arena(graph).unsupported_reason
    if reason:
        return _none(reason)
    # Other notes compare the split file with itself in another schedule.
    notes = [note for note in result.notes if note == INSTALL_HINT]
    return SplitArrangements([entry._replace(split=model) for entry in known], notes)


def strip_execution(
    original: Graph, graph: Graph, model: SplitModel | None, target: Target | None
) -> StripExecution | None:
    """The splits of a result and their cost; None if it has none."""
    if model is None:
        return None
    before = {op.source for op in original.ops}
    new = tuple(sorted({op.source for op in graph.ops} - before))
    return StripExecution(
        model.segments,
        count(original).total_macs,
        model.extra_macs,
        model.added_ops,
        new,
        model.status,
        model.bound_bytes,
        None if target is None else _latency(original, graph, target),
    )


def _latency(original: Graph, graph: Graph, target: Target) -> LatencyChange | None:
    cost = count(original)
    try:
        before, after = (estimate(each, target) for each in (cost, count(graph)))
    except TargetError:
        return None
    largest = original.ops[int(cost.macs.argmax())]
    dtype = precision_name(original.tensors[largest.inputs[0]].dtype)
    standing = "" if after.standing is None else after.standing.by_precision.get(dtype, "")
    return LatencyChange(before.seconds, after.seconds, after.basis, standing)
