"""The memory that a language model and its sequences need on the fullest GPU, as a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from sizeup.checks.limits import Limit, MemoryPart
from sizeup.language_models.architecture import Architecture
from sizeup.language_models.capacity import Capacity
from sizeup.language_models.clusters import Cluster, cluster
from sizeup.language_models.deployment import INPUT, OUTPUT, Deployment, check_concurrency, deploy
from sizeup.language_models.engines import engine_of
from sizeup.language_models.reader import read
from sizeup.language_models.serving import GpuMemory


@dataclass(frozen=True)
class ServingCheck:
    """A language model, the cluster that it must fit, and how it is served there.

    Copies made by `dataclasses.replace` share the architectures that were read.
    """

    model: str
    target: str
    input: int = INPUT
    output: int = OUTPUT
    concurrency: int = 1
    weights: str | None = None
    kv: str | None = None
    layout: str | None = None
    architectures: dict[str | None, Architecture] = field(default_factory=dict, repr=False, compare=False)

    @property
    def architecture(self) -> Architecture:
        """The model at its precision of weights; raises SizeupError if it cannot be read."""
        if self.weights not in self.architectures:
            self.architectures[self.weights] = read(self.model, self.weights)
        return self.architectures[self.weights]

    @cached_property
    def machines(self) -> Cluster:
        """The cluster of the target."""
        return cluster(self.target)[0]

    @cached_property
    def deployment(self) -> Deployment:
        """The model on the cluster; raises SizeupError if that is not possible."""
        check_concurrency((self.concurrency,))
        return deploy(
            self.architecture, self.machines, engine_of(cluster(self.target)[1]),
            input=self.input, output=self.output, kv=self.kv, layout=self.layout,
        )  # fmt: skip

    @cached_property
    def limit(self) -> Limit:
        """The memory of the fullest GPU."""
        return serving_limit(self.deployment, self.concurrency)


def serving_limit(deployment: Deployment, sequences: int) -> Limit:
    """The memory of the fullest GPU; its verdict is that of the engine's cache blocks."""
    limits = [_stage_limit(deployment, gpu, sequences) for gpu in deployment.gpus]
    return max(limits, key=lambda limit: (limit.need_low or 0, limit.need_high or 0))


def _stage_limit(deployment: Deployment, gpu: GpuMemory, sequences: int) -> Limit:
    each, context = -(-sequences // deployment.servers), deployment.context
    held = gpu.weights_bytes + gpu.tower_bytes
    # What the engine sets aside is what it leaves of its share; if nothing is left, the buffers themselves.
    buffers = gpu.communication + gpu.context
    if deployment.engine.name != "sglang":  # whose share has no activations and graphs
        buffers = buffers + gpu.activations + gpu.graphs
    low = gpu.usable_bytes - gpu.cache.high - held if gpu.cache.high else buffers.low
    high = gpu.usable_bytes - gpu.cache.low - held if gpu.cache.low else buffers.high
    least = _cache_bytes(gpu.capacity_high, gpu.cache.high, each, context)
    most = _cache_bytes(gpu.capacity_low, gpu.cache.low, each, context)
    parts = (
        MemoryPart("weights", held, held, "the configuration"),
        MemoryPart("buffers", low, high, f"{deployment.engine.title}: activations, graphs, communication"),
        MemoryPart("cache", least, most, f"{each:,} sequences of {context:,} tokens"),
    )
    source = f"{deployment.engine.title} on {deployment.cluster.device.title}"
    need_low, need_high = held + low + least, held + high + most
    return Limit("ram", "bytes", gpu.usable_bytes, need_low, need_high, source=source, parts=parts)


def _cache_bytes(capacity: Capacity, cache_bytes: int, sequences: int, tokens: int) -> int:
    """Bytes of the cache of all sequences: at most `cache_bytes` if and only if every pool holds them.

    An engine with several pools divides its cache in fixed shares, so that the fullest pool decides.
    """
    needed = [(pool, pool.needed(tokens) * sequences) for pool in capacity.pools]
    if len(needed) > 1 and all(pool.size for pool, _ in needed):
        return max(-(-cache_bytes * units // pool.size) for pool, units in needed)
    return sum(pool.unit_bytes * units for pool, units in needed)
