"""Machine-readable reports: plain data, JSON and CSV. Raw integers, the unit in every key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sizeup import csv_cells, units
from sizeup.dtypes import precision_name
from sizeup.render import envelope
from sizeup.results.rows import OpRow, Port

if TYPE_CHECKING:
    from sizeup.results.parts import Bound, Counted, Hardware, Limited, MicroArena, ModuleTime, Spent
    from sizeup.results.report import LatencyDetails, Report

# Its keys are the names of the columns, also where there is no operator.
_BLANK = OpRow(0, "", "", "", "", (), (), None, 0, 0, 0, 0, 0, 0, None, None, None, False, (), 0)


def to_dict(report: Report) -> dict[str, Any]:
    """The whole report as plain data."""
    return {**_head(report), "ops": [_op(row) for row in report.ops]}


def json_lines(report: Report) -> Iterator[str]:
    """The whole report as JSON text, one key or operator a line, made piece by piece."""
    yield "{\n"
    for key, value in _head(report).items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    yield '  "ops": ['
    separator = "\n    "
    for row in report.ops:
        yield separator + json.dumps(_op(row))
        separator = ",\n    "
    yield "\n  ]\n}\n" if len(report.ops) else "]\n}\n"


def csv_lines(report: Report, *, raw: bool = False) -> Iterator[str]:
    """One line an operator under a line of names; what is not known is empty."""
    rows = ([_csv_cell(value) for value in _op(row).values()] for row in report.ops)
    return csv_cells.csv_lines(_op(_BLANK), rows, raw=raw)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return json.dumps(value)  # names hold any separator
    if isinstance(value, list):
        return ";".join(units.shape(None if each is None else tuple(each)) for each in value)
    return value


def _head(report: Report) -> dict[str, Any]:
    totals = report.totals
    return {
        **envelope.head(),
        "model": {
            "name": report.name,
            "format": report.format,
            "sha256": report.sha256,
            "inputs": [_port(each) for each in report.inputs],
            "outputs": [_port(each) for each in report.outputs],
        },
        "precision": None if report.precision is None else precision_name(report.precision),
        "coverage": {
            "ops": len(report.ops),
            "known_ops": report.known_ops,
            "share": report.coverage,
            "unknown": [
                {"kind": each.kind, "count": each.count, "reason": each.reason} for each in report.unknown
            ],
        },
        "totals": {
            "complete": not report.unknown,
            "macs": _certain(report, totals.macs),
            "flops": _certain(report, totals.flops),
            "elementwise_ops": _certain(report, totals.elementwise_ops),
            "params": totals.params,
            "weight_bytes": totals.weight_bytes,
            "read_bytes": totals.read_bytes,
            "written_bytes": totals.written_bytes,
        },
        "memory": _memory(report),
        "latency": _latency(report),
        "notes": list(report.notes),
        **({} if report.convention is None else {"convention": convention_to_dict(report.convention)}),
    }


def _certain(report: Report, value: int) -> int | None:
    """A total; None where there are unknown operators and nothing else, which is not the same as zero."""
    return None if report.unknown and not value else value


def _memory(report: Report) -> dict[str, Any]:
    found = report.memory
    usage = found.usage
    if usage.missing:
        return {"unavailable": usage.missing}
    return {
        "peak_bytes": usage.peak_bytes,
        "peak_op": usage.peak_op,
        "peak_tensors": [{"name": each.name, "bytes": each.bytes} for each in usage.held],
        "unmodelled_kernels": list(usage.unmodelled),
        "best_peak_bytes": found.best_peak_bytes,
        "lower_bound_bytes": found.lower_bound_bytes,
        "status": found.status,
        **arena_figures(found.arena, found.word_bits),
        "refused": found.refused,
    }


def arena_figures(arena: MicroArena | None, word_bits: int = 32) -> dict[str, Any]:
    """TFLite Micro's arena in bytes on a processor of that word size, and on a 64-bit one."""
    return {
        "arena_bytes": None if arena is None else arena.arena_bytes(word_bits),
        "arena_head_bytes": None if arena is None else arena.head_bytes,
        "arena_tail_bytes": None if arena is None else arena.tail_bytes(word_bits),
        "arena_word_bits": None if arena is None else word_bits,
        "arena_bytes_64": None if arena is None else arena.arena_bytes(64),
        "arena_tail_bytes_64": None if arena is None else arena.tail_bytes(64),
        "overlapping_tensors": None if arena is None else arena.overlapping,
    }


def _latency(report: Report) -> dict[str, Any]:
    if report.latency_details is None:
        return {"unavailable": report.no_latency}
    return latency_to_dict(report.latency_details)


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "shape": _shape(port.shape), "dtype": port.dtype}


def _shape(shape: tuple[int, ...] | None) -> list[int] | None:
    return None if shape is None else list(shape)


def _op(row: OpRow) -> dict[str, Any]:
    return {
        "index": row.index,
        "name": row.name,
        "kind": row.kind,
        "source": row.source,
        "scope": row.scope,
        "input_shapes": [_shape(each) for each in row.input_shapes],
        "output_shapes": [_shape(each) for each in row.output_shapes],
        "precision": row.precision,
        "macs": row.macs,
        "elementwise_ops": row.elementwise_ops,
        "params": row.params,
        "read_bytes": row.read_bytes,
        "written_bytes": row.written_bytes,
        "intensity": row.intensity,
        "live_bytes": row.live_bytes,
        "ms": row.ms,
        "bound_by": row.bound_by,
        "known": row.known,
        "reason": row.reason,
        "depthwise": row.depthwise,
        "live_tensors": [each._asdict() for each in row.live_tensors],
        "live_tensor_count": row.live_tensor_count,
    }


def latency_to_dict(details: LatencyDetails) -> dict[str, Any]:
    """The estimate as plain data."""
    found = details.estimate
    return {
        "target": None if found.target is None else found.target.name,
        "ms": found.ms,
        "low_ms": found.low_ms,
        "high_ms": found.high_ms,
        "level": found.level,
        "basis": found.basis,
        "origin": found.origin,
        "run_ms": 1e3 * found.run_seconds,
        "kernels": int(found.work.count.sum()),
        "notes": list(found.notes),
        "attained": plain(details.hardware),
        "energy": plain(details.energy),
        "bound_by": _limits_to_dict(details.bound_by),
        "flops_per_byte": details.flops_per_byte,
    }


def _limits_to_dict(limits: Mapping[Bound, Limited] | None) -> dict[str, Any] | None:
    if limits is None:
        return None
    return {
        bound: {"ops": each.ops, "ms": 1e3 * each.seconds, "share": each.share}
        for bound, each in limits.items()
    }


def plain(found: Hardware | Spent | ModuleTime | None) -> dict[str, Any] | None:
    """The same as plain data."""
    return None if found is None else {name: getattr(found, name) for name in type(found).__slots__}


def convention_to_dict(counted: Counted) -> dict[str, Any]:
    """The same as plain data."""
    convention = counted.convention
    return {
        "name": convention.name,
        "title": convention.title,
        "unit": convention.unit,
        "total": counted.whole_total,
        "not_reproduced_ops": counted.untold,
        "less_macs_by_kind": counted.differences_by_kind(),
    }
