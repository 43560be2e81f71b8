"""Rewrites .tflite files: weights first, then schedule and memory plan, with verification."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sizeup.backends import backend_of
from sizeup.backends.tflm.builds import TargetArena, arena_of
from sizeup.errors import RunFailed
from sizeup.files import write_bytes
from sizeup.formats import files, tflite
from sizeup.formats.tflite import codebooks as code_books
from sizeup.formats.tflite.write import ONLINE, external_files, rewrite, stored_plan, tensor_buffers
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.memory.schedule import count_moved_ops, peak_bytes
from sizeup.memory.schedule_problem import Schedule
from sizeup.ops import cost_rule_of
from sizeup.rewrite.candidates import arrangements, overlapping, plan_problem, predicted
from sizeup.rewrite.result import (
    Footprint,
    KernelArena,
    Optimization,
    OptimizeOptions,
    Verification,
    without_unknown_peaks,
)
from sizeup.rewrite.split import SplitModel
from sizeup.rewrite.split_arrangements import split_arrangements, strip_execution
from sizeup.rewrite.target_candidates import target_arrangements
from sizeup.rewrite.verify import NOT_VERIFIABLE, NOT_VERIFIED, Verifier, find_verifier, is_equal
from sizeup.rewrite.weights import cluster_weights, weights_of
from sizeup.runtimes import Arena, Run
from sizeup.runtimes.process import Model


@dataclass(slots=True)
class _RewriteState:
    """State of a rewrite: the current content and the changes so far."""

    content: bytes
    graph: Graph
    verifier: Verifier | None
    run: Run | None  # of the current content
    notes: list[str] = field(default_factory=list)
    clustered: int = 0
    packed: int = 0
    schedule: tuple[int, ...] | None = None
    best_schedule: Schedule | None = None
    has_known_sizes: bool = True
    has_better_schedule: bool = False  # whether a schedule has a lower peak than file order
    plan_status: str | None = None
    split: SplitModel | None = None
    expected: Arena | None = None  # predicted, if nothing is measured
    random_weight_outputs: int | None = None  # distinct outputs with random weights, if that was run

    @property
    def arena(self) -> Arena | None:
        """The measured or predicted arena."""
        return self.expected if self.run is None else self.run.arena

    @property
    def order_status(self) -> str | None:
        """The status of the schedule; 'feasible' if a better one is known that does not reduce the arena."""
        if self.best_schedule is None:
            return None
        return "feasible" if self.has_better_schedule and self.schedule is None else self.best_schedule.status

    @property
    def verification(self) -> Verification | None:
        """Comparison of the current content with the original."""
        if self.verifier is None or self.run is None:
            return None
        return self.verifier.compare(self.run, self.random_weight_outputs)


def optimize(source: Path, out: Path, options: OptimizeOptions) -> Optimization:
    """Write the file with the least memory, or a copy of the original if nothing is gained."""
    content = files.content_of(source)
    graph = tflite.load(source)
    if options.target is not None:
        backend_of(options.target).check_runs(graph)
    companions = files.external_copies(external_files(content), source, out)
    state = _start(source, content, graph, options)
    unknown, options = without_unknown_peaks(graph, options, state.notes)
    state.has_known_sizes = not unknown
    target_arena = arena_of(options.target)
    sizes = target_arena.file_sizes(graph)
    before = _footprint(state, target_arena, sizes, options)
    is_verifiable = state.verifier is not None or not options.verify
    if is_verifiable:
        _improve(state, options)
    state.notes += files.copy_external_files(companions)
    write_bytes(out, state.content, like=source)
    new_sizes = sizes if state.content == content else target_arena.file_sizes(state.graph)
    after = before if state.content == content else _footprint(state, target_arena, new_sizes, options)
    overlaps, kernels = overlapping(state.graph)
    if is_verifiable:
        state.notes += _effect_notes(state, before, after, options, overlaps)
    return Optimization(
        graph.name, graph.format, out, before, after, state.content != content,
        moved_ops=0 if state.schedule is None else count_moved_ops(state.schedule),
        ops=len(state.graph.ops),
        schedule_status=state.order_status,
        lower_bound_bytes=None if state.best_schedule is None else state.best_schedule.lower_bound_bytes,
        has_new_plan=state.plan_status is not None,
        plan_status=state.plan_status,
        overlaps=overlaps, valid_kernels=kernels,
        clustered_weights=state.clustered, cluster_values=options.cluster,
        packed_weights=state.packed,
        arena_is_measured=options.target is None and state.run is not None and state.run.arena is not None,
        verification=state.verification,
        notes=tuple(state.notes),
        is_verifiable=is_verifiable,
        target=options.target,
        strips=strip_execution(graph, state.graph, state.split, options.target),
        arenas=_kernel_arenas(target_arena, sizes, new_sizes),
    )  # fmt: skip


def _footprint(
    state: _RewriteState, target_arena: TargetArena, sizes: tuple[int | None, ...], options: OptimizeOptions
) -> Footprint:
    """Memory and size of the current content; `sizes` are its arenas per build.

    With a target all are those of its kernels: what the interpreter of this machine uses is another figure.
    """
    used = state.arena if options.target is None else None
    relevant = sizes[:1] if options.target is None else sizes  # without a target: the reference kernels
    known = [size for size in relevant if size is not None]
    return Footprint(
        peak_bytes(state.graph) if state.has_known_sizes else None,
        len(state.content),
        files.gzip_bytes(state.content),
        used,
        max(known) if known and len(known) == len(relevant) else None,
        _head_bytes(state.graph, target_arena, used, options),
    )


def _head_bytes(
    graph: Graph, target_arena: TargetArena, used: Arena | None, options: OptimizeOptions
) -> int | None:
    if options.target is not None:
        return target_arena.file_head(graph)
    return None if used is None else used.head_bytes


def _kernel_arenas(
    target_arena: TargetArena, before: tuple[int | None, ...], after: tuple[int | None, ...]
) -> tuple[KernelArena, ...]:
    return tuple(
        KernelArena(build.kernels, build.vectors, old, new)
        for build, old, new in zip(target_arena.builds, before, after, strict=True)
        if old is not None and new is not None
    )


def _effect_notes(
    state: _RewriteState, before: Footprint, after: Footprint, options: OptimizeOptions, overlaps: int
) -> Iterator[str]:
    """Notes on options without effect and on increased memory."""
    if options.overlap and after.head_bytes is not None:
        if not overlaps:
            yield "--overlap had no effect: no plan with overlaps reduces the arena"
        elif state.plan_status is None:
            yield "--overlap had no effect: the plan of the file has overlaps, and no other plan needs less"
    old, new = (
        footprint.arena_bytes if footprint.used is None else footprint.used.total_bytes
        for footprint in (before, after)
    )
    if state.packed and old is not None and new is not None:
        growth = new - old
        if growth > 0:
            yield f"the arena is {growth:,} B larger, because code-books are decoded into it at run time"


def _start(source: Model, content: bytes, graph: Graph, options: OptimizeOptions) -> _RewriteState:
    if problem := plan_problem(graph):  # its outputs are no reference
        plain = rewrite(content, offline_offsets=[ONLINE] * len(graph.tensors))
        state = _start(plain, plain, replace(graph, offsets=()), options)
        state.notes.append(f"the memory plan stored in the file was dropped: {problem}")
        return state
    if not options.verify:
        notes = [NOT_VERIFIED]
        return _RewriteState(
            content, graph, None, None, notes, expected=predicted(graph, stored_plan(content))
        )
    verifier, reasons = find_verifier(graph, source, ("tflm", "litert"), options.run_limit)
    state = _RewriteState(content, graph, verifier, None if verifier is None else verifier.original)
    if verifier is None:
        state.notes = [*reasons, NOT_VERIFIABLE]
    elif (
        not verifier.honors_plans
        and options.plan
        and (options.target is None or backend_of(options.target).honors_plans)
    ):
        state.notes.append(f"no memory plan was written: {reasons[0]}")
    return state


def _improve(state: _RewriteState, options: OptimizeOptions) -> None:
    if options.cluster is not None:
        _cluster(state, options.cluster)
    if options.pack:
        _pack(state)
    if options.reorder or options.plan or options.split:
        _arrange(state, options)


def _cluster(state: _RewriteState, values: int) -> None:
    buffers = tensor_buffers(state.content)
    stored = {identity: data for identity, (index, data) in enumerate(buffers) if index and len(data)}
    clustering = cluster_weights(state.graph, stored, values)
    state.notes += clustering.notes
    if any(op.bodies for op in state.graph.ops):
        state.notes.append("weights of called subgraphs are not clustered")
    contents = {buffers[identity][0]: data for identity, data in clustering.contents.items()}
    if not contents or _accept(state, rewrite(state.content, buffers=contents), must_be_equal=False):
        state.clustered = len(clustering.weights)


def _pack(state: _RewriteState) -> None:
    if state.verifier is not None and not state.verifier.honors_plans:
        state.notes.append("no code-books were written: they need TFLite Micro, which does not run the model")
        return
    books = code_books.books(state.graph, weights_of(state.graph))
    if not books:
        state.notes.append("no weight is smaller with a code-book; try --cluster 16")
        return
    smaller = _with_plan_of(state.graph, code_books.packed(state.content, books))
    if len(smaller) >= len(state.content):
        state.notes.append("no code-books were written: they would make the file larger")
    elif _accept(state, smaller):
        state.packed = len(books)


def _with_plan_of(graph: Graph, content: bytes) -> bytes:
    """The file with its previous memory plan; new tensors are not planned."""
    old, count = graph.offsets, len(graph.tensors)
    if not old:
        return content
    added = [ONLINE] * (len(tensor_buffers(content)) - count)
    return rewrite(content, offline_offsets=[*old[:count], *added, *old[count:]])


def _accept(state: _RewriteState, content: bytes, *, must_be_equal: bool = True) -> bool:
    """Use new content if the runtime runs it with the same outputs; returns whether it did."""
    run = None
    if state.verifier is not None and state.run is not None:
        try:
            run = state.verifier.outputs(content)
        except RunFailed as error:
            state.notes.append(f"a change was reverted: {error}")
            return False
        if must_be_equal and not is_equal(state.run, run):
            state.notes.append(f"a change was reverted: its outputs differ in {state.verifier.title}")
            return False
    state.content, state.graph, state.run = content, tflite.load(content), run
    if state.verifier is None:
        state.expected = predicted(state.graph, stored_plan(content))
    return True


def _arrange(state: _RewriteState, options: OptimizeOptions) -> None:
    target = options.target
    if target is None:
        result = arrangements(state.content, state.graph, options, state.verifier, state.arena)
    else:
        is_plan_run = state.verifier is None or state.verifier.honors_plans
        is_planned = options.plan and (is_plan_run or not backend_of(target).honors_plans)
        options = replace(options, plan=is_planned)
        result = target_arrangements(state.content, state.graph, options, target)
    better, notes = result.better, result.notes
    if options.split:
        limit = better[0].total_bytes if better else _current_bytes(state, options)
        splits = split_arrangements(state.content, state.graph, options, state.verifier, limit)
        better = [*splits.better, *better]
        notes = splits.notes if splits.better else [*notes, *splits.notes]
    state.notes += notes
    state.best_schedule, state.has_better_schedule = result.best_schedule, result.has_better_schedule
    has_plan = _has_plan(state.graph)
    for arrangement in better:
        distinct = _verify_with_random_weights(state, arrangement.content)
        if distinct != 0 and _accept(state, arrangement.content):
            state.random_weight_outputs = distinct
            state.schedule, state.plan_status = arrangement.schedule, arrangement.plan_status
            state.split = arrangement.split
            if state.verifier is None and arrangement.arena is not None:
                state.expected = arrangement.arena
            if has_plan and not _has_plan(state.graph):
                state.notes.append(
                    "the memory plan stored in the file was dropped: the planner of TFLite Micro needs less"
                )
            return


def _current_bytes(state: _RewriteState, options: OptimizeOptions) -> int | None:
    """The arena of the current file, on the target if there is one; None if it is not known."""
    if options.target is None:
        return None if state.arena is None else state.arena.total_bytes
    sizes = arena_of(options.target).file_sizes(state.graph)
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _has_plan(graph: Graph) -> bool:
    """Whether a file stores a memory plan that places a tensor."""
    return any(offset != ONLINE for offset in graph.offsets or ())


def _verify_with_random_weights(state: _RewriteState, content: bytes) -> int | None:
    """Verify a change with random weights, if the real ones give only one distinct output.

    Returns the number of distinct outputs; None if not run, or if there is still only one; 0 if the outputs
    of original and result differ.
    """
    verifier, run = state.verifier, state.run
    if verifier is None or run is None or run.distinct_outputs > 1:
        return None
    numbers = [index for index, _ in tensor_buffers(state.content)]
    for gain in GAINS:
        weights = {
            numbers[identity]: raw
            for identity, raw in random_weights(state.graph, gain).items()
            if numbers[identity]
        }
        try:
            before = verifier.outputs(rewrite(state.content, buffers=weights))
            after = (
                verifier.outputs(rewrite(content, buffers=weights)) if before.distinct_outputs > 1 else None
            )
        except RunFailed:
            return None
        if after is not None:
            if is_equal(before, after):
                return before.distinct_outputs
            state.notes.append(
                f"a change was reverted: with random weights, its outputs differ in {verifier.title}"
            )
            return 0
    return None


Array: TypeAlias = np.ndarray[Any, Any]

# Gain of the signal per layer, to compensate for what activations clip.
GAINS = (1.0, 1.5, 2.5, 4.0)
_TYPES = frozenset(("uint8", "int8", "int16", "float16", "float32"))


def random_weights(graph: Graph, gain: float, seed: int = 0) -> dict[int, bytes]:
    """Random contents for the weights of ops with MACs, and zero biases, by tensor id."""
    generator = np.random.default_rng(seed)
    contents: dict[int, bytes] = {}
    for op in graph.ops:
        rule = cost_rule_of(op.kind)
        if rule is None or rule.macs is None or not op.outputs:
            continue
        for identity in op.inputs:
            tensor = None if identity == ABSENT else graph.tensors[identity]
            if tensor is None or not tensor.is_parameter or identity in contents or tensor.shape is None:
                continue
            if len(tensor.shape) < 2:
                contents[identity] = bytes(math.prod(tensor.shape) * tensor.dtype.bits // 8)
            elif tensor.dtype.name in _TYPES:
                contents[identity] = _weight(graph, op, tensor, gain, generator).tobytes()
    return contents


def _weight(graph: Graph, op: Op, tensor: Tensor, gain: float, generator: np.random.Generator) -> Array:
    shape = tensor.shape or ()
    summed = max(1, math.prod(shape) // max(1, op.attrs.get("out_channels") or shape[0]))
    numbers = generator.normal(size=shape) * gain / math.sqrt(summed)
    numpy_dtype = np.dtype(tensor.dtype.name)
    if numpy_dtype.kind == "f":
        return np.asarray(numbers, numpy_dtype)
    limits = np.iinfo(numpy_dtype)
    middle = (limits.max + limits.min + 1) // 2
    reach = limits.max - middle
    return np.asarray(
        middle + np.clip(np.rint(numbers * _steps(graph, op, tensor)), -reach, reach), numpy_dtype
    )


def _steps(graph: Graph, op: Op, tensor: Tensor) -> Array | float:
    """The weight, in steps of its scale, that maps one step of the input to one step of the output."""
    data, output = graph.tensors[op.inputs[0]].quant, graph.tensors[op.outputs[0]].quant
    if tensor.quant is None or data is None or output is None:
        return 1.0
    scale = tensor.quant.scale.astype(np.float64)
    if tensor.quant.axis is not None:
        scale = scale.reshape(
            [-1 if axis == tensor.quant.axis else 1 for axis in range(len(tensor.shape or ()))]
        )
    return np.asarray(float(output.scale[0]) / float(data.scale[0]) / scale)
