"""Slowdowns of device kinds against their data sheets, from all measurements with a suitable license."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fitting import hailo, known, ncnn, search_spaces, tiny
from fitting.measured import CATALOG, Measured
from fitting.shipped import RECORDED, number
from latency.truth import image_models
from sizeup.errors import TargetError
from sizeup.latency.roofline import roofline_kernels
from sizeup.latency.work import Floats

LEAST_DEVICES = 3
LEAST_NETWORKS = 8
_MOST_BY_TABLE = 300  # networks sampled from one table; more do not change the result


class Ratios(NamedTuple):
    """Ratios of measured to data-sheet seconds, of the networks of one table on one target."""

    table: str
    kind: str
    runtime: str  # '' if it is not in the catalog
    device: str
    times: Floats


@dataclass(frozen=True)
class SlowdownTable:
    """The content of a `[[reach]]` table."""

    name: str
    times: float
    low: float
    high: float
    measurements: int
    devices: int


def ratios_of(samples: Measured, runtime: str | None = None) -> Ratios | None:
    """The ratio of each network; None if the data sheet lacks the rate of its arithmetic."""
    device = samples.target.device
    try:
        least, is_complete, _ = roofline_kernels(samples.work, samples.target)
    except TargetError:
        return None
    if not is_complete.all():
        return None
    name = samples.target.runtime.name if runtime is None else runtime
    times = samples.seconds / samples.work.totals(least.seconds)
    step = max(1, len(times) // _MOST_BY_TABLE)
    return Ratios(samples.table, device.device_class, name, device.name, times[::step])


def _timm(folder: Path) -> Iterator[Measured]:
    for run in (*image_models.RUNS.values(), *image_models.MORE_RUNS.values()):
        if run.precision == "bf16" or (run.device == "rtx-4090" and run.version != "2.9.1"):
            continue  # one run per target
        image_samples = image_models.measured(folder, run)
        ending = "" if run.precision == "fp32" else f".{run.precision}"
        work = replace(image_samples.work, names=tuple(name + ending for name in image_samples.work.names))
        if len(image_samples.models):
            target = CATALOG.target(f"{run.device}/{run.runtime}")
            yield Measured("timm_infer", target, work, image_samples.seconds, image_samples.models)


def _uses_the_device(samples: Measured) -> bool:
    """Whether at least half as many threads ran as the device has cores."""
    cores = sum(unit.cores or 1 for unit in samples.target.units)
    return samples.threads is None or 2 * samples.threads >= cores


def licensed(folder: Path, models: Path) -> list[Ratios]:
    """The ratios of all measurements with a suitable license."""
    measured = [samples for samples in ncnn.measured(folder) if _uses_the_device(samples)]
    measured += [
        *search_spaces.measured(folder),
        *tiny.tiny_engine(folder),
        *hailo.measured(folder),
        *known.measured(folder),
    ]
    measured += [*_timm(folder)]
    all_ratios = [ratios_of(samples) for samples in measured]
    all_ratios += [ratios_of(samples, engine) for samples, engine in tiny.of_any_engine(folder, models)]
    return [samples for samples in all_ratios if samples is not None]


def keys(kind: str, runtime: str) -> tuple[str, str]:
    """The names to look up for a target: its device kind with the runtime, then the kind."""
    return f"{kind}/{runtime}", kind


def slowdowns_of(ratios: Sequence[Ratios]) -> dict[str, SlowdownTable]:
    """The slowdown of each kind with enough measured devices, and of each runtime on such a kind.

    A runtime measured on few devices has its own median, with the spread of the kind around it.
    """
    groups: dict[str, list[Ratios]] = {}
    for item in ratios:
        for key in keys(item.kind, item.runtime) if item.runtime else (item.kind,):
            groups.setdefault(key, []).append(item)
    slowdowns = {name: _slowdown(name, members) for name, members in sorted(groups.items())}
    kinds = {
        name: item for name, item in slowdowns.items() if "/" not in name and item.devices >= LEAST_DEVICES
    }
    enough = {name: item for name, item in slowdowns.items() if item.measurements >= LEAST_NETWORKS}
    runtimes = {name: item for name, item in enough.items() if name.split("/")[0] in kinds and "/" in name}
    return {**kinds, **{name: _spread(item, kinds[name.split("/")[0]]) for name, item in runtimes.items()}}


def _spread(few: SlowdownTable, kind: SlowdownTable) -> SlowdownTable:
    if few.devices >= LEAST_DEVICES:
        return few
    low, high = few.times * kind.low / kind.times, few.times * kind.high / kind.times
    return replace(few, low=min(low, few.low), high=max(high, few.high))


def _slowdown(name: str, members: list[Ratios]) -> SlowdownTable:
    """The median and 90 % interval; all devices have equal weight, and so have the tables of a device."""
    devices = {ratios.device for ratios in members}
    tables = {device: sum(ratios.device == device for ratios in members) for device in devices}
    times = np.concatenate([ratios.times for ratios in members])
    weights = np.concatenate(
        [np.full(len(ratios.times), 1 / tables[ratios.device] / len(ratios.times)) for ratios in members]
    )
    order = np.argsort(times, kind="stable")
    mass = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, middle, high = np.interp([0.05, 0.5, 0.95], mass, times[order]).tolist()
    return SlowdownTable(name, middle, low, high, len(times), len(devices))


def coverage_of(
    evaluated: Sequence[Ratios], ratios: Sequence[Ratios]
) -> dict[tuple[str, str], tuple[float, int, float]]:
    """By table and slowdown: the share of networks in its interval, the devices, and the MAPE of its median.

    Each device is evaluated by the slowdown of all others.
    """
    parts: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    for item in evaluated:
        slowdowns = slowdowns_of([other for other in ratios if other.device != item.device])
        name = next((key for key in keys(item.kind, item.runtime) if key in slowdowns), None)
        if name is not None:
            slowdown = slowdowns[name]
            inside = float(((slowdown.low <= item.times) & (item.times <= slowdown.high)).mean())
            error = float(np.abs(slowdown.times / item.times - 1).mean())
            parts.setdefault((item.table, name), []).append((item.device, inside, error))
    return {
        key: (
            float(np.mean([inside for _, inside, _ in rows])),
            len({device for device, _, _ in rows}),
            float(np.mean([error for *_, error in rows])),
        )
        for key, rows in sorted(parts.items())
    }


_SOURCE = (
    "measured: ratio of measured to data-sheet seconds, from https://github.com/HayeonLee/HELP (MIT),"
    " Tencent/ncnn (BSD-3-Clause), mlcommons/tiny_results (Apache-2.0), mit-han-lab/tinyengine (MIT),"
    " hailo-ai/hailo_model_zoo (MIT), openvinotoolkit/openvino (Apache-2.0), google-coral/edgetpu"
    " (Apache-2.0), google/XNNPACK (BSD-3-Clause) and huggingface/pytorch-image-models (Apache-2.0)"
)


def slowdown_file(slowdowns: dict[str, SlowdownTable]) -> str:
    """The content of reach.toml."""
    lines = ["# Measured slowdown against the data sheet, by device kind and runtime."]
    lines += ["", "[sources]", f'tables = "{_SOURCE}"', "", "[common]", f'recorded = "{RECORDED}"']
    for name, slowdown in sorted(slowdowns.items()):
        lines += ["", "[[reach]]", f'name = "{name}"']
        lines += [f"{key} = {number(getattr(slowdown, key))}" for key in ("times", "low", "high")]
        lines += [
            f"measurements = {slowdown.measurements}",
            f"devices = {slowdown.devices}",
            'source = "tables"',
        ]
    return "\n".join(lines) + "\n"
