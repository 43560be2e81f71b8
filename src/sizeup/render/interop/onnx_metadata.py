"""A copy of the ONNX file that a report is on, with what was found as properties of its nodes.

Netron, Model Explorer and all that reads the format show them beside the attributes of a node.
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
"""What the keys of all properties begin with."""
_QUANTITIES = (
    *("macs", "elementwise_ops", "params", "read_bytes", "written_bytes", "live_bytes", "ms", "bound_by"),
)


def save(report: Report, path: str | os.PathLike[str]) -> list[str]:
    """Write the copy, its weights in other files beside it; returns what that should tell."""
    out = Path(path)
    if report.format != "onnx":
        raise SizeupError(f"{out}: figures are written into a copy of an .onnx file, which the model is not")
    source = source_of(report, "a copy with figures")
    files.check_target(source, out)
    from sizeup.formats.onnx.annotate import annotate
    from sizeup.formats.onnx.write import external_files

    _, rows = node_rows(report, source)
    notes = files.copy_along(files.companions(external_files(source), source, out))
    annotate(source, out, PREFIX, dict(_of_model(report)), {row.place: _of_node(row) for row in rows})
    return notes


def _of_node(row: NodeRow) -> dict[str, str]:
    """What is known of a node; what is not has no property, but for the reason."""
    found = {
        PREFIX + name: _text(getattr(row, name)) for name in _QUANTITIES if getattr(row, name) is not None
    }
    if row.reason is not None:
        found[f"{PREFIX}unknown"] = row.reason
    return found


def _of_model(report: Report) -> Iterator[tuple[str, str]]:
    totals, usage, found = report.totals, report.memory.usage, report.latency
    yield f"{PREFIX}version", version("sizeup")
    yield f"{PREFIX}inputs", ", ".join(f"{each.name} {units.shape(each.shape)}" for each in report.inputs)
    yield f"{PREFIX}coverage", f"{report.known_ops} of {len(report.ops)} operators"
    if report.precision is not None:
        yield f"{PREFIX}precision", precision_name(report.precision)
    for name in ("macs", "elementwise_ops", "params", "weight_bytes", "read_bytes", "written_bytes"):
        value = getattr(totals, name)
        # A total of nothing that is known is not zero.
        if value or not report.unknown:
            yield PREFIX + name, _text(value)
    if not usage.missing:
        yield f"{PREFIX}peak_bytes", _text(usage.peak_bytes)
    if found is not None:
        yield f"{PREFIX}target", "" if found.target is None else found.target.name
        yield f"{PREFIX}basis", found.basis
        for name in ("ms", "low_ms", "high_ms"):
            if getattr(found, name) is not None:
                yield PREFIX + name, _text(getattr(found, name))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
