"""Node data for Model Explorer: one quantity per file, as an overlay on the graph of the same model.

Keys are the node ids of Model Explorer's adapters: the index of an operator in a .tflite file, the name of a
node in an .onnx file, numbered if names are missing or equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizeup.errors import SizeupError
from sizeup.results.file_nodes import NodeRow, node_rows, source_of

if TYPE_CHECKING:
    from sizeup.results.report import Report

_UNKNOWN = {"value": "unknown", "bgColor": "#d5d5d5", "textColor": "#000000"}
# From the least to the most. Text is always black, because viewers would interpolate black and white to gray.
_GRADIENT = (
    {"stop": 0, "bgColor": "#fff9ef", "textColor": "#000000"},
    {"stop": 0.5, "bgColor": "#fdc38d", "textColor": "#000000"},
    {"stop": 1, "bgColor": "#f4702a", "textColor": "#000000"},
)
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A quantity of nodes, and the aggregates over modules that are meaningless for it."""

    title: str
    of: Callable[[NodeRow], float | None]
    hidden: tuple[str, ...] = ()


QUANTITIES = {
    "macs": _Quantity("MACs", lambda row: row.macs),
    "bytes": _Quantity("bytes moved", lambda row: row.moved_bytes),
    "live": _Quantity("live bytes", lambda row: row.live_bytes, ("sum", "avg")),
    "ms": _Quantity("ms", lambda row: row.ms),
}
"""Quantities of an overlay, by the word before `.overlay.json`."""


def lines(report: Report, quantity: str | None = None) -> Iterator[str]:
    """Yields the node data as JSON text; by default of times if estimated, else of MACs."""
    if quantity is None:
        quantity = "macs" if report.latency is None else "ms"
    if quantity == "ms" and report.latency is None:
        raise SizeupError(
            f"{report.name}: an overlay of times needs a latency estimate ({report.no_latency_reason})"
        )
    return iter((json.dumps(to_dict(report, quantity), indent=1), "\n"))


def to_dict(report: Report, quantity: str) -> dict[str, Any]:
    """Returns the node data: results by node, under the name of the graph."""
    nodes, rows = node_rows(report, source_of(report, "an overlay"))
    spec = QUANTITIES[quantity]
    target = None if quantity != "ms" or report.latency is None else report.latency.target
    location = "" if target is None else f" on {target.name}"
    data: dict[str, Any] = {
        "name": f"{spec.title}{location} (sizeup)",
        "results": {row.name: _result(spec.of(row), row, quantity) for row in rows},
        "gradient": list(_GRADIENT),
    }
    if spec.hidden:
        data["hideAggregatedStats"] = list(spec.hidden)
    return {nodes.graph: data}


def _result(value: float | None, row: NodeRow, quantity: str) -> dict[str, Any]:
    # Live memory is known also of operators that could not be counted.
    if value is None or (row.reason is not None and quantity != "live"):
        return dict(_UNKNOWN)
    return {"value": value if quantity != "ms" else float(f"{value:.{_DIGITS}g}")}
