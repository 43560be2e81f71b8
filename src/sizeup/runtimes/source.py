"""Times a model in any form in a runtime, on random samples."""

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
from sizeup.files import exists
from sizeup.graph import Graph, Shape
from sizeup.runtimes.process import Array
from sizeup.runtimes.timing import TIMED_RUNTIMES, Progress, Timing, TimingOptions, time_model


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A model and its inputs, as passed by the caller."""

    source: Any
    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    bind: Mapping[str, int] | None = None
    trusted: bool = False  # a .pt2 file may run the code it contains


def time_source(
    spec: RunSpec,
    graph: Graph,
    runtime: str | None = None,
    threads: int = 1,
    effort: TimingOptions | None = None,
    progress: Progress | None = None,
) -> Timing:
    """Time a model in a runtime, by default that of its format; `graph` is the loaded model."""
    suitable = [name for name, timed in TIMED_RUNTIMES.items() if graph.format in timed.formats]
    defaults = (name for name in suitable if TIMED_RUNTIMES[name].is_default)
    runtime_name = runtime or next(defaults, None)
    if runtime_name is None:
        raise RunFailed(f"no runtime for models of the format {graph.format!r}; give a file or a module")
    if runtime_name not in TIMED_RUNTIMES:
        raise RunFailed(f"unknown runtime {runtime_name!r}; known: {', '.join(TIMED_RUNTIMES)}")
    if runtime_name not in suitable:
        raise RunFailed(
            f"{TIMED_RUNTIMES[runtime_name].library.title} cannot run {graph.format} models;"
            f" use {' or '.join(suitable)}"
        )
    if TIMED_RUNTIMES[runtime_name].runs_modules:
        return _time_module(spec, runtime_name, threads, effort, progress)
    model = spec.source
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    samples = random_samples(graph, 1)
    return time_model(runtime_name, model, samples, threads=threads, effort=effort, progress=progress)


def _time_module(
    spec: RunSpec, runtime: str, threads: int, effort: TimingOptions | None, progress: Progress | None
) -> Timing:
    """Time a PyTorch module: names are passed as text, modules and tensors in a file."""
    with tempfile.TemporaryDirectory(prefix="sizeup-") as name:
        is_named = isinstance(spec.source, str | os.PathLike)
        source = os.fspath(spec.source) if is_named else None
        if source is not None and exists(source):
            source = str(Path(source).absolute())
        path = Path(name) / "module.pt"
        _write(path, replace(spec, source=source or spec.source))
        return time_model(runtime, path, threads=threads, effort=effort, progress=progress)


def _write(path: Path, spec: RunSpec) -> None:
    from sizeup.formats.torch.runnable import write

    try:
        write(path, (spec.source, spec.inputs, spec.kwargs, spec.bind, spec.trusted))
    # Pickling a module may raise anything.
    except Exception as error:
        raise RunFailed(
            f"the module cannot be pickled for a worker ({type(error).__name__}: {error});"
            " pass its code as package.module:factory"
        ) from error


_SUPPORTED_DTYPES = {
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "bool"),
}
# Wider integers are mostly indices: small values are more often valid.
_MOST_INDEX = 8
_WAVES = 4
# All samples are in memory at once, twice while they are passed to the worker, and generating an input takes
# several arrays of 8 bytes per element.
_MOST_BYTES = 1 << 30
_MOST_NUMBERS = 1 << 25


def random_samples(graph: Graph, count: int, seed: int = 0) -> list[list[Array]]:
    """`count` random inputs for a graph; raises RunFailed if a shape or dtype is not supported.

    Half of them are noise, the others are smooth waves with some noise: many networks give nearly the same
    output for all noise, which would test nothing.
    """
    for identity in graph.inputs:
        tensor = graph.tensors[identity]
        if tensor.shape is None or tensor.dtype.name not in _SUPPORTED_DTYPES:
            raise RunFailed(f"no random inputs for {tensor.name!r} with dtype {tensor.dtype}")
        if (tensor.elements or 0) > _MOST_NUMBERS:
            raise RunFailed(
                f"no random inputs for {tensor.name!r}: {tensor.elements:,} elements are too many"
            )
    check_sample_memory(graph, graph.inputs, count, "inputs")
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


def check_sample_memory(graph: Graph, identities: Sequence[int], count: int, label: str) -> None:
    """Raise RunFailed if `count` copies of these tensors exceed the memory limit."""
    tensors = [graph.tensors[identity] for identity in identities]
    size = count * sum((tensor.elements or 0) * tensor.dtype.bits // 8 for tensor in tensors)
    if size > _MOST_BYTES:
        raise RunFailed(f"{label} of {count} runs need {size:,} B of memory; the limit is {_MOST_BYTES:,} B")


def _random(generator: np.random.Generator, shape: Shape, dtype: DType, smooth: bool) -> Array:
    numpy_dtype = np.dtype(dtype.name)
    if dtype.name == "bool":
        return generator.integers(0, 2, shape).astype(numpy_dtype)
    if dtype.family == "int" and dtype.bits > 16:
        return generator.integers(0, _MOST_INDEX, shape).astype(numpy_dtype)
    numbers = generator.uniform(-1, 1, shape)
    if smooth:
        strength, share, mean = generator.uniform((0.2, 0.0, -0.3), (1.0, 0.3, 0.3))
        numbers = strength * _smooth_waves(generator, shape) + share * numbers + mean
    if dtype.family == "float":
        return np.asarray(2 * numbers, numpy_dtype)
    limits = np.iinfo(numpy_dtype)
    middle, half = (limits.max + limits.min + 1) / 2, (limits.max - limits.min) / 2
    return np.asarray(np.clip(np.rint(middle + half * numbers), limits.min, limits.max), numpy_dtype)


def _smooth_waves(generator: np.random.Generator, shape: Shape) -> Array:
    """A sum of slow waves along every axis, scaled to -1 to 1."""
    total = np.zeros(shape)
    for _ in range(_WAVES):
        wave = np.ones(shape)
        for axis, size in enumerate(shape):
            turns, phase = generator.uniform((0, 0), (3, 1))
            along = np.cos(2 * np.pi * (turns * np.arange(size) / max(size, 1) + phase))
            wave = wave * along.reshape([-1 if position == axis else 1 for position in range(len(shape))])
        total += wave
    return total / max(float(np.abs(total).max(initial=0)), 1e-9)
