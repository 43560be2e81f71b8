"""One target, calibrated: measured here, or from a table or a profile of times measured elsewhere."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup.calibration import machine
from sizeup.calibration.files import from_profile, from_table
from sizeup.calibration.fitting import ENOUGH, Fitted, fitted
from sizeup.calibration.measuring import measured
from sizeup.errors import SizeupError, TargetError
from sizeup.runtimes import TurnProgress
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
