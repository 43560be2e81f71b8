"""How many times longer than its data sheet says a kind of device takes, by all that may be shipped from."""

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
from sizeup.latency.roofline import by_data_sheet
from sizeup.latency.work import Floats

LEAST_DEVICES = 3
LEAST_NETWORKS = 8
_MOST_BY_TABLE = 300  # networks of one table that are asked; more say the same


class Ratios(NamedTuple):
    """Measured seconds over those of the data sheet, of the networks of one table on one target."""

    table: str
    kind: str
    runtime: str  # '' where it is none of ours
    device: str
    times: Floats


@dataclass(frozen=True)
class Reached:
    """What a `[[reach]]` table says."""

    name: str
    times: float
    low: float
    high: float
    measurements: int
    devices: int


def ratios_of(found: Measured, runtime: str | None = None) -> Ratios | None:
    """Of every network; None where the data sheet does not tell the rate of its arithmetic."""
    device = found.target.device
    try:
        least, is_whole, _ = by_data_sheet(found.work, found.target)
    except TargetError:
        return None
    if not is_whole.all():
        return None
    name = found.target.runtime.name if runtime is None else runtime
    times = found.seconds / found.work.totals(least.seconds)
    step = max(1, len(times) // _MOST_BY_TABLE)
    return Ratios(found.table, device.kind, name, device.name, times[::step])


def _timm(folder: Path) -> Iterator[Measured]:
    for run in (*image_models.RUNS.values(), *image_models.MORE_RUNS.values()):
        if run.precision == "bf16" or (run.device == "rtx-4090" and run.version != "2.9.1"):
            continue  # one run speaks for a target
        found = image_models.measured(folder, run)
        ending = "" if run.precision == "fp32" else f".{run.precision}"
        work = replace(found.work, names=tuple(each + ending for each in found.work.names))
        if len(found.models):
            target = CATALOG.target(f"{run.device}/{run.runtime}")
            yield Measured("timm_infer", target, work, found.seconds, found.models)


def _uses_the_device(found: Measured) -> bool:
    """Whether about as many threads ran as there are cores, of which the data sheet counts all."""
    cores = sum(unit.cores or 1 for unit in found.target.units)
    return found.threads is None or 2 * found.threads >= cores


def licensed(folder: Path, models: Path) -> list[Ratios]:
    """Everything measured that may be shipped from."""
    found = [each for each in ncnn.measured(folder) if _uses_the_device(each)]
    found += [
        *search_spaces.measured(folder),
        *tiny.tiny_engine(folder),
        *hailo.measured(folder),
        *known.measured(folder),
    ]
    found += [*_timm(folder)]
    all_ratios = [ratios_of(each) for each in found]
    all_ratios += [ratios_of(each, engine) for each, engine in tiny.of_any_engine(folder, models)]
    return [each for each in all_ratios if each is not None]


def keys(kind: str, runtime: str) -> tuple[str, str]:
    """What a target is looked up by: its kind with the runtime, then the kind."""
    return f"{kind}/{runtime}", kind


def reached(found: Sequence[Ratios]) -> dict[str, Reached]:
    """For every kind that enough devices were measured of, and for every runtime on such a kind.

    A runtime that few devices of the kind were measured with has a middle of its own, and the spread of the
    kind around it.
    """
    groups: dict[str, list[Ratios]] = {}
    for each in found:
        for key in keys(each.kind, each.runtime) if each.runtime else (each.kind,):
            groups.setdefault(key, []).append(each)
    made = {name: _reach(name, members) for name, members in sorted(groups.items())}
    kinds = {name: each for name, each in made.items() if "/" not in name and each.devices >= LEAST_DEVICES}
    enough = {name: each for name, each in made.items() if each.measurements >= LEAST_NETWORKS}
    runtimes = {name: each for name, each in enough.items() if name.split("/")[0] in kinds and "/" in name}
    return {**kinds, **{name: _spread(each, kinds[name.split("/")[0]]) for name, each in runtimes.items()}}


def _spread(few: Reached, kind: Reached) -> Reached:
    if few.devices >= LEAST_DEVICES:
        return few
    low, high = few.times * kind.low / kind.times, few.times * kind.high / kind.times
    return replace(few, low=min(low, few.low), high=max(high, few.high))


def _reach(name: str, members: list[Ratios]) -> Reached:
    """The middle and the middle nine tenths; a device counts once, and so does each table on it."""
    devices = {each.device for each in members}
    tables = {device: sum(each.device == device for each in members) for device in devices}
    times = np.concatenate([each.times for each in members])
    weights = np.concatenate(
        [np.full(len(each.times), 1 / tables[each.device] / len(each.times)) for each in members]
    )
    order = np.argsort(times, kind="stable")
    mass = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, middle, high = np.interp([0.05, 0.5, 0.95], mass, times[order]).tolist()
    return Reached(name, middle, low, high, len(times), len(devices))


def covered(
    judged: Sequence[Ratios], found: Sequence[Ratios]
) -> dict[tuple[str, str], tuple[float, int, float]]:
    """By table and name of the reach: the share of networks within its range, the devices, and the mean error
    of the middle, every device judged by all others."""
    parts: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    for each in judged:
        stated = reached([other for other in found if other.device != each.device])
        name = next((key for key in keys(each.kind, each.runtime) if key in stated), None)
        if name is not None:
            one = stated[name]
            inside = float(((one.low <= each.times) & (each.times <= one.high)).mean())
            error = float(np.abs(one.times / each.times - 1).mean())
            parts.setdefault((each.table, name), []).append((each.device, inside, error))
    return {
        key: (
            float(np.mean([inside for _, inside, _ in rows])),
            len({device for device, _, _ in rows}),
            float(np.mean([error for *_, error in rows])),
        )
        for key, rows in sorted(parts.items())
    }


_SOURCE = (
    "measured: seconds over those of the data sheet, from https://github.com/HayeonLee/HELP (MIT),"
    " Tencent/ncnn (BSD-3-Clause), mlcommons/tiny_results (Apache-2.0), mit-han-lab/tinyengine (MIT),"
    " hailo-ai/hailo_model_zoo (MIT), openvinotoolkit/openvino (Apache-2.0), google-coral/edgetpu"
    " (Apache-2.0), google/XNNPACK (BSD-3-Clause) and huggingface/pytorch-image-models (Apache-2.0)"
)


def text_of_reach(found: dict[str, Reached]) -> str:
    """The file of all of them."""
    lines = [
        "# How many times longer than its data sheet says a kind of device takes, with a runtime or with any."
    ]
    lines += ["", "[sources]", f'tables = "{_SOURCE}"', "", "[common]", f'recorded = "{RECORDED}"']
    for name, each in sorted(found.items()):
        lines += ["", "[[reach]]", f'name = "{name}"']
        lines += [f"{key} = {number(getattr(each, key))}" for key in ("times", "low", "high")]
        lines += [f"measurements = {each.measurements}", f"devices = {each.devices}", 'source = "tables"']
    return "\n".join(lines) + "\n"
