"""What the scripts of a page read: operators, tensors, memory map and roofline as columns of plain data."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.graph import Graph, name_of
from sizeup.results.memory_map import MemoryMap
from sizeup.results.rollup import UNUSED_PARAMETERS, precision_of
from sizeup.results.rows import LIMITS
from sizeup.units import plain, short

if TYPE_CHECKING:
    from sizeup.results.report import Report
    from sizeup.targets import Target


def coded(values: Iterable[Hashable]) -> dict[str, list[Any]]:
    """A column whose values repeat: every value once, and its place for each row."""
    places: dict[Hashable, int] = {}
    rows = [places.setdefault(value, len(places)) for value in values]
    return {"values": list(places), "rows": rows}


def grouped(lists: Iterable[Sequence[int]]) -> dict[str, list[int]]:
    """Lists one after the other: those of row i are items[first[i]:first[i + 1]]."""
    first, items = [0], list[int]()
    for each in lists:
        items += each
        first.append(len(items))
    return {"first": first, "items": items}


def operators(report: Report) -> dict[str, Any]:
    """One entry an operator in every column; what is not known is null."""
    graph, cost, moved = report.graph, report.cost, report.moved
    seconds, bounds = (None, None) if report.latency is None else report.latency.by_op()
    unknown = ~cost.known
    return {
        "name": [plain(name_of(graph, op)) for op in graph.ops],
        "kind": coded(plain(op.kind) for op in graph.ops),
        "source": coded(plain(op.source) for op in graph.ops),
        "scope": coded(plain(op.scope) for op in graph.ops),
        "type": coded(precision_of(graph, op, report.precision) for op in graph.ops),
        "inputs": grouped(op.inputs for op in graph.ops),
        "outputs": grouped(op.outputs for op in graph.ops),
        "macs": _known(cost.macs, unknown),
        "elementwise": _known(cost.elementwise, unknown),
        "params": cost.params.tolist(),
        "read": _known(moved.read, unknown),
        "written": _known(moved.written, unknown),
        "live": report.memory.usage.live_bytes.tolist(),
        "seconds": None if seconds is None else [short(each) for each in seconds.tolist()],
        "bound": None if bounds is None else coded(LIMITS.get(each or "", each) for each in bounds),
        "reasons": {str(index): plain(reason) for index, reason in cost.reasons.items()},
        "unused": {"label": UNUSED_PARAMETERS, "params": report.totals.params - sum(cost.params.tolist())},
    }


def _known(column: np.ndarray[Any, np.dtype[np.int64]], unknown: np.ndarray[Any, Any]) -> list[int | None]:
    """A column in which an unknown row that adds nothing certain is null."""
    values: list[int | None] = column.tolist()
    for index in np.flatnonzero(unknown & (column == 0)).tolist():
        values[index] = None
    return values


def tensors(report: Report) -> dict[str, Any]:
    """One entry a tensor in every column."""
    graph: Graph = report.graph
    asked = report.precision
    kinds = (
        precision_name(asked if asked is not None and each.follows_precision else each.dtype)
        for each in graph.tensors
    )
    return {
        "name": [plain(each.name) for each in graph.tensors],
        "shape": coded(units.shape(each.shape) for each in graph.tensors),
        "type": coded(kinds),
        "bytes": list(report.tensor_bytes),
        "constant": [int(each.data is not None) for each in graph.tensors],
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
    }


def places(report: Report) -> dict[str, Any] | None:
    """The memory map: boxes as columns, and what placed them so; None if there is none."""
    boxes, usage = report.memory_map, report.memory.usage
    if boxes is None:
        return None
    return {
        "tensors": grouped(boxes.tensors),
        "first": boxes.first,
        "last": boxes.last,
        "size": boxes.size,
        "offset": boxes.offset,
        "height": boxes.height,
        "caption": _caption(boxes, usage.peak_bytes),
        "peak_bytes": usage.peak_bytes,
        "peak_op": usage.peak_op,
    }


def _caption(boxes: MemoryMap, peak: int) -> str:
    if boxes.is_micro:
        return f"As TFLite Micro lays it: the head of its arena, {boxes.height:,} B."
    others = f"{peak:,} B are in use at once. sizeup plan searches for the best place of every tensor."
    above = "no plan needs less." if boxes.height == peak else others
    return f"Laid by first fit into {boxes.height:,} B; {above}"


def roofline(report: Report) -> dict[str, Any] | None:
    """Points as columns, one per operator that names kernels with MACs, and roofs; None without a target."""
    found, lines = report.latency, report.roofline
    if found is None or found.target is None or lines is None:
        return None
    points = lines.points
    return {
        "op": points.ops,
        "macs": [int(each) for each in points.macs],
        "bytes": [short(each) for each in points.moved.tolist()],
        "taken": [short(each) for each in points.seconds.tolist()],
        "type": coded(lines.types),
        "others": points.others,
        "others_seconds": short(points.others_seconds),
        "roofs": [
            {"type": each.dtype, "macs_per_second": each.macs_per_second, "used": each.is_used}
            for each in lines.roofs
        ],
        "memories": _memories(found.target),
        "basis": found.basis,
        "target": plain(found.target.name),
        "device": plain(found.target.device.title),
        "seconds": short(found.seconds),
    }


def _memories(target: Target) -> list[dict[str, Any]]:
    return [
        {"name": plain(each.name), "role": each.role, "bytes_per_second": each.bytes_per_second}
        for each in target.device.memories
        if each.bytes_per_second is not None and each.role != "flash"
    ]
