"""What a report says of every node of the file that it is on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.errors import SizeupError
from sizeup.formats.digest import sha256_of
from sizeup.formats.nodes import FileNodes, owners
from sizeup.results.rows import OpRow

if TYPE_CHECKING:
    from sizeup.results.report import Report


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node of a file: what its operators cost together; `reason` says why that is not known."""

    place: int  # among the nodes of the file
    name: str
    kind: str
    scope: str
    macs: int | None
    elementwise_ops: int | None
    params: int
    read_bytes: int | None
    written_bytes: int | None
    live_bytes: int | None  # the most that is in memory while it runs
    ms: float | None
    bound_by: str | None
    reason: str | None

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that it reads and writes."""
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes


def source_of(report: Report, what: str) -> Path:
    """The file that a report is on, which must still be the one that was read."""
    if report.source is None or report.format not in ("tflite", "onnx"):
        raise SizeupError(f"{report.name}: {what} needs a model that was read from a .tflite or .onnx file")
    if digest(report.source) != report.sha256:
        raise SizeupError(f"{report.source}: the file is not the one that was sized up: do that again")
    return report.source


def digest(path: Path) -> str:
    """The SHA-256 of a file, without the files that it refers to."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise SizeupError(f"{path}: cannot be read: {error.strerror or error}") from error


def node_rows(report: Report, path: Path) -> tuple[FileNodes, list[NodeRow]]:
    """The nodes of a file, and a row for each that something runs for."""
    nodes = _nodes_of(path, report.format)
    mine: dict[int, list[OpRow]] = {}
    for owner, row in zip(owners(report.graph, nodes), report.ops, strict=True):
        if owner is not None:
            mine.setdefault(owner, []).append(row)
    return nodes, [_row(place, nodes.names[place], mine[place]) for place in sorted(mine)]


def _nodes_of(path: Path, format: str) -> FileNodes:
    if format == "tflite":
        from sizeup.formats.tflite.read import nodes_of as operators_of

        return operators_of(path)
    from sizeup.formats.onnx.annotate import nodes_of

    return nodes_of(path)


def _row(place: int, name: str, rows: list[OpRow]) -> NodeRow:
    main = max(rows, key=lambda row: (row.ms or 0.0, row.macs or 0))
    times = [row.ms for row in rows if row.ms is not None]
    return NodeRow(
        place,
        name,
        main.kind,
        main.scope,
        _sum(row.macs for row in rows),
        _sum(row.elementwise_ops for row in rows),
        sum(row.params for row in rows),
        _sum(row.read_bytes for row in rows),
        _sum(row.written_bytes for row in rows),
        _most(row.live_bytes for row in rows),
        sum(times) if times else None,
        main.bound_by,
        next((row.reason for row in rows if row.reason is not None), None),
    )


def _most(numbers: Iterable[int | None]) -> int | None:
    """The largest, not known if one of them is not."""
    known = list(numbers)
    return None if None in known else max(each for each in known if each is not None)


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum, not known where one of them is not."""
    known = list(numbers)
    return None if None in known else sum(each for each in known if each is not None)
