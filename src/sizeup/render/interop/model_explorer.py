"""Colours and numbers for Model Explorer: node data, one quantity a file, over the graph of the same model.

Its keys are the ids that Model Explorer's own adapters give to nodes: the place of an operator in a .tflite
file, the name of a node in an .onnx file, numbered where names are missing or equal.
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
# From next to nothing to the most of all nodes. Black text is legible on all of it: viewers mix colours of
# text too, and between black and white that is grey.
_GRADIENT = (
    {"stop": 0, "bgColor": "#fff9ef", "textColor": "#000000"},
    {"stop": 0.5, "bgColor": "#fdc38d", "textColor": "#000000"},
    {"stop": 1, "bgColor": "#f4702a", "textColor": "#000000"},
)
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What is shown of a node, and the sums over modules that mean nothing."""

    title: str
    of: Callable[[NodeRow], float | None]
    hidden: tuple[str, ...] = ()


QUANTITIES = {
    "macs": _Quantity("MACs", lambda row: row.macs),
    "bytes": _Quantity("bytes moved", lambda row: row.moved_bytes),
    "live": _Quantity("live bytes", lambda row: row.live_bytes, ("sum", "avg")),
    "ms": _Quantity("ms", lambda row: row.ms),
}
"""What an overlay can show, by the word before `.overlay.json`."""


def lines(report: Report, quantity: str | None = None) -> Iterator[str]:
    """The node data as JSON text; without a wish times where they were estimated, MACs otherwise."""
    if quantity is None:
        quantity = "macs" if report.latency is None else "ms"
    if quantity == "ms" and report.latency is None:
        raise SizeupError(f"{report.name}: an overlay of times needs them ({report.no_latency})")
    return iter((json.dumps(to_dict(report, quantity), indent=1), "\n"))


def to_dict(report: Report, quantity: str) -> dict[str, Any]:
    """The node data as plain data: under the name of the graph, its results by node."""
    nodes, rows = node_rows(report, source_of(report, "an overlay"))
    shown = QUANTITIES[quantity]
    target = None if quantity != "ms" or report.latency is None else report.latency.target
    where = "" if target is None else f" on {target.name}"
    data: dict[str, Any] = {
        "name": f"{shown.title}{where} (sizeup)",
        "results": {row.name: _result(shown.of(row), row, quantity) for row in rows},
        "gradient": list(_GRADIENT),
    }
    if shown.hidden:
        data["hideAggregatedStats"] = list(shown.hidden)
    return {nodes.graph: data}


def _result(value: float | None, row: NodeRow, quantity: str) -> dict[str, Any]:
    # What is in memory is known of every operator, whether or not it could be counted.
    if value is None or (row.reason is not None and quantity != "live"):
        return dict(_UNKNOWN)
    return {"value": value if quantity != "ms" else float(f"{value:.{_DIGITS}g}")}
