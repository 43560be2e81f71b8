"""A language model on the GPUs of a cluster: which sequences of which context its servers hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sizeup.errors import SizeupError, TargetError
from sizeup.serving.memory.engines import Engine, is_gpu, local_engine
from sizeup.serving.memory.gpus import Fits, GpuMemory, gpus_of
from sizeup.serving.memory.layouts import Layout, default_layout, enumerate_layouts, parse_layout
from sizeup.serving.memory.local import check_local, stored_locally
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.cache import cache_bits, sequence_cost
from sizeup.targets.clusters import Cluster

INPUT, OUTPUT = 4096, 512
"""Tokens of a prompt and of an answer, by default."""
MOST_TOKENS = 1 << 32
MOST_SEQUENCES = 1 << 24
MOST_COUNTS = 1_000


@dataclass(frozen=True, slots=True)
class Deployment:
    """A language model in one layout, with its cache at one precision, for sequences of `context` tokens."""

    architecture: Architecture
    cluster: Cluster
    engine: Engine
    layout: Layout
    kv: str
    context: int
    gpus: tuple[GpuMemory, ...]  # one per pipeline stage

    @property
    def servers(self) -> int:
        """Groups that hold different sequences."""
        return self.layout.data * self.layout.replicas

    @property
    def memory(self) -> GpuMemory:
        """The memory of the fullest GPU: the one that holds the fewest sequences."""
        return min(self.gpus, key=self._fullness)

    def _fullness(self, gpu: GpuMemory) -> tuple[int, int, int]:
        return gpu.capacity.max_sequences(self.context), gpu.cache.expected, -gpu.shortfall_bytes

    def fits_at(self, sequences: int) -> Fits:
        """Whether that number of concurrent sequences fits."""
        each = -(-sequences // self.servers)
        verdicts = {gpu.fits(each, self.context) for gpu in self.gpus}
        return "no" if "no" in verdicts else "undetermined" if "undetermined" in verdicts else "yes"

    def max_sequences(self, context: int | None = None) -> int:
        """Sequences of that context that all servers hold at once."""
        tokens = self.context if context is None else context
        if self.engine.is_local:  # one at a time
            return min(self.memory.capacity.max_sequences(tokens), 1)
        return self.servers * min(gpu.capacity.max_sequences(tokens) for gpu in self.gpus)

    def sequences_range(self) -> tuple[int, int]:
        """The least and the most sequences, as far as buffers are known."""
        if self.engine.is_local:
            return 0, self.max_sequences()
        lows = (gpu.capacity_low.max_sequences(self.context) for gpu in self.gpus)
        highs = (gpu.capacity_high.max_sequences(self.context) for gpu in self.gpus)
        return self.servers * min(lows), self.servers * min(highs)

    def max_context(self, sequences: int = 1) -> int:
        """The longest context of that number of concurrent sequences; on a laptop or phone, at most one."""
        if self.engine.is_local and sequences > 1:
            return 0
        each = -(-sequences // self.servers)
        return min(gpu.capacity.max_context(each) for gpu in self.gpus)

    @property
    def sequence_bytes(self) -> int:
        """Bytes of the cache of one sequence at its end, over all layers, undivided."""
        return sequence_cost(self.architecture, self.kv).bytes_of(self.context)


def deploy(
    architecture: Architecture,
    cluster: Cluster,
    engine: Engine,
    *,
    input: int = INPUT,
    output: int = OUTPUT,
    kv: str | None = None,
    layout: str | Layout | None = None,
    sequences: int = 1,
) -> Deployment:
    """Return a model on a cluster, by default in the layout of `default_layout`, for at least `sequences`.

    Raises SizeupError if tokens, the cache precision or the layout are not possible.
    """
    check_tokens(architecture, input, output)
    check_local(cluster, engine, {"--concurrency": sequences if sequences > 1 else None, "--layout": layout})
    if engine.is_local:
        architecture = stored_locally(architecture)
    memory = memory_of(cluster, engine)
    engine = engine.on(cluster.device.name, memory)
    precision = cache_precision(architecture, kv or engine.kv)
    chosen = _layout(layout, architecture, cluster, engine)
    gpus = gpus_of(architecture, chosen, engine, memory, precision)
    return Deployment(architecture, cluster, engine, chosen, precision, input + output, gpus)


def memory_of(cluster: Cluster, engine: Engine) -> int:
    """Bytes of one GPU; raises TargetError if they, or what a server reserves on the device, are unknown."""
    device, memory = cluster.device, cluster.memory_bytes
    if not engine.is_local and not is_gpu(device):
        local = local_engine(device)
        use = f"sizeup llm takes -d {device.name}/{local}" if local else "e.g. -d rtx-4090/llamacpp"
        raise TargetError(
            f"{device.name} is a {device.device_class}; what {engine.title} reserves is known for GPUs alone;"
            f" {use}"
        )
    if memory is None:
        raise TargetError(f"{cluster.name}: the memory of {device.name} is unknown")
    return memory


def check_tokens(architecture: Architecture, input: int, output: int) -> None:
    """Raise SizeupError if a number of tokens is out of range, or exceeds the context of the model."""
    for name, count in (("input", input), ("output", output)):
        if not _is_within(count, MOST_TOKENS):
            raise SizeupError(f"{name}: give a number of tokens from 1 to {MOST_TOKENS:,}")
    limit = architecture.max_context
    if limit and input + output > limit:
        images = architecture.images
        part = "" if images is None else f" ({images.count * images.tokens:,} of images)"
        raise SizeupError(
            f"{input:,}{part} + {output:,} tokens exceed the context of {architecture.name}, {limit:,} tokens"
            " (max_position_embeddings)"
        )


def check_concurrency(counts: Sequence[int]) -> None:
    """Raise SizeupError unless these are numbers of concurrent sequences."""
    are_valid = all(_is_within(count, MOST_SEQUENCES) for count in counts)
    if not 1 <= len(counts) <= MOST_COUNTS or not are_valid:
        raise SizeupError(
            f"concurrency: give integers from 1 to {MOST_SEQUENCES:,}, at most {MOST_COUNTS:,} of them"
        )


def _is_within(count: object, most: int) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= most


def cache_precision(architecture: Architecture, kv: str | None) -> str:
    """The precision of the cache: as asked for, as the checkpoint states, or that of activations."""
    own = architecture.dtype if architecture.dtype != "fp32" else "bf16"
    precision = kv or architecture.kv_dtype or own
    cache_bits(precision)
    return precision


def _layout(
    layout: str | Layout | None, architecture: Architecture, cluster: Cluster, engine: Engine
) -> Layout:
    if layout is None:
        return default_layout(architecture, cluster, by_layers=engine.name == "llamacpp")
    if isinstance(layout, str):
        return parse_layout(layout, architecture, cluster)
    enumerate_layouts(architecture, cluster).index(layout)
    return layout
