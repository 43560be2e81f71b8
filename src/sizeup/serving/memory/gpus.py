"""Memory of the GPUs of a server: weights, buffers of the engine, and what remains for the cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sizeup.serving.memory.capacity import Capacity, capacity_of
from sizeup.serving.memory.engines import (
    COMMUNICATION,
    CONTEXT,
    NOTHING,
    Engine,
    Range,
    driver_memory,
    sglang_static_fraction,
    unknown_bytes,
    vllm_utilization,
)
from sizeup.serving.memory.layouts import Layout, stages
from sizeup.serving.models.architecture import Architecture, Layer, Weight, distinct

Fits: TypeAlias = Literal["yes", "no", "undetermined"]
_TRTLLM_FRACTION = 0.9
_ACTIVATION_SOURCE = "tokens of a step x the widest layer, and 32-bit logits; from half to twice that"


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """The memory of one GPU of a pipeline stage."""

    stage: int
    layers: int
    total_bytes: int
    usable_bytes: int  # of the total, by the engine's default
    weights_bytes: int
    tower_bytes: int  # vision tower, replicated on every GPU of the first stage
    activations: Range
    graphs: Range
    communication: Range
    context: Range
    driver: Range  # not available to programs
    cache: Range  # what remains
    shortfall_bytes: int  # by which weights and buffers exceed what is usable, as expected; 0 if they do not
    capacity: Capacity  # of the expected cache
    capacity_low: Capacity
    capacity_high: Capacity

    def fits(self, sequences: int, tokens: int) -> Fits:
        """Whether a number of sequences of a number of tokens fits."""
        if self.capacity_low.max_sequences(tokens) >= sequences:
            return "yes"
        return "undetermined" if self.capacity_high.max_sequences(tokens) >= sequences else "no"

    @property
    def free_bytes(self) -> int:
        """Bytes that nothing uses, as expected."""
        buffers = self.activations + self.graphs + self.communication + self.context + self.driver
        held = self.weights_bytes + self.tower_bytes + buffers.expected + self.cache.expected
        return max(self.total_bytes - held, 0)


def gpus_of(
    architecture: Architecture, layout: Layout, engine: Engine, memory_bytes: int, kv: str
) -> tuple[GpuMemory, ...]:
    """The memory of one GPU of each pipeline stage."""
    if engine.is_local:
        return (_local_memory(architecture, engine, memory_bytes, kv),)
    first, gpus = 0, []
    for stage, count in enumerate(stages(len(architecture.layers), layout.pipeline)):
        layers = architecture.layers[first : first + count]
        gpus.append(_gpu(architecture, layout, engine, memory_bytes, kv, stage, layers))
        first += count
    return tuple(gpus)


def _gpu(
    architecture: Architecture,
    layout: Layout,
    engine: Engine,
    memory_bytes: int,
    kv: str,
    stage: int,
    layers: tuple[Layer, ...],
) -> GpuMemory:
    is_last = stage == layout.pipeline - 1
    weights = sum(count * _shards(layer.weights, layout) for layer, count in distinct(layers))
    towers = 0
    if stage == 0:
        weights += _shards(architecture.embedding, layout)
        towers = sum(part.stored_bytes for part in architecture.parts if part.kind != "mtp")
    if is_last:
        weights += _shards(architecture.head, layout)
        if architecture.tied_head and layout.pipeline > 1:
            weights += _shards(architecture.embedding, layout)
    # Data-parallel groups of a model with experts exchange tokens; those of a dense model are replicas.
    data = layout.data if architecture.expert_count else 1
    activations = _activations(architecture, layers, layout, engine, is_last)
    has_collectives = engine.name != "llamacpp" and layout.tensor * layout.pipeline * data > 1
    communication = COMMUNICATION if has_collectives else NOTHING
    usable, cache, shortfall = _cache_range(
        layout, data, engine, memory_bytes, weights + towers, activations, communication
    )
    low, expected, high = (
        capacity_of(architecture, layers, engine, size, kv, layout.tensor)
        for size in (cache.low, cache.expected, cache.high)
    )
    return GpuMemory(
        stage, len(layers), memory_bytes, usable, weights, towers, activations, engine.graphs, communication,
        CONTEXT, driver_memory(memory_bytes), cache, shortfall, expected, low, high,
    )  # fmt: skip


def _local_memory(architecture: Architecture, engine: Engine, memory_bytes: int, kv: str) -> GpuMemory:
    """The memory of a laptop or phone: the cache has at most what weights leave."""
    weights = architecture.stored_bytes
    towers = sum(part.stored_bytes for part in architecture.parts if part.kind != "mtp")
    left, unknown = memory_bytes - weights - towers, unknown_bytes()
    low, high = (capacity_of(architecture, architecture.layers, engine, size, kv, 1) for size in (0, left))
    return GpuMemory(
        0, len(architecture.layers), memory_bytes, memory_bytes, weights, towers, unknown, unknown, unknown,
        unknown, unknown, unknown_bytes(max(left, 0)), max(-left, 0), high, low, high,
    )  # fmt: skip


def _shards(weights: Iterable[Weight], layout: Layout) -> int:
    """Bytes per GPU: routed experts are divided by all GPUs of a stage, other weights by the tensor group."""
    return sum(
        weight.shard_bytes(layout.tensor * layout.data if weight.role == "experts" else layout.tensor)
        for weight in weights
    )


def _activations(
    architecture: Architecture,
    layers: tuple[Layer, ...],
    layout: Layout,
    engine: Engine,
    has_head: bool,
) -> Range:
    """The peak of activations in a step of the engine's batched tokens."""
    widest = max(_width(layer, architecture.hidden_size, layout.tensor) for layer, _ in distinct(layers))
    size = 2 * engine.batched_tokens * widest
    if has_head:
        size += 4 * engine.logits * architecture.vocabulary
    return Range(size // 2, size, 2 * size, _ACTIVATION_SOURCE)


def _width(layer: Layer, hidden: int, tensor: int) -> int:
    """Elements per token of the widest activations of a layer."""
    attention = layer.attention
    queries = attention.pair_macs // 2 + attention.cache_elements
    feed_forward = 2 * layer.intermediate_size // tensor + hidden
    if layer.experts is not None:
        feed_forward *= layer.experts.per_token
    return max(feed_forward, queries // tensor)


def _cache_range(
    layout: Layout, data: int, engine: Engine, total: int, weights: int, activations: Range,
    communication: Range,
) -> tuple[int, Range, int]:  # fmt: skip
    """Bytes that the engine may use, those of them that remain for the cache, and those that are missing."""
    driver, buffers = driver_memory(total), communication + CONTEXT
    share, of_rest = 1.0, 1.0
    if engine.name == "sglang":  # activations and graphs are in the other share
        share = sglang_static_fraction(total, layout.tensor, layout.pipeline, data)
    else:
        buffers = buffers + activations + engine.graphs
    if engine.name == "vllm":
        share = vllm_utilization(engine.version)
    elif engine.name == "trtllm":
        of_rest = _TRTLLM_FRACTION
    low, expected, high = (
        int(share * (total - reserved)) - weights - size
        for reserved, size in (
            (driver.high, buffers.high),
            (driver.expected, buffers.expected),
            (driver.low, buffers.low),
        )
    )
    remaining = [int(max(size, 0) * of_rest) for size in (low, expected, high)]
    usable = int(share * (total - driver.expected))
    return usable, Range(remaining[0], remaining[1], remaining[2]), max(-expected, 0)
