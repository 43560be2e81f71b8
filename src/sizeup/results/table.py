"""Which rows to show of a report, and how to write their numbers for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sizeup import units
from sizeup.cost import total
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Graph, Shape
from sizeup.results import module_tree as tree
from sizeup.results.rollup import TOP_LEVEL, UNUSED_PARAMETERS, module_at, module_path
from sizeup.results.rows import Group, OpRow, intensity
from sizeup.units import brief

if TYPE_CHECKING:
    from sizeup.results.report import Report

By = Literal["op", "module", "tree", "kind", "precision"]

_FEW_OPS = 40
_MOST_ROWS = 30
_LEAST_ROWS = 4
_MOST_SHAPES = 2
_MOST_TENSORS = 4
_MOST_BRANCHES = 40
NEXT, LAST, ALONG = (
    "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT} ",
    "\N{BOX DRAWINGS LIGHT UP AND RIGHT} ",
    "\N{BOX DRAWINGS LIGHT VERTICAL} ",
)
_START = "(start of a run)"
_SUMMED = ("ops", "unknown_ops", "params", "macs", "elementwise_ops", "read_bytes", "written_bytes")


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table: one operator or several taken together."""

    label: str
    index: int | None
    kind: str
    inputs: str
    output: str
    precision: str
    ops: int
    unknown_ops: int
    params: int
    macs: int | None
    elementwise_ops: int | None
    read_bytes: int | None
    written_bytes: int | None
    seconds: float | None = None
    bound_by: str = ""
    shape: str = ""  # of the activations that one operator reads and produces
    live_bytes: int | None = None  # of one operator; None also if not known
    live_tensors: str = ""
    guide: str = ""  # the lines of a tree in front of the label

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte moved; None where something is not known."""
        if self.unknown_ops:
            return None
        return intensity(self.macs, self.read_bytes, self.written_bytes)


@dataclass(frozen=True, slots=True)
class View:
    """The rows to show; `rest` adds up those that were left out, and `start` is the time that a pass takes
    beside its operators, so that all adds up to `total`."""

    by: By
    depth: int | None
    entries: tuple[Entry, ...]
    rest: Entry | None
    total: Entry
    remark: str = ""  # what the rows do not say themselves
    start: Entry | None = None

    @property
    def rows(self) -> tuple[Entry, ...]:
        """All of them, from the first entry to the total."""
        return (*self.entries, *(each for each in (self.rest, self.start) if each), self.total)


def view(report: Report, by: By | None = None, depth: int | None = None, top: int | None = None) -> View:
    """The rows asked for; without a wish by operator for small models, by module for large ones."""
    if depth is not None and by not in (None, "module", "tree"):
        raise SizeupError(f"a depth cuts modules; it does not go with rows by {by}")
    if by is None:
        by, depth, top = _usual(report, depth, top)
    if by == "tree":
        return _tree(report, depth, top)
    total, start = _total(report), _start(report)
    if by == "op":
        entries = [_of_op(report, index) for index in _chosen_ops(report, top)]
    else:
        if by == "module" and depth is None:
            depth = usual_depth(report)
        groups = _groups(report, by, depth)
        entries = [_of_group(each) for each in _chosen_groups(groups, top)]
    return View(by, depth, tuple(entries), _rest(entries, total, start), total, start=start)


def _tree(report: Report, depth: int | None, top: int | None) -> View:
    """Modules inside modules, as deep as one screen allows; operators where there are no modules."""
    modules = tree.ModuleTree(report)
    if not modules.deepest:
        shown = view(report, "op", top=top)
        return replace(shown, remark="no operator of this model names a module: these are its operators")
    if depth is None:
        depth, top = _usual_branches(modules, top)
    branches = modules.branches(depth, top)
    entries = tuple(entry for branch in branches for entry in _of_branch(branch, ""))
    remark = f"--depth {depth + 1} shows what is inside these modules" if depth < modules.deepest else ""
    return View("tree", depth, entries, None, _total(report), remark, _start(report))


def _usual_branches(modules: tree.ModuleTree, top: int | None) -> tuple[int, int | None]:
    """The deepest cut that gives a table for one screen, or one that leaves out what costs least."""
    rows = 0
    for depth in range(1, modules.deepest + 1):
        before, rows = rows, tree.rows_of(modules.branches(depth, top))
        if rows > _MOST_BRANCHES:
            few = before < _LEAST_ROWS
            return (depth, top or _MOST_ROWS) if few else (depth - 1, top)
    return modules.deepest, top


def _of_branch(branch: tree.Branch, guide: str, after: str = "") -> Iterator[Entry]:
    """A row for a branch, and below it those inside; `after` is what stands in front of these."""
    if branch.count == 1:
        yield replace(_of_group(branch.total), label=branch.name, guide=guide)
    else:
        yield replace(_of_group(branch.total), label=f"{branch.name}  x {branch.count:,}", guide=guide)
        yield replace(_of_group(branch.each), label="each", guide=after + LAST)
        after += "  "
    for place, inner in enumerate(branch.inside, 1):
        last = place == len(branch.inside)
        yield from _of_branch(inner, after + (LAST if last else NEXT), after + ("  " if last else ALONG))


def _groups(report: Report, by: By, depth: int | None) -> tuple[Group, ...]:
    if by == "kind":
        return report.by_kind()
    return report.by_precision() if by == "precision" else report.by_module(depth)


def view_of(report: Report, indices: Iterable[int]) -> View:
    """Some operators and their own total."""
    entries = tuple(_of_op(report, index) for index in indices)
    sums = [sum(getattr(each, name) or 0 for each in entries) for name in _SUMMED]
    seconds = None if report.latency is None else sum(each.seconds or 0.0 for each in entries)
    return View("op", None, entries, None, _entry("total", *sums, seconds))


def usual_depth(report: Report) -> int:
    """The deepest cut that still gives a table for one screen."""
    scopes = {op.scope for op in report.graph.ops}
    deepest = max((len(module_path(scope)) for scope in scopes), default=1)
    for depth in range(deepest, 1, -1):
        if len({module_at(scope, depth) for scope in scopes}) <= _MOST_ROWS:
            return depth
    return 1


def _usual(report: Report, depth: int | None, top: int | None) -> tuple[By, int | None, int | None]:
    """What to show by itself: rows of one screen that tell something."""
    if depth is not None:
        return "module", depth, top
    if len(report.graph.ops) <= _FEW_OPS:
        return "op", None, top
    scopes = {op.scope for op in report.graph.ops}
    depth = usual_depth(report)
    if len({module_at(scope, depth) for scope in scopes}) < _LEAST_ROWS:
        depth += 1
    modules = len({module_at(scope, depth) for scope in scopes})
    # Modules of one or two operators each say no more than the operators themselves.
    telling = _LEAST_ROWS <= modules <= len(report.graph.ops) // 2 and _modules_do_the_work(report)
    return ("module", depth, top or _MOST_ROWS) if telling else ("op", None, top or _MOST_ROWS)


def _modules_do_the_work(report: Report) -> bool:
    """Whether most MACs have a module; files without modules may still name those of their weights."""
    elsewhere = [not op.scope for op in report.graph.ops]
    return 2 * total(report.cost.macs[elsewhere]) <= report.cost.total_macs


def _chosen_ops(report: Report, top: int | None) -> list[int]:
    count = len(report.graph.ops)
    if top is None or top >= count:
        return list(range(count))
    cost, moved, taken = report.cost, report.moved, report.op_seconds
    by_work = (-(moved.read + moved.written), -cost.elementwise, -cost.macs)
    order = np.lexsort(by_work if taken is None else (*by_work, -taken))
    return [int(index) for index in order[:top]]


def _chosen_groups(groups: Sequence[Group], top: int | None) -> Sequence[Group]:
    if top is None or top >= len(groups):
        return groups
    return sorted(
        groups, key=lambda row: (-(row.seconds or 0.0), -row.macs, -row.elementwise_ops, -row.params)
    )[:top]


def _of_op(report: Report, index: int) -> Entry:
    row = report.ops[index]
    return Entry(
        row.scope or row.name,
        row.index,
        "depthwise" if row.depthwise else row.kind,
        _shapes(row.input_shapes),
        _shapes(row.output_shapes),
        row.precision or "",
        1,
        int(not row.known),
        row.params,
        row.macs,
        row.elementwise_ops,
        row.read_bytes,
        row.written_bytes,
        None if row.ms is None else row.ms / 1e3,
        row.bound_by or "",
        _activations(report.graph, index),
        row.live_bytes,
        _live_tensors(row),
    )


def _activations(graph: Graph, index: int) -> str:
    """The first activation that an operator reads and the first that it produces, without weights."""
    op = graph.ops[index]
    read = [graph.tensors[each] for each in op.inputs if each != ABSENT]
    sides = [each.shape for each in read if each.data is None], [graph.tensors[i].shape for i in op.outputs]
    return " -> ".join(_shapes(side, most=1) for side in sides).strip()


def _live_tensors(row: OpRow) -> str:
    """The largest live tensors and their sizes; `#2` is an output of operator 2."""
    shown = row.live_tensors[:_MOST_TENSORS]
    names = [brief(each.name) if each.op is None else f"#{each.op}" for each in shown]
    listed = [f"{name} {units.size(each.bytes)}" for name, each in zip(names, shown, strict=True)]
    rest = row.live_tensor_count - len(shown)
    return ", ".join(listed) + (f" +{rest:,}" if rest else "")


def _shapes(shapes: Sequence[Shape | None], most: int = _MOST_SHAPES) -> str:
    listed = ", ".join(map(units.shape, shapes[:most]))
    return f"{listed} +{len(shapes) - most}" if len(shapes) > most else listed


def _of_group(row: Group) -> Entry:
    # A group of operators none of which is known has sums of nothing: unknown, not zero.
    nothing_known = 0 < row.ops == row.unknown_ops

    def quantity(value: int) -> int | None:
        return None if nothing_known and not value else value

    return _entry(
        (row.kind if row.module is None else row.module) or TOP_LEVEL,
        row.ops,
        row.unknown_ops,
        row.params,
        quantity(row.macs),
        quantity(row.elementwise_ops),
        quantity(row.read_bytes),
        quantity(row.written_bytes),
        row.seconds,
    )


def _entry(label: str, ops: int, unknown_ops: int, params: int, *quantities: Any) -> Entry:
    return Entry(label, None, "", "", "", "", ops, unknown_ops, params, *quantities)


def _total(report: Report) -> Entry:
    totals, count = report.totals, len(report.graph.ops)
    return _entry(
        "total",
        count,
        count - report.known_ops,
        totals.params,
        totals.macs,
        totals.elementwise_ops,
        totals.read_bytes,
        totals.written_bytes,
        None if report.latency is None else report.latency.seconds,
    )


def _start(report: Report) -> Entry | None:
    """What a pass takes beside its operators, where an estimate knows it."""
    if report.latency is None or not report.latency.run_seconds:
        return None
    return _entry(_START, *[0] * len(_SUMMED), report.latency.run_seconds)


def _rest(entries: Sequence[Entry], total: Entry, start: Entry | None) -> Entry | None:
    """What the total holds beyond the rows shown; None where they are all there is."""
    left = [getattr(total, name) - sum(getattr(each, name) or 0 for each in entries) for name in _SUMMED]
    if not any(left):
        return None
    known = [each.seconds or 0 for each in (*entries, *((start,) if start else ()))]
    seconds = None if total.seconds is None else total.seconds - sum(known)
    label = f"({left[0]:,} more operator{'s' * (left[0] != 1)})" if left[0] else UNUSED_PARAMETERS
    return _entry(label, *left, seconds)
