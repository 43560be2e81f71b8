"""Compare benchmarks of a server with estimates, and store the measured times for later estimates."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.serving.memory.deployment import Deployment, deploy
from sizeup.serving.memory.engines import engine_of
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.reader import read
from sizeup.serving.steps.factors import MOST_RATIO
from sizeup.serving.steps.rates import calibrated_devices
from sizeup.serving.steps.step import server_of
from sizeup.serving.times.anchors import check_measurement, configuration_digest
from sizeup.serving.times.bench_files import BenchmarkRun, read_runs
from sizeup.serving.times.closed_form import times
from sizeup.serving.times.estimate import calibrated_server
from sizeup.targets import clear_cache, user_folder, write
from sizeup.targets.anchors import Anchor
from sizeup.targets.clusters import cluster

_MOST_FILES = 100
_SUSPECT_RATIO = 2.0


@dataclass(frozen=True, slots=True)
class ServingCalibrationOptions:
    """Which benchmarks were run, and how the model was served."""

    files: tuple[str, ...]
    model: str
    target: str
    layout: str | None = None
    weights: str | None = None
    kv: str | None = None
    out: Path | None = None  # None: in the user's folder of targets


@dataclass(frozen=True, slots=True)
class ServingMeasurement:
    """A run of a benchmark, and the estimates before it was taken into account, in seconds."""

    run: BenchmarkRun
    tpot: float
    ttft: float


@dataclass(frozen=True, slots=True)
class ServingCalibration:
    """Measured and estimated times of a configuration, and the file that measurements are stored in."""

    target: str
    model: str
    layout: str
    kv: str
    measurements: tuple[ServingMeasurement, ...]
    notes: tuple[str, ...]
    path: Path

    @property
    def tpot_factor(self) -> float:
        """The geometric mean of measured / estimated TPOT."""
        return _mean_ratio([(each.run.tpot, each.tpot) for each in self.measurements])

    @property
    def ttft_factor(self) -> float | None:
        """The geometric mean of measured / estimated TTFT; None if no TTFT is used."""
        pairs = [(each.run.ttft, each.ttft) for each in self.measurements if each.run.ttft is not None]
        return _mean_ratio(pairs) if pairs else None

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as plain data."""
        return {
            "target": self.target,
            "model": self.model,
            "layout": self.layout,
            "kv": self.kv,
            "file": str(self.path),
            "tpot_factor": self.tpot_factor,
            "ttft_factor": self.ttft_factor,
            "measurements": [
                {
                    "file": each.run.file,
                    "model": each.run.model,
                    "requests": each.run.requests,
                    "input_tokens": each.run.input,
                    "output_tokens": each.run.output,
                    "tpot_seconds": {"measured": each.run.tpot, "estimated": each.tpot},
                    "ttft_seconds": {"measured": each.run.ttft, "estimated": each.ttft},
                }
                for each in self.measurements
            ],
            "notes": list(self.notes),
        }


def calibrate_serving(options: ServingCalibrationOptions) -> ServingCalibration:
    """Read benchmarks, compare them with estimates, and store what was measured.

    Raises SizeupError if a file is not of such a server, or its target has no calibration to correct.
    """
    if not 1 <= len(options.files) <= _MOST_FILES:
        raise SizeupError(f"give 1 to {_MOST_FILES} files of benchmarks")
    runs = [run for file in options.files for run in read_runs(file)]
    architecture = read(options.model, options.weights)
    machines, engine_name = cluster(options.target)
    engine = engine_of(engine_name)
    path = options.out or user_folder() / f"{machines.device.name}.toml"
    write.check_writable(path)
    deployments = [
        deploy(
            architecture, machines, engine,
            input=run.input, output=run.output, kv=options.kv, layout=options.layout,
        )
        for run in runs
    ]  # fmt: skip
    compared = [_compared(run, deployment) for run, deployment in zip(runs, deployments, strict=True)]
    notes = tuple(f"{Path(each.run.place).name}: {note}" for each in compared for note in _notes(each))
    measurements = tuple(map(_usable, compared))
    layout, kv = deployments[0].layout, deployments[0].kv
    target, digest = f"{machines.device.name}/{engine.name}", configuration_digest(architecture, layout, kv)
    anchors = [_anchor(each.run, target, digest, architecture.name, layout) for each in measurements]
    write.save_anchors(path, [anchor.to_table() for anchor in anchors])
    clear_cache()
    return ServingCalibration(target, architecture.name, str(layout), kv, measurements, notes, path)


