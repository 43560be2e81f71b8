"""A latency estimate as a trace for Perfetto and chrome://tracing: one slice per kernel, inside its modules.

Kernels run one after the other, after the per-inference overhead. A slice lists the operators fused into its
kernel; a kernel without time has no slice; an unknown operator is a mark. Viewers use whole nanoseconds, so
starts are rounded such that slices do not overlap and sum up to the estimate; each slice has the exact time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from sizeup.errors import SizeupError
from sizeup.graph import name_of
from sizeup.render.console.latency import latency_text
from sizeup.render.console.report import title
from sizeup.render.data.report import latency_to_dict
from sizeup.results.rollup import module_at, module_path
from sizeup.results.roofline import BOUNDS

if TYPE_CHECKING:
    from sizeup.results.parts import Estimate
    from sizeup.results.report import Report

_PROCESS, _THREAD = 1, 1
KERNEL, MODULE, RUN, UNKNOWN = "kernel", "module", "run", "unknown"
"""The categories of slices: kernels and the overhead sum up to the estimate; modules contain kernels."""
_NANOSECONDS = 1e9
_PER_MICROSECOND = 1000


@dataclass(frozen=True, slots=True)
class _Step:
    """A kernel on the time line, in nanoseconds; `row` is its row of the work."""

    row: int
    start: int
    end: int
    ops: tuple[int, ...]


def lines(report: Report) -> Iterator[str]:
    """Yields the trace as JSON text, one event per line; raises SizeupError without a latency estimate."""
    return _lines(report, _estimate_of(report))


def _lines(report: Report, estimate: Estimate) -> Iterator[str]:
    assert report.latency_details is not None  # as there is an estimate
    head = {"tool": f"sizeup {version('sizeup')}", "model": report.name, "sha256": report.sha256}
    yield '{\n  "displayTimeUnit": "ns",\n'
    yield f'  "otherData": {json.dumps({**head, **latency_to_dict(report.latency_details)})},\n'
    yield '  "traceEvents": ['
    separator = "\n    "
    for event in _events(report, estimate):
        yield separator + json.dumps(event)
        separator = ",\n    "
    yield "\n  ]\n}\n"


def _estimate_of(report: Report) -> Estimate:
    estimate = report.latency
    if estimate is None:
        raise SizeupError(f"{report.name}: a trace needs a latency estimate ({report.no_latency_reason})")
    if not estimate.seconds:
        raise SizeupError(f"{report.name}: a trace needs times, but the estimate is 0")
    return estimate


def _events(report: Report, estimate: Estimate) -> Iterator[dict[str, Any]]:
    location = "" if estimate.target is None else f" on {estimate.target.name}"
    yield _name("process_name", f"{title(report)}{location}: {latency_text(estimate)}, {estimate.basis}")
    yield _name("thread_name", "estimated kernels")
    begin = round(estimate.overhead_seconds * _NANOSECONDS)
    steps = _steps(estimate, begin)
    if estimate.overhead_seconds:
        args = {"ms": 1e3 * estimate.overhead_seconds, "reason": "overhead per inference, outside kernels"}
        yield _slice("per-inference overhead", RUN, 0, begin, args)
    yield from _nested(report, estimate, steps)
    yield from _marks(report, steps, begin)
    yield from _live(report, steps, begin)


def _steps(estimate: Estimate, begin: int) -> list[_Step]:
    """Returns the kernels that take time, in execution order; a copy precedes its consumer."""
    seconds = estimate.kernels.seconds * estimate.work.count
    groups: list[list[int]] = [[] for _ in range(len(seconds))]
    for op, kernel in enumerate(estimate.executed.kernel.tolist()):
        if kernel >= 0:
            groups[kernel].append(op)
    kernel_of = estimate.executed.kernel[estimate.executed.main_op]
    is_copy = kernel_of != np.arange(len(seconds))
    rows = [row for row in np.lexsort((~is_copy, kernel_of)).tolist() if seconds[row] > 0]
    ends = (
        np.rint((np.cumsum(seconds[rows]) + estimate.overhead_seconds) * _NANOSECONDS)
        .astype(np.int64)
        .tolist()
    )
    return [
        _Step(row, start, end, tuple(groups[row]))
        for row, start, end in zip(rows, [begin, *ends], ends, strict=False)
    ]


def _nested(report: Report, estimate: Estimate, steps: Sequence[_Step]) -> Iterator[dict[str, Any]]:
    """Yields every kernel after the modules that start with it; a module entered again gets a new slice."""
    graph, mains = report.graph, estimate.executed.main_op.tolist()
    paths = [module_path(graph.ops[mains[step.row]].scope) for step in steps]
    ends = _module_ends(paths, steps)
    before: tuple[str, ...] = ()
    for index, (path, step) in enumerate(zip(paths, steps, strict=True)):
        shared = _shared(before, path)
        for depth in range(shared, len(path)):
            args = {"module": module_at(graph.ops[mains[step.row]].scope, depth + 1)}
            yield _slice(_short(path[: depth + 1]), MODULE, step.start, ends[index][depth - shared], args)
        yield _kernel(report, estimate, step)
        before = path


def _short(path: Sequence[str]) -> str:
    """Returns the last name of a module, with the name before it if it is a number."""
    first = len(path) - 1
    while first and path[first].isdecimal():
        first -= 1
    return ".".join(path[first:])


def _module_ends(paths: Sequence[tuple[str, ...]], steps: Sequence[_Step]) -> list[list[int]]:
    """Returns for every kernel the ends of the modules that start with it, outermost first."""
    ends: list[list[int]] = []
    running: list[int] = []  # ends of the modules that contain the current kernel
    after: tuple[str, ...] = ()
    for index in range(len(steps) - 1, -1, -1):
        path = paths[index]
        shared = _shared(path, after)
        running = running[:shared] + [steps[index].end] * (len(path) - shared)
        begins = _shared(paths[index - 1], path) if index else 0
        ends.append(running[begins:])
        after = path
    return ends[::-1]


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    """Returns the length of the common prefix of two paths."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _kernel(report: Report, estimate: Estimate, step: _Step) -> dict[str, Any]:
    row, work = step.row, estimate.work
    main = int(estimate.executed.main_op[row])
    op = report.graph.ops[main]
    parts = (estimate.kernels.compute[row], estimate.kernels.traffic[row], estimate.kernels.launch[row])
    is_copy = not step.ops
    args: dict[str, Any] = {
        "operator": main,
        "name": name_of(report.graph, op),
        "scope": op.scope,
        "class": work.names[work.class_index[row]],
        "macs": round(float(work.macs[row])),
        "read_bytes": round(float(work.read[row])),
        "written_bytes": round(float(work.written[row])),
        "weight_bytes": round(float(work.weights[row])),
        "ms": 1e3 * float(estimate.kernels.seconds[row] * work.count[row]),
        "bound_by": BOUNDS[int(np.argmax(parts))],
    }
    fused = [_op_text(report, index) for index in step.ops if index != main]
    if fused:
        args["fused"] = fused
    reasons = _reasons(report, step.ops)
    if reasons:
        args["unknown"] = reasons
    return _slice(f"copy for {op.kind}" if is_copy else op.kind, KERNEL, step.start, step.end, args)


