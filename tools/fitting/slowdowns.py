"""Slowdowns of families of units against their data sheets, from all measurements with a suitable license."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from fitting import known, ncnn, search_spaces, tiny
from fitting.measured import CATALOG, Measured
from fitting.shipped import RECORDED, number
from latency.truth import image_models
from latency.truth.tables import Words
from sizeup.errors import TargetError
from sizeup.latency.interval import LEVEL
from sizeup.latency.roofline import roofline_kernels
from sizeup.latency.work import Codes, Flags, Floats

LEAST_DEVICES = 2
LEAST_NETWORKS = 8
WIDEST = 36.0  # high / low: wider intervals are useless
_MOST_BY_TABLE = 300  # networks sampled from one table; more do not change the result
_FOLDS = 7
_LEAST_FOLDS = 2
_STEPS = 20
_SMALLEST = 0.03  # relative errors below this are squared
# Small networks alone determine launches and hardly rates: twice the data sheet's times, weakly expected.
_EXPECTED = np.array([1.0, 1.0, 0.0])  # more arithmetic, traffic, launches
_STRENGTH = 1e-3
_LAUNCH = 1e-5  # seconds: the scale of launches


class Samples(NamedTuple):
    """Networks of one table on one target: seconds by the data sheet, kernels, and measured seconds.

    Networks of one `fold` are alike: they are held out together.
    """

    table: str
    name: str  # family/runtime
    device: str
    compute: Floats
    traffic: Floats
    kernels: Floats
    seconds: Floats
    fold: Codes
    has_bandwidth: bool

    def where(self, is_chosen: Flags) -> Samples:
        """Some of the networks."""
        columns = ("compute", "traffic", "kernels", "seconds", "fold")
        return self._replace(**{name: getattr(self, name)[is_chosen] for name in columns})


@dataclass(frozen=True)
class SlowdownTable:
    """The content of a `[[slowdown]]` table."""

    name: str
    compute: float
    traffic: float
    launch: float
    low: float
    high: float
    measurements: int
    devices: int

    def estimated(self, samples: Samples) -> Floats:
        """The seconds of each network."""
        return self.compute * samples.compute + self.traffic * samples.traffic + self.launch * samples.kernels


def samples_of(measured: Measured, runtime: str | None = None) -> Samples | None:
    """A table's networks on a target; None if the family or the rate of some arithmetic is unknown."""
    target = measured.target
    try:
        sheet, is_complete, _ = roofline_kernels(measured.work, target)
    except TargetError:
        return None
    engine = target.runtime.name if runtime is None else runtime
    if not is_complete.all() or not target.family or not engine:
        return None
    work, step = measured.work, max(1, len(measured.seconds) // _MOST_BY_TABLE)
    return Samples(
        measured.table,
        f"{target.family}/{engine}",
        target.device.name,
        work.totals(sheet.compute)[::step],
        work.totals(sheet.traffic)[::step],
        work.totals(np.ones(len(work)))[::step],
        measured.seconds[::step],
        _folds(measured.group)[::step],
        target.device.bandwidth is not None,
    )


def _folds(groups: Words) -> Codes:
    """A fold for each network, by the name of its group."""
    return np.array([zlib.crc32(group.encode()) % _FOLDS for group in groups.tolist()], np.int64)


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


def _uses_the_device(measured: Measured) -> bool:
    """Whether at least half as many threads ran as the device has cores."""
    cores = sum(unit.cores or 1 for unit in measured.target.units)
    return measured.threads is None or 2 * measured.threads >= cores


def licensed(folder: Path, models: Path) -> list[Samples]:
    """All measurements of latency with a suitable license, without the sources that are held out."""
    tables = [measured for measured in ncnn.measured(folder) if _uses_the_device(measured)]
    tables += [
        *search_spaces.measured(folder),
        *tiny.tiny_engine(folder),
        *known.measured(folder),
        *_timm(folder),
    ]
    samples = [samples_of(measured) for measured in tables]
    samples += [samples_of(measured, engine) for measured, engine in tiny.of_any_engine(folder, models)]
    return [each for each in samples if each is not None]


def slowdowns_of(samples: Sequence[Samples]) -> dict[str, SlowdownTable]:
    """The slowdown of each family and runtime that was measured on several devices."""
    groups: dict[str, list[Samples]] = {}
    for each in samples:
        groups.setdefault(each.name, []).append(each)
    slowdowns = (_slowdown(name, members) for name, members in sorted(groups.items()))
    return {each.name: each for each in slowdowns if each is not None}


def _slowdown(name: str, members: list[Samples]) -> SlowdownTable | None:
    """The slowdown with an interval from held-out devices; None if they are too few, or differ too much."""
    devices = sorted({each.device for each in members})
    measurements = sum(len(each.seconds) for each in members)
    if len(devices) < LEAST_DEVICES or measurements < LEAST_NETWORKS:
        return None
    held_out = [*_held_out(name, members)]
    # Symmetric, because a device that predicts another one too low is predicted too high by it; and wider,
    # the fewer devices there are.
    errors = np.concatenate([np.abs(np.log(each.seconds / estimated)) for each, estimated in held_out])
    half = _quantile(errors, _shares([each for each, _ in held_out])) * (1 + 1 / len(devices))
    if 2 * half > np.log(WIDEST):
        return None
    return replace(_fitted(name, members), low=float(np.exp(-half)), high=float(np.exp(half)))


def _held_out(name: str, members: list[Samples]) -> Iterator[tuple[Samples, Floats]]:
    """The networks of each device and fold, estimated from other networks on other devices."""
    folds = np.unique(np.concatenate([each.fold for each in members])).tolist()
    has_folds = len(folds) >= _LEAST_FOLDS
    for device in sorted({each.device for each in members}):
        for fold in folds if has_folds else (None,):
            others = [each.where(each.fold != fold) for each in members if each.device != device]
            others = [each for each in others if len(each.seconds)]
            own = [each if fold is None else each.where(each.fold == fold) for each in members]
            own = [each for each in own if each.device == device and len(each.seconds)]
            if others and own:
                fitted = _fitted(name, others)
                yield from ((each, fitted.estimated(each)) for each in own)


def _quantile(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), LEVEL)])


