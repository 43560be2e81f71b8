"""A memory plan as plain data, JSON and CSV. Raw integers, the unit in every key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sizeup import csv_cells, units
from sizeup.dtypes import precision_name
from sizeup.render import envelope
from sizeup.render.data.report import arena_figures

if TYPE_CHECKING:
    from sizeup.results.plan import Plan, PlannedTensor

_COLUMNS = ("tensor", "name", "shape", "dtype", "bytes", "offset", "first_step", "last_step", "buffer")


def to_dict(plan: Plan) -> dict[str, Any]:
    """Returns the plan as plain data."""
    return {**_head(plan), "tensors": [_tensor(place) for place in plan.planned_tensors()]}


def json_lines(plan: Plan) -> Iterator[str]:
    """Yields the plan as JSON text, one key or tensor per line."""
    yield "{\n"
    for key, value in _head(plan).items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    rows = ",\n    ".join(json.dumps(_tensor(place)) for place in plan.planned_tensors())
    yield f'  "tensors": [\n    {rows}\n  ]\n}}\n' if rows else '  "tensors": []\n}\n'


def csv_lines(plan: Plan, *, raw: bool = False) -> Iterator[str]:
    """Yields one line per tensor after a line of column names; tensors of one buffer are aliases."""
    rows = (
        {**_tensor(place), "shape": units.shape(place.shape)}.values() for place in plan.planned_tensors()
    )
    return csv_cells.csv_lines(_COLUMNS, rows, raw=raw)


def _head(plan: Plan) -> dict[str, Any]:
    ordering = plan.memory_plan.best_schedule
    return {
        **envelope.head(),
        "model": {"name": plan.name, "format": plan.graph.format},
        "target": None if plan.target is None else plan.target.name,
        "precision": None if plan.precision is None else precision_name(plan.precision),
        "peak": {
            "file_schedule_bytes": plan.file_schedule_peak_bytes,
            "bytes": plan.peak_bytes,
            "step": plan.peak_step,
            "op": plan.peak_op,
            "tensors": [{"name": tensor.name, "bytes": tensor.bytes} for tensor in plan.peak_tensors],
        },
        "plan": {
            "bytes": plan.plan_bytes,
            "lower_bound_bytes": plan.lower_bound_bytes,
            "status": plan.status,
            "alignment_bytes": plan.alignment,
        },
        "schedule": {
            "moved_ops": plan.moved_ops,
            "status": None if ordering is None else ordering.status,
            "lower_bound_bytes": None if ordering is None else ordering.lower_bound_bytes,
            "ops": list(plan.schedule),
        },
        "tflite_micro": _arena(plan),
        "notes": list(plan.notes),
    }


def _arena(plan: Plan) -> dict[str, Any] | None:
    """Returns the arena that the interpreter needs for the file; None for other formats."""
    if plan.tflm_arena is None and plan.unsupported_reason is None:
        return None
    return {**arena_figures(plan.tflm_arena), "unsupported_reason": plan.unsupported_reason}


def _tensor(place: PlannedTensor) -> dict[str, Any]:
    shape = None if place.shape is None else list(place.shape)
    return {name: shape if name == "shape" else getattr(place, name) for name in _COLUMNS}
