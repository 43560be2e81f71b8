"""The table of a report: which rows to show, and their numbers."""

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
from sizeup.units import shorten

if TYPE_CHECKING:
    from sizeup.results.report import Report

By = Literal["op", "module", "tree", "kind", "precision"]

_FEW_OPS = 40
_MAX_ROWS = 30
_MIN_ROWS = 4
_MAX_SHAPES = 2
_MAX_TENSORS = 4
_MAX_BRANCHES = 40
NEXT, LAST, ALONG = (
    "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT} ",
    "\N{BOX DRAWINGS LIGHT UP AND RIGHT} ",
    "\N{BOX DRAWINGS LIGHT VERTICAL} ",
)
_OVERHEAD = "(per-inference overhead)"
_SUMMED = ("ops", "unknown_ops", "params", "macs", "elementwise_ops", "read_bytes", "written_bytes")


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table: one op or several taken together."""

    label: str
    index: int | None
    op_kind: str
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
    shape: str = ""  # of the first input and output activation of one op
    live_bytes: int | None = None  # of one op; None also if unknown
    live_tensors: str = ""
    tree_prefix: str = ""  # tree lines before the label

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved; None if something is unknown."""
        if self.unknown_ops:
            return None
        return intensity(self.macs, self.read_bytes, self.written_bytes)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows to show, which add up to `total`; `rest` sums those left out, `overhead` is the overhead."""

    by: By
    depth: int | None
    entries: tuple[Entry, ...]
    rest: Entry | None
    total: Entry
    note: str = ""  # a note below the table
    overhead: Entry | None = None

    @property
    def rows(self) -> tuple[Entry, ...]:
        """All rows, from the first entry to the total."""
        return (*self.entries, *(entry for entry in (self.rest, self.overhead) if entry), self.total)


def build_table(
    report: Report, by: By | None = None, depth: int | None = None, top: int | None = None
) -> Table:
    """Returns the requested rows; by default by op for small models, by module for large ones."""
    if depth is not None and by not in (None, "module", "tree"):
        raise SizeupError(f"a depth applies to modules, not to rows by {by}")
    if by is None:
        by, depth, top = _default_rows(report, depth, top)
    if by == "tree":
        return _tree(report, depth, top)
    total, start = _total_row(report), _overhead_row(report)
    if by == "op":
        entries = [_op_entry(report, index) for index in _top_ops(report, top)]
    else:
        if by == "module" and depth is None:
            depth = default_depth(report)
        groups = _groups(report, by, depth)
        entries = [_group_entry(group) for group in _top_groups(groups, top)]
    return Table(by, depth, tuple(entries), _rest_row(entries, total, start), total, overhead=start)


def _tree(report: Report, depth: int | None, top: int | None) -> Table:
    """Returns the module tree, as deep as one screen allows; ops if there are no modules."""
    modules = tree.ModuleTree(report)
    if not modules.deepest:
        table = build_table(report, "op", top=top)
        return replace(table, note="this model has no module names; rows are operators")
    if depth is None:
        depth, top = _default_tree_depth(modules, top)
    branches = modules.branches(depth, top)
    entries = tuple(entry for branch in branches for entry in _branch_entries(branch, ""))
    note = f"--depth {depth + 1} expands these modules" if depth < modules.deepest else ""
    return Table("tree", depth, entries, None, _total_row(report), note, _overhead_row(report))


def _default_tree_depth(modules: tree.ModuleTree, top: int | None) -> tuple[int, int | None]:
    """Returns the largest depth whose table fits one screen, or one that leaves out the cheapest rows."""
    rows = 0
    for depth in range(1, modules.deepest + 1):
        before, rows = rows, tree.rows_of(modules.branches(depth, top))
        if rows > _MAX_BRANCHES:
            is_short = before < _MIN_ROWS
            return (depth, top or _MAX_ROWS) if is_short else (depth - 1, top)
    return modules.deepest, top


def _branch_entries(branch: tree.Branch, guide: str, after: str = "") -> Iterator[Entry]:
    """Yields a row for a branch, and below it those of inner modules; `after` is the prefix of these."""
    if branch.count == 1:
        yield replace(_group_entry(branch.total), label=branch.name, tree_prefix=guide)
    else:
        yield replace(
            _group_entry(branch.total), label=f"{branch.name}  x {branch.count:,}", tree_prefix=guide
        )
        yield replace(_group_entry(branch.single), label="each", tree_prefix=after + LAST)
        after += "  "
    for number, inner in enumerate(branch.children, 1):
        is_last = number == len(branch.children)
        guide, after_inner = (LAST, "  ") if is_last else (NEXT, ALONG)
        yield from _branch_entries(inner, after + guide, after + after_inner)


def _groups(report: Report, by: By, depth: int | None) -> tuple[Group, ...]:
    if by == "kind":
        return report.by_op_kind()
    return report.by_precision() if by == "precision" else report.by_module(depth)


def table_of_ops(report: Report, indices: Iterable[int]) -> Table:
    """Returns a table of some ops and their total."""
    entries = tuple(_op_entry(report, index) for index in indices)
    sums = [sum(getattr(entry, name) or 0 for entry in entries) for name in _SUMMED]
    seconds = None if report.latency is None else sum(entry.seconds or 0.0 for entry in entries)
    return Table("op", None, entries, None, _entry("total", *sums, seconds))


def default_depth(report: Report) -> int:
    """Returns the largest depth whose table fits one screen."""
    scopes = {op.scope for op in report.graph.ops}
    deepest = max((len(module_path(scope)) for scope in scopes), default=1)
    for depth in range(deepest, 1, -1):
        if len({module_at(scope, depth) for scope in scopes}) <= _MAX_ROWS:
            return depth
    return 1


def _default_rows(report: Report, depth: int | None, top: int | None) -> tuple[By, int | None, int | None]:
    """Returns the default table: rows that fit one screen and are informative."""
    if depth is not None:
        return "module", depth, top
    if len(report.graph.ops) <= _FEW_OPS:
        return "op", None, top
    scopes = {op.scope for op in report.graph.ops}
    depth = default_depth(report)
    if len({module_at(scope, depth) for scope in scopes}) < _MIN_ROWS:
        depth += 1
    modules = len({module_at(scope, depth) for scope in scopes})
    # Modules of one or two ops each are no more informative than the ops.
    is_informative = _MIN_ROWS <= modules <= len(report.graph.ops) // 2 and _are_macs_in_modules(report)
    return ("module", depth, top or _MAX_ROWS) if is_informative else ("op", None, top or _MAX_ROWS)


def _are_macs_in_modules(report: Report) -> bool:
    """Whether most MACs are in modules; files without modules may have names from their weights."""
    elsewhere = [not op.scope for op in report.graph.ops]
    return 2 * total(report.cost.macs[elsewhere]) <= report.cost.total_macs


def _top_ops(report: Report, top: int | None) -> list[int]:
    count = len(report.graph.ops)
    if top is None or top >= count:
        return list(range(count))
    cost, moved, op_seconds = report.cost, report.traffic, report.op_seconds
    by_work = (-(moved.read + moved.written), -cost.elementwise, -cost.macs)
    order = np.lexsort(by_work if op_seconds is None else (*by_work, -op_seconds))
    return [int(index) for index in order[:top]]


def _top_groups(groups: Sequence[Group], top: int | None) -> Sequence[Group]:
    if top is None or top >= len(groups):
        return groups
    return sorted(
        groups, key=lambda row: (-(row.seconds or 0.0), -row.macs, -row.elementwise_ops, -row.params)
    )[:top]


def _op_entry(report: Report, index: int) -> Entry:
    row = report.ops[index]
    # Without times for memory, every op would be bound by compute.
    has_bounds = report.latency_details is not None and report.latency_details.bound_by is not None
    return Entry(
        row.scope or row.name,
        row.index,
        "depthwise" if row.depthwise else row.op_kind,
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
        row.bound_by or "" if has_bounds else "",
        _activations(report.graph, index),
        row.live_bytes,
        _live_tensors(row),
    )


def _activations(graph: Graph, index: int) -> str:
    """Returns the shapes of an op's first input and output activation, without weights."""
    op = graph.ops[index]
    inputs = [graph.tensors[i] for i in op.inputs if i != ABSENT]
    sides = [t.shape for t in inputs if t.data is None], [graph.tensors[i].shape for i in op.outputs]
    return " -> ".join(_shapes(side, limit=1) for side in sides).strip()


