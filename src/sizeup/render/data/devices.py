"""Devices as plain data and JSON: raw numbers, the unit in every key, null for what is not known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from sizeup.targets import Device, Energy, Fit, Memory, Power, Runtime, Unit

SCHEMA_VERSION = 1


def to_dict(device: Device) -> dict[str, Any]:
    """All that is known of a device."""
    return {
        "name": device.name,
        "title": device.title,
        "kind": device.kind,
        "maker": device.maker,
        "aliases": list(device.aliases),
        "runtimes": list(device.runtimes),
        "ram_bytes": device.ram_bytes,
        "largest_ram_bytes": device.largest_ram_bytes,
        "flash_bytes": device.flash_bytes,
        "bandwidth_bytes_per_second": device.bandwidth,
        "flops_per_byte": device.flops_per_byte_by_dtype,
        "units": [_unit(unit) for unit in device.units],
        "memories": [_memory(memory) for memory in device.memories],
        "power": None if device.power is None else _power(device.power),
        "energy": None if device.energy is None else _energy(device.energy),
        "note": device.note or None,
        "source": device.source,
        "recorded": device.recorded or None,
        "verified": device.verified or None,
        "file": device.file,
    }


def runtime_to_dict(runtime: Runtime) -> dict[str, Any]:
    """All that is known of a runtime."""
    return {
        "name": runtime.name,
        "title": runtime.title,
        "aliases": list(runtime.aliases),
        "units": list(runtime.units),
        "dtypes": list(runtime.dtypes),
        "fuses": None if runtime.fuses is None else list(runtime.fuses),
        "in_place": None if runtime.in_place is None else list(runtime.in_place),
        "reads": None if runtime.reads is None else list(runtime.reads),
        "overhead_seconds": runtime.overhead_seconds,
        "micro_kernels": runtime.micro or None,
        "code": None if runtime.code is None else asdict(runtime.code),
        "packs_weights": runtime.packs,
        "version": runtime.version or None,
        "note": runtime.note or None,
        "source": runtime.source,
        "recorded": runtime.recorded or None,
        "file": runtime.file,
    }


def fit_to_dict(fit: Fit) -> dict[str, Any]:
    """All that a fit says: its rates in seconds, its range in logarithms of measured over estimated."""
    return {
        "target": fit.name,
        "precisions": list(fit.precisions),
        "measurements": fit.measurements,
        "error": fit.error,
        "within_10_percent": fit.within,
        "kendall_tau": fit.tau,
        "held_out": fit.held_out,
        "band": dict(fit.band),
        "rates": dict(fit.rates),
        "version": fit.version or None,
        "threads": fit.threads,
        "note": fit.note or None,
        "source": fit.source,
        "recorded": fit.recorded or None,
        "file": fit.file,
    }


def json_lines(
    found: Sequence[Device], runtimes: Sequence[Runtime], fits: Sequence[Fit] = ()
) -> Iterator[str]:
    """Devices, the runtimes on them and the fits of both as JSON text, one of them a line."""
    head = {"schema_version": SCHEMA_VERSION, "tool": {"name": "sizeup", "version": version("sizeup")}}
    lists = {
        "devices": [to_dict(device) for device in found],
        "runtimes": [runtime_to_dict(runtime) for runtime in runtimes],
        "calibrations": [fit_to_dict(fit) for fit in fits],
    }
    yield "{\n"
    yield from (f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    for key, rows in lists.items():
        body = ",\n    ".join(map(json.dumps, rows))
        end = "" if key == "calibrations" else ","
        yield f'  "{key}": [\n    {body}\n  ]{end}\n' if rows else f'  "{key}": []{end}\n'
    yield "}\n"


def _unit(unit: Unit) -> dict[str, Any]:
    return {
        "kind": unit.kind,
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


def _memory(memory: Memory) -> dict[str, Any]:
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
