"""Calibrate one target from measurements on this machine, or from a table or a profile."""

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
from sizeup.calibration import host
from sizeup.calibration.measurement import measure_networks
from sizeup.calibration.regression import (
    RECOMMENDED_MEASUREMENTS,
    FittedRates,
    NetworkMeasurement,
    fit_calibration,
    kernel_measurements,
    network_measurement,
)
from sizeup.cost import count
from sizeup.dtypes import precision as precision_of
from sizeup.errors import SizeupError, TargetError
from sizeup.files import read_problem, read_settings
from sizeup.formats.names import looks_like_code
from sizeup.runtimes import TurnProgress, read_profile
from sizeup.targets import Runtime, clear_cache, current_catalog, user_folder, write

_RUNTIMES = ("ort", "litert-xnnpack", "litert", "tflm", "torch-eager")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """Options of a calibration: the target, the measurements and the output file."""

    runtime: str = "ort"
    device: str | None = None  # None: this machine
    table: Path | None = None
    profile: Path | None = None
    model: Any = None  # the profiled model
    bind: Mapping[str, int] | None = None
    threads: int = 1
    seconds: float = 0.4  # per network
    out: Path | None = None  # None: the user's target folder


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The result of a calibration: fitted rates, their held-out errors and the file they are in."""

    target: str
    fit: FittedRates
    path: Path
    version: str
    threads: int
    failures: tuple[str, ...] = ()

    @property
    def recommended_measurements(self) -> int:
        """Number of networks from which the prediction interval is reliable."""
        return RECOMMENDED_MEASUREMENTS

    @property
    def mape(self) -> float:
        """MAPE over held-out networks: 0.08 is 8 %."""
        return self.fit.mape

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as plain data."""
        fit = self.fit
        return {
            "target": self.target,
            "file": str(self.path),
            "runtime_version": self.version,
            "threads": self.threads,
            "measurements": fit.measurements,
            "precisions": list(fit.precisions),
            "error": fit.mape,
            "held_out": fit.held_out,
            "band": fit.interval.to_dict(),
            "judged": [
                {
                    "name": prediction.name,
                    "measured_s": prediction.measured,
                    "estimated_s": prediction.estimated,
                }
                for prediction in fit.held_out_predictions
            ],
            "not_run": list(self.failures),
        }


def calibrate(options: CalibrationOptions, progress: TurnProgress | None = None) -> Calibration:
    """Collect measurements, fit rates and write the file that defines the target."""
    if options.table is not None and options.profile is not None:
        raise SizeupError("pass a table or a profile, not both")
    if (options.profile is None) != (options.model is None):
        raise SizeupError("a profile and its model must be passed together")
    runtime = current_catalog().runtime(options.runtime)
    device, description = _device(options, runtime)
    path = options.out or user_folder() / f"{device}.toml"
    write.check_writable(path)
    version, failures = "", tuple[str, ...]()
    if options.table is not None:
        points, cache = from_table(options.table, runtime.fusions), None
        source = f"measured: latencies of {options.table.name}"
    elif options.profile is not None:
        points, cache = from_profile(options.profile, options.model, runtime.fusions, options.bind), None
        source = f"measured: kernels of {options.profile.name}"
    else:
        points, version, failures = measure_networks(
            runtime.name,
            runtime.fusions,
            threads=options.threads,
            seconds=options.seconds,
            progress=progress,
        )
        cache = host.detect_host().cache_bytes
        source = f"measured: sizeup calibrate on {host.detect_host().title}"
    fit = fit_calibration(points, float(cache or 0))
    target = f"{device}/{runtime.name}"
    write.save(path, _calibration_table(target, fit, source, version, options), description)
    clear_cache()
    return Calibration(target, fit, path, version, options.threads, failures)


def _device(order: CalibrationOptions, runtime: Runtime) -> tuple[str, dict[str, Any] | None]:
    """Return the name of the device, and its table if no other file describes it."""
    catalog = current_catalog()
    if order.device is not None and (catalog.has_device(order.device) or catalog.has_board(order.device)):
        known = current_catalog().device(order.device)
        if not known.file.endswith(f"{known.name}.toml") or not _is_writable(Path(known.file)):
            return current_catalog().target(f"{known.name}/{runtime.name}").device.name, None
        name = known.name
    else:
        name = order.device or host.NAME
    if not _NAME.fullmatch(name):
        raise TargetError(f"{name!r} is not a device name: use a-z, 0-9, dots, dashes and underscores")
    is_host = order.table is None and order.profile is None
    return name, _device_table(name, runtime, is_host)


def _is_writable(path: Path) -> bool:
    try:
        write.check_writable(path)
    except TargetError:
        return False
    return True


