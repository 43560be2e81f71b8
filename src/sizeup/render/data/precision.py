"""Results of the precision verbs as plain data, CSV and a data frame. Raw numbers, the unit in every key."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sizeup import csv_cells
from sizeup.dtypes import precision_name
from sizeup.graph import Shape
from sizeup.render import envelope
from sizeup.render.data.frames import frame_of
from sizeup.results.precision import BUDGETS, budgets_with_verdict

if TYPE_CHECKING:
    from sizeup.results.parts import Estimate, LayerSizes, Point, Row
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront, Tradeoff


def assignment(assigned: PrecisionAssignment) -> dict[str, Any]:
    """Returns the result as plain data, in bytes, seconds and joules."""
    return {
        **envelope.head(),
        "model": {"name": assigned.graph.name, "format": assigned.graph.format},
        "target": None if assigned.options.target is None else assigned.options.target.name,
        "loss": assigned.assignment.loss,
        "loss_basis": assigned.basis,
        "measured": None if assigned.measured is None else assigned.measured.losses.to_dict(),
        "float_accuracy": None if assigned.measured is None else assigned.measured.table.baseline.accuracy,
        "proven": assigned.assignment.is_proven,
        "gap": assigned.assignment.gap,
        "budgets": {name: getattr(assigned.budgets, name) for name in BUDGETS},
        "undetermined_budgets": list(assigned.undetermined_budgets),
        "figures": {name: getattr(assigned.assignment.figures, name) for name in BUDGETS},
        "latency": None if assigned.estimate is None else _latency(assigned.estimate),
        "no_latency_reason": assigned.no_latency_reason or None,
        "unsupported": list(assigned.options.unsupported),
        "original": {name: getattr(assigned.original, name) for name in BUDGETS},
        "binding": list(assigned.assignment.binding),
        "gains": assigned.assignment.gains,
        "layers": [
            {
                "op": layer.op,
                "name": layer.name,
                "op_kind": layer.kind,
                "precision": precision_name(assigned.assignment.dtypes[layer.op]),
                "loss": assigned.losses[layer.op],
            }
            for layer in assigned.options.layers
        ],
        "mapping": assigned.precision_map,
    }


def _latency(estimate: Estimate) -> dict[str, Any]:
    """Returns an estimate under the keys of a report."""
    return {
        "ms": estimate.ms,
        "low_ms": estimate.low_ms,
        "high_ms": estimate.high_ms,
        "basis": estimate.basis,
    }


def mapping_lines(assigned: PrecisionAssignment) -> Iterator[str]:
    """Yields the precision map as JSON text, which `analyze --precision` reads."""
    yield json.dumps(assigned.precision_map, indent=2)
    yield "\n"


def front(result: PrecisionFront) -> dict[str, Any]:
    """Returns the result as plain data, in bytes, seconds and joules."""
    return {
        **envelope.head(),
        "model": {"name": result.options.graph.name, "format": result.options.graph.format},
        "target": None if result.options.target is None else result.options.target.name,
        "axes": list(result.axes),
        "loss_basis": result.basis,
        "budgets": {name: getattr(result.budgets, name) for name in BUDGETS},
        "undetermined_budgets": list(result.undetermined_budgets),
        "assignments": [
            {**row, "layers": {f"#{op}": precision_name(dtype) for op, dtype in choice.dtypes.items()}}
            for row, choice in zip(_front_rows(result), result.assignments, strict=True)
        ],
    }


def _front_rows(result: PrecisionFront) -> list[dict[str, Any]]:
    return [
        {
            "loss": loss,
            **{name: getattr(choice.figures, name) for name in BUDGETS},
            "proven": choice.is_proven,
            "gap": choice.gap,
            "is_lower_bound": choice.figures.is_lower_bound,  # of seconds and joules
        }
        for loss, choice in zip(result.losses, result.assignments, strict=True)
    ]


def front_csv_lines(result: PrecisionFront, *, raw: bool = False) -> Iterator[str]:
    """Yields one line per assignment."""
    rows = (row.values() for row in _front_rows(result))
    return csv_cells.csv_lines(("loss", *BUDGETS, "proven", "gap", "is_lower_bound"), rows, raw=raw)


def fits(result: PrecisionFits) -> dict[str, Any]:
    """Returns the result as plain data, in bytes."""
    return {
        **envelope.head(),
        "model": {"name": result.graph.name, "format": result.graph.format},
        "threshold_bytes": result.threshold_bytes,
        "measure": result.measure,
        "layers": [_layer(result, layer) for layer in result.layers],
    }


def _layer(result: PrecisionFits, layer: LayerSizes) -> dict[str, Any]:
    names = [precision_name(precision) for precision in result.precisions]

    def by_precision(sizes: Sequence[int]) -> dict[str, int | None]:
        return {name: size if layer.is_known else None for name, size in zip(names, sizes, strict=True)}

    return {
        "op": layer.layer.op,
        "name": layer.layer.name,
        "op_kind": layer.layer.kind,
        "input_shapes": _lists(layer.input_shapes),
        "output_shapes": _lists(layer.output_shapes),
        "read_bytes": by_precision(layer.read_bytes),
        "written_bytes": by_precision(layer.written_bytes),
        "bytes": by_precision(layer.bytes),
        "fits": list(layer.fitting_precisions) if layer.is_known else None,
    }


def _lists(shapes: Sequence[Shape | None]) -> list[list[int] | None]:
    return [None if shape is None else list(shape) for shape in shapes]


_MEGA = 1e6


def _thousandfold(value: float | None) -> float | None:
    return None if value is None else 1e3 * value


def _mega(value: float | None) -> float | None:
    return None if value is None else value / _MEGA


def _figure(name: str) -> Callable[[Point], Any]:
    return lambda point: None if point.figures is None else getattr(point.figures, name)


def _milliseconds(name: str) -> Callable[[Point], float | None]:
    return lambda point: None if point.latency is None else _thousandfold(getattr(point.latency, name))


# The columns of CSV files, JSON points and data frames; docs/precision.md describes them.
COLUMNS: dict[str, Callable[[Point], Any]] = {
    "precision": lambda point: point.precision,
    "batch": lambda point: point.batch,
    "size": lambda point: point.size,
    "accuracy": lambda point: point.accuracy,
    "agreement": lambda point: point.agreement,
    "latency_ms": _milliseconds("seconds"),
    "latency_low_ms": _milliseconds("low"),
    "latency_high_ms": _milliseconds("high"),
    "latency_basis": lambda point: None if point.latency is None else point.latency.basis,
    "energy_j": _figure("joules"),
    "energy_proxy_j": _figure("joules"),
    "energy_basis": lambda point: point.energy_basis,
    "memory_mb": lambda point: _mega(point.memory_bytes),
    "weight_bytes": _figure("weight_bytes"),
    "activation_bytes": _figure("activation_bytes"),
    "accepted": lambda point: point.accepted,
    "accepted_by": lambda point: budgets_with_verdict(point, True) or None,
    "undetermined_by": lambda point: budgets_with_verdict(point, None) or None,
}
_REAL = tuple(
    name for name in COLUMNS if name.endswith(("_ms", "_j", "_mb")) or name in ("accuracy", "agreement")
)


def tradeoff(result: Tradeoff) -> dict[str, Any]:
    """Returns the trade-off as plain data."""
    return {
        **envelope.head(),
        "model": {"name": result.name},
        "target": result.target,
        "budgets": {name: getattr(result.budgets, name) for name in BUDGETS},
        "notes": [f"{label}: {text}" for label, text in result.provenance()],
        "precisions": [_means(row) for row in result.rows],
        "points": [{**_cells(point), "budgets": dict(point.verdicts)} for point in result.points],
        "unsupported": [
            {
                "precision": point.precision,
                "batch": point.batch,
                "size": point.size,
                "reason": point.unsupported,
            }
            for point in result.unsupported
        ],
    }


def tradeoff_csv_lines(result: Tradeoff, *, raw: bool = False) -> Iterator[str]:
    """Yields one line per point."""
    return csv_cells.csv_lines(COLUMNS, (_cells(point).values() for point in result.points), raw=raw)


def tradeoff_frame(result: Tradeoff) -> Any:
    """Returns one row per point with the columns of the CSV file; unknown numbers are NaN."""
    columns: dict[str, list[Any]] = {
        name: [read(value) for value in result.points] for name, read in COLUMNS.items()
    }
    for name in _REAL:
        columns[name] = [math.nan if value is None else value for value in columns[name]]
    return frame_of(columns)


def _cells(point: Point) -> dict[str, Any]:
    return {name: read(point) for name, read in COLUMNS.items()}


def _means(row: Row) -> dict[str, Any]:
    """Returns the means of a precision."""
    return {
        "precision": row.precision,
        "points": row.points,
        "accuracy_mean": row.accuracy,
        "agreement_mean": row.agreement,
        "latency_ms_mean": _thousandfold(row.seconds),
        "memory_mb_mean": _mega(row.memory_bytes),
        "energy_j_mean": row.joules,
        "accepted_ratio": row.accepted_ratio,
    }
