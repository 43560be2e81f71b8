"""Random inputs, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizeup.dtypes import DType
from sizeup.errors import RunFailed
from sizeup.graph import Graph, Shape
from sizeup.runtimes.process import Array

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
