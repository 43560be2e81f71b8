"""From a model in any form to one that a runtime can be timed on, with random samples."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import RunFailed
from sizeup.graph import Graph, Shape
from sizeup.runtimes.process import Array
from sizeup.runtimes.timing import TIMED, Effort, Progress, Timing, time_model

_USUAL = {"onnx": "ort", "tflite": "litert-xnnpack", "torch": "torch-eager", "torch.export": "torch-eager"}
_RUNS = {
    "ort": ("onnx",),
    "litert": ("tflite",),
    "litert-xnnpack": ("tflite",),
    "tflm": ("tflite",),
    "torch-eager": ("torch", "torch.export"),
}


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A model and what it is to be run on, as the caller gave them."""

    source: Any
    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    bind: Mapping[str, int] | None = None
    trusted: bool = False  # a .pt2 file may run the code that it holds


def time_source(
    given: RunSpec,
    graph: Graph,
    runtime: str | None = None,
    threads: int = 1,
    effort: Effort | None = None,
    progress: Progress | None = None,
) -> Timing:
    """Time a model in a runtime, or in the usual one of its format; `graph` is what it was read as."""
    chosen = runtime or _USUAL.get(graph.format)
    if chosen is None:
        raise RunFailed(
            f"there is no runtime for a model of the format {graph.format!r}; give a file or a module"
        )
    if chosen not in TIMED:
        raise RunFailed(f"no runtime is called {chosen!r}; there are {', '.join(TIMED)}")
    if graph.format not in _RUNS[chosen]:
        fitting = [name for name, formats in _RUNS.items() if graph.format in formats]
        raise RunFailed(
            f"{TIMED[chosen].library.title} runs no {graph.format} models; {' or '.join(fitting)} does"
        )
    if chosen == "torch-eager":
        return _time_module(given, threads, effort, progress)
    model = given.source
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    samples = random_samples(graph, 1)
    return time_model(chosen, model, samples, threads=threads, effort=effort, progress=progress)


def _time_module(given: RunSpec, threads: int, effort: Effort | None, progress: Progress | None) -> Timing:
    """A name travels as text; a module, and tensors, as a file that we write and read ourselves."""
    with tempfile.TemporaryDirectory(prefix="sizeup-") as name:
        is_named = isinstance(given.source, str | os.PathLike)
        source = os.fspath(given.source) if is_named else None
        if source is not None and Path(source).exists():
            source = str(Path(source).absolute())
        path = Path(name) / "module.pt"
        _write(path, replace(given, source=source or given.source))
        return time_model("torch-eager", path, threads=threads, effort=effort, progress=progress)


def _write(path: Path, given: RunSpec) -> None:
    from sizeup.formats.torch.real import write

    try:
        write(path, (given.source, given.inputs, given.kwargs, given.bind, given.trusted))
    # A module may refuse to be copied in any way it likes.
    except Exception as error:
        raise RunFailed(
            f"the module cannot be handed to a process of its own ({type(error).__name__}: {error});"
            " name its code as package.module:factory"
        ) from error


_PLAIN = {
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "bool"),
}
# Wider integers are indices of something: small ones are valid more often.
_MOST_INDEX = 8
_WAVES = 4
# All samples together are in memory at once, twice while they travel to the process that runs the model; and
# making an input takes several arrays of 8 bytes a number.
_MOST_BYTES = 1 << 30
_MOST_NUMBERS = 1 << 25


def random_samples(graph: Graph, count: int, seed: int = 0) -> list[list[Array]]:
    """So many inputs for a graph; raises RunFailed where a shape or a number type allows none.

    Every second one is noise, the others are smooth waves with some noise on them: to many a network all
    noise is the same, and inputs that it does not tell apart test nothing.
    """
    for identity in graph.inputs:
        tensor = graph.tensors[identity]
        if tensor.shape is None or tensor.dtype.name not in _PLAIN:
            raise RunFailed(f"there are no random inputs for {tensor.name!r} of the type {tensor.dtype}")
        if (tensor.elements or 0) > _MOST_NUMBERS:
            raise RunFailed(
                f"there are no random inputs for {tensor.name!r}: {tensor.elements:,} numbers each"
            )
    check_room(graph, graph.inputs, count, "inputs")
    generator = np.random.default_rng(seed)
    return [
        [
            _random(
                generator, graph.tensors[identity].shape or (), graph.tensors[identity].dtype, index % 2 == 1
            )
            for identity in graph.inputs
        ]
        for index in range(count)
    ]


def check_room(graph: Graph, identities: Sequence[int], count: int, what: str) -> None:
    """Raise RunFailed where so many copies of these tensors are more than is to be kept in memory."""
    tensors = [graph.tensors[identity] for identity in identities]
    size = count * sum((each.elements or 0) * each.dtype.bits // 8 for each in tensors)
    if size > _MOST_BYTES:
        raise RunFailed(
            f"{what} of {count} runs would take {size:,} B of memory, at most {_MOST_BYTES:,} B are taken"
        )


def _random(generator: np.random.Generator, shape: Shape, dtype: DType, smooth: bool) -> Array:
    kind = np.dtype(dtype.name)
    if dtype.name == "bool":
        return generator.integers(0, 2, shape).astype(kind)
    if dtype.family == "int" and dtype.bits > 16:
        return generator.integers(0, _MOST_INDEX, shape).astype(kind)
    numbers = generator.uniform(-1, 1, shape)
    if smooth:
        strength, share, mean = generator.uniform((0.2, 0.0, -0.3), (1.0, 0.3, 0.3))
        numbers = strength * _waves(generator, shape) + share * numbers + mean
    if dtype.family == "float":
        return np.asarray(2 * numbers, kind)
    limits = np.iinfo(kind)
    middle, half = (limits.max + limits.min + 1) / 2, (limits.max - limits.min) / 2
    return np.asarray(np.clip(np.rint(middle + half * numbers), limits.min, limits.max), kind)


def _waves(generator: np.random.Generator, shape: Shape) -> Array:
    """A few waves that run slowly along every axis, between -1 and 1."""
    total = np.zeros(shape)
    for _ in range(_WAVES):
        wave = np.ones(shape)
        for axis, size in enumerate(shape):
            turns, phase = generator.uniform((0, 0), (3, 1))
            along = np.cos(2 * np.pi * (turns * np.arange(size) / max(size, 1) + phase))
            wave = wave * along.reshape([-1 if place == axis else 1 for place in range(len(shape))])
        total += wave
    return total / max(float(np.abs(total).max(initial=0)), 1e-9)
