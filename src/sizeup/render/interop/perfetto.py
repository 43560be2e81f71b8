"""The estimate as a trace that Perfetto and chrome://tracing open: one slice a kernel, inside its modules.

Kernels follow each other from the start on, after what a pass adds beside them. What is merged into a kernel
is told in its slice, a kernel that takes no time has none, and an operator that is not known is a mark where
it would stand. Viewers count in whole nanoseconds: starts are rounded, so that no slice reaches into the next
and all of them together last as long as the estimate, and the exact time stands in each slice.
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
from sizeup.render.console.latency import spoken
from sizeup.render.console.report import title
from sizeup.render.data.report import latency_to_dict
from sizeup.results.rollup import module_at, module_path
from sizeup.results.roofline import BOUNDS

if TYPE_CHECKING:
    from sizeup.results.parts import Estimate
    from sizeup.results.report import Report

_PROCESS, _THREAD = 1, 1
KERNEL, MODULE, RUN, UNKNOWN = "kernel", "module", "run", "unknown"
"""The categories of slices: kernels and what a run adds sum up to the estimate, modules hold kernels."""
_NANOSECONDS = 1e9
_PER_MICROSECOND = 1000


@dataclass(frozen=True, slots=True)
class _Step:
    """A kernel on the time line, from nanosecond to nanosecond; `row` is its row of the work."""

    row: int
    start: int
    end: int
    ops: tuple[int, ...]


def lines(report: Report) -> Iterator[str]:
    """The trace as JSON text, one event a line; raises SizeupError at once where there are no times."""
    return _lines(report, _estimate_of(report))


def _lines(report: Report, found: Estimate) -> Iterator[str]:
    assert report.latency_details is not None  # as there is an estimate
    head = {"tool": f"sizeup {version('sizeup')}", "model": report.name, "sha256": report.sha256}
    yield '{\n  "displayTimeUnit": "ns",\n'
    yield f'  "otherData": {json.dumps({**head, **latency_to_dict(report.latency_details)})},\n'
    yield '  "traceEvents": ['
    separator = "\n    "
    for event in _events(report, found):
        yield separator + json.dumps(event)
        separator = ",\n    "
    yield "\n  ]\n}\n"


def _estimate_of(report: Report) -> Estimate:
    found = report.latency
    if found is None:
        raise SizeupError(f"{report.name}: a trace shows times, and there are none ({report.no_latency})")
    if not found.seconds:
        raise SizeupError(f"{report.name}: a trace shows times, and nothing takes any on this basis")
    return found


def _events(report: Report, found: Estimate) -> Iterator[dict[str, Any]]:
    where = "" if found.target is None else f" on {found.target.name}"
    yield _name("process_name", f"{title(report)}{where}: {spoken(found)}, {found.basis}")
    yield _name("thread_name", "kernels as estimated")
    begin = round(found.run_seconds * _NANOSECONDS)
    steps = _steps(found, begin)
    if found.run_seconds:
        about = {"ms": 1e3 * found.run_seconds, "why": "what a pass adds beside its kernels"}
        yield _slice("start of a run", RUN, 0, begin, about)
    yield from _nested(report, found, steps)
    yield from _marks(report, steps, begin)
    yield from _live(report, steps, begin)


def _steps(found: Estimate, begin: int) -> list[_Step]:
    """The kernels that take time, in the order in which they run; copies go right before their product."""
    taken = found.kernels.seconds * found.work.count
    groups: list[list[int]] = [[] for _ in range(len(taken))]
    for op, kernel in enumerate(found.executed.kernel.tolist()):
        if kernel >= 0:
            groups[kernel].append(op)
    kernel_of = found.executed.kernel[found.executed.main]
    is_copy = kernel_of != np.arange(len(taken))
    rows = [row for row in np.lexsort((~is_copy, kernel_of)).tolist() if taken[row] > 0]
    ends = np.rint((np.cumsum(taken[rows]) + found.run_seconds) * _NANOSECONDS).astype(np.int64).tolist()
    return [
        _Step(row, start, end, tuple(groups[row]))
        for row, start, end in zip(rows, [begin, *ends], ends, strict=False)
    ]


def _nested(report: Report, found: Estimate, steps: Sequence[_Step]) -> Iterator[dict[str, Any]]:
    """Every kernel after the modules that begin with it; a module that is left and met again begins anew."""
    graph, mains = report.graph, found.executed.main.tolist()
    paths = [module_path(graph.ops[mains[step.row]].scope) for step in steps]
    ends = _module_ends(paths, steps)
    before: tuple[str, ...] = ()
    for place, (path, step) in enumerate(zip(paths, steps, strict=True)):
        shared = _shared(before, path)
        for depth in range(shared, len(path)):
            about = {"module": module_at(graph.ops[mains[step.row]].scope, depth + 1)}
            yield _slice(_short(path[: depth + 1]), MODULE, step.start, ends[place][depth - shared], about)
        yield _kernel(report, found, step)
        before = path


def _short(path: Sequence[str]) -> str:
    """The last name of a module, and before it what numbers count: slices are narrow."""
    first = len(path) - 1
    while first and path[first].isdecimal():
        first -= 1
    return ".".join(path[first:])


def _module_ends(paths: Sequence[tuple[str, ...]], steps: Sequence[_Step]) -> list[list[int]]:
    """Of every kernel the ends of the modules that begin with it, the outermost first; from the last back."""
    ends: list[list[int]] = []
    running: list[int] = []  # ends of the modules that hold the kernel looked at
    after: tuple[str, ...] = ()
    for place in range(len(steps) - 1, -1, -1):
        path = paths[place]
        shared = _shared(path, after)
        running = running[:shared] + [steps[place].end] * (len(path) - shared)
        begins = _shared(paths[place - 1], path) if place else 0
        ends.append(running[begins:])
        after = path
    return ends[::-1]


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    """How many names two paths begin with together."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _kernel(report: Report, found: Estimate, step: _Step) -> dict[str, Any]:
    row, work = step.row, found.work
    main = int(found.executed.main[row])
    op = report.graph.ops[main]
    parts = (found.kernels.compute[row], found.kernels.traffic[row], found.kernels.launch[row])
    is_copy = not step.ops
    about: dict[str, Any] = {
        "operator": main,
        "name": name_of(report.graph, op),
        "scope": op.scope,
        "class": work.names[work.kind[row]],
        "macs": round(float(work.macs[row])),
        "read_bytes": round(float(work.read[row])),
        "written_bytes": round(float(work.written[row])),
        "weight_bytes": round(float(work.weights[row])),
        "ms": 1e3 * float(found.kernels.seconds[row] * work.count[row]),
        "bound_by": BOUNDS[int(np.argmax(parts))],
    }
    merged = [_words(report, each) for each in step.ops if each != main]
    if merged:
        about["merged"] = merged
    reasons = _reasons(report, step.ops)
    if reasons:
        about["unknown"] = reasons
    return _slice(f"copy for {op.kind}" if is_copy else op.kind, KERNEL, step.start, step.end, about)


