"""A copy of an ONNX model with the numbers of its report as metadata properties of its nodes.

Netron and Model Explorer show them next to the attributes of a node.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.dtypes import precision_name
from sizeup.errors import SizeupError
from sizeup.formats import files
from sizeup.results.file_nodes import NodeRow, node_rows, source_of

if TYPE_CHECKING:
    from sizeup.results.report import Report

PREFIX = "sizeup."
"""The prefix of the keys of all properties."""
_QUANTITIES = (
    *("macs", "elementwise_ops", "params", "read_bytes", "written_bytes", "live_bytes", "ms", "bound_by"),
)


def save(report: Report, path: str | os.PathLike[str]) -> list[str]:
    """Write the copy and its external weights; returns notes to print."""
    out = Path(path)
    if report.format != "onnx":
        raise SizeupError(f"{out}: metadata needs an .onnx model")
    source = source_of(report, "a copy with metadata")
    files.check_output_path(source, out)
    from sizeup.formats.onnx.annotate import annotate
    from sizeup.formats.onnx.write import external_files

    _, rows = node_rows(report, source)
    notes = files.copy_external_files(files.external_copies(external_files(source), source, out))
    annotate(source, out, PREFIX, dict(_of_model(report)), {row.index: _of_node(row) for row in rows})
    return notes


def _of_node(row: NodeRow) -> dict[str, str]:
    """Returns the known quantities of a node, and why it is unknown."""
    properties = {
        PREFIX + name: _text(getattr(row, name)) for name in _QUANTITIES if getattr(row, name) is not None
    }
    if row.reason is not None:
        properties[f"{PREFIX}unknown"] = row.reason
    return properties


def _of_model(report: Report) -> Iterator[tuple[str, str]]:
    totals, usage, estimate = report.totals, report.memory.usage, report.latency
    yield f"{PREFIX}version", version("sizeup")
    yield f"{PREFIX}inputs", ", ".join(f"{port.name} {units.shape(port.shape)}" for port in report.inputs)
    yield f"{PREFIX}coverage", f"{report.known_ops} of {len(report.ops)} operators"
    if report.precision is not None:
        yield f"{PREFIX}precision", precision_name(report.precision)
    for name in ("macs", "elementwise_ops", "params", "weight_bytes", "read_bytes", "written_bytes"):
        value = getattr(totals, name)
        # A zero total with unknown operators is unknown.
        if value or not report.unknown_ops:
            yield PREFIX + name, _text(value)
    if not usage.unavailable_reason:
        yield f"{PREFIX}peak_bytes", _text(usage.peak_bytes)
    if estimate is not None:
        yield f"{PREFIX}target", "" if estimate.target is None else estimate.target.name
        yield f"{PREFIX}basis", estimate.basis
        for name in ("ms", "low_ms", "high_ms"):
            if getattr(estimate, name) is not None:
                yield PREFIX + name, _text(getattr(estimate, name))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
