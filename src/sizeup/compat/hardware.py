"""The hardware module of an edge-inference study: layers as a table, rates, precisions compared, pictures."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import sizeup
from sizeup.compat.tools import library_usage
from sizeup.cost import Cost
from sizeup.csv_cells import csv_lines
from sizeup.files import write_text
from sizeup.graph import Graph, Op, Tensor, name_of
from sizeup.memory import tensor_bytes
from sizeup.render.data.frames import frame_of
from sizeup.render.plots import plot_layers

__all__ = [
    "LayerEstimate",
    "estimate_layerwise_stats",
    "precision_tradeoff_table",
    "save_hardware_artifacts",
    "summarize_hardware",
]

_SHORTEST = 1e-9
"""Seconds: the tool's guard against a division by a latency of zero."""
_GIGA = 1e9


@dataclass(frozen=True)  # without slots: `vars` makes a row of it, as it did
class LayerEstimate:
    """One layer: what it makes, what its parameters and its outputs take, and its multiply-accumulates."""

    layer: str
    output_elements: int
    parameter_bytes: int
    activation_bytes: int
    macs: int | None  # None where they are not known


def estimate_layerwise_stats(model: Any, batch_size: int, input_shape: tuple[int, ...] = (1, 28, 28)) -> Any:
    """The layers of any model as a data frame, in the order in which they run.

    The tool's convention: a layer is what multiplies or holds parameters, so activations and pools have no
    row, and what it takes is its outputs alone. The tool knew one network with two convolutions and a
    classifier; here every module that is a layer has a row, all that it computes taken together.
    """
    cost = sizeup.count(model, inputs=((batch_size, *input_shape),))
    rows = _merged(_estimates(cost))
    unknown = [row.layer for row in rows if row.macs is None]
    if unknown:
        warnings.warn(f"the MACs of these layers are not known: {', '.join(unknown)}", stacklevel=2)
    names = [field.name for field in fields(LayerEstimate)]
    return frame_of({name: [getattr(row, name) for row in rows] for name in names})


def _estimates(cost: Cost) -> Iterator[LayerEstimate]:
    graph, owned = cost.graph, set[int]()
    for index, op in enumerate(graph.ops):
        if not cost.macs[index] and not cost.params[index] and cost.known[index]:
            continue
        made = [graph.tensors[identity] for identity in op.outputs]
        yield LayerEstimate(
            op.scope or name_of(graph, op),
            sum(tensor.elements or 0 for tensor in made),
            sum(map(tensor_bytes, _taken(graph, op, owned))),
            sum(map(tensor_bytes, made)),
            int(cost.macs[index]) if cost.known[index] else None,
        )


def _taken(graph: Graph, op: Op, owned: set[int]) -> Iterator[Tensor]:
    """The parameters of an operator and its bodies that no earlier one took: shared ones count once."""
    for tensor in (graph.tensors[identity] for identity in op.inputs if identity >= 0):
        if tensor.is_parameter and id(tensor.data) not in owned:
            owned.add(id(tensor.data))
            yield tensor
    for body in op.bodies:
        for inner in body.graph.ops:
            yield from _taken(body.graph, inner, owned)


def _merged(rows: Iterator[LayerEstimate]) -> list[LayerEstimate]:
    """One row a module, however many operators it runs."""
    found: dict[str, LayerEstimate] = {}
    for row in rows:
        before = found.get(row.layer, LayerEstimate(row.layer, 0, 0, 0, 0))
        found[row.layer] = LayerEstimate(
            row.layer,
            before.output_elements + row.output_elements,
            before.parameter_bytes + row.parameter_bytes,
            before.activation_bytes + row.activation_bytes,
            None if before.macs is None or row.macs is None else before.macs + row.macs,
        )
    return list(found.values())


def summarize_hardware(
    layerwise_df: Any, latency_ms: float, memory_bandwidth_gbps: float
) -> dict[str, float]:
    """The rates that a pass of that latency attains, GB and GMACs in powers of 1000.

    The tool's convention: every parameter and every output crosses the memory once.
    """
    if latency_ms <= 0:
        warnings.warn(
            f"{latency_ms:g} ms is no latency: the rates are those of one nanosecond, as the tool gave them",
            stacklevel=2,
        )
    seconds = max(latency_ms / 1000.0, _SHORTEST)
    moved = float(layerwise_df["parameter_bytes"].sum() + layerwise_df["activation_bytes"].sum())
    macs = float(layerwise_df["macs"].sum())
    attained = moved / seconds / _GIGA
    return {
        "estimated_total_bytes": moved,
        "estimated_total_macs": macs,
        "achieved_bandwidth_gbps": attained,
        "configured_memory_bandwidth_gbps": memory_bandwidth_gbps,
        "bandwidth_utilization": attained / memory_bandwidth_gbps if memory_bandwidth_gbps else math.nan,
        "achieved_gmacs": macs / seconds / _GIGA,
    }


_MEANS = ("accuracy", "latency_ms", "memory_mb", "energy_proxy_j")


def precision_tradeoff_table(sweep_df: Any) -> Any:
    """The means of a sweep by precision and the share of it that was accepted, the fastest first."""
    means = sweep_df.astype({"accepted": float}).groupby("precision")[[*_MEANS, "accepted"]].mean()
    titles = {name: f"{name}_mean" for name in _MEANS} | {"accepted": "accepted_ratio"}
    return means.rename(columns=titles).sort_values("latency_ms_mean").reset_index()


def save_hardware_artifacts(
    output_dir: str | os.PathLike[str],
    layerwise_df: Any,
    precision_df: Any,
    summary: Mapping[str, float | str],
    *,
    raw_csv: bool = False,
) -> None:
    """Write the three tables as CSV and the two pictures into a folder, which is made if need be.

    `raw_csv` leaves names as they are that a spreadsheet would take for formulas.
    """
    folder = Path(output_dir)
    tables = {
        "layerwise_breakdown.csv": layerwise_df,
        "precision_tradeoffs.csv": precision_df,
        "hardware_summary.csv": frame_of({name: [value] for name, value in summary.items()}),
    }
    for name, table in tables.items():
        rows = table.astype(object).where(table.notna(), None).itertuples(index=False)
        write_text(folder / name, csv_lines(table.columns, rows, raw=raw_csv), make_folder=True)
    _draw(layerwise_df, "activation_bytes", "Activation memory", folder / "layerwise_activation_memory.png")
    _draw(layerwise_df, "macs", "MACs", folder / "layerwise_macs.png")


def _draw(table: Any, column: str, title: str, path: Path) -> None:
    quantities = table[column].to_numpy(dtype="float64", na_value=math.nan).tolist()
    missing = sum(map(math.isnan, quantities))
    title = f"{title} by layer{f' ({missing:,} layers are not known)' if missing else ''}"
    unit: Literal["bytes", "counts"] = "bytes" if column.endswith("bytes") else "counts"
    plot_layers([str(name) for name in table["layer"]], quantities, title, path, unit=unit)


if __name__ == "__main__":
    sys.exit(library_usage("hardware"))
