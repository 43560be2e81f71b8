"""Which rows to show of a report, and how to write their numbers for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sizeup import units
from sizeup.cost import total
from sizeup.errors import SizeupError
from sizeup.graph import Shape
from sizeup.report.rollup import UNUSED_PARAMETERS, module_at, module_path
from sizeup.report.rows import Group, OpRow, intensity

if TYPE_CHECKING:
    from sizeup.report.summary import Report

By = Literal["op", "module", "kind", "precision"]

_FEW_OPS = 40
_MOST_ROWS = 30
_LEAST_ROWS = 4
_MOST_SHAPES = 2
TOP_LEVEL = "(top level)"
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

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte moved; None where something is not known."""
        if self.unknown_ops:
            return None
        return intensity(self.macs, self.read_bytes, self.written_bytes)


@dataclass(frozen=True, slots=True)
class View:
    """The rows to show; `rest` adds up those that were left out, so that all adds up to `total`."""

    by: By
    depth: int | None
    entries: tuple[Entry, ...]
    rest: Entry | None
    total: Entry


def view(report: Report, by: By | None = None, depth: int | None = None, top: int | None = None) -> View:
    """The rows asked for; without a wish by operator for small models, by module for large ones."""
    if depth is not None and by not in (None, "module"):
        raise SizeupError(f"a depth cuts modules; it does not go with rows by {by}")
    if by is None:
        by, depth, top = _usual(report, depth, top)
    total = _total(report)
    if by == "op":
        entries = [_of_op(report.ops[index]) for index in _chosen_ops(report, top)]
    else:
        if by == "module" and depth is None:
            depth = usual_depth(report)
        groups = _groups(report, by, depth)
        entries = [_of_group(each) for each in _chosen_groups(groups, top)]
    return View(by, depth, tuple(entries), _rest(entries, total), total)


def _groups(report: Report, by: By, depth: int | None) -> tuple[Group, ...]:
    if by == "kind":
        return report.by_kind()
    return report.by_precision() if by == "precision" else report.by_module(depth)


def view_of(report: Report, indices: Iterable[int]) -> View:
    """Some operators and their own total."""
    entries = tuple(_of_op(report.ops[index]) for index in indices)
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


def _of_op(row: OpRow) -> Entry:
    return Entry(
        row.scope or row.name,
        row.index,
        row.kind,
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
    )


def _shapes(shapes: Sequence[Shape | None]) -> str:
    listed = ", ".join(map(units.shape, shapes[:_MOST_SHAPES]))
    return f"{listed} +{len(shapes) - _MOST_SHAPES}" if len(shapes) > _MOST_SHAPES else listed


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


def _rest(entries: Iterable[Entry], total: Entry) -> Entry | None:
    """What the total holds beyond the rows shown; None where they are all there is."""
    left = [getattr(total, name) - sum(getattr(each, name) or 0 for each in entries) for name in _SUMMED]
    if not any(left):
        return None
    seconds = total.seconds if total.seconds is None else total.seconds - sum(e.seconds or 0 for e in entries)
    label = f"({left[0]:,} more operator{'s' * (left[0] != 1)})" if left[0] else UNUSED_PARAMETERS
    return _entry(label, *left, seconds)