def _live_tensors(row: OpRow) -> str:
    """Returns the largest live tensors and their sizes; `#2` is an output of op 2."""
    shown = row.live_tensors[:_MAX_TENSORS]
    names = [shorten(tensor.name) if tensor.op is None else f"#{tensor.op}" for tensor in shown]
    sizes = ["?" if tensor.bytes is None else units.size(tensor.bytes) for tensor in shown]
    listed = [f"{name} {size}" for name, size in zip(names, sizes, strict=True)]
    rest = row.live_tensor_count - len(shown)
    return ", ".join(listed) + (f" +{rest:,}" if rest else "")


def _shapes(shapes: Sequence[Shape | None], limit: int = _MAX_SHAPES) -> str:
    listed = ", ".join(map(units.shape, shapes[:limit]))
    return f"{listed} +{len(shapes) - limit}" if len(shapes) > limit else listed


def _group_entry(row: Group) -> Entry:
    # If no op of a group is known, its sums are unknown, not 0.
    is_unknown = 0 < row.ops == row.unknown_ops

    def quantity(value: int) -> int | None:
        return None if is_unknown and not value else value

    return _entry(
        (row.op_kind if row.module is None else row.module) or TOP_LEVEL,
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


def _total_row(report: Report) -> Entry:
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


def _overhead_row(report: Report) -> Entry | None:
    """Returns the row of the per-inference overhead, if the estimate has one."""
    if report.latency is None or not report.latency.overhead_seconds:
        return None
    return _entry(_OVERHEAD, *[0] * len(_SUMMED), report.latency.overhead_seconds)


def _rest_row(entries: Sequence[Entry], total: Entry, start: Entry | None) -> Entry | None:
    """Returns the difference between the total and the rows shown; None if there is none."""
    rest = [getattr(total, name) - sum(getattr(entry, name) or 0 for entry in entries) for name in _SUMMED]
    if not any(rest):
        return None
    shown = [entry.seconds or 0 for entry in (*entries, *((start,) if start else ()))]
    seconds = None if total.seconds is None else total.seconds - sum(shown)
    label = f"({rest[0]:,} more operator{'s' * (rest[0] != 1)})" if rest[0] else UNUSED_PARAMETERS
    return _entry(label, *rest, seconds)