def _op_text(report: Report, index: int) -> str:
    op = report.graph.ops[index]
    return f"{index} {op.kind} {name_of(report.graph, op)}"


def _reasons(report: Report, ops: Iterable[int]) -> list[str]:
    reasons = report.cost.reasons
    return [f"{_op_text(report, op)}: {reasons[op]}" for op in ops if op in reasons]


def _step_of_ops(report: Report, steps: Sequence[_Step], ops: int) -> list[int]:
    """Returns the step of every operator; without one, the step before."""
    step_of = {op: index for index, step in enumerate(steps) for op in step.ops}
    steps_of_ops, last = [], 0
    for op in range(ops):
        last = step_of.get(op, last)
        steps_of_ops.append(last)
    return steps_of_ops


def _marks(report: Report, steps: Sequence[_Step], begin: int) -> Iterator[dict[str, Any]]:
    """Yields a mark for every unknown operator whose kernel has no slice."""
    drawn = {op for step in steps for op in step.ops}
    step_of = _step_of_ops(report, steps, len(report.graph.ops))
    for op in sorted(set(report.cost.reasons) - drawn):
        at = steps[step_of[op]].end if steps else begin
        args = {"operator": op, "reason": report.cost.reasons[op]}
        yield {**_event("i", f"unknown: {report.graph.ops[op].kind}", at, args), "cat": UNKNOWN, "s": "t"}


def _live(report: Report, steps: Sequence[_Step], begin: int) -> Iterator[dict[str, Any]]:
    """Yields the peak activation memory during every kernel."""
    usage = report.memory.usage
    least = bool(usage.unavailable_reason or usage.unmodeled)
    step_of = _step_of_ops(report, steps, len(report.graph.ops))
    highest: dict[int, int] = {}
    for step, size in zip(step_of, usage.live_bytes.tolist(), strict=True):
        highest[step] = max(highest.get(step, 0), size)
    for step, size in sorted(highest.items()):
        at = steps[step].start if steps else begin
        # Viewers show the name and the key: "live bytes".
        yield _event("C", "live", at, {"bytes at least" if least else "bytes": size})


def _slice(name: str, category: str, start: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
    return {**_event("X", name, start, args), "cat": category, "dur": (end - start) / _PER_MICROSECOND}


def _event(phase: str, name: str, at: int, args: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": phase,
        "name": name,
        "pid": _PROCESS,
        "tid": _THREAD,
        "ts": at / _PER_MICROSECOND,
        "args": args,
    }


def _name(event: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": event, "pid": _PROCESS, "tid": _THREAD, "args": {"name": name}}
