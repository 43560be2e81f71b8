"""The figures of a report per node of its file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.errors import SizeupError
from sizeup.files import read_problem
from sizeup.formats.digest import sha256_of
from sizeup.formats.nodes import FileNodes, source_nodes
from sizeup.results.rows import OpRow

if TYPE_CHECKING:
    from sizeup.results.report import Report


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node of a file: the cost of its ops together; `reason` if that is unknown."""

    index: int  # index among the nodes of the file
    name: str
    op_kind: str
    scope: str
    macs: int | None
    elementwise_ops: int | None
    params: int
    read_bytes: int | None
    written_bytes: int | None
    live_bytes: int | None  # peak while its ops run
    ms: float | None
    bound_by: str | None
    reason: str | None

    @property
    def moved_bytes(self) -> int | None:
        """Bytes read and written."""
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes


def source_of(report: Report, feature: str) -> Path:
    """Returns the file of a report. Raises SizeupError if there is none, or it changed since the analysis."""
    if report.source is None or report.format not in ("tflite", "onnx"):
        raise SizeupError(f"{report.name}: {feature} needs a model loaded from a .tflite or .onnx file")
    if digest(report.source) != report.sha256:
        raise SizeupError(f"{report.source}: the file has changed since it was analyzed; analyze it again")
    return report.source


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file, without the files that it refers to."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise SizeupError(f"{path}: {read_problem(error)}") from error


def node_rows(report: Report, path: Path) -> tuple[FileNodes, list[NodeRow]]:
    """Returns the nodes of a file, and a row for each node with ops."""
    nodes = _nodes_of(path, report.format)
    ops_by_node: dict[int, list[OpRow]] = {}
    for owner, row in zip(source_nodes(report.graph, nodes), report.ops, strict=True):
        if owner is not None:
            ops_by_node.setdefault(owner, []).append(row)
    return nodes, [_row(index, nodes.names[index], ops_by_node[index]) for index in sorted(ops_by_node)]


def _nodes_of(path: Path, format: str) -> FileNodes:
    if format == "tflite":
        from sizeup.formats.tflite.read import nodes_of as operators_of

        return operators_of(path)
    from sizeup.formats.onnx.annotate import nodes_of

    return nodes_of(path)


def _row(index: int, name: str, rows: list[OpRow]) -> NodeRow:
    main = max(rows, key=lambda row: (row.ms or 0.0, row.macs or 0))
    times = [row.ms for row in rows if row.ms is not None]
    return NodeRow(
        index,
        name,
        main.op_kind,
        main.scope,
        _sum(row.macs for row in rows),
        _sum(row.elementwise_ops for row in rows),
        sum(row.params for row in rows),
        _sum(row.read_bytes for row in rows),
        _sum(row.written_bytes for row in rows),
        _max(row.live_bytes for row in rows),
        sum(times) if times else None,
        main.bound_by,
        next((row.reason for row in rows if row.reason is not None), None),
    )


def _max(numbers: Iterable[int | None]) -> int | None:
    """Returns the largest number; None if one is unknown."""
    values = list(numbers)
    return None if None in values else max(value for value in values if value is not None)


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Returns the sum; None if one is unknown."""
    values = list(numbers)
    return None if None in values else sum(value for value in values if value is not None)