def _words(report: Report, index: int) -> str:
    op = report.graph.ops[index]
    return f"{index} {op.kind} {name_of(report.graph, op)}"


def _reasons(report: Report, ops: Iterable[int]) -> list[str]:
    reasons = report.cost.reasons
    return [f"{_words(report, each)}: {reasons[each]}" for each in ops if each in reasons]


def _places(report: Report, steps: Sequence[_Step], ops: int) -> list[int]:
    """Of every operator the step that it runs in, or where none runs for it, the one before."""
    own = {op: place for place, step in enumerate(steps) for op in step.ops}
    places, last = [], 0
    for op in range(ops):
        last = own.get(op, last)
        places.append(last)
    return places


def _marks(report: Report, steps: Sequence[_Step], begin: int) -> Iterator[dict[str, Any]]:
    """A mark for every operator that is not known and whose kernel has no slice to tell it."""
    told = {op for step in steps for op in step.ops}
    places = _places(report, steps, len(report.graph.ops))
    for op in sorted(set(report.cost.reasons) - told):
        at = steps[places[op]].end if steps else begin
        about = {"operator": op, "why": report.cost.reasons[op]}
        yield {**_event("i", f"unknown: {report.graph.ops[op].kind}", at, about), "cat": UNKNOWN, "s": "t"}


def _live(report: Report, steps: Sequence[_Step], begin: int) -> Iterator[dict[str, Any]]:
    """The most that is in memory while a kernel runs, beside the weights, operator by operator."""
    usage = report.memory.usage
    least = bool(usage.missing or usage.unmodelled)
    places = _places(report, steps, len(report.graph.ops))
    highest: dict[int, int] = {}
    for place, size in zip(places, usage.live_bytes.tolist(), strict=True):
        highest[place] = max(highest.get(place, 0), size)
    for place, size in sorted(highest.items()):
        at = steps[place].start if steps else begin
        # Viewers call a counter by its name and the key of its number: live bytes.
        yield _event("C", "live", at, {"bytes at least" if least else "bytes": size})


def _slice(name: str, category: str, start: int, end: int, about: dict[str, Any]) -> dict[str, Any]:
    return {**_event("X", name, start, about), "cat": category, "dur": (end - start) / _PER_MICROSECOND}


def _event(phase: str, name: str, at: int, about: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": phase,
        "name": name,
        "pid": _PROCESS,
        "tid": _THREAD,
        "ts": at / _PER_MICROSECOND,
        "args": about,
    }


def _name(what: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": _THREAD, "args": {"name": name}}