def _anchor(run: BenchmarkRun, target: str, configuration: str, model: str, layout: Layout) -> Anchor:
    today = datetime.date.today().isoformat()
    load = run.requests, run.input, run.output
    return Anchor(target, configuration, model, str(layout), *load, run.tpot, run.ttft, run.file, today)


def _check_server(run: BenchmarkRun, deployment: Deployment) -> None:
    """Raise SizeupError if a run states another engine, other GPUs or another layout, or did not fit."""
    engine, layout = deployment.engine, deployment.layout
    if run.tool == "trtllm-bench" and engine.name != "trtllm":
        raise SizeupError(f"{run.place}: of trtllm-bench, not of {engine.title}; write -d NxDEVICE/trtllm")
    if run.divisions is not None:
        tensor, pipeline, gpus = run.divisions
        if gpus != deployment.cluster.devices:
            raise SizeupError(
                f"{run.place}: measured on {gpus} GPUs, and {deployment.cluster.name} has"
                f" {deployment.cluster.devices}"
            )
        if (tensor, pipeline) != (layout.tensor, layout.pipeline):
            raise SizeupError(
                f"{run.place}: measured with tp{tensor},pp{pipeline}, not {layout}; set --layout"
            )
    most = deployment.sequences_range()[1]
    if run.requests > most:
        raise SizeupError(
            f"{run.place}: {run.requests:,} concurrent requests, and at most {most:,} fit the cache of"
            f" {deployment.cluster.name}; run the benchmark with --max-concurrency {max(most, 1)} or less"
        )


def _compared(run: BenchmarkRun, deployment: Deployment) -> ServingMeasurement:
    _check_server(run, deployment)
    engine, machines = deployment.engine, deployment.cluster
    calibrated = calibrated_server(
        deployment.architecture, deployment.layout, machines, engine.name, deployment.kv
    )
    if calibrated is None or calibrated[1] is None:
        others = calibrated_devices(engine.name)
        raise SizeupError(
            f"{engine.title} on {machines.device.name} has no calibrated times to correct{others}"
        )
    server = replace(calibrated[0], factors=None)
    ideal = server_of(deployment.architecture, deployment.layout, machines, deployment.kv)
    load = run.requests, run.input, run.output
    check_measurement(server, ideal or server, load, run.tpot, run.place)
    result = times(server, *load, run.requests)
    return ServingMeasurement(run, float(result.tpot), float(result.ttft))


def _notes(measurement: ServingMeasurement) -> list[str]:
    run, ratio = measurement.run, _ratio(measurement.run.tpot, measurement.tpot)
    notes = list(run.notes)
    if ratio > _SUSPECT_RATIO:
        notes.append("TPOT is far from the estimate: check model, --layout, --weights and --kv")
    if run.ttft is not None and _ratio(run.ttft, measurement.ttft) > MOST_RATIO:
        notes.append(f"TTFT differs from the estimate by more than a factor of {MOST_RATIO:g}: not used")
    return notes


def _usable(measurement: ServingMeasurement) -> ServingMeasurement:
    """The measurement without a TTFT of another kind: of cached prompts, or requests that waited."""
    ttft = measurement.run.ttft
    if ttft is None or _ratio(ttft, measurement.ttft) <= MOST_RATIO:
        return measurement
    return replace(measurement, run=replace(measurement.run, ttft=None))


def _ratio(first: float, second: float) -> float:
    return max(first / second, second / first)


def _mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return math.exp(sum(math.log(measured / estimated) for measured, estimated in pairs) / len(pairs))