def _shares(members: Sequence[Samples]) -> Floats:
    """The weight of each network: all devices have the same, and so have the tables of a device."""
    devices = [each.device for each in members]
    shares = [
        np.full(len(each.seconds), 1 / devices.count(each.device) / len(each.seconds)) for each in members
    ]
    return np.concatenate(shares) / len(set(devices))


def _fitted(name: str, members: list[Samples]) -> SlowdownTable:
    """Non-negative least squares of relative errors, with weights that turn squared into absolute errors.

    No arithmetic is faster than the data sheet, so `compute` is at least 1.
    """
    share = _shares(members)
    measured = np.concatenate([each.seconds for each in members])
    compute, traffic, kernels = (
        np.concatenate([getattr(each, part) for each in members]) / measured
        for part in ("compute", "traffic", "kernels")
    )
    has_bandwidth = all(each.has_bandwidth for each in members)
    design = np.stack([compute, traffic * has_bandwidth, kernels * _LAUNCH], axis=1)
    prior = np.sqrt(_STRENGTH) * np.eye(3)
    solution, weights = np.zeros(3), np.sqrt(share)
    for _ in range(_STEPS):
        rows = np.vstack([design * weights[:, None], prior])
        solution, _ = nnls(rows, np.concatenate([(1 - compute) * weights, prior @ _EXPECTED]))
        errors = np.abs(design @ solution + compute - 1)
        weights = np.sqrt(share / np.maximum(errors, _SMALLEST))
    extra, byte, launch = solution.tolist()
    devices = len({each.device for each in members})
    launch_seconds, traffic_factor = launch * _LAUNCH, byte if has_bandwidth else 0.0
    return SlowdownTable(name, 1 + extra, traffic_factor, launch_seconds, 1.0, 1.0, len(measured), devices)


def coverage_of(
    evaluated: Sequence[Samples], samples: Sequence[Samples]
) -> dict[tuple[str, str], tuple[float, int, float]]:
    """By table and slowdown: share of networks in its interval, devices, and error factor.

    Each device is evaluated by the slowdown of all others.
    """
    parts: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    for each in evaluated:
        others = [other for other in samples if other.device != each.device and other.name == each.name]
        slowdown = slowdowns_of(others).get(each.name)
        if slowdown is not None:
            ratios = each.seconds / slowdown.estimated(each)
            inside = float(((slowdown.low <= ratios) & (ratios <= slowdown.high)).mean())
            error = float(np.abs(np.log(ratios)).mean())
            parts.setdefault((each.table, each.name), []).append((each.device, inside, error))
    return {
        key: (
            float(np.mean([inside for _, inside, _ in rows])),
            len({device for device, _, _ in rows}),
            float(np.exp(np.mean([error for *_, error in rows]))),
        )
        for key, rows in sorted(parts.items())
    }


_SOURCE = (
    "measured: measured against data-sheet seconds, from https://github.com/HayeonLee/HELP (MIT),"
    " Tencent/ncnn (BSD-3-Clause), mlcommons/tiny_results (Apache-2.0), mit-han-lab/tinyengine (MIT),"
    " openvinotoolkit/openvino (Apache-2.0) and huggingface/pytorch-image-models (Apache-2.0)"
)


def slowdown_file(slowdowns: dict[str, SlowdownTable]) -> str:
    """The content of slowdowns.toml."""
    lines = ["# Measured slowdowns against the data sheet, by family of units and runtime."]
    lines += ["", "[sources]", f'tables = "{_SOURCE}"', "", "[common]", f'recorded = "{RECORDED}"']
    for name, slowdown in sorted(slowdowns.items()):
        lines += ["", "[[slowdown]]", f'name = "{name}"']
        values = ("compute", "traffic", "launch", "low", "high")
        lines += [f"{key} = {number(getattr(slowdown, key))}" for key in values]
        lines += [
            f"measurements = {slowdown.measurements}",
            f"devices = {slowdown.devices}",
            'source = "tables"',
        ]
    return "\n".join(lines) + "\n"
