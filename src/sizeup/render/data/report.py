"""A report as plain data, JSON and CSV. Raw integers, the unit in every key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sizeup import csv_cells, units
from sizeup.dtypes import precision_name
from sizeup.render import envelope
from sizeup.render.data.devices import standing_to_dict
from sizeup.render.data.npu import npu_to_dict
from sizeup.render.vocabulary import shortfall
from sizeup.results.rows import OpRow, Port

if TYPE_CHECKING:
    from sizeup.results.parts import (
        Bound,
        ConventionCounts,
        EnergyEstimate,
        LimiterShare,
        MicroArena,
        ModuleTime,
        PipelinedThroughput,
        Throughput,
    )
    from sizeup.results.report import LatencyDetails, Report

# Its keys are the columns, also of a report without operators.
_BLANK = OpRow(0, "", "", "", "", (), (), None, 0, 0, 0, 0, 0, 0, None, None, None, False, (), 0)


def to_dict(report: Report) -> dict[str, Any]:
    """Returns the report as plain data."""
    return {**_head(report), "ops": [_op(row) for row in report.ops]}


def json_lines(report: Report) -> Iterator[str]:
    """Yields the report as JSON text, one key or operator per line."""
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
    """Yields one line per operator after a line of column names; unknown values are empty."""
    rows = ([_csv_cell(value) for value in _op(row).values()] for row in report.ops)
    return csv_cells.csv_lines(_op(_BLANK), rows, raw=raw)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return json.dumps(value)  # names may contain any separator
    if isinstance(value, list):
        return ";".join(units.shape(None if shape is None else tuple(shape)) for shape in value)
    return value


def _head(report: Report) -> dict[str, Any]:
    totals = report.totals
    return {
        **envelope.head(),
        "model": {
            "name": report.name,
            "format": report.format,
            "sha256": report.sha256,
            "inputs": [_port(item) for item in report.inputs],
            "outputs": [_port(item) for item in report.outputs],
        },
        "precision": None if report.precision is None else precision_name(report.precision),
        "coverage": {
            "ops": len(report.ops),
            "known_ops": report.known_ops,
            "share": report.coverage,
            "unknown": [
                {"op_kind": item.op_kind, "count": item.count, "reason": item.reason}
                for item in report.unknown_ops
            ],
        },
        "totals": {
            "complete": not report.unknown_ops,
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
        **({} if report.npu is None else {"npu": npu_to_dict(report.npu)}),
        "notes": [*filter(None, [shortfall(report)]), *report.notes],
        **({} if report.convention is None else {"convention": convention_to_dict(report.convention)}),
    }


def _certain(report: Report, value: int) -> int | None:
    """Returns a total; None if it is zero because operators are unknown."""
    return None if report.unknown_ops and not value else value


def _memory(report: Report) -> dict[str, Any]:
    memory = report.memory
    usage = memory.usage
    if usage.unavailable_reason:
        return {"unavailable": usage.unavailable_reason}
    return {
        "peak_bytes": usage.peak_bytes,
        "peak_op": usage.peak_op,
        "peak_tensors": [{"name": tensor.name, "bytes": tensor.bytes} for tensor in usage.peak_tensors],
        "unmodeled_kernels": list(usage.unmodeled),
        "allocated_bytes": None if memory.device_memory is None else memory.device_memory.allocated_bytes,
        "reserved_bytes": None if memory.device_memory is None else memory.device_memory.reserved_bytes,
        "best_peak_bytes": memory.best_peak_bytes,
        "lower_bound_bytes": memory.lower_bound_bytes,
        "status": memory.status,
        **arena_figures(memory.arena, memory.word_bits),
        "unsupported_reason": memory.unsupported_reason,
    }


def arena_figures(arena: MicroArena | None, word_bits: int = 32) -> dict[str, Any]:
    """Returns the arena of TFLite Micro in bytes for that word size, and for 64 bits."""
    return {
        "arena_bytes": None if arena is None else arena.arena_bytes(word_bits),
        "arena_head_bytes": None if arena is None else arena.head_bytes,
        "arena_tail_bytes": None if arena is None else arena.tail_bytes(word_bits),
        "arena_word_bits": None if arena is None else word_bits,
        "arena_bytes_64": None if arena is None else arena.arena_bytes(64),
        "arena_tail_bytes_64": None if arena is None else arena.tail_bytes(64),
        "overlapping_tensors": None if arena is None else arena.overlapping_tensors,
    }


def _latency(report: Report) -> dict[str, Any]:
    if report.latency_details is None:
        return {"unavailable": report.no_latency_reason}
    return latency_to_dict(report.latency_details)


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "shape": _shape(port.shape), "dtype": port.dtype}


def _shape(shape: tuple[int, ...] | None) -> list[int] | None:
    return None if shape is None else list(shape)


def _op(row: OpRow) -> dict[str, Any]:
    return {
        "index": row.index,
        "name": row.name,
        "op_kind": row.op_kind,
        "source": row.source,
        "scope": row.scope,
        "input_shapes": [_shape(shape) for shape in row.input_shapes],
        "output_shapes": [_shape(shape) for shape in row.output_shapes],
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
        "live_tensors": [shape._asdict() for shape in row.live_tensors],
        "live_tensor_count": row.live_tensor_count,
    }


def latency_to_dict(details: LatencyDetails) -> dict[str, Any]:
    """Returns a latency estimate as plain data."""
    estimate = details.estimate
    return {
        "target": None if estimate.target is None else estimate.target.name,
        "ms": estimate.ms,
        "low_ms": estimate.low_ms,
        "high_ms": estimate.high_ms,
        "level": estimate.level,
        "basis": estimate.basis,
        "provenance": estimate.provenance,
        "standing": None if estimate.standing is None else standing_to_dict(estimate.standing),
        "overhead_ms": 1e3 * estimate.overhead_seconds,
        "kernels": int(estimate.work.count.sum()),
        "notes": list(estimate.notes),
        "pipelined": plain(estimate.pipelined),
        "throughput": plain(details.throughput),
        "energy": plain(details.energy),
        "bound_by": _limits_to_dict(details.bound_by),
        "flops_per_byte": details.flops_per_byte,
    }


def _limits_to_dict(limits: Mapping[Bound, LimiterShare] | None) -> dict[str, Any] | None:
    if limits is None:
        return None
    return {
        bound: {"ops": limited.ops, "ms": 1e3 * limited.seconds, "share": limited.share}
        for bound, limited in limits.items()
    }


def plain(
    record: Throughput | PipelinedThroughput | EnergyEstimate | ModuleTime | None,
) -> dict[str, Any] | None:
    """Returns the fields of a record as plain data."""
    return None if record is None else {name: getattr(record, name) for name in type(record).__slots__}


def convention_to_dict(counted: ConventionCounts) -> dict[str, Any]:
    """Returns the count of another tool as plain data."""
    convention = counted.convention
    return {
        "name": convention.name,
        "title": convention.title,
        "unit": convention.unit,
        "total": counted.exact_total,
        "not_reproduced_ops": counted.not_reproduced,
        "minus_macs_by_op_kind": counted.differences_by_kind(),
    }
