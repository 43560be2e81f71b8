"""The roofline of a page: what every kernel attains, under what the device can do at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizeup.latency.roofline import type_of
from sizeup.render.html.columns import coded, short
from sizeup.results.roofline import attained
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.latency import Estimate
    from sizeup.results.report import Report
    from sizeup.targets import Target


def roofline(report: Report) -> dict[str, Any] | None:
    """Points as columns, one an operator that names kernels with MACs, and roofs; None without a target."""
    found = report.latency
    if found is None or found.target is None:
        return None
    return {
        **_points(found),
        "roofs": _roofs(found.target, {type_of(name) for name in found.work.names}),
        "memories": _memories(found.target),
        "basis": found.basis,
        "target": plain(found.target.name),
        "device": plain(found.target.device.title),
        "seconds": short(found.seconds),
    }


def _points(found: Estimate) -> dict[str, Any]:
    points, work = attained(found), found.work
    kinds = dict(zip(found.executed.main.tolist(), work.kind.tolist(), strict=True))
    return {
        "op": points.ops,
        "macs": [int(each) for each in points.macs],
        "bytes": [short(each) for each in points.moved.tolist()],
        "taken": [short(each) for each in points.seconds.tolist()],
        "type": coded(type_of(work.names[kinds[op]]) for op in points.ops),
        "others": points.others,
        "others_seconds": short(points.others_seconds),
    }


def _roofs(target: Target, used: set[str]) -> list[dict[str, Any]]:
    """The rates of all number types that the runtime has kernels for, those that are used told apart."""
    kinds = dict.fromkeys((*sorted(used), *target.runtime.dtypes))
    rates = {kind: target.peak(kind) for kind in kinds}
    return [
        {"type": kind, "macs_per_second": rate, "used": kind in used}
        for kind, rate in rates.items()
        if rate is not None
    ]


def _memories(target: Target) -> list[dict[str, Any]]:
    return [
        {"name": plain(each.name), "role": each.role, "bytes_per_second": each.bytes_per_second}
        for each in target.device.memories
        if each.bytes_per_second is not None and each.role != "flash"
    ]
