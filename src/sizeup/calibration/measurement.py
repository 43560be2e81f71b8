"""Measure the calibration networks in a runtime on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sizeup import formats
from sizeup.calibration.network_spec import NetworkSpec
from sizeup.calibration.networks import REFERENCE_FAMILIES, networks
from sizeup.calibration.regression import NetworkMeasurement, network_measurement
from sizeup.cost import Cost, count
from sizeup.errors import MissingLibrary, RunFailed
from sizeup.runtimes import ROUNDS, TIMED_RUNTIMES, TURN, TurnProgress, TurnTimes, random_samples, time_series

_MAX_MACS = {"tflm": 5e6}
"""Maximum MACs of a network in slow runtimes."""

_WRITERS = {
    "ai_edge_litert": ("ai-edge-litert", "tflite"),
    "flatbuffers": ("ai-edge-litert", "tflite"),
    "onnx": ("onnx", "onnx"),
    "torch": ("torch", "torch"),
}
"""The modules that write networks, with the package and the extra that install them."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationModel:
    """A calibration network in the format of a runtime, with its cost."""

    spec: NetworkSpec
    content: bytes
    samples: tuple[Any, ...]
    cost: Cost


def calibration_models(runtime: str, specs: Sequence[NetworkSpec] | None = None) -> list[CalibrationModel]:
    """Return the calibration networks that a runtime supports, or those of `specs`, in its format."""
    if runtime not in TIMED_RUNTIMES:
        raise RunFailed(f"no runtime named {runtime!r}; available: {', '.join(TIMED_RUNTIMES)}")
    make = {"ort": _onnx, "torch-eager": _torch}.get(runtime, _tflite)
    try:
        sketches = networks() if specs is None else specs
        sketches = [each for each in sketches if make is _torch or not each.is_for_torch_only]
        models = list(make(sketches))
    except ImportError as error:
        title = TIMED_RUNTIMES[runtime].library.title
        package, extra = _WRITERS.get(error.name or "", (str(error.name), None))
        raise MissingLibrary(f"writing networks for {title}", package, extra) from error
    max_macs = _MAX_MACS.get(runtime, float("inf"))
    return [model for model in models if model.cost.total_macs <= max_macs]


def _onnx(sketches: Sequence[NetworkSpec]) -> Iterator[CalibrationModel]:
    from sizeup.calibration.write_onnx import onnx_model

    for sketch in sketches:
        yield _model(sketch, onnx_model(sketch).SerializeToString())


def _tflite(sketches: Sequence[NetworkSpec]) -> Iterator[CalibrationModel]:
    from sizeup.calibration.write_tflite import is_supported, tflite_file

    for sketch in sketches:
        if all(is_supported(layer, sketch.precision) for layer in sketch.layers):
            yield _model(sketch, tflite_file(sketch))


def _model(sketch: NetworkSpec, content: bytes) -> CalibrationModel:
    graph = formats.load(content)
    return CalibrationModel(sketch, content, tuple(random_samples(graph, 1)), count(graph))


def _torch(sketches: Sequence[NetworkSpec]) -> Iterator[CalibrationModel]:
    from sizeup.calibration.write_torch import input_shape, torch_module
    from sizeup.formats.torch.runnable import write

    with tempfile.TemporaryDirectory(prefix="sizeup-") as name:
        path = Path(name) / "module.pt"
        for sketch in sketches:
            if sketch.precision == "fp32":
                module, shapes = torch_module(sketch), (input_shape(sketch),)
                write(path, (module, shapes, None, None))
                yield CalibrationModel(
                    sketch, path.read_bytes(), (), count(formats.load(module, inputs=shapes))
                )


def min_latency(turns: TurnTimes, threads: int) -> float:
    """Return the minimum latency.

    With one thread it is CPU time, which other processes do not affect. Wall time of a long run always
    includes interruptions.
    """
    return min(turns.cpu) if threads == 1 and min(turns.cpu) > 0 else min(turns.wall)


def measure_networks(
    runtime: str,
    fuses: Sequence[str] | None,
    *,
    threads: int = 1,
    seconds: float = TURN.seconds * ROUNDS,
    progress: TurnProgress | None = None,
) -> tuple[list[NetworkMeasurement], str, tuple[str, ...]]:
    """Return measurements of the networks that ran, the runtime's version, and the failures."""
    models = calibration_models(runtime)
    effort = replace(TURN, seconds=seconds / ROUNDS, profiled_runs=0)
    series = time_series(
        runtime,
        [(model.content, model.samples) for model in models],
        threads=threads,
        effort=effort,
        progress=progress,
    )
    points = [
        network_measurement(
            model.spec.name,
            model.cost,
            min_latency(turns, threads),
            fuses,
            family=model.spec.family,
            is_probe=model.spec.family not in REFERENCE_FAMILIES,
        )
        for model, turns in zip(models, series, strict=True)
        if not turns.failure
    ]
    failures = tuple(
        f"{model.spec.name}: {turns.failure}"
        for model, turns in zip(models, series, strict=True)
        if turns.failure
    )
    version = next((turns.version for turns in series if turns.version), "")
    return points, version, failures
