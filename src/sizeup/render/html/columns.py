"""The data of the page's scripts: operators, tensors, memory map and roofline as columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.graph import Graph, name_of
from sizeup.results.memory_layout import MemoryLayout
from sizeup.results.rollup import UNUSED_PARAMETERS, precision_of
from sizeup.results.rows import BOUND_LABELS
from sizeup.units import printable, round_digits

if TYPE_CHECKING:
    from sizeup.results.report import Report
    from sizeup.targets import Target


def coded(values: Iterable[Hashable]) -> dict[str, list[Any]]:
    """Returns a column as its distinct values and an index per row."""
    codes: dict[Hashable, int] = {}
    rows = [codes.setdefault(value, len(codes)) for value in values]
    return {"values": list(codes), "rows": rows}


def grouped(lists: Iterable[Sequence[int]]) -> dict[str, list[int]]:
    """Returns concatenated lists: those of row i are items[first[i]:first[i + 1]]."""
    first, items = [0], list[int]()
    for row in lists:
        items += row
        first.append(len(items))
    return {"first": first, "items": items}


def operators(report: Report) -> dict[str, Any]:
    """Returns columns with one entry per operator; unknown values are null."""
    graph, cost, moved = report.graph, report.cost, report.traffic
    seconds, bounds = (None, None) if report.latency is None else report.latency.by_op()
    unknown = ~cost.known
    return {
        "name": [printable(name_of(graph, op)) for op in graph.ops],
        "op_kind": coded(printable(op.kind) for op in graph.ops),
        "source": coded(printable(op.source) for op in graph.ops),
        "scope": coded(printable(op.scope) for op in graph.ops),
        "type": coded(precision_of(graph, op, report.precision) for op in graph.ops),
        "inputs": grouped(op.inputs for op in graph.ops),
        "outputs": grouped(op.outputs for op in graph.ops),
        "macs": _known(cost.macs, unknown),
        "elementwise": _known(cost.elementwise, unknown),
        "params": cost.params.tolist(),
        "read": _known(moved.read, unknown),
        "written": _known(moved.written, unknown),
        "live": report.memory.usage.live_bytes.tolist(),
        "seconds": None if seconds is None else [round_digits(value) for value in seconds.tolist()],
        "bound": None if bounds is None else coded(BOUND_LABELS.get(value or "", value) for value in bounds),
        "reasons": {str(index): printable(reason) for index, reason in cost.reasons.items()},
        "unused": {"label": UNUSED_PARAMETERS, "params": report.totals.params - sum(cost.params.tolist())},
    }


def _known(column: np.ndarray[Any, np.dtype[np.int64]], unknown: np.ndarray[Any, Any]) -> list[int | None]:
    """Returns a column in which zeros of unknown rows are null."""
    values: list[int | None] = column.tolist()
    for index in np.flatnonzero(unknown & (column == 0)).tolist():
        values[index] = None
    return values


def tensors(report: Report) -> dict[str, Any]:
    """Returns columns with one entry per tensor."""
    graph: Graph = report.graph
    precision = report.precision
    dtypes = (
        precision_name(precision if precision is not None and tensor.follows_precision else tensor.dtype)
        for tensor in graph.tensors
    )
    return {
        "name": [printable(tensor.name) for tensor in graph.tensors],
        "shape": coded(units.shape(tensor.shape) for tensor in graph.tensors),
        "type": coded(dtypes),
        "bytes": list(report.tensor_bytes),
        "constant": [int(tensor.data is not None) for tensor in graph.tensors],
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
    }


def memory_map(report: Report) -> dict[str, Any] | None:
    """Returns the boxes of the memory map as columns, and its caption; None if there is none."""
    boxes, usage = report.memory_layout, report.memory.usage
    if boxes is None:
        return None
    return {
        "tensors": grouped(boxes.tensors),
        "first": boxes.first,
        "last": boxes.last,
        "size": boxes.size,
        "offset": boxes.offset,
        "height": boxes.height,
        "caption": _caption(boxes, usage.peak_bytes, is_compiled=report.npu is not None),
        "peak_bytes": usage.peak_bytes,
        "peak_op": usage.peak_op,
    }


def _caption(boxes: MemoryLayout, peak: int, *, is_compiled: bool) -> str:
    if is_compiled:
        return f"First-fit memory plan of {boxes.height:,} B for the model as it is, without an NPU."
    if boxes.is_tflm:
        return f"Memory plan of TFLite Micro: arena head of {boxes.height:,} B."
    bound = f"the lower bound is {peak:,} B. sizeup plan searches for the best memory plan."
    optimality = "no plan needs less." if boxes.height == peak else bound
    return f"First-fit memory plan of {boxes.height:,} B; {optimality}"


def roofline(report: Report) -> dict[str, Any] | None:
    """Returns one point per operator with MACs as columns, and the roofs; None without a target."""
    estimate, lines = report.latency, report.roofline
    if estimate is None or estimate.target is None or lines is None:
        return None
    points = lines.points
    return {
        "op": points.ops,
        "macs": [int(value) for value in points.macs],
        "bytes": [round_digits(value) for value in points.traffic.tolist()],
        "op_seconds": [round_digits(value) for value in points.seconds.tolist()],
        "type": coded(lines.dtypes),
        "others": points.ops_without_macs,
        "others_seconds": round_digits(points.seconds_without_macs),
        "roofs": [
            {"type": value.dtype, "macs_per_second": value.macs_per_second, "used": value.is_used}
            for value in lines.roofs
        ],
        "memories": _memories(estimate.target),
        "basis": estimate.basis,
        "target": printable(estimate.target.name),
        "device": printable(estimate.target.title),
        "seconds": round_digits(estimate.seconds),
    }


def _memories(target: Target) -> list[dict[str, Any]]:
    return [
        {"name": printable(memory.name), "role": memory.role, "bytes_per_second": memory.bytes_per_second}
        for memory in target.device.memories
        if memory.bytes_per_second is not None and memory.role != "flash"
    ]
