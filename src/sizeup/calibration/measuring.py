"""The calibration networks, measured in a runtime of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sizeup import formats
from sizeup.calibration.fitting import Point, point
from sizeup.calibration.networks import BODIES, networks
from sizeup.calibration.sketch import Sketch
from sizeup.cost import Cost, count
from sizeup.errors import MissingLibrary, RunFailed
from sizeup.runtimes import ROUNDS, TIMED, TURN, TurnProgress, Turns, random_samples, time_series

_SLOW = {"tflm": 5e6}
"""The most MACs of a network in runtimes that are too slow for more."""


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A calibration network in the format of a runtime, and what was counted of it."""

    sketch: Sketch
    content: bytes
    samples: tuple[Any, ...]
    cost: Cost


def made_for(runtime: str) -> list[Made]:
    """The networks that a runtime can run, in its format."""
    if runtime not in TIMED:
        raise RunFailed(f"no runtime is called {runtime!r}; there are {', '.join(TIMED)}")
    make = {"ort": _onnx, "torch-eager": _torch}.get(runtime, _tflite)
    try:
        found = list(make(networks()))
    except ImportError as error:
        library = TIMED[runtime].library
        raise MissingLibrary(
            f"making networks for {library.title}", error.name or library.package, library.extra
        ) from error
    most = _SLOW.get(runtime, float("inf"))
    return [each for each in found if each.cost.total_macs <= most]


def _onnx(sketches: Sequence[Sketch]) -> Iterator[Made]:
    from sizeup.calibration.write_onnx import model_of

    for sketch in sketches:
        yield _made(sketch, model_of(sketch).SerializeToString())


def _tflite(sketches: Sequence[Sketch]) -> Iterator[Made]:
    from sizeup.calibration.write_tflite import file_of, has

    for sketch in sketches:
        if all(has(layer, sketch.precision) for layer in sketch.layers):
            yield _made(sketch, file_of(sketch))


def _made(sketch: Sketch, content: bytes) -> Made:
    graph = formats.load(content)
    return Made(sketch, content, tuple(random_samples(graph, 1)), count(graph))


def _torch(sketches: Sequence[Sketch]) -> Iterator[Made]:
    from sizeup.calibration.write_torch import input_shape, module_of
    from sizeup.formats.torch.real import write

    with tempfile.TemporaryDirectory(prefix="sizeup-") as name:
        path = Path(name) / "module.pt"
        for sketch in sketches:
            if sketch.precision == "fp32":
                module, shapes = module_of(sketch), (input_shape(sketch),)
                write(path, (module, shapes, None, None))
                yield Made(sketch, path.read_bytes(), (), count(formats.load(module, inputs=shapes)))


def seconds_of(turns: Turns, threads: int) -> float:
    """The least time of a run.

    With one thread that is CPU time: where other work takes the processor away in the midst of a run, the
    clock on the wall goes on, and a long run never has a quiet moment.
    """
    return min(turns.cpu) if threads == 1 and min(turns.cpu) > 0 else min(turns.wall)


def measured(
    runtime: str,
    fuses: Sequence[str] | None,
    *,
    threads: int = 1,
    seconds: float = TURN.seconds * ROUNDS,
    progress: TurnProgress | None = None,
) -> tuple[list[Point], str, tuple[str, ...]]:
    """Points of all networks that ran, the runtime's version, and what was said of those that did not."""
    made = made_for(runtime)
    effort = replace(TURN, seconds=seconds / ROUNDS, profiled_runs=0)
    found = time_series(
        runtime,
        [(each.content, each.samples) for each in made],
        threads=threads,
        effort=effort,
        progress=progress,
    )
    points = [
        point(
            each.sketch.name,
            each.cost,
            seconds_of(turns, threads),
            fuses,
            family=each.sketch.family,
            is_probe=each.sketch.family not in BODIES,
        )
        for each, turns in zip(made, found, strict=True)
        if not turns.failure
    ]
    failures = tuple(
        f"{each.sketch.name}: {turns.failure}"
        for each, turns in zip(made, found, strict=True)
        if turns.failure
    )
    version = next((turns.version for turns in found if turns.version), "")
    return points, version, failures
