"""Where times come from when they were measured elsewhere: a table of networks, or a profile of one."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sizeup import formats
from sizeup.calibration.points import Point, parts, point
from sizeup.cost import count
from sizeup.dtypes import precision as precision_of
from sizeup.errors import SizeupError
from sizeup.formats.names import means_code
from sizeup.runtimes import read_profile

_SCALES = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
}
_OTHERS = ("model", "precision", "batch", "bind", "family")
_MOST_BYTES = 1 << 24
_NAMED = ("torchvision", "timm", "hf")


def from_table(path: Path, fuses: Sequence[str] | None) -> list[Point]:
    """Points from a CSV file: a column `model`, one of times with its unit in the name, and perhaps
    `precision`, `batch`, `bind` and `family`."""
    rows = list(_rows(path))
    if not rows:
        raise SizeupError(f"{path}: no measurement in it")
    column, scale = _time_column(path, list(rows[0]))
    return [_point(path, number, row, column, scale, fuses) for number, row in enumerate(rows, start=2)]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SizeupError(f"{path}: a table of more than {_MOST_BYTES >> 20} MiB")
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SizeupError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    names = [each.strip().lower() for each in reader.fieldnames or ()]
    if "model" not in names:
        raise SizeupError(f"{path}: no column is called model; the first line names the columns")
    reader.fieldnames = names
    try:
        for row in reader:
            if any((value or "").strip() for key, value in row.items() if key is not None):
                yield {key: (value or "").strip() for key, value in row.items() if key is not None}
    except csv.Error as error:
        raise SizeupError(f"{path}: not a CSV file: {error}") from error


def _time_column(path: Path, names: list[str]) -> tuple[str, float]:
    found = []
    for name in names:
        words = [each for each in re.split(r"[^a-zµ]+", name) if each]
        if name not in _OTHERS and words and words[-1] in _SCALES:
            found.append((name, _SCALES[words[-1]]))
    if len(found) != 1:
        raise SizeupError(
            f"{path}: {'no column' if not found else 'more than one column'} of times;"
            " one has its unit at the end of its name: latency_ms, latency_us or seconds"
        )
    return found[0]


def _point(
    path: Path, line: int, row: Mapping[str, str], column: str, scale: float, fuses: Sequence[str] | None
) -> Point:
    where = f"{path}, line {line}"
    try:
        seconds = float(row[column]) * scale
    except ValueError:
        raise SizeupError(f"{where}: {row[column]!r} is no time") from None
    if not row["model"]:
        raise SizeupError(f"{where}: no model is named")
    try:
        cost = count(formats.load(_source(path.parent, row["model"]), bind=_bindings(row)))
        asked = precision_of(row["precision"]) if row.get("precision") else None
        return point(row["model"], cost, seconds, fuses, family=row.get("family") or None, precision=asked)
    except SizeupError as error:
        raise SizeupError(f"{where}: {error}") from error


def _source(folder: Path, name: str) -> str | Path:
    """A model file, by its path from the folder, or a name of a model library; never code of its choice."""
    if not means_code(name) or os.path.lexists(folder / name):
        return folder / name
    if name.partition(":")[0] not in _NAMED:
        raise SizeupError(
            f"{name!r} is not a file, and a table may not name code to run;"
            " give a model file, torchvision:NAME, timm:NAME or hf:CONFIG.json"
        )
    return name


def _bindings(row: Mapping[str, str]) -> dict[str, int] | None:
    texts = [each for each in re.split(r"[;,\s]+", row.get("bind", "")) if each]
    if row.get("batch"):
        texts.append(f"batch={row['batch']}")
    found = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not name or not size.isdecimal():
            raise SizeupError(f"{text!r} is not NAME=SIZE, such as batch=1")
        found[name] = int(size)
    return found or None


def from_profile(
    log: Path, model: Any, fuses: Sequence[str] | None, bind: Mapping[str, int] | None = None
) -> list[Point]:
    """Points from a profile of one model: a kernel each."""
    graph = formats.load(model, bind=bind)
    return parts(graph.name or "the model", count(graph), read_profile(log), fuses)
