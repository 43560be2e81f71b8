"""Devices as plain data and JSON: raw numbers, the unit in every key, null if unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sizeup.render import envelope
from sizeup.render.data import clusters
from sizeup.targets import Device, Energy, Memory, Power, Runtime, Standing, TargetCalibration, Unit

if TYPE_CHECKING:
    from sizeup.targets.clusters import Cluster


def to_dict(device: Device) -> dict[str, Any]:
    """Returns a device as plain data."""
    return {
        "name": device.name,
        "title": device.title,
        "device_class": device.device_class,
        "vendor": device.vendor,
        "aliases": list(device.aliases),
        "runtimes": list(device.runtimes),
        "ram_bytes": device.ram_bytes,
        "largest_ram_bytes": device.largest_ram_bytes,
        "flash_bytes": device.flash_bytes,
        "bandwidth_bytes_per_second": device.bandwidth,
        "flops_per_byte": device.flops_per_byte_by_dtype,
        "units": [_unit(unit) for unit in device.units],
        "memories": [memory_to_dict(memory) for memory in device.memories],
        "power": None if device.power is None else _power(device.power),
        "energy": None if device.energy is None else _energy(device.energy),
        "note": device.note or None,
        "source": device.source,
        "recorded": device.recorded or None,
        "verified": device.verified or None,
        "file": device.file,
    }


def standing_to_dict(standing: Standing) -> dict[str, Any]:
    """Returns the standing of a target as plain data."""
    return {
        "target": standing.target,
        "best": standing.best,
        "by_precision": dict(standing.by_precision),
        "verified": standing.verified or None,
    }


def runtime_to_dict(runtime: Runtime) -> dict[str, Any]:
    """Returns a runtime as plain data."""
    return {
        "name": runtime.name,
        "title": runtime.title,
        "aliases": list(runtime.aliases),
        "units": list(runtime.units),
        "dtypes": list(runtime.dtypes),
        "fuses": None if runtime.fusions is None else list(runtime.fusions),
        "in_place": None if runtime.in_place is None else list(runtime.in_place),
        "formats": None if runtime.formats is None else list(runtime.formats),
        "overhead_seconds": runtime.overhead_seconds,
        "cores": runtime.cores,
        "micro_kernels": runtime.micro or None,
        "operators": _operators(runtime),
        "code": None if runtime.code is None else asdict(runtime.code),
        "packs_weights": runtime.packs_weights,
        "version": runtime.version or None,
        "note": runtime.note or None,
        "source": runtime.source,
        "recorded": runtime.recorded or None,
        "file": runtime.file,
    }


def _operators(runtime: Runtime) -> dict[str, Any] | None:
    listed = runtime.operators
    return None if listed is None else {**asdict(listed), "names": sorted(listed.names)}


def calibration_to_dict(calibration: TargetCalibration) -> dict[str, Any]:
    """Returns a calibration as plain data: rates in seconds, interval as ln(measured / estimated)."""
    return {
        "target": calibration.name,
        "quantity": calibration.quantity,
        "precisions": list(calibration.precisions),
        "measurements": calibration.measurements,
        "mape": calibration.mape,
        "within_10_percent": calibration.within_10_percent,
        "kendall_tau": calibration.kendall_tau,
        "held_out": calibration.held_out,
        "interval": dict(calibration.interval),
        "rates": dict(calibration.rates),
        "version": calibration.version or None,
        "threads": calibration.threads,
        "note": calibration.note or None,
        "source": calibration.source,
        "recorded": calibration.recorded or None,
        "file": calibration.file,
    }


def json_lines(
    devices: Sequence[Device],
    runtimes: Sequence[Runtime],
    standings: Sequence[Standing],
    calibrations: Sequence[TargetCalibration] = (),
    listed_clusters: Sequence[Cluster] = (),
) -> Iterator[str]:
    """Yields devices, their runtimes, standings, calibrations and clusters as JSON text, one per line."""
    lists = {
        "devices": [to_dict(device) for device in devices],
        "runtimes": [runtime_to_dict(runtime) for runtime in runtimes],
        "standings": [standing_to_dict(standing) for standing in standings],
        "calibrations": [calibration_to_dict(calibration) for calibration in calibrations],
        "clusters": [clusters.to_dict(cluster) for cluster in listed_clusters],
    }
    yield "{\n"
    yield from (f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in envelope.head().items())
    for key, rows in lists.items():
        body = ",\n    ".join(map(json.dumps, rows))
        end = "" if key == "clusters" else ","
        yield f'  "{key}": [\n    {body}\n  ]{end}\n' if rows else f'  "{key}": []{end}\n'
    yield "}\n"


def _unit(unit: Unit) -> dict[str, Any]:
    return {
        "unit_class": unit.unit_class,
        "name": unit.name,
        "core": None if unit.core is None else unit.core.name,
        "cores": unit.cores,
        "clock_hz": unit.clock_hz,
        "boost_hz": unit.boost_hz,
        "macs_per_second": dict(unit.macs_per_second),
        "basis": dict(unit.basis),
        "note": unit.note or None,
        "source": unit.source,
    }


def memory_to_dict(memory: Memory) -> dict[str, Any]:
    """Returns a memory as plain data."""
    return {
        "name": memory.name,
        "role": memory.role,
        "bytes": memory.bytes,
        "bytes_per_second": memory.bytes_per_second,
        "basis": memory.basis or None,
        "note": memory.note or None,
        "source": memory.source,
    }


def _power(power: Power) -> dict[str, Any]:
    return {
        "idle_watts": power.idle_watts,
        "typical_watts": power.typical_watts,
        "tdp_watts": power.tdp_watts,
        "note": power.note or None,
        "source": power.source,
    }


def _energy(energy: Energy) -> dict[str, Any]:
    return {
        "pj_per_mac": dict(energy.pj_per_mac),
        "pj_per_byte": dict(energy.pj_per_byte),
        "note": energy.note or None,
        "source": energy.source,
    }
