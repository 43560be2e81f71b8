"""Memory of a deployed language model at many numbers of sequences and contexts at once, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizeup.errors import SizeupError
from sizeup.serving.memory.capacity import Capacity
from sizeup.serving.memory.deployment import MOST_SEQUENCES, MOST_TOKENS, Deployment
from sizeup.serving.memory.gpus import GpuMemory
from sizeup.serving.memory.layouts import Integers
from sizeup.serving.models.cache import sequence_cost

YES, UNDETERMINED, NO = 1, 0, -1
_MOST_BYTES = 2**62


@dataclass(frozen=True, slots=True)
class MemoryGrid:
    """The memory of a deployment: one row per context, one column per number of concurrent sequences."""

    deployment: Deployment
    contexts: Integers
    sequences: Integers
    memory_bytes: Integers  # weights and cache of all sequences, on the GPU that needs most
    fits: npt.NDArray[np.int8]  # 1: yes, 0: undetermined, -1: no, on all GPUs


def memory_grid(deployment: Deployment, contexts: Integers, sequences: Integers) -> MemoryGrid:
    """Return the memory and the fit of every context with every number of concurrent sequences."""
    _check("contexts", contexts, MOST_TOKENS)
    _check("sequences", sequences, MOST_SEQUENCES)
    each = -(-sequences // deployment.servers)
    memory_bytes = np.zeros((len(contexts), len(sequences)), np.int64)
    first = 0
    for gpu in deployment.gpus:
        layers = deployment.architecture.layers[first : first + gpu.layers]
        cost = sequence_cost(deployment.architecture, deployment.kv, deployment.layout.tensor, layers)
        if cost.bytes_of(int(contexts.max())) * int(each.max()) > _MOST_BYTES:
            raise SizeupError("contexts and sequences: more bytes than 64-bit integers hold")
        cache_bytes = np.multiply.outer(cost.bytes_of(contexts), each)
        memory_bytes = np.maximum(memory_bytes, gpu.weights_bytes + gpu.tower_bytes + cache_bytes)
        first += gpu.layers
    yes = _holds(deployment, contexts, each, lambda gpu: gpu.capacity_low)
    maybe = _holds(deployment, contexts, each, lambda gpu: gpu.capacity_high)
    fits = np.where(yes, YES, np.where(maybe, UNDETERMINED, NO)).astype(np.int8)
    return MemoryGrid(deployment, contexts, sequences, memory_bytes, fits)


def _check(name: str, values: Integers, most: int) -> None:
    if values.ndim != 1 or not values.size or values.min() < 1 or values.max() > most:
        raise SizeupError(f"{name}: give a list of integers from 1 to {most:,}")


def _holds(
    deployment: Deployment, contexts: Integers, each: Integers, capacity_of: Callable[[GpuMemory], Capacity]
) -> npt.NDArray[np.bool_]:
    """Whether every GPU holds that many sequences of each context."""
    counts = np.min([_max_sequences(capacity_of(gpu), contexts) for gpu in deployment.gpus], axis=0)
    holds: npt.NDArray[np.bool_] = counts[:, None] >= each
    return holds


def _max_sequences(capacity: Capacity, contexts: Integers) -> Integers:
    """Sequences of each context, as `Capacity.max_sequences` counts them."""
    counts = np.zeros(len(contexts), np.int64)
    for index, pool in enumerate(capacity.pools):
        needed = np.zeros(len(contexts), np.int64)
        for group in pool.groups:
            kept = np.minimum(contexts, group.limit) if group.limit else contexts
            needed += group.units * (-(-kept // group.block) + group.extra)
        held = pool.size // np.maximum(needed, 1)
        counts = held if not index else np.minimum(counts, held)
    return counts
