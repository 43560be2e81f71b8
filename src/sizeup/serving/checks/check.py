"""The memory that a language model and its sequences need on the fullest GPU, and its times, as limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from sizeup import units
from sizeup.backends import MemoryPart
from sizeup.checks.limits import Limit, verdict
from sizeup.serving.memory.capacity import Capacity
from sizeup.serving.memory.deployment import INPUT, OUTPUT, Deployment, check_concurrency, deploy
from sizeup.serving.memory.engines import engine_of
from sizeup.serving.memory.gpus import GpuMemory
from sizeup.serving.memory.local import with_ram
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.reader import read
from sizeup.serving.times.estimate import Duration, ServingEstimate, estimate, no_times
from sizeup.serving.times.goals import Goals
from sizeup.targets.clusters import Cluster, cluster


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
    ttft: float | None = None  # most seconds; None: no limit
    tpot: float | None = None
    ram: int | None = None  # bytes of a laptop or phone; None: as in the catalog
    expected: bool = False  # compare expected times with the limits, not their prediction interval
    architectures: dict[str | None, Architecture] = field(default_factory=dict)

    def of(self, model: str) -> ServingCheck:
        """The same check of another model."""
        return replace(self, model=model, architectures={})

    @property
    def architecture(self) -> Architecture:
        """The model at its precision of weights; raises SizeupError if it cannot be read."""
        if self.weights not in self.architectures:
            self.architectures[self.weights] = read(self.model, self.weights)
        return self.architectures[self.weights]

    @cached_property
    def machines(self) -> Cluster:
        """The cluster of the target."""
        machines = cluster(self.target)[0]
        return with_ram(machines, engine_of(cluster(self.target)[1], machines.device), self.ram)

    @cached_property
    def deployment(self) -> Deployment:
        """The model on the cluster; raises SizeupError if that is not possible."""
        check_concurrency((self.concurrency,))
        machines = self.machines
        return deploy(
            self.architecture, machines, engine_of(cluster(self.target)[1], machines.device),
            input=self.input, output=self.output, kv=self.kv, layout=self.layout, sequences=self.concurrency,
        )  # fmt: skip

    @cached_property
    def limit(self) -> Limit:
        """The memory of the fullest GPU."""
        return serving_limit(self.deployment, self.concurrency)

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """The memory of the fullest GPU, and the times that are limited."""
        goals = Goals(self.ttft, self.tpot)
        goals.check(self.output)
        return (
            self.limit,
            *time_limits(self.deployment, self.limit, goals, lambda: self.times, expected=self.expected),
        )

    @property
    def fits(self) -> bool | None:
        """Whether all limits are met; None if undetermined."""
        return verdict(self.limits)

    @cached_property
    def times(self) -> ServingEstimate | None:
        """The times at the concurrency; None if bandwidth or arithmetic of the device are unknown."""
        return serving_times(self.deployment, self.input, self.output, self.concurrency)


def serving_times(
    deployment: Deployment, input: int, output: int, concurrency: int
) -> ServingEstimate | None:
    """The times at a concurrency; None if bandwidth or arithmetic of the device are unknown."""
    return estimate(
        deployment.architecture, deployment.layout, deployment.cluster, deployment.engine.name, deployment.kv,
        input=input, output=output, concurrency=(concurrency,), most=deployment.max_sequences(),
    )  # fmt: skip


def time_limits(
    deployment: Deployment,
    memory: Limit,
    goals: Goals,
    times: Callable[[], ServingEstimate | None],
    *,
    expected: bool,
) -> Iterator[Limit]:
    """Limits of TTFT and TPOT at the last of the times, if any: met if their upper end meets them.

    `expected` compares expected times, as for latencies.
    """
    if goals == Goals():
        return
    result = None if memory.fits is False else times()
    reasons: tuple[str, ...] = ()  # of TTFT
    for name, most in (("ttft", goals.ttft), ("tpot", goals.tpot)):
        if most is None:
            continue
        limit = Limit(name, "seconds", most, None, None)
        if memory.fits is False:
            reason = f"no {name.upper()}: the model and its sequences do not fit in memory"
            yield replace(limit, unknown=(reason,), is_applicable=False)
        elif result is None:
            yield replace(limit, unknown=(_no_times(deployment),))
        else:
            point = result.points[-1]
            duration = point.ttft if name == "ttft" else point.tpot
            limit = _time_limit(limit, duration, result, expected)
            is_repeated = bool(reasons) and limit.unknown == reasons
            yield replace(limit, unknown=("as for TTFT",)) if is_repeated else limit
            reasons = limit.unknown


def _no_times(deployment: Deployment) -> str:
    device, engine = deployment.cluster.device.name, deployment.engine
    if engine.is_local:
        return no_times(deployment.architecture, device, engine.name)
    return f"the bandwidth or arithmetic of {device} is unknown"


def _time_limit(limit: Limit, duration: Duration, times: ServingEstimate, expected: bool) -> Limit:
    seconds = duration.seconds
    if times.calibration is None:
        reasons = times.caveats or (f"only a lower bound of {limit.name.upper()} is known",)
        return replace(limit, need_low=seconds, unknown=reasons)
    if expected:
        return replace(limit, need_low=seconds, need_high=seconds, expected=seconds)
    if duration.high is None:
        return replace(limit, expected=seconds, unknown=(times.no_interval or "no interval",))
    return replace(limit, need_low=duration.low, need_high=duration.high, expected=seconds)


def serving_limit(deployment: Deployment, sequences: int) -> Limit:
    """The memory of the fullest GPU; its verdict is that of the engine's cache blocks."""
    if deployment.engine.is_local:
        return _local_limit(deployment)
    limits = [_stage_limit(deployment, gpu, sequences) for gpu in deployment.gpus]
    return max(limits, key=lambda limit: (limit.need_low or 0, limit.need_high or 0))


def _local_limit(deployment: Deployment) -> Limit:
    """The memory of a laptop or phone, of which weights and the cache of one sequence are known."""
    gpu = deployment.memory
    held, cache = gpu.weights_bytes + gpu.tower_bytes, deployment.sequence_bytes
    taken, total = units.size(held + cache), units.size(gpu.total_bytes)
    unknown = f"weights and cache take {taken} of {total}; what the runtime reserves is not known"
    parts = (
        MemoryPart("weights", held, held, "the configuration"),
        MemoryPart("cache", cache, cache, f"one sequence of {deployment.context:,} tokens"),
    )
    return Limit(
        "ram", "bytes", gpu.total_bytes, held + cache, None,
        source=deployment.cluster.device.title, unknown=(unknown,), parts=parts,
    )  # fmt: skip


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
    # The limit assumes the expected driver memory: if that is less, the cache may have more than is left.
    parts = (
        MemoryPart("weights", held, held, "the configuration"),
        MemoryPart(
            "buffers", max(low, 0), high, f"{deployment.engine.title}: activations, graphs, communication"
        ),
        MemoryPart("cache", least, most, f"{units.plural(each, 'sequence')} of {context:,} tokens"),
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