def _device_table(name: str, runtime: Runtime, is_host: bool) -> dict[str, Any]:
    """Return the TOML table of a device; cores and memories are known for this machine only."""
    today = datetime.date.today().isoformat()
    runtimes = list(dict.fromkeys((runtime.name, *_RUNTIMES)))
    if not is_host:
        unit_kind = runtime.units[0]
        return {
            "name": name, "title": name,
            "kind": unit_kind if unit_kind in ("gpu", "npu", "cpu") else "computer",
            "maker": "unknown", "runtimes": runtimes if unit_kind == "cpu" else [runtime.name],
            "source": "measured: latencies only, no hardware description", "recorded": today,
            "units": [{"kind": unit_kind, "name": name}], "memories": [],
        }  # fmt: skip
    this = host.detect_host()
    memories = [
        {"name": label, "role": role, "size": f"{size // 1024} KiB"}
        for label, role, size in (("RAM", "ram", this.ram_bytes), ("L2", "cache", this.cache_bytes))
        if size is not None
    ]
    return {
        "name": name, "title": f"{name} ({this.title})", "kind": "computer", "maker": this.maker,
        "runtimes": runtimes, "source": "measured: reported by the operating system", "recorded": today,
        "units": [{"kind": "cpu", "name": this.title, "cores": this.cores}], "memories": memories,
    }  # fmt: skip


def _calibration_table(
    target: str, fit: FittedRates, source: str, version: str, options: CalibrationOptions
) -> dict[str, Any]:
    is_host = options.table is None and options.profile is None
    return {
        "name": target,
        "precisions": list(fit.precisions),
        "measurements": fit.measurements,
        "error": round(fit.mape, 6),
        "held_out": fit.held_out,
        **({"version": version} if version else {}),
        **({"threads": options.threads} if is_host else {}),
        "source": source,
        "recorded": datetime.date.today().isoformat(),
        "band": fit.interval.to_dict(),
        "rates": fit.rates.to_dict(),
    }


_SCALES = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
}
_KNOWN_COLUMNS = ("model", "precision", "batch", "bind", "family")
_MODEL_LIBRARIES = ("torchvision", "timm", "hf")


def from_table(path: Path, fuses: Sequence[str] | None) -> list[NetworkMeasurement]:
    """Read measurements from a CSV file.

    Columns: `model`, one latency with its unit in the name, and optionally `precision`, `batch`, `bind` and
    `family`.
    """
    rows = list(_rows(path))
    if not rows:
        raise SizeupError(f"{path}: no measurements")
    column, scale = _time_column(path, list(rows[0]))
    return [_point(path, number, row, column, scale, fuses) for number, row in enumerate(rows, start=2)]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        text = read_settings(path)
    except (OSError, ValueError) as error:
        raise SizeupError(f"{path}: {read_problem(error)}") from error
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        names = [name.strip().lower() for name in reader.fieldnames or ()]
        if "model" not in names:
            raise SizeupError(f"{path}: no column named model; the first line must contain the column names")
        reader.fieldnames = names
        for row in reader:
            if any((value or "").strip() for key, value in row.items() if key is not None):
                yield {key: (value or "").strip() for key, value in row.items() if key is not None}
    except csv.Error as error:
        raise SizeupError(f"{path}: not a CSV file: {error}") from error


def _time_column(path: Path, names: list[str]) -> tuple[str, float]:
    columns = []
    for name in names:
        words = [word for word in re.split(r"[^a-zµ]+", name) if word]
        if name not in _KNOWN_COLUMNS and words and words[-1] in _SCALES:
            columns.append((name, _SCALES[words[-1]]))
    if len(columns) != 1:
        raise SizeupError(
            f"{path}: {'no latency column' if not columns else 'more than one latency column'};"
            " name one column with its unit at the end: latency_ms, latency_us or seconds"
        )
    return columns[0]


def _point(
    path: Path, line: int, row: Mapping[str, str], column: str, scale: float, fuses: Sequence[str] | None
) -> NetworkMeasurement:
    location = f"{path}, line {line}"
    try:
        seconds = float(row[column]) * scale
    except ValueError:
        raise SizeupError(f"{location}: {row[column]!r} is not a number") from None
    if not row["model"]:
        raise SizeupError(f"{location}: the model is missing")
    try:
        cost = count(formats.load(_source(path.parent, row["model"]), bind=_parse_bind(row)))
        precision = precision_of(row["precision"]) if row.get("precision") else None
        return network_measurement(
            row["model"], cost, seconds, fuses, family=row.get("family") or None, precision=precision
        )
    except SizeupError as error:
        raise SizeupError(f"{location}: {error}") from error


def _source(folder: Path, name: str) -> str | Path:
    """Return the path of a model file, or the name of a library model; raises SizeupError for other code."""
    if not looks_like_code(name) or os.path.lexists(folder / name):
        return folder / name
    if name.partition(":")[0] not in _MODEL_LIBRARIES:
        raise SizeupError(
            f"{name!r} is not a file, and a table may not name code to run;"
            " use a model file, torchvision:NAME, timm:NAME or hf:CONFIG.json"
        )
    return name


def _parse_bind(row: Mapping[str, str]) -> dict[str, int] | None:
    texts = [part for part in re.split(r"[;,\s]+", row.get("bind", "")) if part]
    if row.get("batch"):
        texts.append(f"batch={row['batch']}")
    bindings = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not name or not size.isdecimal():
            raise SizeupError(f"{text!r} is not NAME=SIZE, such as batch=1")
        bindings[name] = int(size)
    return bindings or None


def from_profile(
    log: Path, model: Any, fuses: Sequence[str] | None, bind: Mapping[str, int] | None = None
) -> list[NetworkMeasurement]:
    """Read measurements from a profile of one model, one per kernel."""
    graph = formats.load(model, bind=bind)
    return kernel_measurements(graph.name or "the model", count(graph), read_profile(log), fuses)
