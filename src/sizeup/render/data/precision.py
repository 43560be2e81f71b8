"""What the precision verbs find, as plain data, CSV and a data frame. Raw numbers, the unit in every key."""

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
from sizeup.results.precision import BUDGETS, names_of

if TYPE_CHECKING:
    from sizeup.results.parts import Estimate, Point, Row, Sizes
    from sizeup.results.precision import PrecisionAssignment, PrecisionFits, PrecisionFront, Tradeoff


def assignment(found: PrecisionAssignment) -> dict[str, Any]:
    """All of it as plain data, bytes, seconds and joules raw."""
    return {
        **envelope.head(),
        "model": {"name": found.graph.name, "format": found.graph.format},
        "target": None if found.options.target is None else found.options.target.name,
        "loss": found.choice.loss,
        "loss_basis": found.basis,
        "measured": None if found.refined is None else found.refined.losses.to_dict(),
        "float_accuracy": None if found.refined is None else found.refined.table.baseline.accuracy,
        "proven": found.choice.proven,
        "gap": found.choice.gap,
        "budgets": {name: getattr(found.budgets, name) for name in BUDGETS},
        "figures": {name: getattr(found.choice.figures, name) for name in BUDGETS},
        "latency": None if found.estimate is None else _latency(found.estimate),
        "unsupported": list(found.options.unsupported),
        "as_given": {name: getattr(found.widest, name) for name in BUDGETS},
        "binding": list(found.choice.binding),
        "gains": found.choice.gains,
        "layers": [
            {
                "op": layer.op,
                "name": layer.name,
                "kind": layer.kind,
                "precision": precision_name(found.choice.chosen[layer.op]),
                "loss": found.losses[layer.op],
            }
            for layer in found.options.layers
        ],
        "mapping": found.mapping,
    }


def _latency(found: Estimate) -> dict[str, Any]:
    """The estimate as the reports of other verbs have it."""
    return {"ms": found.ms, "low_ms": found.low_ms, "high_ms": found.high_ms, "basis": found.basis}


def mapping_lines(found: PrecisionAssignment) -> Iterator[str]:
    """The mapping alone as JSON text, which `analyze --precision` takes."""
    yield json.dumps(found.mapping, indent=2)
    yield "\n"


def front(found: PrecisionFront) -> dict[str, Any]:
    """All of it as plain data, bytes, seconds and joules raw."""
    return {
        **envelope.head(),
        "model": {"name": found.options.graph.name, "format": found.options.graph.format},
        "target": None if found.options.target is None else found.options.target.name,
        "axes": list(found.axes),
        "loss_basis": found.basis,
        "choices": [
            {**row, "layers": {f"#{op}": precision_name(kind) for op, kind in choice.chosen.items()}}
            for row, choice in zip(_front_rows(found), found.choices, strict=True)
        ],
    }


def _front_rows(found: PrecisionFront) -> list[dict[str, Any]]:
    return [
        {
            "loss": loss,
            **{name: getattr(choice.figures, name) for name in BUDGETS},
            "proven": choice.proven,
            "gap": choice.gap,
        }
        for loss, choice in zip(found.losses, found.choices, strict=True)
    ]


def front_csv_lines(found: PrecisionFront, *, raw: bool = False) -> Iterator[str]:
    """One line per choice."""
    rows = (each.values() for each in _front_rows(found))
    return csv_cells.csv_lines(("loss", *BUDGETS, "proven", "gap"), rows, raw=raw)


def fits(found: PrecisionFits) -> dict[str, Any]:
    """All of it as plain data, sizes in bytes."""
    return {
        **envelope.head(),
        "model": {"name": found.graph.name, "format": found.graph.format},
        "threshold_bytes": found.threshold_bytes,
        "measure": found.measure,
        "layers": [_layer(found, each) for each in found.layers],
    }


def _layer(found: PrecisionFits, each: Sizes) -> dict[str, Any]:
    names = [precision_name(precision) for precision in found.precisions]

    def by_precision(sizes: Sequence[int]) -> dict[str, int | None]:
        return {name: size if each.is_known else None for name, size in zip(names, sizes, strict=True)}

    return {
        "op": each.layer.op,
        "name": each.layer.name,
        "kind": each.layer.kind,
        "input_shapes": _lists(each.input_shapes),
        "output_shapes": _lists(each.output_shapes),
        "read_bytes": by_precision(each.read_bytes),
        "made_bytes": by_precision(each.made_bytes),
        "bytes": by_precision(each.bytes),
        "fits": list(each.kept_names) if each.is_known else None,
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


# The columns of CSV files, JSON points and data frames; docs/precision.md says what each is.
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
    "accepted_by": lambda point: names_of(point, True) or None,
    "undetermined_by": lambda point: names_of(point, None) or None,
}
_REAL = tuple(
    name for name in COLUMNS if name.endswith(("_ms", "_j", "_mb")) or name in ("accuracy", "agreement")
)


def tradeoff(found: Tradeoff) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        **envelope.head(2),
        "model": {"name": found.name},
        "target": found.target,
        "budgets": {name: getattr(found.budgets, name) for name in BUDGETS},
        "notes": [f"{label}: {text}" for label, text in found.provenance()],
        "precisions": [_means(row) for row in found.rows],
        "points": [{**_cells(each), "budgets": dict(each.verdicts)} for each in found.points],
        "unsupported": [
            {
                "precision": each.precision,
                "batch": each.batch,
                "size": each.size,
                "reason": each.unsupported,
            }
            for each in found.unsupported
        ],
    }


def tradeoff_csv_lines(found: Tradeoff, *, raw: bool = False) -> Iterator[str]:
    """One line per point."""
    return csv_cells.csv_lines(COLUMNS, (_cells(each).values() for each in found.points), raw=raw)


def tradeoff_frame(found: Tradeoff) -> Any:
    """One row per point, with the columns of the CSV file; unknown numbers are NaN."""
    columns: dict[str, list[Any]] = {
        name: [read(each) for each in found.points] for name, read in COLUMNS.items()
    }
    for name in _REAL:
        columns[name] = [math.nan if each is None else each for each in columns[name]]
    return frame_of(columns)


def _cells(point: Point) -> dict[str, Any]:
    return {name: read(point) for name, read in COLUMNS.items()}


def _means(row: Row) -> dict[str, Any]:
    """A row under the names of the older table of means."""
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
