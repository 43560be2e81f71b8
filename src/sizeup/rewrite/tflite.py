"""Rewriting .tflite files: weights first, then order and plan, verified with random weights too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sizeup.errors import RunFailed
from sizeup.files import write_bytes
from sizeup.formats import files, tflite
from sizeup.formats.tflite import pack as code_books
from sizeup.formats.tflite.write import ONLINE, external_files, rewrite, stored_plan, tensor_buffers
from sizeup.graph import ABSENT, Graph, Op, Tensor
from sizeup.memory import as_shipped
from sizeup.memory.schedule import moved, peak_bytes
from sizeup.memory.schedule_problem import Ordering
from sizeup.ops import rule_of
from sizeup.rewrite.arrange import arrangements, overlapping, predicted
from sizeup.rewrite.result import Footprint, Optimization, OptimizeOptions, Verification
from sizeup.rewrite.verify import Judge, is_equal, judge_of
from sizeup.rewrite.weights import cluster_weights, weights_of
from sizeup.runtimes import Arena, Run


@dataclass(slots=True)
class _Work:
    """A file on its way: its content and what is known of it so far."""

    content: bytes
    graph: Graph
    judge: Judge | None
    run: Run | None  # of this very content
    notes: list[str] = field(default_factory=list)
    clustered: int = 0
    packed: int = 0
    order: tuple[int, ...] | None = None
    ordering: Ordering | None = None
    has_better_order: bool = False  # than the order that came in
    plan_status: str | None = None
    expected: Arena | None = None  # where nothing is measured
    twins: int | None = None  # different outputs with random weights, where that was tried

    @property
    def arena(self) -> Arena | None:
        """What TFLite Micro reported, or is expected to."""
        return self.expected if self.run is None else self.run.arena

    @property
    def order_status(self) -> str | None:
        """How good the order is known to be; a better one may be known that does not help."""
        if self.ordering is None:
            return None
        return "feasible" if self.has_better_order and self.order is None else self.ordering.status

    @property
    def verification(self) -> Verification | None:
        """The file as it is now against the original."""
        if self.judge is None or self.run is None:
            return None
        return self.judge.verdict(self.run, self.twins)


def optimize(source: Path, out: Path, wishes: OptimizeOptions) -> Optimization:
    """Write the file that needs least; the original where nothing is gained."""
    content = files.content_of(source)
    graph = tflite.load(source)
    along = files.companions(external_files(content), source, out)
    work = _begin(source, content, graph, wishes)
    before = _footprint(work)
    is_verifiable = work.judge is not None or not wishes.verify
    if is_verifiable:
        _improve(work, wishes)
    work.notes += files.copy_along(along)
    write_bytes(out, work.content, like=source)
    after = _footprint(work)
    overlaps, kernels = overlapping(work.graph)
    if is_verifiable:
        work.notes += _remarks(work, before, after, wishes, overlaps)
    return Optimization(
        graph.name, graph.format, out, before, after, work.content != content,
        moved_ops=0 if work.order is None else moved(work.order),
        ops=len(work.graph.ops),
        order_status=work.order_status,
        lower_bound_bytes=None if work.ordering is None else work.ordering.lower_bound_bytes,
        planned=work.plan_status is not None,
        plan_status=work.plan_status,
        overlaps=overlaps,
        kernels=kernels,
        clustered_weights=work.clustered,
        cluster_values=wishes.cluster,
        packed_weights=work.packed,
        arena_is_measured=work.run is not None and work.run.arena is not None,
        verification=work.verification,
        notes=tuple(work.notes),
        is_verifiable=is_verifiable,
    )  # fmt: skip


def _footprint(work: _Work) -> Footprint:
    shipped = as_shipped(work.graph)
    return Footprint(
        peak_bytes(work.graph),
        len(work.content),
        files.gzip_bytes(work.content),
        work.arena,
        None if shipped is None or shipped.refused else shipped.arena_bytes(),
    )


def _remarks(
    work: _Work, before: Footprint, after: Footprint, wishes: OptimizeOptions, overlaps: int
) -> Iterator[str]:
    """What was asked for and brought nothing, or has a price."""
    if wishes.overlap and after.used is not None:
        if not overlaps:
            yield "--overlap brought nothing: no plan with overlaps needs less arena"
        elif work.plan_status is None:
            yield "--overlap brought nothing: the file's own plan overlaps already, and none needs less"
    if work.packed and before.used is not None and after.used is not None:
        more = after.used.total_bytes - before.used.total_bytes
        if more > 0:
            yield f"the arena is {more:,} B larger, for code-books are decoded into it while the model runs"


def _begin(source: Path, content: bytes, graph: Graph, wishes: OptimizeOptions) -> _Work:
    if not wishes.verify:
        notes = ["nothing was verified: --verify runs the result"]
        return _Work(content, graph, None, None, notes, expected=predicted(graph, stored_plan(content)))
    judge, reasons = judge_of(graph, source, ("tflm", "litert"))
    work = _Work(content, graph, judge, None if judge is None else judge.original)
    if judge is None:
        work.notes = [
            *reasons,
            "nothing can be verified, so nothing was changed; --no-verify changes it all the same",
        ]
    elif judge.runtime != "tflm" and wishes.plan:
        work.notes.append(f"no plan was written: {reasons[0]}")
    return work


def _improve(work: _Work, wishes: OptimizeOptions) -> None:
    if wishes.cluster is not None:
        _cluster(work, wishes.cluster)
    if wishes.pack:
        _pack(work)
    if wishes.reorder or wishes.plan:
        _arrange(work, wishes)


def _cluster(work: _Work, values: int) -> None:
    buffers = tensor_buffers(work.content)
    stored = {identity: data for identity, (index, data) in enumerate(buffers) if index and len(data)}
    found = cluster_weights(work.graph, stored, values)
    work.notes += found.notes
    if any(op.bodies for op in work.graph.ops):
        work.notes.append("weights of graphs that operators call are not clustered")
    contents = {buffers[identity][0]: data for identity, data in found.contents.items()}
    if not contents or _accept(work, rewrite(work.content, buffers=contents), must_be_equal=False):
        work.clustered = len(found.weights)


def _pack(work: _Work) -> None:
    if work.judge is not None and work.judge.runtime != "tflm":
        work.notes.append(
            "no code-books were written: TFLite Micro, which decodes them, does not run the model"
        )
        return
    chosen = code_books.books(work.graph, weights_of(work.graph))
    if not chosen:
        work.notes.append("no weight takes less room as a code-book; --cluster 16 makes weights that do")
        return
    smaller = _with_plan_of(work.graph, code_books.packed(work.content, chosen))
    if len(smaller) >= len(work.content):
        work.notes.append("code-books would make the file larger, so the weights stay as they are")
    elif _accept(work, smaller):
        work.packed = len(chosen)


def _with_plan_of(graph: Graph, content: bytes) -> bytes:
    """The file with the plan that it had, in which the tensors that are new have no place yet."""
    old, count = graph.offsets, len(graph.tensors)
    if not old:
        return content
    added = [ONLINE] * (len(tensor_buffers(content)) - count)
    return rewrite(content, offline_offsets=[*old[:count], *added, *old[count:]])


def _accept(work: _Work, content: bytes, *, must_be_equal: bool = True) -> bool:
    """Go on with new content, if the real runtime runs it and computes the same."""
    run = None
    if work.judge is not None and work.run is not None:
        try:
            run = work.judge.outputs(content)
        except RunFailed as error:
            work.notes.append(f"a change was taken back: {error}")
            return False
        if must_be_equal and not is_equal(work.run, run):
            work.notes.append(f"a change was taken back: its outputs differ in {work.judge.title}")
            return False
    work.content, work.graph, work.run = content, tflite.load(content), run
    if work.judge is None:
        work.expected = predicted(work.graph, stored_plan(content))
    return True


def _arrange(work: _Work, wishes: OptimizeOptions) -> None:
    found = arrangements(work.content, work.graph, wishes, work.judge, work.arena)
    work.notes += found.notes
    work.ordering, work.has_better_order = found.ordering, found.has_better_order
    for better in found.better:
        twins = _twins(work, better.content)
        if twins != 0 and _accept(work, better.content):
            work.twins = twins
            work.order, work.plan_status = better.order, better.plan_status
            if work.judge is None:
                work.expected = better.arena
            return


def _twins(work: _Work, content: bytes) -> int | None:
    """Try a change with random weights, where the real ones give one output only.

    Returns how many outputs that gave; None where it was not tried or gave no more; 0 where they differ.
    """
    judge, run = work.judge, work.run
    if judge is None or run is None or run.distinct_outputs > 1:
        return None
    numbers = [index for index, _ in tensor_buffers(work.content)]
    for gain in GAINS:
        weights = {
            numbers[each]: raw for each, raw in random_weights(work.graph, gain).items() if numbers[each]
        }
        try:
            before = judge.outputs(rewrite(work.content, buffers=weights))
            after = judge.outputs(rewrite(content, buffers=weights)) if before.distinct_outputs > 1 else None
        except RunFailed:
            return None
        if after is not None:
            if is_equal(before, after):
                return before.distinct_outputs
            work.notes.append(
                f"a change was taken back: with random weights its outputs differ in {judge.title}"
            )
            return 0
    return None


Array: TypeAlias = np.ndarray[Any, Any]

# How much stronger than it enters a signal leaves a layer: what activations cut off must be made up for.
GAINS = (1.0, 1.5, 2.5, 4.0)
_TYPES = frozenset(("uint8", "int8", "int16", "float16", "float32"))


def random_weights(graph: Graph, gain: float, seed: int = 0) -> dict[int, bytes]:
    """Contents for the weights and biases of operators that multiply, by tensor."""
    generator = np.random.default_rng(seed)
    found: dict[int, bytes] = {}
    for op in graph.ops:
        rule = rule_of(op.kind)
        if rule is None or rule.macs is None or not op.outputs:
            continue
        for identity in op.inputs:
            tensor = None if identity == ABSENT else graph.tensors[identity]
            if tensor is None or not tensor.is_parameter or identity in found or tensor.shape is None:
                continue
            if len(tensor.shape) < 2:
                found[identity] = bytes(math.prod(tensor.shape) * tensor.dtype.bits // 8)
            elif tensor.dtype.name in _TYPES:
                found[identity] = _weight(graph, op, tensor, gain, generator).tobytes()
    return found


def _weight(graph: Graph, op: Op, tensor: Tensor, gain: float, generator: np.random.Generator) -> Array:
    shape = tensor.shape or ()
    summed = max(1, math.prod(shape) // max(1, op.attrs.get("out_channels") or shape[0]))
    numbers = generator.normal(size=shape) * gain / math.sqrt(summed)
    kind = np.dtype(tensor.dtype.name)
    if kind.kind == "f":
        return np.asarray(numbers, kind)
    limits = np.iinfo(kind)
    middle = (limits.max + limits.min + 1) // 2
    reach = limits.max - middle
    return np.asarray(middle + np.clip(np.rint(numbers * _steps(graph, op, tensor)), -reach, reach), kind)


def _steps(graph: Graph, op: Op, tensor: Tensor) -> Array | float:
    """How many steps of the weight's own scale make one step of the input one step of the output."""
    data, made = graph.tensors[op.inputs[0]].quant, graph.tensors[op.outputs[0]].quant
    if tensor.quant is None or data is None or made is None:
        return 1.0
    scale = tensor.quant.scale.astype(np.float64)
    if tensor.quant.axis is not None:
        scale = scale.reshape(
            [-1 if axis == tensor.quant.axis else 1 for axis in range(len(tensor.shape or ()))]
        )
    return np.asarray(float(made.scale[0]) / float(data.scale[0]) / scale)
