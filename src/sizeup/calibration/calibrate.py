"""One target, calibrated: measured here, or from a table or a profile of times measured elsewhere."""

from __future__ import annotations

import csv
import datetime
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup import formats
from sizeup.calibration import machine
from sizeup.calibration.fitting import ENOUGH, Fitted, Point, fitted, parts, point
from sizeup.calibration.measuring import measured
from sizeup.cost import count
from sizeup.dtypes import precision as precision_of
from sizeup.errors import SizeupError, TargetError
from sizeup.formats.names import means_code
from sizeup.runtimes import TurnProgress, read_profile
from sizeup.targets import Runtime, current, own_folder, read_again, write

_RUNTIMES = ("ort", "litert-xnnpack", "litert", "tflm", "torch-eager")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be calibrated, from what, and where the result goes."""

    runtime: str = "ort"
    device: str | None = None  # None: this machine, under a name of its own
    table: Path | None = None
    profile: Path | None = None
    model: Any = None  # that the profile is of
    bind: Mapping[str, int] | None = None
    threads: int = 1
    seconds: float = 0.4  # for each network
    out: Path | None = None  # None: the user's folder of targets


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A target with rates, how far estimates with them were off, and the file that they are kept in."""

    target: str
    fitted: Fitted
    path: Path
    version: str
    threads: int
    failures: tuple[str, ...] = ()

    @property
    def enough(self) -> int:
        """How many networks make its prediction interval trustworthy."""
        return ENOUGH

    @property
    def error(self) -> float:
        """Mean absolute error of networks that the fit had not seen: 0.08 is 8 %."""
        return self.fitted.error

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        found = self.fitted
        return {
            "target": self.target,
            "file": str(self.path),
            "runtime_version": self.version,
            "threads": self.threads,
            "measurements": found.measurements,
            "precisions": list(found.precisions),
            "error": found.error,
            "held_out": found.held_out,
            "band": found.band.to_dict(),
            "judged": [
                {"name": each.name, "measured_s": each.measured, "estimated_s": each.estimated}
                for each in found.judged
            ],
            "not_run": list(self.failures),
        }


def calibrate(order: Order, progress: TurnProgress | None = None) -> Calibration:
    """Measure or read, fit, and write the file that makes the target one that can be named."""
    if order.table is not None and order.profile is not None:
        raise SizeupError("a table or a profile, not both: each is a calibration of its own")
    if (order.profile is None) != (order.model is None):
        raise SizeupError("a profile needs the model that it is of, and a model its profile")
    runtime = current().runtime(order.runtime)
    device, described = _device(order, runtime)
    path = order.out or own_folder() / f"{device}.toml"
    write.check(path)
    version, failures = "", tuple[str, ...]()
    if order.table is not None:
        points, cache = from_table(order.table, runtime.fuses), None
        origin = f"measured: times of {order.table.name}"
    elif order.profile is not None:
        points, cache = from_profile(order.profile, order.model, runtime.fuses, order.bind), None
        origin = f"measured: kernels of {order.profile.name}"
    else:
        points, version, failures = measured(
            runtime.name,
            runtime.fuses,
            threads=order.threads,
            seconds=order.seconds,
            progress=progress,
        )
        cache = machine.this_machine().cache_bytes
        origin = f"measured: networks of sizeup calibrate on {machine.this_machine().title}"
    found = fitted(points, float(cache or 0))
    target = f"{device}/{runtime.name}"
    write.save(path, _table(target, found, origin, version, order), described)
    read_again()
    return Calibration(target, found, path, version, order.threads, failures)


def _device(order: Order, runtime: Runtime) -> tuple[str, dict[str, Any] | None]:
    """The name of the device, and its table where nobody has described it."""
    if order.device is not None and current().has_device(order.device):
        known = current().device(order.device)
        if not known.file.endswith(f"{known.name}.toml") or not _is_ours(Path(known.file)):
            return current().target(f"{known.name}/{runtime.name}").device.name, None
        order_name = known.name
    else:
        order_name = order.device or machine.NAME
    if not _NAME.fullmatch(order_name):
        raise TargetError(f"{order_name!r} is no name of a device: small letters, digits, dots and dashes")
    is_here = order.table is None and order.profile is None
    return order_name, _described(order_name, runtime, is_here)


def _is_ours(path: Path) -> bool:
    try:
        write.check(path)
    except TargetError:
        return False
    return True


def _described(name: str, runtime: Runtime, is_here: bool) -> dict[str, Any]:
    """What can be known of a device: of this machine its cores and memories, of another one nothing."""
    today = datetime.date.today().isoformat()
    runtimes = list(dict.fromkeys((runtime.name, *_RUNTIMES)))
    if not is_here:
        kind = runtime.units[0]
        return {
            "name": name, "title": name, "kind": kind if kind in ("gpu", "npu", "cpu") else "computer",
            "maker": "unknown", "runtimes": runtimes if kind == "cpu" else [runtime.name],
            "source": "measured: described by nobody, only its times are known", "recorded": today,
            "units": [{"kind": kind, "name": name}], "memories": [],
        }  # fmt: skip
    here = machine.this_machine()
    memories = [
        {"name": label, "role": role, "size": f"{size // 1024} KiB"}
        for label, role, size in (("RAM", "ram", here.ram_bytes), ("L2", "cache", here.cache_bytes))
        if size is not None
    ]
    return {
        "name": name, "title": f"{name} ({here.title})", "kind": "computer", "maker": here.maker,
        "runtimes": runtimes, "source": "measured: as the operating system tells", "recorded": today,
        "units": [{"kind": "cpu", "name": here.title, "cores": here.cores}], "memories": memories,
    }  # fmt: skip


def _table(target: str, found: Fitted, origin: str, version: str, order: Order) -> dict[str, Any]:
    is_here = order.table is None and order.profile is None
    return {
        "name": target,
        "precisions": list(found.precisions),
        "measurements": found.measurements,
        "error": round(found.error, 6),
        "held_out": found.held_out,
        **({"version": version} if version else {}),
        **({"threads": order.threads} if is_here else {}),
        "source": origin,
        "recorded": datetime.date.today().isoformat(),
        "band": found.band.to_dict(),
        "rates": found.rates.to_dict(),
    }


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
