"""The roofline of a page: what every kernel attains, under what the device can do at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizeup.render.html.columns import coded
from sizeup.results.roofline import attained, roofs_of, types_by_op, used_types
from sizeup.units import plain, short

if TYPE_CHECKING:
    from sizeup.results.parts import Estimate
    from sizeup.results.report import Report
    from sizeup.targets import Target


def roofline(report: Report) -> dict[str, Any] | None:
    """Points as columns, one an operator that names kernels with MACs, and roofs; None without a target."""
    found = report.latency
    if found is None or found.target is None:
        return None
    return {
        **_points(found),
        "roofs": [
            {"type": each.dtype, "macs_per_second": each.macs_per_second, "used": each.is_used}
            for each in roofs_of(found.target, used_types(found))
        ],
        "memories": _memories(found.target),
        "basis": found.basis,
        "target": plain(found.target.name),
        "device": plain(found.target.device.title),
        "seconds": short(found.seconds),
    }


def _points(found: Estimate) -> dict[str, Any]:
    points = attained(found)
    return {
        "op": points.ops,
        "macs": [int(each) for each in points.macs],
        "bytes": [short(each) for each in points.moved.tolist()],
        "taken": [short(each) for each in points.seconds.tolist()],
        "type": coded(types_by_op(found, points.ops)),
        "others": points.others,
        "others_seconds": short(points.others_seconds),
    }


def _memories(target: Target) -> list[dict[str, Any]]:
    return [
        {"name": plain(each.name), "role": each.role, "bytes_per_second": each.bytes_per_second}
        for each in target.device.memories
        if each.bytes_per_second is not None and each.role != "flash"
    ]
